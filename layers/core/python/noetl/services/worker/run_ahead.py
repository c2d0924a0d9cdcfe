"""The run of a command before it is issued, where others cannot see that it ran.

The code of such a command calls nothing outside, keeps nothing, and prints nothing. If this process ends before the outcome is written, the
command runs again, and no one has seen the first run. So a step begins when the outcome of the one before it is durable, for all that can
be seen (ADR 107).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from noetl.domain.commands import Command
from noetl.domain.errors import NoetlError
from noetl.domain.events import CommandDone, Event
from noetl.domain.kinds import TaskContext
from noetl.domain.outcomes.report_checks import fitting
from noetl.ports.kinds import Kinds
from noetl.services.worker.issue_gate import Gate, NotIssuedError
from noetl.services.worker.run_command import run_command
from noetl.services.worker.worker_deps import WorkerDeps

MOST_SECONDS = 0.01
"""How long a call may take. A longer one is ended, and made again when its command is issued."""
ENDED_EARLY = frozenset({"timeout", "cancelled"})
"""Kinds of errors that say nothing of the code."""


class AheadGate(Gate):
    """The gate of a command that runs ahead: calls pass that others cannot see."""

    def __init__(self) -> None:
        self.begun = False
        """The pipeline of the command could be prepared."""
        self.seen = False
        """Others see the run of this command: it never runs ahead."""
        self.slow = False
        """A call took longer than ``MOST_SECONDS``."""

    def begin(self, unseen: bool) -> None:
        """Pass to a pipeline of which others see nothing but calls."""
        self.begun, self.seen = True, not unseen
        self.enter()

    def begin_call(
        self, kinds: Kinds, name: str, raw_params: Mapping[str, Any], context: TaskContext
    ) -> None:
        """Pass to a call that others cannot see, and that can be made at once."""
        self.seen = self.seen or not kinds.is_unseen(name, raw_params, context)
        if self.seen or not kinds.is_at_hand(name, raw_params, context):
            raise NotIssuedError

    def enter(self) -> None:
        """Pass to the report, if there was a run and others saw nothing of it."""
        if self.seen or not self.begun:
            raise NotIssuedError

    def cut(self, timeout: float) -> float:
        """Return the seconds that a call may take, of ``timeout``."""
        return min(timeout, MOST_SECONDS)

    def end_call(self, error: NoetlError) -> None:
        """Pass with an error of the code. Raises NotIssuedError for one of a call that was ended."""
        if getattr(error, "kind", "") in ENDED_EARLY:
            self.slow = True
            raise NotIssuedError

    def may_print(self) -> bool:
        """Return False: the command prints the line when it is issued."""
        self.seen = True
        return False


def run_ahead(command: Command, deps: WorkerDeps, gate: AheadGate) -> CommandDone | None:
    """Return the outcome of a command that is not issued; None: it has to be issued first.

    Raises what ``run_command`` raises.
    """
    found: list[Event] = []
    try:
        run_command(command, replace(deps, gate_of=lambda one: gate), found.append)
    except NotIssuedError:
        return None
    last = fitting(found[-1]) if len(found) == 1 else None
    return last if isinstance(last, CommandDone) else None
