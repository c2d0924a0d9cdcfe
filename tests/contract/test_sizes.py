"""The engine is the last line: what a caller, a task or a worker says never keeps an execution from its end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from noetl.domain.events import CommandDone, ContextPatched, Event, Start
from noetl.domain.outcomes.outcomes import CallbackRequest, ChildRequest, Outcome, Patch, Suspend
from noetl.domain.results.retention import KeptResult, own_results
from noetl.domain.sizes.table import DOCUMENT_KEYS, INTEGER_DIGITS, LOOP_ITEMS, NAME, NUMBER, REFERENCE
from noetl.kinds import playbook
from noetl.ports.executions.execution_store import ExecutionInfo
from noetl.services.history.replay import replay
from noetl.services.queries.read_execution import error_of
from tests.contract.builders import EID
from tests.contract.conftest import Harness
from tests.unit.cli.fake_runtime import Database, MemoryRuntime

HEAD = (
    "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {name}, path: demo/{name}}}\nworkload: {{}}\n"
)
ONE = HEAD.format(name="one") + "workflow:\n  - step: start\n    tool: {kind: double, value: 2}\n"


def noise(length: int) -> str:
    """Text that a database cannot make shorter before it puts it into an index."""
    letters = [chr(point) for point in (*range(0x4E00, 0x9000), *range(0xAC00, 0xD700))]
    return "".join(random.Random(length).choices(letters, k=length))


class Engine:
    """The engine over a store; ``worker`` stands for the worker, and may say anything."""

    def __init__(self, harness: Harness) -> None:
        self.database = Database()
        self.database.store = harness.store  # type: ignore[assignment]
        self.database.kinds.add(playbook)
        self.runtime = MemoryRuntime(self.database)
        self.store = harness.store
        self.store.heartbeat(self.runtime.owner, 600)

    def start(self, text: str, payload: dict[str, Any] | None = None) -> int:
        entry = self.runtime.register(text, source_name="one.yaml")
        return self.runtime.start(entry, payload or {})

    def finish(self) -> None:
        self.runtime.run_until([])

    def report(self, outcome: Outcome) -> None:
        """Say ``outcome`` for the command that waits."""
        command = self.runtime.commands.pop()
        self.handle(CommandDone.of(command, outcome))

    def handle(self, event: Event) -> None:
        self.runtime.events.append(event)
        self.finish()

    def info(self, execution_id: int) -> ExecutionInfo:
        found = self.store.info(execution_id)
        assert found is not None
        return found

    def error(self, execution_id: int) -> dict[str, Any]:
        info = self.info(execution_id)
        assert info.status == "failed"
        found = error_of(info)
        assert found is not None
        return found


@pytest.fixture
def engine(harness: Harness) -> Iterator[Engine]:
    yield Engine(harness)


NOISE = noise(6_000)
HUGE = 9 * 10 ** (INTEGER_DIGITS.value - 1)


def begun(engine: Engine, text: str = ONE, payload: dict[str, Any] | None = None) -> int:
    """An execution whose first command waits to be answered."""
    return engine.start(text, payload)


def folds(engine: Engine, execution_id: int) -> bool:
    """Whether history gives the stored state: what could not be folded must not be in it."""
    return not replay(engine.store, execution_id).differences


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_a_start_that_got_past_a_door_ends(engine: Engine, over: int) -> None:
    """One that was kept before there was a limit, say."""
    entry = engine.runtime.register(ONE, source_name="one.yaml")
    name = noise(NAME.value + over)
    engine.handle(Start(77, "start", entry.program, entry.path, payload={name: 1}))
    if over > 0:
        assert engine.error(77)["details"]["limit"] == NAME.name
    else:
        assert engine.info(77).status == "completed"
        assert engine.store.slots(77)[("workload", name)] == 1
    assert folds(engine, 77)


def test_a_start_with_a_key_that_fits_no_index_ends(engine: Engine) -> None:
    entry = engine.runtime.register(ONE, source_name="one.yaml")
    engine.handle(Start(77, "start", entry.program, entry.path, payload={NOISE: 1}))
    assert engine.error(77)["code"] == "size_limit"


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b", NOISE])
def test_a_start_of_a_playbook_that_no_column_can_name_ends(engine: Engine, path: str) -> None:
    engine.handle(Start(78, "start", "", path, principal="p\0"))
    assert engine.error(78)["code"] in ("playbook_not_found", "unstorable_text")


UNFIT: dict[str, Outcome] = {
    "a name in ctx": Outcome("ok", patches=[Patch("ctx", NOISE, 1)]),
    "a name in vars": Outcome("ok", patches=[Patch("vars", NOISE, 1)]),
    "a name of the step": Outcome("ok", patches=[Patch("step", NOISE, 1)]),
    "a name beside others": Outcome("ok", patches=[Patch("ctx", "a", 1), Patch("ctx", "k" * 256, 1)]),
    "a sum": Outcome("ok", patches=[Patch("ctx", "n", HUGE), Patch("ctx", "n", HUGE, "add")]),
    "a sum of fractions": Outcome("ok", patches=[Patch("ctx", "n", 1e308), Patch("ctx", "n", 1e308, "add")]),
    "the task of a callback": Outcome("suspended", suspend=Suspend({}, callback=CallbackRequest(0, NOISE))),
    "the number of a callback": Outcome(
        "suspended", suspend=Suspend({}, callback=CallbackRequest(2**70, "t"))
    ),
}


@pytest.mark.parametrize("what", UNFIT)
def test_what_a_worker_says_beyond_a_limit_fails_its_step(engine: Engine, what: str) -> None:
    execution_id = begun(engine)
    engine.report(UNFIT[what])
    error = engine.error(execution_id)
    assert (error["code"], error["position"]) == ("size_limit", "one.yaml:6:5")
    assert folds(engine, execution_id)
    assert not any(scope == "ctx" for scope, _ in engine.store.slots(execution_id))


MENDED: dict[str, Outcome] = {
    "a reference": Outcome(
        "ok", kept=(KeptResult(f"noetl://execution/77/{NOISE}", "file", "s", 1, "step", 1.0),)
    ),
    "a size": Outcome("ok", kept=(KeptResult("noetl://execution/77/x", "file", "s", 2**80, "step", 1.0),)),
    "a size below 0": Outcome(
        "ok", kept=(KeptResult("noetl://execution/77/x", "file", "s", -1, "step", 1.0),)
    ),
    "an execution": Outcome("ok", reaches=(2**80, -5, 0)),
    "a delay": Outcome("suspended", suspend=Suspend({}, delay=1e30)),
    "a delay below 0": Outcome("suspended", suspend=Suspend({}, delay=-1e30)),
    "a moment": Outcome("suspended", suspend=Suspend({}, until=1e300)),
    "a wait": Outcome("suspended", suspend=Suspend({}, callback=CallbackRequest(0, "t", timeout=1e300))),
}


@pytest.mark.parametrize("what", MENDED)
def test_a_number_that_no_column_holds_breaks_no_commit(engine: Engine, what: str) -> None:
    entry = engine.runtime.register(ONE, source_name="one.yaml")
    engine.runtime._handle([Start(77, "start", entry.program, entry.path)])
    engine.report(MENDED[what])
    assert engine.info(77).status in ("completed", "running")
    if engine.info(77).status == "running":
        assert sum(engine.store.open_work(77).values())


def test_a_loop_of_more_items_than_there_may_be(engine: Engine) -> None:
    text = ONE.replace("- step: start", "- step: start\n    loop: {in: 's3://bucket/key.csv', iterator: x}")
    for total in (2**40, -1, LOOP_ITEMS.value + 1):
        execution_id = begun(engine, text)
        engine.report(Outcome("ok", result={"total": total, "items": [], "ref": None}))
        assert engine.error(execution_id)["details"]["limit"] == LOOP_ITEMS.name


@pytest.mark.parametrize("wait", ["", ", wait: false"])
@pytest.mark.parametrize("over", [-1, 0, 1])
def test_a_sub_playbook_with_too_many_keys_fails_the_step_that_calls_it(
    engine: Engine, over: int, wait: str
) -> None:
    engine.runtime.register(ONE, source_name="one.yaml")
    text = HEAD.format(name="parent") + (
        "workflow:\n  - step: start\n"
        f'    tool: {{kind: playbook, path: demo/one, payload: "{{{{ workload.given }}}}"{wait}}}\n'
    )
    given = {f"k{number}": number for number in range(DOCUMENT_KEYS.value + over)}
    execution_id = engine.start(text, {"given": given})
    engine.finish()
    if over > 0:
        error = engine.error(execution_id)
        assert (error["details"]["limit"], error["position"]) == (DOCUMENT_KEYS.name, "one.yaml:7:12")
    else:
        assert engine.info(execution_id).status == "completed"
    assert folds(engine, execution_id)


@pytest.mark.parametrize(
    "child",
    [
        ChildRequest("demo/one", payload={NOISE: 1}),
        ChildRequest("demo/one", payload={str(number): 1 for number in range(5000)}),
        ChildRequest(NOISE),
        ChildRequest("a\0b"),
        ChildRequest("a\ud800b"),
        ChildRequest("demo/one", version=2**80),
    ],
    ids=["key", "keys", "path", "nul", "surrogate", "version"],
)
@pytest.mark.parametrize("wait", [True, False])
def test_a_sub_playbook_that_only_a_worker_could_ask_for_ends(
    engine: Engine, child: ChildRequest, wait: bool
) -> None:
    execution_id = begun(engine)
    if wait:
        engine.report(Outcome("suspended", suspend=Suspend({}, child=child)))
    else:
        engine.report(
            Outcome("ok", meta={"children": [{"path": child.path, "payload": child.payload, "wait": False}]})
        )
    found = engine.store.executions(limit=10)
    assert len(found) == 2
    assert {info.status for info in found if info.execution_id != execution_id} == (
        {"failed"} if wait or child.version is None else {"completed"}
    )
    assert engine.info(execution_id).status in ("completed", "failed")


def patch(**over: Any) -> ContextPatched:
    return ContextPatched(**{"execution_id": 0, "event_id": "ext:1", "program": "", "patches": [], **over})


@pytest.mark.parametrize(
    "event",
    [
        patch(patches=[Patch("ctx", NOISE, 1)]),
        patch(merge={NOISE: 1}),
        patch(operations=[{"op": "add", "path": f"/{NOISE}", "value": 1}]),
        patch(patches=[Patch("vars", "a", 1)], source_step=NOISE),
        patch(patches=[Patch("ctx", "n", HUGE), Patch("ctx", "n", HUGE, "add")]),
        patch(patches=[Patch("ctx", "n", "text"), Patch("ctx", "n", 1, "add")]),
    ],
)
def test_a_patch_that_got_past_a_door_changes_nothing(engine: Engine, event: ContextPatched) -> None:
    execution_id = begun(engine)
    program = engine.info(execution_id).program
    engine.runtime._handle([msgspec.structs.replace(event, execution_id=execution_id, program=program)])
    assert not any(scope in ("ctx", "vars") for scope, _ in engine.store.slots(execution_id))
    engine.finish()
    assert engine.info(execution_id).status == "completed"
    assert folds(engine, execution_id)


@pytest.mark.parametrize("seconds", ["1e30", "2147483648", "'{{ 10 ** 40 }}'"])
@pytest.mark.parametrize("where", ["step", "execution"])
def test_a_timeout_that_no_calendar_has_fails_with_its_place(
    engine: Engine, seconds: str, where: str
) -> None:
    step, whole = f"    spec: {{timeout: {seconds}}}\n", f"executor: {{spec: {{timeout: {seconds}}}}}\n"
    text = ONE + step if where == "step" else ONE.replace("workflow:", f"{whole}workflow:")
    execution_id = begun(engine, text)
    engine.finish()
    error = engine.error(execution_id)
    assert error["code"] == "template_type" and str(NUMBER.value) in error["message"]


def test_the_largest_timeout_there_is(engine: Engine) -> None:
    execution_id = begun(engine, ONE + f"    spec: {{timeout: {NUMBER.value}}}\n")
    engine.finish()
    assert engine.info(execution_id).status == "completed"


def test_numbers_as_long_as_they_may_be_come_out_as_they_went_in(engine: Engine) -> None:
    longest = 10**INTEGER_DIGITS.value - 1
    text = ONE.replace("value: 2", "value: 2").replace("workload: {}", "workload: {n: 1}")
    execution_id = engine.start(text, {"n": longest})
    engine.report(Outcome("ok", patches=[Patch("ctx", "n", longest - 1), Patch("ctx", "n", 1, "add")]))
    assert engine.store.slots(execution_id)[("workload", "n")] == longest
    assert engine.info(execution_id).status == "completed"
    assert folds(engine, execution_id)


@pytest.mark.parametrize(
    ("letter", "length", "is_kept"), [("x", 1000, True), ("語", 1000, False), ("語", 340, True)]
)
def test_a_reference_that_is_kept_fits_its_index(
    store: Any, make: Any, letter: str, length: int, is_kept: bool
) -> None:
    """An index of Postgres counts bytes, three for such a letter."""
    prefix = f"noetl://execution/{EID}/result/f/"
    assert length <= REFERENCE.value
    rng = random.Random(length)
    letters = range(ord(letter), ord(letter) + (2 if letter == "x" else 3000))
    text = prefix + "".join(map(chr, rng.choices(letters, k=length - len(prefix))))
    kept = own_results(EID, [KeptResult(text, "memory", "f", 7, "step", 0.0)])
    assert bool(kept) == is_kept
    store.commit([make.change(kept=tuple(kept))])
