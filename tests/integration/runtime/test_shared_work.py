"""A process runs the commands that it was given, despite what it remembers and what else was in the batch that gave them."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from noetl.domain.commands import Command
from noetl.domain.events import CommandDone, Event, ItemsDone
from noetl.domain.kinds import KindSpec, TaskResult
from noetl.domain.outcomes.outcomes import Outcome, PollRequest
from noetl.kinds.registry import Registry
from noetl.kinds.support.base import KindParams
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from noetl.services.executions.change_execution import ChangeRequest
from noetl.services.executions.redrive_execution import redrive
from tests.bench import tick
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.postgres

FAILING = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: failing, path: tests/failing }
workflow: [{ step: start, tool: { kind: moody } }]
"""
LOOP = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: one_by_one, path: tests/one_by_one }
workflow:
  - step: start
    loop: { in: [1, 2, 3], iterator: item, spec: { mode: parallel, max_in_flight: 1 } }
    tool: { kind: tick, args: { value: "{{ item }}" } }
"""

UNDONE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: undone, path: tests/undone }
workflow:
  - step: start
    tool: { kind: elsewhere, spec: { timeout: 60 } }
    spec: { compensate: { kind: noop, set_ctx: { undone: true } } }
    next: { arcs: [{ step: then }] }
  - step: then
    tool: { kind: late }
"""


class Moody:
    """A kind that fails until it is told not to."""

    SPEC = KindSpec(name="moody", summary="fails at first", pool="cpu")
    EXAMPLE: ClassVar[dict[str, Any]] = {}

    class Params(KindParams):
        """No parameters."""

    def __init__(self) -> None:
        self.works = False

    def run(self, params: KindParams, context: Any) -> Any:
        if not self.works:
            raise RuntimeError("not now")
        return TaskResult("done")


def runtime_on(database, home, kind, of=LocalRuntime):
    registry = Registry()
    registry.add(kind)
    return of(Settings.from_env({}, home=home, database_url=database), registry=registry)


class Idle(LocalRuntime):
    """A process that ends before it has run anything."""

    def dispatch(self, *commands: Any) -> None:
        """Leave them."""


def test_an_execution_that_another_process_redrove_and_left_goes_on(database, tmp_path):
    moody = Moody()
    with runtime_on(database, tmp_path / "first", moody) as first:
        entry = first.register(FAILING, source_name="failing.yaml")
        execution = first.start(entry, {})
        first.run_until([execution], timeout=PATIENCE)
        assert first.status(execution) == "failed"
        moody.works = True
        with runtime_on(database, tmp_path / "second", moody, Idle) as second:
            asked = ChangeRequest("tests", "again", second.owner, "it works now")
            second.accept([redrive(second.store, second.programs, execution, asked)])
            wait_until(lambda: second.status(execution) == "running")
            with first.expect_end(execution) as over:
                assert not over(0.0), "it has not ended again"
        wait_until(lambda: first.status(execution) == "completed")


class Mixed(LocalRuntime):
    """An engine whose first report of items comes together with an event that it cannot handle."""

    broken: CommandDone | None = CommandDone(
        7, "cmd:1:0", "no such program", "1", 1, 0, 1, "start", Outcome("ok")
    )

    def report(self, event: Event) -> None:
        if isinstance(event, ItemsDone) and self.broken is not None:
            broken, self.broken = self.broken, None
            self.accept([event, broken])
        else:
            super().report(event)


def test_what_a_batch_gave_out_before_it_broke_is_run(database, tmp_path):
    with runtime_on(database, tmp_path, tick, Mixed) as runtime:
        entry = runtime.register(LOOP, source_name="one_by_one.yaml")
        execution = runtime.start(entry, {})
        runtime.run_until([execution], timeout=PATIENCE)
        assert runtime.status(execution) == "completed"
        assert runtime.broken is None
        (loop,) = runtime.store.loop_progress(execution)
        assert (loop.issued, loop.done) == (3, 3)


class Elsewhere:
    """A kind whose work goes on elsewhere, and is over when it is asked for again."""

    SPEC = KindSpec(name="elsewhere", summary="waits for work elsewhere", pool="io")
    EXAMPLE: ClassVar[dict[str, Any]] = {}

    class Params(KindParams):
        """No parameters."""

    def run(self, params: KindParams, context: Any) -> Any:
        return TaskResult("done") if context.pending else PollRequest({"asked": True}, 0.01)


class Slow(LocalRuntime):
    """A process that remembers what it waited for."""

    waited: Command

    def _delayed(self, command: Command) -> None:
        if command.remote:
            self.waited = command
        super()._delayed(command)


class Late:
    """A kind that fails, after a delay was over once more whose command was answered long ago."""

    SPEC = KindSpec(name="late", summary="fails", pool="cpu")
    EXAMPLE: ClassVar[dict[str, Any]] = {}
    runtime: Slow

    class Params(KindParams):
        """No parameters."""

    def run(self, params: KindParams, context: Any) -> Any:
        self.runtime._delayed(self.runtime.waited)
        raise RuntimeError("not now")


def test_a_run_is_undone_although_an_earlier_attempt_of_it_comes_late(database, tmp_path):
    """An outage makes a second attempt of what waits here; the first one finds its command gone when its delay is over."""
    late = Late()
    with runtime_on(database, tmp_path, late, Slow) as runtime:
        runtime.registry.add(Elsewhere())
        late.runtime = runtime
        entry = runtime.register(UNDONE, source_name="undone.yaml")
        execution = runtime.start(entry, {})
        runtime.run_until([execution], timeout=PATIENCE)
        assert runtime.status(execution) == "failed"
        assert runtime.store.slots(execution)["ctx", "undone"] is True
