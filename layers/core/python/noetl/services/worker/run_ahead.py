"""The run of a command before it is issued, where others cannot see that it ran.

The code of such a command calls nothing outside, keeps nothing, and prints nothing. If this process ends before the outcome is written, the
command runs again, and no one has seen the first run. So a step begins when the outcome of the one before it is durable, for all that can
be seen (ADR 107).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NoReturn, Self, cast

from noetl.domain.commands import Command
from noetl.domain.errors import NoetlError
from noetl.domain.events import CommandDone, Event
from noetl.domain.kinds import TaskContext
from noetl.domain.outcomes.report_checks import fitting
from noetl.dsl.program import Pipeline, Program
from noetl.pipeline.tracing import DURATION
from noetl.ports.kinds import Kinds
from noetl.ports.results import ResultStore
from noetl.services.worker.issue_gate import Gate, NotIssuedError
from noetl.services.worker.run_command import run_command
from noetl.services.worker.stage_traits import stage_traits
from noetl.services.worker.worker_deps import WorkerDeps

SHORT_SECONDS, MOST_SECONDS = 0.01, 0.05
"""How long commands take that run ahead, and how long the calls of one may take. A call that takes longer is ended, and the command runs
again when it is issued: its process has to be started again, so a pause of the machine should not end it."""
ENDED_EARLY = frozenset({"timeout", "cancelled"})
"""Kinds of errors that say nothing of the code."""


def is_short(done: CommandDone) -> bool:
    """Return whether a command took so little time that it could run ahead."""
    return bool(done.outcome.meta.get(DURATION, math.inf) < SHORT_SECONDS * 1000)


class AheadGate(Gate):
    """The gate of a command that runs ahead: calls pass that others cannot see."""

    def __init__(self, clock: Callable[[], float], short: bool) -> None:
        """Begin now. ``clock``: monotonic seconds. ``short``: runs of this stage took little time."""
        self._short = short
        self._clock, self._began = clock, clock()
        self.begun = False
        """The pipeline of the command could be prepared."""
        self.refused = False
        """The run wants to read or write a large value, which may take long."""
        self.seen = False
        """Others see the run of this command: it never runs ahead."""
        self.unready = False
        """A call has to be prepared, or it is not known how long the templates take: that changes when the command has run."""

    @property
    def is_long(self) -> bool:
        """Whether this command takes longer than commands that run ahead."""
        return self._clock() >= self._began + SHORT_SECONDS

    @property
    def is_late(self) -> bool:
        """Whether the time of this command is over."""
        return self._clock() >= self._began + MOST_SECONDS

    def begin(self, command: Command, program: Program, pipeline: Pipeline) -> None:
        """Pass to a pipeline of which others see nothing but calls, and that is known to be short."""
        traits = stage_traits(command, program, pipeline)
        self.begun, self.seen = True, not traits.unseen
        self.unready = not (self.seen or traits.light or self._short)
        if self.seen or self.unready:
            raise NotIssuedError

    def begin_call(
        self, kinds: Kinds, name: str, raw_params: Mapping[str, Any], context: TaskContext
    ) -> None:
        """Pass to a call that others cannot see, and that can be made at once."""
        self.seen = self.seen or not kinds.is_unseen(name, raw_params, context)
        self.unready = not self.seen and not kinds.is_at_hand(name, raw_params, context)
        if self.seen or self.unready or self.is_late:
            raise NotIssuedError

    def enter(self) -> None:
        """Pass to the report, if there was a run and others saw nothing of it."""
        if self.seen or self.refused or not self.begun:
            raise NotIssuedError

    def refuse(self, *given: object) -> NoReturn:
        """Refuse to read or write a large value. Raises NotIssuedError."""
        self.refused = True
        raise NotIssuedError

    def cut(self, timeout: float) -> float:
        """Return the seconds that a call may take, of ``timeout``."""
        return min(timeout, max(0.0, self._began + MOST_SECONDS - self._clock()))

    def end_call(self, error: NoetlError) -> None:
        """Pass with an error of the code. Raises NotIssuedError for one of a call that was ended."""
        if getattr(error, "kind", "") in ENDED_EARLY:
            raise NotIssuedError

    def may_print(self) -> bool:
        """Return False: the command prints the line when it is issued."""
        self.seen = True
        return False


class _NoStore:
    """The result store of a run ahead: every use is refused."""

    name = ""

    def __init__(self, gate: AheadGate) -> None:
        self._gate = gate

    def choose(self, size: int | None, requested: str | None = None) -> Self:
        return self

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        return self._gate.refuse


def run_ahead(command: Command, deps: WorkerDeps, gate: AheadGate) -> CommandDone | None:
    """Return the outcome of a command that is not issued; None: it has to be issued first.

    Raises what ``run_command`` raises.
    """
    found: list[Event] = []
    # A store without objects, whose every use is refused: to write there takes time, and what a lost run writes would stay.
    results = cast(ResultStore, _NoStore(gate))
    try:
        ahead = replace(
            deps, gate_of=lambda one: gate, results=results, hydrate=gate.refuse, note_unseen=None
        )
        run_command(command, ahead, found.append)
    except NotIssuedError:
        return None
    last = fitting(found[-1]) if len(found) == 1 else None
    return last if isinstance(last, CommandDone) else None
