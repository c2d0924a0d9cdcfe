"""What the stores look at is never a document of a user: any value may lie in one."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.domain import codec, ids
from noetl.domain.commands import FrozenScope
from noetl.domain.events import Cancel, Parent, Pause, Start
from noetl.domain.limits import Admission
from noetl.domain.outcomes.outcomes import ErrorInfo, Outcome, Suspend
from noetl.domain.state import ExecutionState, Token, encode_state
from noetl.domain.variables import VariableWrite
from noetl.ports.executions.changes import ChildrenWord, TimerChange, Wake
from tests.contract.builders import EID

ME = "me"


def _deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = [value]
    return value


HOSTILE: dict[str, dict[str, Any]] = {
    "nul": {"a": "x\0y", "k\0ey": 1},
    "half of a pair": {"a": "x\ud800y", "\udfff": 1},
    "digits": {"a": 10**3999 + 1, "b": -(10**3999)},
    "one key twice": {"\ud83d\ude00": 1, "\N{GRINNING FACE}": 2},
    "depth": {"a": _deep(190)},
    "what looks like our own": {
        "parent": {"run": 9, "wait": True},
        "program": "\0",
        "remote": "maybe",
        "queue": "\ud800",
    },
}


@pytest.fixture(params=HOSTILE)
def hostile(request: pytest.FixtureRequest) -> dict[str, Any]:
    """A document of a user, as it is after it was stored once."""
    value: dict[str, Any] = codec.decode(codec.encode(HOSTILE[request.param]))
    return value


def _state(parent: Parent, document: dict[str, Any]) -> bytes:
    error = ErrorInfo("no", details=document)
    token = Token(1, "a", lock="\ud800\0")
    return encode_state(ExecutionState(tokens={1: token}, parent=parent, error=error))


def _kid(store, make, number: int, parent: Parent, document: dict[str, Any]) -> None:
    born = make.created(parent_execution_id=EID, awaited_by=parent.waiting_run)
    store.commit([make.change(execution_id=EID + number, state=_state(parent, document), created=born)])


def test_a_parent_gives_up_and_ends_whatever_its_children_hold(store, make, hostile):
    store.commit([make.change()], ME)
    waited, alone = Parent(EID, "2", 1, run=2), Parent(EID, "2", 1, run=2, wait=False)
    _kid(store, make, 1, waited, hostile)
    _kid(store, make, 2, alone, hostile)
    coming = tuple(
        Start(EID + number, "start", "kid", payload=hostile, parent=parent)
        for number, parent in ((3, waited), (4, alone))
    )
    word = ChildrenWord("pause", "pause:1", 1)
    told = store.commit([make.change(1, outbox=coming, words=(word,))], ME).events
    assert [event.execution_id for event in told if isinstance(event, Pause)] == [EID + 1, EID + 2]
    dropped = store.commit([make.change(2, drop_runs=(2,), cancel_reason=codec.encode(hostile).decode())], ME)
    cancels = [event for event in dropped.events if isinstance(event, Cancel)]
    assert [event.execution_id for event in cancels] == [EID + 1, EID + 3]
    assert {event.reason for event in cancels} == {codec.encode(hostile).decode()}
    ended = store.commit([make.change(3, status="cancelled", end=True, cancel_children=True)], ME)
    assert [(event.execution_id, event.program) for event in ended.events] == [
        (EID + 1, "prog"),
        (EID + 2, "prog"),
        (EID + 3, "kid"),
        (EID + 4, "kid"),
    ]


def test_a_child_that_is_queued_goes_with_the_run_that_waits_for_it(store, make, hostile):
    parent = Parent(EID, "2", 1, run=2)
    start = Start(EID + 1, "start", "kid", payload=hostile, parent=parent)
    store.commit([make.change(outbox=(start,))], ME)
    one = Admission("k", 1, "queue", 0)
    store.admit(make.start(EID + 9, payload=hostile), make.created(), one, ME)
    born = make.created(parent_execution_id=EID, awaited_by=2)
    admitted, _ = store.admit(start, born, one, ME)
    assert admitted.status == "queued"
    dropped = store.commit([make.change(1, drop_runs=(2,))], ME)
    assert [event.execution_id for event in dropped.events] == [EID + 1]
    assert store.post(Cancel(EID + 1, "cancel", "kid"), ME).posted


def test_work_elsewhere_is_woken_whatever_its_command_holds(store, make, hostile):
    scope = FrozenScope(workload=hostile, ctx=hostile)
    asleep = make.command("1", scope=scope, machine=hostile, remote=True, delay=60.0)
    plain = make.command("2", scope=scope, machine=hostile, delay=60.0)
    store.commit([make.change(issue=(asleep, plain))], ME)
    (woken,) = store.wake_early([(EID, "1"), (EID, "2")], ME)
    assert (woken.command_id, woken.machine, woken.scope) == ("1", hostile, scope)


def test_an_item_that_waits_elsewhere_is_woken_whatever_it_holds(store, make, hostile):
    loop = make.loop(2, 2, scope=FrozenScope(ctx=hostile))
    command, _ = store.commit([make.change(loops=(loop,))], ME).commands
    outcome = Outcome("suspended", suspend=Suspend(hostile, delay=60.0, remote=True))
    alone = make.command("1.r0.i0", turn=1, machine=hostile, remote=True, delay=60.0, loop=command.loop)
    turn = make.row(ids.item_turn_event(1, 0, 0, 0), seq=0, lane=1, facts=codec.encode(outcome))
    batch = make.items(command, 0, outcomes={0: outcome}, resumed=(alone,), rows=(turn,))
    store.commit_items([batch], ME)
    (woken,) = store.wake_early([(EID, "1.r0.i0")], ME)
    assert (woken.machine, woken.scope.ctx) == (hostile, hostile)


def test_every_part_of_a_commit_takes_any_document(store, make, hostile):
    text = codec.encode(hostile).decode() + "\0\ud800"
    outcome = Outcome("ok", result=hostile)
    change = make.change(
        slots={("ctx", "a\0b\ud800"): hostile},
        issue=(make.command("1", scope=FrozenScope(ctx=hostile)),),
        waiting=(make.command("2", machine=hostile),),
        loops=(make.loop(1, 1, run=3, items=[hostile], scope=FrozenScope(ctx=hostile)),),
        timers=(TimerChange("step:1", 1, 60.0),),
        variables=(VariableWrite("v\0\ud800", hostile, step="s\0\ud800"),),
        created=make.created(path=text, name=text, principal=text),
    )
    store.commit([change], ME)
    woken = store.commit([make.change(1, wakes=(Wake("2", 0, outcome),))], ME)
    assert [command.child for command in woken.commands] == [outcome]
    assert store.slots(EID)["ctx", "a\0b\ud800"] == hostile
    (shown,) = store.executions(limit=10)
    assert shown.execution_id == EID
