"""A batch of commands: what is sent, what is given back, what is lost, and that nothing else happens."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pytest

from noetl.domain.capability_tokens import fits
from noetl.domain.commands import FrozenScope
from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.domain.events import CommandDone, ItemsDone
from noetl.domain.kinds import TaskContext
from noetl.domain.messages import VERSION, Message, encode_message
from noetl.ports.queue import Outgoing
from noetl.services.worker import consume_commands as working
from noetl.services.worker.consume_commands import work_batch
from tests.parts import over
from tests.unit.services.batch_bench import LOOP, ONE, RING, Bench
from tests.waiting import PATIENCE, wait_until


def test_a_batch_goes_out_in_one_request_each_outcome_with_its_own_token():
    together = threading.Barrier(10)
    bench = Bench(tool=lambda params, context: (together.wait(PATIENCE) and None) or params["v"])
    worked = bench.work(bench.put(*(bench.command(number) for number in range(10))))
    said = bench.said()
    assert {event.execution_id: event.outcome.result for _, event in said} == {100 + n: n for n in range(10)}
    assert all(fits(token, event, RING) for token, event in said)
    other = {event.execution_id: token for token, event in said}
    assert not fits(other[101], next(event for _, event in said if event.execution_id == 102), RING)
    assert [len(request) for request in bench.events.requests] == [10]
    assert {message.group for message in bench.events.requests[0]} == {str(100 + n) for n in range(10)}
    assert (worked.commands, worked.failures, worked.give_back, len(bench.commands)) == (10, 0, [], 0)
    assert worked.executions == {100 + n for n in range(10)}


def test_a_slow_command_does_not_hold_back_the_outcomes_of_quick_ones():
    quick = threading.Event()

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        return params["v"] if params["v"] else quick.wait(PATIENCE)

    bench = Bench(tool=tool)
    bench.events.refuse = lambda messages: quick.set() or []
    bench.work(bench.put(bench.command(0), bench.command(1)))
    assert [event.outcome.result for _, event in bench.said()] == [1, True]


def test_items_leave_while_their_chunk_goes_on():
    seen, time_now = [], [0.0]
    flushed = threading.Event()

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        if params["v"] == 3:
            assert flushed.wait(PATIENCE), "two items were done a second ago"
        time_now[0] += 0.6
        return params["v"]

    bench = Bench(LOOP, tool, clock=lambda: time_now[0] + time.monotonic())

    def watch(messages: Sequence[Outgoing]) -> list[int]:
        seen.append(len(messages))
        flushed.set()
        return []

    bench.events.refuse = watch
    worked = bench.work(bench.put(bench.chunk([1, 2, 3, 4])))
    events = [event for _, event in bench.said()]
    assert all(isinstance(event, ItemsDone) for event in events)
    assert [[item.index for item in event.items] for event in events] == [[0, 1], [2, 3], []]
    assert [event.closed for event in events] == [False, False, True]
    assert (worked.events, worked.sends) == (3, len(seen))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", 2),
        ("{}", 2),
        ("[" * 5000, 2),
        ('{"v":1,"token":"x","event":{"type":"timer","execution_id":1,"event_id":"e","program":"p","timer":"t","generation":1}}', 2),
        ('{"v":1,"ref":{"uri":"noetl://execution/1/result/message/' + "0" * 64 + '","sha256":"' + "0" * 64 + '","size":3}}', 2),
        ('{"v":3,"command":{"shape":"of tomorrow"}}', 400),
    ],
)  # fmt: skip
def test_what_is_no_command_is_given_back_and_dropped_in_the_end_and_its_neighbour_is_run(text, kept):
    """A message of a newer version waits for a newer worker, however often it is delivered."""
    bench = Bench()
    bench.commands.send([Outgoing(text or " ")])
    good = encode_message(Message(VERSION, command=bench.command(1)))
    poison, fine = bench.put_texts(good)
    worked = bench.work([poison, fine])
    assert worked.give_back == [poison.message_id] and worked.refused == 1
    assert [event.execution_id for _, event in bench.said()] == [101]
    assert bench.again() == [], "not at once"
    last = work_batch([msgspec.structs.replace(poison, received=kept)], bench.deps)
    assert last.give_back == [poison.message_id]
    if kept < 10:
        last = work_batch([msgspec.structs.replace(poison, received=kept + 1)], bench.deps)
        assert last.give_back == [] and "is dropped" in bench.logged[-1]


def test_a_command_too_large_for_its_queue_and_an_outcome_too_large_for_its():
    bench = Bench(message_limit=2000)
    value = "x" * 20_000
    command = bench.command(1, scope=FrozenScope(workload={"v": value}))
    deliveries = bench.put(command, limit=1000)
    assert len(deliveries[0].body) < 1000
    assert bench.work(deliveries).give_back == []
    assert len(bench.events.requests[0][0].body) < 2000
    ((token, event),) = bench.said()
    assert event.outcome.result == value and fits(token, event, RING)


@pytest.mark.parametrize("how", ["refused", "away"])
def test_what_the_engine_did_not_get_is_run_again(how):
    bench = Bench()

    def refuse(messages: Sequence[Outgoing]) -> Sequence[int]:
        if how == "away":
            raise InfrastructureError("no queue")
        return [place for place, message in enumerate(messages) if message.group == "102"]

    bench.events.refuse = refuse
    deliveries = bench.put(bench.command(1), bench.command(2))
    worked = bench.work(deliveries)
    expected = [one.message_id for one in deliveries] if how == "away" else [deliveries[1].message_id]
    assert sorted(worked.give_back) == expected
    assert worked.failures == len(expected) == len(bench.commands)
    assert bench.again() == [], "after a pause"


def test_after_an_unsent_message_a_command_says_no_more():
    """Its later messages would close the chunk whose first items nobody heard of."""
    now, ran = [0.0], []

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        ran.append(params["v"])
        now[0] += 0.6
        time.sleep(0.05)
        return params["v"]

    bench = Bench(LOOP, tool, clock=lambda: now[0] + time.monotonic())
    bench.events.refuse = lambda messages: [0] if len(bench.events.requests) == 0 else []
    worked = bench.work(bench.put(bench.chunk(list(range(200)))))
    assert bench.said() == [] and len(worked.give_back) == 1
    assert len(ran) < 200, "and stops working for nothing"


def test_a_second_run_of_a_chunk_is_not_taken_for_the_first():
    """Its messages may be cut elsewhere: a queue that drops repeats must not take them for those of the first run."""
    bench = Bench(LOOP, lambda params, context: params["v"])
    (delivery,) = bench.put(bench.chunk([1, 2]))
    work_batch([delivery], bench.deps)
    slow = [0.0]

    def slower(params: dict[str, Any], context: TaskContext) -> Any:
        slow[0] += 2
        return params["v"]

    bench.deps.worker.registry.tool = slower
    object.__setattr__(bench.deps.worker, "clock", lambda: slow[0] + time.monotonic())
    work_batch([delivery], bench.deps)
    events = [event for _, event in bench.said()]
    assert [[item.index for item in event.items] for event in events] == [[0, 1], [0], [1], []]


def test_one_command_delivered_twice_in_a_batch_runs_once_and_shares_its_fate():
    ran: list[Any] = []
    bench = Bench(tool=lambda params, context: ran.append(params["v"]))
    deliveries = bench.put(bench.command(1), bench.command(1), bench.command(2))
    assert bench.work(deliveries).give_back == [] and sorted(ran) == [1, 2]
    bench.events.refuse = lambda messages: range(len(messages))
    deliveries = bench.put(bench.command(3), bench.command(3))
    assert sorted(bench.work(deliveries).give_back) == [one.message_id for one in deliveries]


@pytest.mark.parametrize(("age", "marked", "runs"), [(6, True, False), (6, False, True), (4, True, True)])
def test_a_command_that_waited_and_is_not_wanted_any_more_is_not_run(age, marked, runs):
    asked = []

    def revoked(execution_id: int, run: int) -> bool:
        asked.append((execution_id, run))
        return marked

    bench = Bench()
    bench.deps = replace(bench.deps, revoked=revoked, now=lambda: time.time() + age)
    worked = bench.work(bench.put(bench.command(1)))
    assert worked.give_back == [] and len(bench.commands) == 0
    assert bool(bench.said()) == runs and worked.revoked == (not runs)
    assert asked == ([(101, 1)] if age > 5 else [])


def test_a_chunk_that_is_not_wanted_any_more_is_answered_at_once():
    """Its loop closes when every chunk that is out has come back."""
    bench = Bench(LOOP, revoked=lambda execution_id, run: True)
    bench.deps = replace(bench.deps, revoked=lambda execution_id, run: True, now=lambda: time.time() + 60)
    bench.work(bench.put(bench.chunk([1, 2, 3])))
    ((_, event),) = bench.said()
    assert (event.items, event.closed, event.undone) == ([], True, 3)


class Broken(BaseException):
    """Worse than an Exception."""


@over("error", [RuntimeError("boom"), Broken("boom")])
@over("body", [ONE, LOOP])
def test_a_command_that_breaks_its_worker_is_lost_at_the_third_delivery(error, body):
    def programs(hash_: str) -> Any:
        raise error

    bench = Bench(body, programs=programs)
    command = bench.command(1) if body is ONE else bench.chunk([1, 2])
    (delivery,) = bench.put(command)
    for received in (1, 2):
        tried = msgspec.structs.replace(delivery, received=received)
        assert work_batch([tried], bench.deps).give_back == [delivery.message_id]
        assert bench.said() == []
    worked = work_batch([msgspec.structs.replace(delivery, received=3)], bench.deps)
    assert (worked.give_back, worked.lost) == ([], 1)
    ((token, event),) = bench.said()
    assert fits(token, event, RING)
    outcomes = [event.outcome] if isinstance(event, CommandDone) else [item.outcome for item in event.items]
    assert outcomes and all(
        one.error.kind == "worker_lost" and "boom" in one.error.message for one in outcomes
    )


LOST = "spec: { policy: { rules: [{ when: \"{{ outcome.error.kind == 'worker_lost' }}\", then: { do: %s } }] } } }"


@over("body", [ONE, LOOP])
@over(
    ("rule", "seen"),
    [("continue", ("ok", False)), ("retry, attempts: 2, delay: 30", ("suspended", True)), ("fail", ("error", False))],
)  # fmt: skip
def test_rules_answer_a_command_that_its_workers_did_not_end(body, rule, seen):
    """A worker that dies says nothing: the fourth delivery finds that three have begun the command."""

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        pytest.fail("no worker begins it again")

    bench = Bench(body.removesuffix(" }\n") + ", " + LOST % rule + "\n", tool=tool)
    command = bench.command(1) if body is ONE else bench.chunk([1])
    (delivery,) = bench.put(command)
    worked = work_batch([msgspec.structs.replace(delivery, received=9)], bench.deps)
    assert (worked.give_back, worked.lost) == ([], 1)
    ((token, event),) = bench.said()
    assert fits(token, event, RING)
    (outcome,) = [event.outcome] if isinstance(event, CommandDone) else [item.outcome for item in event.items]
    assert (outcome.status, outcome.suspend is not None) == seen


@pytest.mark.parametrize("error", [RuntimeError("boom"), Broken("boom")])
def test_a_message_that_breaks_its_reader_is_given_back_and_its_neighbour_is_run(monkeypatch, error):
    bench = Bench()
    bad, fine = bench.put(bench.command(1), bench.command(2))

    def read(body, results, true=working.unpack):
        if body == bad.body:
            raise error
        return true(body, results)

    monkeypatch.setattr(working, "unpack", read)
    worked = bench.work([bad, fine])
    assert (worked.give_back, worked.refused) == ([bad.message_id], 1)
    assert [event.execution_id for _, event in bench.said()] == [102]


def test_a_store_that_is_away_is_waited_for_however_often():
    def programs(hash_: str) -> Any:
        raise InfrastructureError("no bucket")

    bench = Bench(programs=programs)
    (delivery,) = bench.put(bench.command(1))
    worked = work_batch([msgspec.structs.replace(delivery, received=9)], bench.deps)
    assert worked.give_back == [delivery.message_id] and bench.said() == []
    assert bench.again() == [], "not at once"


def test_commands_that_there_is_no_time_for_go_back_at_once():
    ran: list[Any] = []

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        ran.append(params["v"])
        bench.left[0] -= 10

    bench = Bench(tool=tool, slots={"io": 1})
    bench.left[0] = 24.0
    deliveries = bench.put(*(bench.command(number) for number in range(5)))
    worked = bench.work(deliveries)
    assert ran == [0, 1]
    assert len(worked.give_back) == 3 and len(bench.said()) == 2
    assert len(bench.again()) == 3, "visible to others already"


def test_a_call_that_outlives_the_worker_is_given_back_and_then_lost_and_says_no_more():
    release, ended = threading.Event(), threading.Event()

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        if params["v"] == 1:
            bench.left[0] = 0.0
            release.wait(10 * PATIENCE)
            ended.set()
        return params["v"]

    bench = Bench(tool=tool)
    bench.left[0] = 10.0
    (delivery,) = bench.put(bench.command(1))
    others = set(threading.enumerate())
    worked = work_batch([delivery], bench.deps)
    assert not ended.is_set(), "it does not wait for the call"
    assert worked.give_back == [delivery.message_id] and bench.said() == []
    release.set()
    wait_until(
        lambda: ended.is_set() and others >= set(threading.enumerate()), "the end of the call's thread"
    )
    assert bench.events.requests == [], "what it says afterwards is for nobody"
    release.clear()
    bench.left[0] = 10.0
    worked = work_batch([msgspec.structs.replace(delivery, received=3)], bench.deps)
    release.set()
    ((_, event),) = bench.said()
    assert worked.give_back == [] and event.outcome.error.kind == "worker_lost"


def test_commands_of_one_execution_run_one_by_one_while_another_has_some():
    """Six commands of two executions in two threads: each execution needs one child, not one for each thread."""
    together: list[set[int]] = []
    running: set[int] = set()
    both = threading.Barrier(2, action=lambda: together.append(set(running)))

    def tool(params: dict[str, Any], context: TaskContext) -> None:
        running.add(context.execution_id)
        both.wait(PATIENCE)
        both.wait(PATIENCE)
        running.discard(context.execution_id)

    bench = Bench(tool=tool, slots={"io": 1, "python": 2})
    commands = [
        bench.command(number, pool="python", command_id=f"{place}", run=place)
        for place, number in enumerate([1, 1, 1, 2, 2, 2], 1)
    ]
    bench.work(bench.put(*commands))
    assert together == [{101, 102}] * 6


def test_pools_bound_what_runs_at_once():
    lock, running, most = threading.Lock(), {"io": 0, "python": 0}, {"io": 0, "python": 0}
    two = threading.Event()

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        pool = "python" if params["v"] % 2 else "io"
        with lock:
            running[pool] += 1
            most[pool] = max(most[pool], running[pool])
        if running["io"] > 1:
            two.set()
        assert pool == "python" or two.wait(PATIENCE)
        with lock:
            running[pool] -= 1

    bench = Bench(tool=tool, slots={"io": 3, "python": 1})
    commands = [bench.command(n, pool="python" if n % 2 else "io") for n in range(10)]
    assert bench.work(bench.put(*commands)).give_back == []
    assert most["python"] == 1 and 1 < most["io"] <= 3


def test_the_queue_hears_of_commands_that_take_long():
    """So that those of a worker that dies come back after the lease, not after the queue's visibility."""
    held: list[tuple[int, int]] = []
    twice = partial(wait_until, lambda: len(held) >= 2, "two signs of life")
    bench = Bench(tool=lambda params, context: twice() and None, lease_seconds=1)
    original = bench.commands.nack
    bench.commands.nack = lambda deliveries, delay=0: (
        held.append((len(deliveries), delay)),
        original(deliveries, delay),
    )
    quick = Bench(lease_seconds=60)
    quick.commands.nack = lambda deliveries, delay=0: pytest.fail("a quick command costs no request")
    quick.work(quick.put(quick.command(1)))
    assert bench.work(bench.put(bench.command(1), bench.command(2))).give_back == []
    assert len(held) >= 2 and held[:2] == [(2, 1), (2, 1)]
    assert len(bench.commands) == 0, "a receipt stays good"


def test_an_outcome_that_no_queue_takes_harms_no_other():
    bench = Bench()
    bench.events.refuse = lambda messages: (_ for _ in ()).throw(InvalidInputError("too large")) if any(
        message.group == "101" for message in messages
    ) else []  # fmt: skip
    deliveries = bench.put(bench.command(1), bench.command(2))
    worked = bench.work(deliveries)
    assert worked.give_back == [deliveries[0].message_id]
    assert [event.execution_id for _, event in bench.said()] == [102]


def test_lines_of_a_command_are_written_about_its_execution():
    about: list[int] = []

    class About:
        def __init__(self, execution_id: int) -> None:
            self.execution_id = execution_id

        def __enter__(self) -> None:
            about.append(self.execution_id)

        def __exit__(self, *error: object) -> None:
            about.append(-self.execution_id)

    bench = Bench(about=About)
    bench.work(bench.put(bench.command(1), bench.command(2)))
    assert sorted(about) == [-102, -101, 101, 102]
