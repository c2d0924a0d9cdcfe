"""The engine by request: what is answered, what goes to its queue all the same, and what no caller gets by asking."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from noetl.domain.capability_tokens import grant
from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.domain.events import Pause
from noetl.domain.messages import decode_message
from noetl.domain.workers.direct_requests import (
    LEASE_SECONDS,
    POOL,
    VERSION,
    DecideAnswer,
    DecideRequest,
    read_request,
)
from noetl.domain.workers.lease_owners import leaseholder
from noetl.services.orchestrator.answer_requests import AnsweredRequest, answer_request, begin_executions
from noetl.services.orchestrator.snapshot_cache import Recent
from noetl.services.orchestrator.sweep import sweep
from noetl.services.worker.direct_outcomes import heartbeat, unanswered
from tests.doubles.workers import MemoryWorkers
from tests.parts import over
from tests.unit.services.engine_bench import HEAD, RING, Bench, delivery

HTTP = "tool: { kind: http, url: 'http://a.test/' }"
CHAIN = (
    HEAD
    + f"  - {{ step: start, {HTTP}, next: b }}\n  - {{ step: b, {HTTP}, next: c }}\n  - {{ step: c, {HTTP} }}\n"
)
ELSEWHERE = (
    HEAD
    + f"  - {{ step: start, {HTTP}, next: b }}\n  - {{ step: b, tool: {{ kind: python, code: 'def main(): return 1' }} }}\n"
)
FORK = (
    HEAD + f"  - step: start\n    {HTTP}\n    next: {{ spec: {{ mode: inclusive }}, arcs: [{{ step: b }}, {{ step: c }}, {{ step: d }}] }}\n"
    + "".join(f"  - {{ step: {name}, {HTTP} }}\n" for name in "bcd")
)  # fmt: skip
LOOP = (
    HEAD
    + f"  - {{ step: start, {HTTP}, next: b }}\n  - {{ step: b, loop: {{ in: [1, 2], iterator: n }}, {HTTP} }}\n"
)
LATER = HEAD + f"  - {{ step: start, {HTTP}, next: b }}\n  - {{ step: b, spec: {{ delay: 60 }}, {HTTP} }}\n"
FAMILY = (
    HEAD
    + f"  - {{ step: start, {HTTP}, next: sub }}\n  - {{ step: sub, tool: {{ kind: playbook, path: child }} }}\n"
)
CHILD = HEAD.replace("it, path: it", "child, path: child") + f"  - {{ step: start, {HTTP} }}\n"
LEASE = "0123456789abcdef"


class Asking(Bench):
    """An engine that is asked by a worker."""

    def __init__(self, text: str = CHAIN) -> None:
        super().__init__(text)
        self.deps = replace(self.deps, leases=MemoryWorkers(self.store))

    def begun(self) -> Command:
        self.handle(self.put(self.start()))
        ((command, _),) = self.given()
        return command

    def ask(self, *outcomes: str, most: int = 9, **more: list[str]) -> AnsweredRequest:
        return answer_request(
            DecideRequest(VERSION, list(outcomes), most, LEASE, **more), self.deps, lambda: self.left
        )

    def owner(self, command: Command) -> str:
        with self.store.tables() as tables:
            return tables.work[command.execution_id].commands[command.command_id].owner or ""


def commands(answer: DecideAnswer) -> list[tuple[Command, str]]:
    found = [decode_message(text) for text in answer.commands]
    return [(one.command, one.token) for one in found if one.command is not None]


def test_an_outcome_is_answered_with_the_next_command_leased_to_who_asks():
    bench = Asking()
    first = bench.begun()
    told = bench.ask(bench.answer(first)).answer
    ((second, token),) = commands(told)
    assert (second.step, told.left, token) == ("b", [], grant(second, RING))
    assert leaseholder(bench.owner(second)) == (POOL, LEASE)
    assert bench.given() == [] and bench.receive() == [], "nothing went through a queue"
    ((third, _),) = commands(bench.ask(bench.answer(second)).answer)
    assert bench.ask(bench.answer(third)).answer == DecideAnswer(VERSION)
    assert bench.store.info(first.execution_id).status == "completed"


@pytest.mark.parametrize(
    ("text", "answered", "http", "plain"),
    [(ELSEWHERE, 0, 0, 1), (FORK, 1, 2, 0), (LOOP, 0, 1, 0)],
    ids=["another worker's", "a fork", "a loop"],
)
def test_what_others_may_run_at_the_same_time_goes_to_its_queue(text, answered, http, plain):
    bench = Asking(text)
    told = bench.ask(bench.answer(bench.begun())).answer
    assert (len(told.commands), len(bench.given()), len(bench.given("plain"))) == (answered, http, plain)


def test_who_takes_nothing_is_answered_with_nothing():
    bench = Asking()
    assert bench.ask(bench.answer(bench.begun()), most=0).answer.commands == []
    assert len(bench.given()) == 1


def test_a_forged_outcome_is_refused_and_answered_with_nothing():
    bench = Asking(ELSEWHERE)
    first = bench.begun()
    forged = bench.answer(first, grant(msgspec.structs.replace(first, step="b"), RING))
    told = bench.ask(forged)
    assert told.managed.refused == 1 and told.answer == DecideAnswer(VERSION)
    assert bench.store.info(first.execution_id).status == "running" and bench.given("plain") == []


def test_an_outcome_that_was_decided_and_not_answered_frees_what_was_leased_in_vain():
    bench = Asking()
    first = bench.begun()
    text = bench.answer(first)
    ((second, _),) = commands(bench.ask(text).answer)
    managed = bench.handle([delivery(unanswered(text, LEASE))])
    assert managed.again, "a sweep follows"
    sweep(bench.store, bench.deps.publisher, who="engine", clock=lambda: bench.time, deadline=lambda: 50)
    ((again, _),) = bench.given()
    assert (again.command_id, again.attempt) == (second.command_id, 2)
    bench.ask(bench.answer(second))
    assert bench.store.info(first.execution_id).status == "running", "the first copy is superseded"
    bench.ask(bench.answer(again), most=0)
    assert [command.step for command, _ in bench.given()] == ["c"]


def test_what_was_leased_in_vain_of_a_sub_playbook_is_freed_as_well():
    bench = Asking(FAMILY)
    bench.programs.register(CHILD, source_name="child.yaml")
    first = bench.begun()
    text = bench.answer(first)
    ((second, _),) = commands(bench.ask(text).answer)
    assert second.execution_id != first.execution_id
    assert bench.handle([delivery(unanswered(text, LEASE))]).again
    sweep(bench.store, bench.deps.publisher, who="engine", clock=lambda: bench.time, deadline=lambda: 50)
    ((again, _),) = bench.given()
    assert (again.execution_id, again.attempt) == (second.execution_id, 2)


class NamesAsTexts(MemoryWorkers):
    """A registry that keeps no name which the database could not hold."""

    def free(self, pool: str, worker: str) -> bool:
        if not worker.isprintable():
            raise InvalidInputError(f"{worker!r} cannot be kept")
        return super().free(pool, worker)


@over(
    "name",
    ["\0" * 32, "\ud800" * 32, LEASE + "\n", LEASE.upper(), LEASE[:8]],
    ids=["nul", "half a pair", "a line", "capitals", "short"],
)
def test_a_name_that_is_no_lease_frees_nothing_and_harms_no_batch(name):
    """A worker may send anything: a name that broke the handler brought its whole batch back, for ever."""
    bench = Asking()
    bench.deps = replace(bench.deps, leases=NamesAsTexts(bench.store))
    text = bench.answer(bench.begun())
    ((second, _),) = commands(bench.ask(text).answer)
    managed = bench.handle([delivery(unanswered(text, name))])
    assert (managed.events, managed.again, managed.give_back) == (1, False, [])
    assert leaseholder(bench.owner(second)) == (POOL, LEASE)


def test_the_same_outcome_through_the_queue_changes_nothing_and_leaves_the_lease():
    bench = Asking()
    text = bench.answer(bench.begun())
    ((second, _),) = commands(bench.ask(text).answer)
    assert bench.handle([delivery(text)]).again is False
    assert leaseholder(bench.owner(second)) == (POOL, LEASE) and bench.given() == []


def test_a_lease_ends_unless_its_worker_gives_signs_of_life():
    bench = Asking()
    ((second, token),) = commands(bench.ask(bench.answer(bench.begun())).answer)
    for _ in range(3):
        bench.time += 0.8 * LEASE_SECONDS
        bench.ask(held=[heartbeat(second, token)])
        assert bench.store.claim("sweeper", 9) == []
    bench.time += 1.1 * LEASE_SECONDS
    (claimed,) = bench.store.claim("sweeper", 9)
    assert (claimed.command_id, claimed.attempt) == (second.command_id, 2)


def test_a_command_that_is_given_back_is_on_its_queue_at_once():
    bench = Asking()
    ((second, token),) = commands(bench.ask(bench.answer(bench.begun())).answer)
    forged = heartbeat(second, "x")
    assert bench.ask(back=[forged]).returned == 0 and bench.given() == []
    assert bench.ask(back=[heartbeat(second, token)]).returned == 1
    ((again, _),) = bench.given()
    assert (again.command_id, again.attempt) == (second.command_id, 2)


def test_a_paused_execution_keeps_its_outcome_and_hands_nothing_over():
    bench = Asking()
    first = bench.begun()
    bench.handle(bench.put(Pause(first.execution_id, "pause:1", first.program)))
    assert bench.ask(bench.answer(first)).answer == DecideAnswer(VERSION)
    assert bench.given() == [] and bench.store.info(first.execution_id).status == "paused"


def test_what_the_engine_fails_on_is_left_to_the_queue_which_judges_it():
    bench = Asking()
    first = bench.begun()

    def away(*call):
        raise InfrastructureError("nobody answers")

    broken = replace(bench.deps, engine=replace(bench.deps.engine, programs=away))
    told = answer_request(DecideRequest(VERSION, [bench.answer(first)], 1, LEASE), broken, lambda: 20.0)
    assert told.answer == DecideAnswer(VERSION, [0])
    assert len(bench.ask(bench.answer(first)).answer.commands) == 1


def test_a_process_that_remembers_what_it_committed_decides_again_when_another_moved_on():
    bench = Asking()
    remembering = replace(bench.deps, engine=replace(bench.deps.engine, recent=Recent(lambda: bench.time)))
    first, forgetful = bench.begun(), bench.deps
    bench.deps = remembering
    ((second, _),) = commands(bench.ask(bench.answer(first)).answer)
    bench.deps = forgetful
    ((third, _),) = commands(bench.ask(bench.answer(second)).answer)
    bench.deps = remembering
    assert bench.ask(bench.answer(third)).answer == DecideAnswer(VERSION)
    assert bench.store.info(first.execution_id).status == "completed"


def test_a_process_reads_an_execution_once_and_knows_it_from_then_on(monkeypatch):
    bench = Asking()
    recent = Recent(lambda: bench.time, whole=10)
    bench.deps = replace(bench.deps, engine=replace(bench.deps.engine, recent=recent))
    first = bench.begun()
    recent.take(first.execution_id)
    reads, load = [], bench.store.load
    monkeypatch.setattr(bench.store, "load", lambda requests: reads.append(len(requests)) or load(requests))
    ((second, _),) = commands(bench.ask(bench.answer(first)).answer)
    assert reads == [1]
    ((third, _),) = commands(bench.ask(bench.answer(second)).answer)
    assert bench.ask(bench.answer(third)).answer == DecideAnswer(VERSION) and reads == [1]
    assert bench.store.info(first.execution_id).status == "completed"


def test_what_a_process_remembers_does_not_outlive_a_restore_of_the_database(monkeypatch):
    """Versions of the restored database are those of another history: no commit over what is remembered would tell."""
    bench, passed = Asking(), [0.0]
    recent = Recent(lambda: bench.time, whole=10, kept=300, wall=lambda: passed[0])
    bench.deps = replace(bench.deps, engine=replace(bench.deps.engine, recent=recent))
    first = bench.begun()
    ((second, _),) = commands(bench.ask(bench.answer(first)).answer)
    passed[0] = 300.0
    reads, load = [], bench.store.load
    monkeypatch.setattr(bench.store, "load", lambda requests: reads.append(len(requests)) or load(requests))
    ((third, _),) = commands(bench.ask(bench.answer(second)).answer)
    assert reads == []
    passed[0] = 600.1
    assert bench.ask(bench.answer(third)).answer == DecideAnswer(VERSION)
    assert reads and bench.store.info(first.execution_id).status == "completed"


@over(
    "event",
    [
        {"Records": [{"eventSourceARN": "arn:aws:sqs:eu-central-1:1:noetl-prod-timers", "body": "{}"}]},
        {"v": 2, "outcomes": []},
        {"v": 1, "outcomes": ["{}"]},
        {"v": 1, "outcomes": ["{}"], "lease": "guess"},
        {"v": 1, "outcomes": ["{}"] * 11, "lease": LEASE},
        {"v": 1, "held": [1]},
        [],
    ],
)
def test_whatever_is_no_request_is_refused(event):
    """A worker that runs code of playbooks may invoke the function with anything: it cannot pass for a queue."""
    with pytest.raises(InvalidInputError):
        read_request(event)


# --- starts ---


def test_a_start_is_decided_and_its_commands_are_sent():
    bench = Asking()
    start = bench.start()
    begun = begin_executions([start], bench.deps, lambda: 20.0)
    assert (begun.left, begun.taken) == ([], set()) and [one.step for one, _ in bench.given()] == ["start"]
    bench.time += 1e6
    assert bench.store.undelivered("sweeper", 9) == [] and bench.store.claim("sweeper", 9) == []
    assert begin_executions([start], bench.deps, lambda: 20.0).left == [] and bench.given() == []


def test_a_start_that_cannot_be_decided_is_left_to_the_queue():
    bench = Asking()
    start = bench.start()

    def away(*call):
        raise InfrastructureError("nobody answers")

    broken = replace(bench.deps, engine=replace(bench.deps.engine, programs=away))
    assert begin_executions([start], broken, lambda: 20.0).left == [start]
    bench.handle(bench.put(start))
    assert len(bench.given()) == 1
