"""Starts and cancels that come again after retention has removed their executions: from a dead letter, or from a queue that delivers twice."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.adapters.memory import MemoryCatalog
from noetl.domain.commands import Command
from noetl.domain.events import Cancel, CommandDone, Event, Start
from noetl.domain.outcomes.outcomes import Outcome
from noetl.ports.executions.retention import NOTHING, Retention
from noetl.runtime.programs import Programs
from noetl.services.executions.start_execution import StartRequest, start_execution
from noetl.services.orchestrator.engine_deps import BatchEffects, EngineDeps
from noetl.services.orchestrator.handle_events import handle_events
from noetl.services.results.hydration import make_hydrate
from tests.contract.test_retention import now
from tests.contract.test_retention import retention as retention
from tests.properties.tools import PureTools

ME = "owner-1"
EVERYTHING = range(1, 2**63 - 1)
"""Ids whose history stays in its partition, which is dropped later."""
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: NAME, path: NAME }\n"
STEP = "workflow:\n  - { step: start, tool: { kind: noop } }\n"
FAMILY = "workflow:\n  - { step: start, tool: { kind: playbook, path: child } }\n"
LIMIT = "executor: { spec: { concurrency: { key: k, limit: 5 } } }\n"
CHILDREN = {"a child": STEP, "a child that may have to wait": LIMIT + STEP}
PARENTS = {"a parent": FAMILY, "a parent that may have to wait": LIMIT + FAMILY}


class Engine:
    """The engine over a store, as it is behind queues. ``starts`` and ``cancels``: those that it was sent."""

    def __init__(self, harness: Any, parent: str, child: str) -> None:
        self.store, results = harness.store, harness.results
        self.store.heartbeat(ME, 600)
        self.lines: list[str] = []
        self.starts: list[Start] = []
        self.cancels: list[Cancel] = []
        programs = Programs(MemoryCatalog(), PureTools())
        programs.register(HEAD.replace("NAME", "child") + child, source_name="child.yaml")
        entry = programs.register(HEAD.replace("NAME", "parent") + parent, source_name="parent.yaml")
        self.program = programs(entry.program)
        self.deps = EngineDeps(
            self.store, results, programs, programs.resolve, make_hydrate(results), owner=ME, log=self.lines.append,
        )  # fmt: skip

    def start(self) -> Start:
        """Start the parent as a client does."""
        wish = StartRequest({}, "parent")
        found = start_execution(
            self.program, wish, self.store, owner=ME, now_ms=1_800_000_000_000, random_bits=5, origin="mine"
        ).event
        assert found is not None
        return found

    def handle(self, event: Event) -> list[Command]:
        """Handle an event, and all that it causes. The commands of sub-playbooks answer themselves."""
        commands: list[Command] = []
        pending = [event]
        while pending:
            self.starts += [one for one in pending if isinstance(one, Start)]
            self.cancels += [one for one in pending if isinstance(one, Cancel)]
            handled = handle_events(pending, self.deps, BatchEffects())
            commands += handled.commands
            pending = list(handled.events)
        return commands


def work(engine: Engine, commands: list[Command]) -> None:
    """Run what the engine has given out, until it gives out nothing."""
    while commands:
        commands += engine.handle(CommandDone.of(commands.pop(0), Outcome("ok", result=1)))


@pytest.mark.parametrize("child", CHILDREN)
@pytest.mark.parametrize("parent", PARENTS)
def test_a_start_begins_nothing_after_its_execution_was_removed(
    harness: Any, retention: Retention, parent: str, child: str
) -> None:
    engine = Engine(harness, PARENTS[parent], CHILDREN[child])
    work(engine, engine.handle(engine.start()))
    assert [start.parent is None for start in engine.starts] == [True, False]
    shown = engine.store.executions(limit=10)
    assert [one.status for one in shown] == ["completed"] * 2, shown
    before = now(harness)
    while members := retention.claim(before, 1):
        retention.remove_events(members, 10)
        retention.remove(members)
        for start in tuple(engine.starts[:2]):
            gone = engine.store.info(start.execution_id) is None
            assert engine.handle(start) == [], (
                "no part of the family begins while others of it are still there"
            )
            assert not gone or engine.store.info(start.execution_id) is None
    assert engine.store.executions(limit=10) == []
    for start in engine.starts[:2]:
        assert engine.handle(start) == []
        assert f"{start.event_id} begins nothing: execution {start.execution_id} was removed" in engine.lines
    assert engine.store.executions(limit=10) == [] and engine.store.undelivered(ME, 10) == []


@pytest.mark.parametrize("deferred", [NOTHING, EVERYTHING], ids=["deleted", "history-stays"])
def test_a_cancel_creates_nothing_after_its_execution_was_removed_before_its_parent(
    harness: Any, retention: Retention, deferred: range
) -> None:
    engine = Engine(harness, FAMILY, STEP.replace("kind: noop", "kind: wait, callback: true"))
    start = engine.start()
    engine.handle(start)
    engine.store.post(Cancel(start.execution_id, "ext:stop", start.program, cascade=True), ME)
    engine.handle(Cancel(start.execution_id, "ext:stop", start.program, cascade=True))
    own, of_child = engine.cancels
    assert {one.status for one in engine.store.executions(limit=10)} == {"cancelled"}
    assert list(retention.claim(now(harness), 1)) == [of_child.execution_id], "children go first"
    retention.remove([of_child.execution_id], deferred)
    for cancel in (of_child, own):
        assert engine.handle(cancel) == []
    assert [one.execution_id for one in engine.store.executions(limit=10)] == [start.execution_id]
