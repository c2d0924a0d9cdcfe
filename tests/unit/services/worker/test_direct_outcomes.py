"""Outcomes by request: the invocation continues with what is answered, and the queue has every outcome that failed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from noetl.domain.capability_tokens import grant
from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError
from noetl.domain.events import CommandDone
from noetl.domain.kinds import TaskContext
from noetl.domain.messages import VERSION as MESSAGE_VERSION
from noetl.domain.messages import Message, decode_message, encode_message
from noetl.domain.workers.direct_requests import VERSION, DecideAnswer, DecideRequest, is_lease
from noetl.services.worker.consume_commands import work_batch
from noetl.services.worker.direct_outcomes import REQUEST_SECONDS, SECONDS, DirectOutcomes
from tests.unit.services.batch_bench import LOOP, RING, Bench, Tool
from tests.waiting import PATIENCE

Reply = Callable[[DecideRequest], DecideAnswer]


class Engine:
    """Answers each outcome with the next command of its execution, up to ``steps``."""

    def __init__(self, steps: int = 3) -> None:
        self.steps = steps
        self.asked: list[DecideRequest] = []
        self.replies: list[Reply] = []
        self.bench: Bench | None = None

    def decide(self, request: DecideRequest) -> DecideAnswer:
        self.asked.append(request)
        return self.replies.pop(0)(request) if self.replies else self.next(request)

    def next(self, request: DecideRequest) -> DecideAnswer:
        assert self.bench is not None
        texts = []
        for text in request.outcomes:
            event = decode_message(text).event
            assert isinstance(event, CommandDone)
            number = int(event.command_id) + 1
            if number <= self.steps and len(texts) < request.most:
                texts.append(leased(self.bench.command(event.execution_id - 100, command_id=str(number))))
        return DecideAnswer(VERSION, commands=texts)


def leased(command: Command) -> str:
    return encode_message(Message(MESSAGE_VERSION, token=grant(command, RING), command=command))


def bench_of(
    engine: Engine, tool: Tool = lambda params, context: params["v"], most: int = 50, **settings: Any
) -> Bench:
    now = settings.setdefault("clock", lambda: 0.0)
    direct = DirectOutcomes(engine, most, now, lambda line: None)
    engine.bench = bench = Bench(tool=tool, direct=direct, **settings)
    return bench


def ids(bench: Bench) -> list[str]:
    return [event.command_id for _, event in bench.said() if isinstance(event, CommandDone)]


def test_a_chain_runs_in_one_invocation_and_its_first_message_is_removed_at_once():
    engine, waiting = Engine(), []
    bench = bench_of(engine, lambda params, context: waiting.append(len(bench.commands)) or 1)
    (first,) = bench.put(bench.command(1))
    worked = bench.work([first])
    assert (worked.commands, worked.direct, worked.taken, worked.give_back) == (3, 3, 2, [])
    assert [len(one.outcomes) for one in engine.asked] == [1, 1, 1] and bench.events.requests == []
    assert len(bench.commands) == 0 and waiting[0] == 1
    assert len({one.lease for one in engine.asked}) == 3, "every request has a lease of its own"
    assert all(is_lease(one.lease) for one in engine.asked)
    assert len({one.lease[:24] for one in engine.asked}) == 1, "leases of a process differ at their ends"
    other = Engine()
    bench = bench_of(other)
    bench.work(bench.put(bench.command(1)))
    assert other.asked[0].lease[:24] != engine.asked[0].lease[:24], "those of another process, everywhere"


def test_the_next_command_runs_and_is_decided_while_the_first_message_is_removed():
    engine, decided, logged = Engine(), threading.Event(), []
    bench = bench_of(engine)
    remove = bench.commands.ack

    def slow(deliveries: Any) -> None:
        logged.append(decided.wait(PATIENCE))
        remove(deliveries)

    def last(request: DecideRequest) -> DecideAnswer:
        decided.set()
        return DecideAnswer(VERSION)

    bench.commands.ack = slow  # type: ignore[method-assign]
    engine.replies = [engine.next, engine.next, last]
    worked = work_batch(bench.put(bench.command(1)), bench.deps)
    assert logged == [True], "the third outcome was decided meanwhile"
    assert (worked.commands, worked.direct, len(bench.commands)) == (3, 3, 0), "the batch ends after it"


@pytest.mark.parametrize("error", [InfrastructureError("away", code="aws_failed"), ValueError("a defect")])
def test_a_message_that_cannot_be_removed_harms_nothing(error):
    engine, tried = Engine(), []
    bench = bench_of(engine)

    def fail(deliveries: Any) -> None:
        tried.append(deliveries)
        raise error

    bench.commands.ack = fail  # type: ignore[method-assign]
    worked = work_batch(bench.put(bench.command(1)), bench.deps)
    assert len(tried) == 1 and (worked.commands, worked.give_back) == (3, []) and bench.events.requests == []
    assert "only at the end of the batch" in bench.logged[-1]


def test_outcomes_of_a_batch_share_a_request():
    engine = Engine(2)
    bench = bench_of(engine)
    worked = bench.work(bench.put(*(bench.command(number) for number in range(5))))
    assert sum(len(one.outcomes) for one in engine.asked) == 10 == worked.commands
    assert bench.events.requests == []


def test_the_queue_has_what_comes_after_so_many_commands_or_so_many_seconds():
    engine, now = Engine(9), [0.0]
    bench = bench_of(engine, most=2)
    bench.work(bench.put(bench.command(1)))
    assert [one.most for one in engine.asked] == [2, 1] and ids(bench) == ["3"]

    def slow(params: dict[str, Any], context: TaskContext) -> int:
        now[0] += 0.6 * SECONDS
        return 1

    engine = Engine(9)
    bench = bench_of(engine, slow, clock=lambda: now[0])
    bench.work(bench.put(bench.command(1)))
    assert len(engine.asked) == 1 and ids(bench) == ["2"]


@pytest.mark.parametrize(("code", "freed"), [("engine_failed", True), ("aws_throttled", False)])
def test_an_unanswered_outcome_goes_through_the_queue_and_names_the_lease(code, freed):
    engine = Engine()

    def fail(request: DecideRequest) -> DecideAnswer:
        raise InfrastructureError("no answer", code=code)

    engine.replies = [fail]
    bench = bench_of(engine)
    worked = bench.work(bench.put(bench.command(1), bench.command(2)))
    messages = [decode_message(one.body) for request in bench.events.requests for one in request]
    assert sorted(one.event.execution_id for one in messages) == [101, 102]
    assert {one.asked for one in messages if one.asked} == ({engine.asked[0].lease} if freed else set())
    assert worked.give_back == [] and len(engine.asked) == 1, "the engine is left alone for a while"


def test_what_the_engine_leaves_goes_through_the_queue_and_the_rest_does_not():
    engine = Engine(1)
    engine.replies = [lambda request: DecideAnswer(VERSION, [0, 7])]
    bench = bench_of(engine)
    worked = bench.work(bench.put(bench.command(1)))
    assert ids(bench) == ["1"] and (worked.events, worked.direct) == (1, 0)


def test_items_of_loops_go_through_the_queue():
    engine = Engine()
    bench = bench_of(engine, body=LOOP)
    bench.work(bench.put(bench.chunk([1, 2])))
    assert engine.asked == [] and len(bench.said()) >= 1


def test_no_request_is_made_that_the_invocation_might_not_outlast():
    engine = Engine()
    bench = bench_of(engine)
    bench.left[0] = REQUEST_SECONDS - 1
    bench.work(bench.put(bench.command(1)))
    assert engine.asked == [] and ids(bench) == ["1"]


def test_a_leased_command_that_cannot_be_ended_is_given_back_to_the_engine():
    engine, asked = Engine(2), []

    def programs(program: str) -> Any:
        asked.append(program)
        if len(asked) > 1:
            raise InfrastructureError("the bucket is away")
        return bench.program

    bench = bench_of(engine, programs=programs)
    worked = bench.work(bench.put(bench.command(1)))
    (back,) = engine.asked[-1].back
    event = decode_message(back).event
    assert isinstance(event, CommandDone) and event.command_id == "2" and event.outcome.status == "suspended"
    assert worked.give_back == [] and worked.failures == 1


def test_an_engine_that_might_not_answer_in_time_is_asked_nothing_at_the_end():
    """A worker that waits beyond its time is ended: its queue counts a death, and delivers again what was answered."""
    engine, asked = Engine(2), []

    def programs(program: str) -> Any:
        asked.append(program)
        if len(asked) > 1:
            bench.left[0] = REQUEST_SECONDS - 1
            raise InfrastructureError("the bucket is away")
        return bench.program

    bench = bench_of(engine, programs=programs)
    worked = bench.work(bench.put(bench.command(1)))
    assert [len(one.outcomes) for one in engine.asked] == [1] and worked.failures == 1
    assert not any(one.back or one.held for one in engine.asked)


def test_a_leased_command_that_runs_for_long_is_held():
    engine, now, held = Engine(2), [0.0], threading.Event()

    def hold(request: DecideRequest) -> DecideAnswer:
        held.set()
        return DecideAnswer(VERSION)

    def slow(params: dict[str, Any], context: TaskContext) -> int:
        if engine.asked:
            now[0] += 30.0
            assert held.wait(PATIENCE)
        return 1

    bench = bench_of(engine, slow, clock=lambda: now[0])
    engine.replies = [engine.next, hold]
    bench.work(bench.put(bench.command(1)))
    (sign,) = engine.asked[1].held
    event = decode_message(sign).event
    assert isinstance(event, CommandDone) and event.command_id == "2"
