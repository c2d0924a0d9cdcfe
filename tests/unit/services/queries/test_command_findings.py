"""Every state that a command can be in, and the cause that `analyze` names for it."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.domain.state import Token
from noetl.domain.workers import lease_owners
from noetl.ports.executions.execution_store import ExecutionInfo
from noetl.ports.executions.inspection import OpenCommand
from noetl.services.history.progress import LoopCount, StepRun
from noetl.services.queries.command_findings import CommandFindings
from tests.parts import over

AT = 1_800_000_000.0


def execution(execution_id: int = 7, ended_at: float | None = None) -> ExecutionInfo:
    status = "running" if ended_at is None else "completed"
    return ExecutionInfo(execution_id, "p", "p", status, "", 1, AT, ended_at, None, b"")


class Family:
    """A store that knows the children of one execution.

    ``ended_at``: when all of them ended; None: they run.
    """

    def __init__(self, *children: int, ended_at: float | None = None) -> None:
        self.children = {child: execution(child, ended_at) for child in children}

    def executions(self, *, limit: int, wanted: Any) -> list[ExecutionInfo]:
        assert wanted.parent == 7
        found = self.children.values()
        return [one for one in found if not wanted.statuses or one.status in wanted.statuses][:limit]

    def info(self, execution_id: int) -> ExecutionInfo | None:
        return self.children.get(execution_id)


def command(owner: str = "", due_for: float = 5.0, **more: Any) -> OpenCommand:
    more = {"waiting": False, "alive": owner != "", **more}
    return OpenCommand("1", 3, 1, 0, more.pop("waiting"), owner, more.pop("alive"), due_for, **more)


def run(**more: Any) -> StepRun:
    return StepRun(3, "load", more.pop("status", "running"), AT, **more)


ASIDE = lease_owners.invocation(AT, "unreadable")
LEASE = lease_owners.lease(AT, "io", "box-1")
ANSWER = lease_owners.lease(AT, "direct", "0123abcd")
STATES = {
    "wait for a time": (command(due_for=-90), run(status="waiting", until=AT), "waits_for_time", "until 2027-01-15T08:00:00Z"),
    "work elsewhere": (command(due_for=-30, remote=True), run(status="waiting"), "waits_for_work", "asks again in 30 s"),
    "delay of a retry": (command(due_for=-3), run(status="retrying"), "delayed", "is tried again in 3 s"),
    "delay that is nearly over": (command(due_for=-0.2), run(), "delayed", "is tried again in a moment"),
    "delay of an item": (command(due_for=-3), run(loop=LoopCount(9, "parallel")), "delayed", "in 3 s: its item waits"),
    "after a death": (command(due_for=-3, lost=1), run(), "after_deaths", "alone: a process died while running it"),
    "after deaths": (command(due_for=-3, lost=2), run(), "after_deaths", "alone: 2 processes died while running it"),
    "unreadable row": (command(ASIDE, alive=True), run(), "unreadable_row", "set aside until 2027-01-15T08:00:01Z"),
    "nobody's": (command(), run(), "not_taken", "due for 5 s; no worker has taken it"),
    "offered": (command(lease_owners.offered("io")), run(), "not_taken", "it is offered to workers of the pool io"),
    "lost worker": (command("box:1", alive=False), run(), "orphan_command", "box:1 had it and sends no heartbeats"),
    "lost worker over HTTP": (command(LEASE, alive=False), run(), "orphan_command", "worker box-1 of the pool io had it"),
    "being run": (command("box:1"), run(), "running", "has been running for 5 s (box:1)"),
    "being run over HTTP": (command(LEASE), run(), "running", "(worker box-1 of the pool io)"),
    "being run by request": (command(ANSWER), run(), "running", "for 5 s (a worker that got it in an answer of the engine)"),
    "being run for long": (command("box:1", 700), run(), "long_running", "for 700 s (box:1)"),
    "in a queue": (command(lease_owners.QUEUE), run(), "running", "the queue has it, or a worker that reads it"),
    "child": (command(waiting=True), run(child=9), "waits_for_child", "waits for execution 9"),
    "child of an item": (command(waiting=True), run(), "waits_for_child", "of which 11, 12, 13 and others have not ended"),
}  # fmt: skip


@over("name", STATES)
def test_the_cause_is_named(name):
    found, step_run, kind, words = STATES[name]
    told = findings(Family(11, 12, 13, 14)).of(Token(3, "load"), step_run, found)
    assert told is not None and told.kind == kind and words in told.message, told
    assert told.message.startswith("step load: command 1 (attempt 1, turn 0) ") and told.step == "load"
    assert "until:" not in told.message, "owners are named as people know them"


def findings(store: Any, **more: Any) -> CommandFindings:
    return CommandFindings(execution(), store, None, {}, **{"limited": frozenset(), "now": AT, **more})


@over("child", [9, None], ids=["of a step", "of an item"])
@over(("before", "severity"), [(1.0, "info"), (119.0, "info"), (121.0, "warning")])
def test_the_end_of_a_child_is_on_its_way_for_two_minutes(child, before, severity):
    told = findings(Family(9, ended_at=AT - before)).of(
        Token(3, "load"), run(child=child), command(waiting=True)
    )
    assert told is not None and told.severity == severity
    assert "on the way" in told.message + told.next[0]


@pytest.mark.parametrize("child", [9, None], ids=["of a step", "of an item"])
def test_a_child_that_is_gone_is_a_problem(child):
    told = findings(Family()).of(Token(3, "load"), run(child=child), command(waiting=True))
    assert told is not None and told.severity == "warning"


def test_nobody_takes_it_for_a_minute_is_a_problem():
    severities = [findings(None).of(Token(3, "load"), run(), command(due_for=due)) for due in (50, 70)]
    assert [one and one.severity for one in severities] == ["info", "warning"]


@pytest.mark.parametrize("found", [command(waiting=True), command("box:1", -20.0)])
def test_what_waits_for_a_key_is_told_once(found):
    """The finding of the limit says whose turn it is; that command is not "being run for -20 s" as well."""
    assert findings(None, limited=frozenset({3})).of(Token(3, "load"), run(), found) is None


def test_what_a_pause_holds_is_told_by_the_pause():
    assert findings(None).of(Token(3, "load"), run(), command(lease_owners.HELD)) is None
