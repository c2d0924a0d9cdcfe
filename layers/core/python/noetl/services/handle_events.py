"""The engine's shell: take a batch of events, whatever it holds, and move every execution in it on.

One read for all executions, decisions outside any lock, one write. A batch costs two round trips (more only when a decision needs a
slot that could not be foreseen, or a loop is folded); losers of a race are decided again, alone, so one bad execution harms only itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from noetl.domain import ids
from noetl.domain.commands import Command
from noetl.domain.errors import NoetlError
from noetl.domain.events import (
    Cancel,
    CommandDone,
    Event,
    Held,
    ItemsDone,
    LoopDone,
    MainEvent,
    Redrive,
    Start,
    TimerFired,
    WorkGotOn,
)
from noetl.domain.facts import Superseded
from noetl.domain.state import ExecutionState, decode_state
from noetl.dsl.program import Program
from noetl.engine.decision import Decision
from noetl.engine.pausing import Waiting, waits
from noetl.engine.prefetch import prefetch
from noetl.engine.undo import REPORT
from noetl.engine.view import DELETED, SCOPES, NeedSlots, View
from noetl.ports.execution_store import (
    Change,
    Committed,
    EventRow,
    Loaded,
    LoadRequest,
    Poll,
    Snapshot,
    VersionConflictError,
)
from noetl.services.concurrency import admitted
from noetl.services.decide_one import decide_one
from noetl.services.earlier_loop import earlier_loop
from noetl.services.engine_deps import DueTimer, EngineDeps, Handled
from noetl.services.fold_loop import fold_loop
from noetl.services.handle_items import handle_items
from noetl.services.handle_polls import asks_again, handle_polls
from noetl.services.holding import Holding
from noetl.services.make_change import late_row, make_change
from noetl.services.recent import after_commit
from noetl.services.stored_bytes import outages

READS = 4
"""Most times a decision is made again because it needed slots that were not foreseen; then everything is read."""
MARKED = 100
"""Most runs of an execution that was cut short whose work is called off; what others report is superseded all the same."""
TRIES = 20
"""Most times an execution is decided again because someone else moved it on."""


def handle_events(events: Sequence[Event], deps: EngineDeps, handled: Handled | None = None) -> Handled:
    """Apply a batch. Returns what to run and handle next; raises InfrastructureError when the store is away (nothing was lost).

    ``handled``: filled as far as it came, for who wants to go on from there when this raises."""
    handled = Handled() if handled is None else handled
    holding = Holding()
    items: list[ItemsDone] = []
    polls: list[Poll | WorkGotOn] = []
    work: dict[int, _Work] = {}
    batch, refused = admitted(holding.unwrap(events), deps, handled)
    for event in batch:
        if (poll := asks_again(event)) is not None:
            polls.append(poll)
        elif isinstance(event, ItemsDone):
            items.append(event)
        elif not isinstance(event, (Held, WorkGotOn)):
            work.setdefault(event.execution_id, _Work(event.execution_id)).events.append(event)
    for execution_id, error in refused.items():
        work[execution_id].refused = error
    if polls:
        handle_polls(polls, deps, handled)
    if items:
        handle_items(items, deps, handled, holding)
    if work:
        _handle(list(work.values()), deps, handled, holding)
    holding.settle(deps)
    return handled


@dataclass(slots=True)
class _Work:
    """The events of one execution in this batch, and what reading for them has to cover."""

    execution_id: int
    events: list[MainEvent] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    scopes: set[str] = field(default_factory=lambda: {"args"})
    programs: dict[str, Program] = field(default_factory=dict)
    trust: bool = True
    """What this process remembers may be used (not after a conflict)."""
    refused: NoetlError | None = None
    """Why it cannot begin."""

    def program_of(self, name: str, deps: EngineDeps) -> Program:
        found = self.programs.get(name)
        if found is None:
            found = self.programs[name] = deps.programs(name)
        return found

    def starts(self) -> bool:
        """Nothing has to be read: it begins here (a commit over an execution that exists conflicts)."""
        return isinstance(self.events[0], Start)

    def request(self) -> LoadRequest:
        return LoadRequest(
            self.execution_id,
            tuple(self.names),
            tuple(self.scopes),
            tuple(event.command_id for event in self.events if isinstance(event, CommandDone)),
            tuple(event.event_id for event in self.events),
        )


@dataclass(slots=True)
class _Decided:
    """``late``: rows for outcomes that change nothing; ``done``: events that need no handling any more. ``change`` is None when
    nothing else came of it."""

    change: Change | None = None
    late: list[tuple[int, EventRow]] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    slots: dict[tuple[str, str], Any] = field(default_factory=dict)
    """All slots as they are after the decisions, when all were known before."""
    held: list[Waiting] = field(default_factory=list)
    """Events that a paused execution takes later."""
    again: list[MainEvent] = field(default_factory=list)
    """Events that need what was decided here to be committed first."""

    def too_late(self, execution_id: int, event: MainEvent, now: float, why: str = "") -> None:
        self.late.append((execution_id, late_row(event, now, why)))
        if not isinstance(event, CommandDone):
            self.done.append(event.event_id)


def _handle(works: list[_Work], deps: EngineDeps, handled: Handled, holding: Holding) -> None:
    for work in works:
        _prepare(work, deps)
    try:
        _round(works, deps, handled, holding)
        return
    except VersionConflictError:
        for work in works:
            work.trust = False
        if len(works) > 1:
            for work in works:
                _handle([work], deps, handled, holding)
            return
    for _ in range(TRIES):
        try:
            _round(works, deps, handled, holding)
            return
        except VersionConflictError:
            continue
    raise NoetlError(
        f"execution {works[0].execution_id} is moved on by others all the time", code="contention"
    )


def _prepare(work: _Work, deps: EngineDeps) -> None:
    """Fold finished loops, find the program, and say what to read."""
    work.events = [_complete(event, deps) for event in work.events]
    for event in work.events:
        if event.program:
            names, scopes = prefetch(work.program_of(event.program, deps), event)
            work.names.update(names)
            work.scopes.update(scopes)


def _complete(event: MainEvent, deps: EngineDeps) -> MainEvent:
    """An event with what the item lane could not know: a finished loop's summary, how deep a loop's sub-execution is nested."""
    if isinstance(event, LoopDone):
        return fold_loop(event, deps)
    if isinstance(event, Start) and event.parent is not None and event.parent.round >= 0:
        parent = deps.store.info(event.parent.execution_id)
        if parent is not None and parent.state:
            return msgspec.structs.replace(event, depth=decode_state(parent.state).depth + 1)
    return event


def _round(works: list[_Work], deps: EngineDeps, handled: Handled, holding: Holding) -> None:
    loaded, known = _read(works, deps)
    outcome: dict[int, _Decided] = {}
    for work in works:
        decided = _decide_isolated(work, loaded, deps, work.execution_id in known)
        if work.execution_id in known and (decided.late or decided.done):
            # What was remembered does not tell a repeat from something late: ask the store.
            del known[work.execution_id]
            decided = _decide_isolated(work, deps.store.load([work.request()]), deps, known=False)
        outcome[work.execution_id] = decided
    late = [row for decided in outcome.values() for row in decided.late]
    done = [
        (execution_id, event_id) for execution_id, decided in outcome.items() for event_id in decided.done
    ]
    changes = [decided.change for decided in outcome.values() if decided.change is not None]
    if changes:
        committed = deps.store.commit(changes, deps.owner)
        handled.add(committed.commands, committed.events)
        for change in changes:
            _tell(change, handled)
        _remember(outcome, known, loaded, committed, deps)
    if late or done:
        # Only now: an event may be too late because of another one of this batch, which nobody has applied before the commit.
        deps.store.record_superseded(late, done)
    holding.hold([event for decided in outcome.values() for event in decided.held], deps, handled)
    handled.events += [holding.keep(event) for decided in outcome.values() for event in decided.again]


def _tell(change: Change, handled: Handled) -> None:
    """What a committed change means to those outside of the store."""
    handled.dropped += [(change.execution_id, run) for run in change.drop_runs]
    if change.end:
        handled.ended.append((change.execution_id, change.status))
        if change.status != "completed":
            # Run by run, for a redrive gives it other runs, whose work is wanted.
            left = decode_state(change.state).left[:MARKED]
            handled.dropped += [(change.execution_id, token.run) for token in left]
        return
    if change.redriven:
        handled.redriven.append(change.execution_id)
    for row in change.timers:
        if row.seconds is not None:
            event_id = ids.timer_event(row.timer, row.generation)
            fired = TimerFired(change.execution_id, event_id, change.program, row.timer, row.generation)
            handled.timers.append(DueTimer(fired, row.seconds))


def _read(works: list[_Work], deps: EngineDeps) -> tuple[Loaded, dict[int, int]]:
    """What is needed for deciding, and (execution → bytes of history) for those that are remembered whole and were not read."""
    now = deps.recent.now() if deps.recent is not None else None
    if deps.recent is None or now is None:
        loaded = deps.store.load([work.request() for work in works])
        if deps.recent is not None:
            deps.recent.heard(loaded.now)
        return loaded, {}
    known: dict[int, int] = {}
    executions: dict[int, Snapshot] = {}
    missing: list[LoadRequest] = []
    for work in works:
        entry = deps.recent.take(work.execution_id) if work.trust else None
        if entry is not None:
            executions[work.execution_id], known[work.execution_id] = entry
        elif work.trust and work.starts():
            known[work.execution_id] = 0
        else:
            missing.append(work.request())
    if missing:
        loaded = deps.store.load(missing)
        deps.recent.heard(loaded.now)
        executions.update(loaded.executions)
        now = loaded.now
    return Loaded(now, executions), known


def _remember(
    outcome: dict[int, _Decided],
    known: dict[int, int],
    loaded: Loaded,
    committed: Committed,
    deps: EngineDeps,
) -> None:
    """Keep what was committed over complete knowledge, until it ends (or compensates: then slots are needed that are not kept)."""
    if deps.recent is None:
        return
    given: dict[int, list[Command]] = {}
    for command in committed.commands:
        given.setdefault(command.execution_id, []).append(command)
    for execution_id, size in known.items():
        decided = outcome[execution_id]
        change = decided.change
        if change is None or change.end or REPORT in change.slots:
            continue
        before = loaded.executions.get(execution_id)
        fences = before.fences if before is not None else {}
        after = after_commit(change, decided.slots, fences, given.get(execution_id, []))
        deps.recent.put(after, size + sum(len(row.facts) for row in change.events))


def _decide_isolated(work: _Work, loaded: Loaded, deps: EngineDeps, known: bool) -> _Decided:
    """Decide; read again for what was not foreseen; an execution that breaks the engine fails alone.

    ``known``: every slot is at hand.
    """
    if known:
        work.scopes |= SCOPES
    for _ in range(READS):
        try:
            with outages():
                return _decide(work, loaded, deps)
        except NeedSlots as need:
            work.names |= need.names
            work.scopes |= need.scopes
            loaded = deps.store.load([work.request()])
    work.scopes |= SCOPES
    loaded = deps.store.load([work.request()])
    with outages():
        return _decide(work, loaded, deps)


def _decide(work: _Work, loaded: Loaded, deps: EngineDeps) -> _Decided:
    snapshot = loaded.executions.get(work.execution_id)
    born = snapshot is not None and snapshot.version > 0
    state = decode_state(snapshot.state) if snapshot is not None and born else ExecutionState()
    view = View(
        dict(snapshot.slots) if snapshot is not None else {},
        frozenset(work.names),
        frozenset(work.scopes) if snapshot is not None else SCOPES,
        deps.hydrate,
        deps.limits,
        lambda again, **loop: earlier_loop(deps, work.execution_id, again, **loop),
    )
    decided = _Decided()
    decisions: list[tuple[MainEvent, Decision]] = []
    for event in work.events:
        known = {handled.event_id for handled, _ in decisions}
        if decided.again or (isinstance(event, Redrive) and decisions):
            decided.again.append(event)
            continue
        if _needs_nothing(event, snapshot, born, known, decided, loaded.now, deps):
            continue
        if isinstance(event, Waiting) and waits(state, event):
            decided.held.append(event)
            continue
        before = state if born else None
        decision = decide_one(
            event, before, loaded.now, view, lambda name: work.program_of(name, deps), deps, work.refused
        )
        if isinstance(decision.facts[0], Superseded):
            decided.too_late(work.execution_id, event, loaded.now, decision.facts[0].status)
            continue
        decisions.append((event, decision))
        born, state = True, decision.state
        _show(view, decision)
    decided.slots = view.slots
    if decisions:
        decided.change = make_change(work.execution_id, snapshot, decisions, loaded.now, deps)
    return decided


def _needs_nothing(
    event: MainEvent,
    snapshot: Snapshot | None,
    born: bool,
    known: set[str],
    decided: _Decided,
    now: float,
    deps: EngineDeps,
) -> bool:
    """Whether ``event`` was applied before, has nobody to go to, or comes too late.

    ``known``: events that this batch applies; its commit settles them.
    """
    if event.event_id in known:
        return True
    if snapshot is not None and event.event_id in snapshot.applied:
        decided.done.append(event.event_id)
        return True
    if not born and not isinstance(event, (Start, Cancel)):
        deps.log(f"event {event.event_id} is for execution {event.execution_id}, which has not started")
        decided.done.append(event.event_id)
        return True
    if isinstance(event, CommandDone) and not _fenced(event, snapshot):
        decided.too_late(event.execution_id, event, now)
        return True
    return False


def _fenced(event: CommandDone, snapshot: Snapshot | None) -> bool:
    """Whether the command is open with this attempt and turn."""
    fence = snapshot.fences.get(event.command_id) if snapshot is not None else None
    return fence is not None and (fence.attempt, fence.turn) == (event.attempt, event.turn)


def _show(view: View, decision: Decision) -> None:
    """What a decision wrote is what the next event of this batch sees."""
    for key, value in decision.slots.items():
        if value is DELETED:
            view.slots.pop(key, None)
        else:
            view.slots[key] = value
