"""The work of one batch for one execution: its events, and what the decision leaves to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from noetl.domain import ids
from noetl.domain.commands import Command
from noetl.domain.errors import NoetlError
from noetl.domain.events import CommandDone, MainEvent, Pause, Resume, Start
from noetl.dsl.program import Program
from noetl.engine.pausing import Waiting
from noetl.engine.scopes.slot_view import SCOPES
from noetl.ports.executions.execution_store import Change, EventRow, LoadRequest
from noetl.services.orchestrator.build_commit import late_row
from noetl.services.orchestrator.engine_deps import EngineDeps


class AheadRun(msgspec.Struct, frozen=True):
    """A command that ran before it was issued. ``at``: when it had ended, by the store's time."""

    command: Command
    done: CommandDone
    at: float


class Work(msgspec.Struct):
    """The events of one execution in this batch, and what reading for them has to cover."""

    execution_id: int
    events: list[MainEvent] = msgspec.field(default_factory=list)
    names: set[str] = msgspec.field(default_factory=set)
    scopes: set[str] = msgspec.field(default_factory=lambda: {"args"})
    programs: dict[str, Program] = msgspec.field(default_factory=dict)
    trust: bool = True
    """What this process remembers may be used (not after a conflict)."""
    whole: bool = False
    """All its slots are read, so that this process knows it from now on."""
    refused: NoetlError | None = None
    """Why it cannot begin."""
    ahead: Callable[[Command], CommandDone | None] | None = None
    """See ``BatchEffects.ahead``."""
    ran: list[AheadRun] = msgspec.field(default_factory=list)
    """A decision that is repeated with more slots runs none of these again."""
    taken: frozenset[int] = frozenset()
    """Ids that the store refused for its children."""

    def program_of(self, name: str, deps: EngineDeps) -> Program:
        found = self.programs.get(name)
        if found is None:
            found = self.programs[name] = deps.programs(name)
        return found

    def run_ahead(self, command: Command, clock: Callable[[], float]) -> AheadRun | None:
        """Run a command that is not issued. None: it has to be issued first.

        ``clock``: the store's time.
        """
        known = next((ran for ran in self.ran if ran.command == command), None)
        if known is None and self.ahead is not None and (done := self.ahead(command)) is not None:
            known = AheadRun(command, done, clock())
            self.ran.append(known)
        return known

    def stay_behind(self) -> bool:
        """Run nothing ahead any more. Return whether something did."""
        ran, self.ahead, self.ran = bool(self.ran), None, []
        return ran

    def starts(self) -> bool:
        """Check whether the first event is a Start, so that no read is needed.

        A commit over an execution that exists conflicts.
        """
        return isinstance(self.events[0], Start)

    def request(self) -> LoadRequest:
        if self.whole:
            self.scopes |= SCOPES
        return LoadRequest(
            self.execution_id,
            tuple(self.names),
            tuple(self.scopes),
            tuple(event.command_id for event in self.events if isinstance(event, CommandDone)),
            tuple(name for event in self.events for name in settled_names(event)),
        )


def settled_names(event: MainEvent) -> tuple[str, ...]:
    """Return the ids of the rows that prove that ``event`` was decided before.

    A pause or a resume that did not fit then must not be decided again, when it is delivered once more: it might fit now.
    """
    if isinstance(event, (Pause, Resume)):
        return event.event_id, ids.late_event(event.event_id)
    return (event.event_id,)


class Decided(msgspec.Struct):
    """The result of deciding the events of one execution.

    ``late``: rows for outcomes that change nothing. ``done``: events that are settled already. ``change`` is None when there is nothing
    else to commit.
    """

    change: Change | None = None
    late: list[tuple[int, EventRow]] = msgspec.field(default_factory=list)
    done: list[str] = msgspec.field(default_factory=list)
    slots: dict[tuple[str, str], Any] = msgspec.field(default_factory=dict)
    """All slots as they are after the decisions, when all were known before."""
    held: list[Waiting | Start] = msgspec.field(default_factory=list)
    """Events that a paused execution takes later."""
    refused: list[Start] = msgspec.field(default_factory=list)
    """Starts of executions whose id another execution has."""
    again: list[MainEvent] = msgspec.field(default_factory=list)
    """Events that have to wait until this decision is committed."""

    def too_late(self, execution_id: int, event: MainEvent, now: float, why: str = "") -> None:
        self.late.append((execution_id, late_row(event, now, why)))
        if not isinstance(event, CommandDone):
            self.done.append(event.event_id)
