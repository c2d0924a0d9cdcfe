"""Loops that begin in the commit in which their run, or their execution, is over: a redrive goes on from them as from any other."""

from __future__ import annotations

import pytest

from noetl.adapters.memory import MemoryCatalog
from noetl.domain.commands import Command
from noetl.domain.events import Cancel, CommandDone
from noetl.domain.outcomes.outcomes import Outcome
from noetl.domain.state import decode_state
from noetl.ports.executions.execution_store import CreatedExecution
from noetl.runtime.programs import Programs
from noetl.services.executions.change_execution import ChangeRequest
from noetl.services.executions.redrive_execution import plan
from noetl.services.executions.start_execution import start_event
from noetl.services.history.last_step_runs import last_runs
from noetl.services.orchestrator.engine_deps import BatchEffects, EngineDeps
from noetl.services.orchestrator.handle_events import handle_events
from noetl.services.results.hydration import make_hydrate
from tests.properties.tools import PureTools

ME = "owner-1"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: t, path: t }\nworkflow:\n"
HTTP = 'tool: { kind: http, url: "http://api.test/x" }'
LOOP = f"  - {{ step: many, loop: {{ in: [1, 2, 3], iterator: n, spec: {{ mode: MODE }} }}, {HTTP} }}\n"
START = f"  - {{ step: start, {HTTP}, next: many }}\n"
FORK = f"  - {{ step: start, SPEC {HTTP}, next: [many, bad] }}\n"
BAD = '  - { step: bad, spec: { mutex: "{{ workload.there_is_none.x }}" }, tool: { kind: noop } }\n'
UNDO = f"spec: {{ compensate: {{ {HTTP.removeprefix('tool: { ').removesuffix(' }')} }} }},"
WITHDRAWS = "  - { step: bad, spec: { cancels: [many] }, tool: { kind: noop } }\n"
CASES = {
    "cancelled": (START, True, "cancelled"),
    "failed": (FORK.replace("SPEC", "") + BAD, False, "failed"),
    "compensated": (FORK.replace("SPEC", UNDO) + BAD, False, "failed"),
    "withdrawn": (FORK.replace("SPEC", "") + WITHDRAWS, False, "completed"),
}


class Engine:
    """The engine over a store; the caller says what commands come to."""

    def __init__(self, harness, text: str) -> None:
        self.store = harness.store
        self.store.heartbeat(ME, 600)
        programs = Programs(MemoryCatalog(), PureTools())
        self.program = programs(programs.register(HEAD + text, source_name="t.yaml").program)
        results = harness.results
        self.deps = EngineDeps(
            self.store, results, programs, programs.resolve, make_hydrate(results), owner=ME,
        )  # fmt: skip
        start = start_event(self.program, {}, now_ms=1_800_000_000_000, random_bits=5)
        self.id = start.execution_id
        self.store.create(start, CreatedExecution("t", "t"), ME)
        (self.first,) = self.handle(start)

    def handle(self, *events) -> list[Command]:
        """Handle events as one batch, and what they cause until commands are out."""
        commands: list[Command] = []
        pending = list(events)
        while pending:
            handled = handle_events(pending, self.deps, BatchEffects())
            commands += handled.commands
            pending = list(handled.events)
        return commands

    def status(self) -> str:
        return self.store.info(self.id).status


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
@pytest.mark.parametrize("case", CASES)
def test_a_loop_that_began_in_the_commit_that_ended_it_can_be_gone_on_from(harness, case, mode):
    steps, cancels, status = CASES[case]
    engine = Engine(harness, steps + LOOP.replace("MODE", mode))
    done = CommandDone.of(engine.first, Outcome("ok", {"v": 1}))
    commands = engine.handle(done, *[Cancel(engine.id, "stop", engine.program.hash)] * cancels)
    assert all(command.step != "many" for command in commands), "nothing is issued for the loop"
    for command in commands:
        assert command.stage == "compensate"
        engine.handle(CommandDone.of(command, Outcome("ok", {"v": 1})))
    assert engine.status() == status
    (loop,) = engine.store.loop_progress(engine.id)
    assert (loop.gate, loop.issued, loop.total) == ("closed", 0, 3)
    assert not any(engine.store.open_work(engine.id).values())
    assert last_runs(engine.store, engine.id).loops["many"].whole == 3

    step = "many[failed]" if case in ("withdrawn", "compensated") else ""
    asked = ChangeRequest("user:ada", "again", ME)
    again = engine.handle(plan(engine.store, engine.deps.programs, engine.id, asked, step=step))
    state = decode_state(engine.store.info(engine.id).state)
    assert state.error is None or state.error.code != "loop_not_available", state.error
    if case != "failed":  # There the other step fails again.
        assert [one.loop.start for one in again][:1] == [0]
        assert [(one.gate, one.total) for one in engine.store.loop_progress(engine.id)][1:] == [("open", 3)]
