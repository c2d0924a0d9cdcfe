"""The engine's shell: a batch of events applied to every execution that it names.

The engine reads all executions at once, decides outside any lock, and writes once. So a batch costs two round trips; it costs more only
when a decision needs a slot that could not be foreseen, or when a loop is folded. After a version conflict the engine decides each
execution again, alone, so that one bad execution harms only itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeGuard

import msgspec

from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError, NotFoundError
from noetl.domain.events import (
    Cancel,
    CommandDone,
    Event,
    Held,
    ItemsDone,
    MainEvent,
    Pause,
    Redrive,
    Resume,
    Start,
    WorkAdvanced,
)
from noetl.domain.facts.facts import Superseded
from noetl.domain.ids import cascade_parent
from noetl.domain.outcomes.report_checks import fitting
from noetl.domain.state import ExecutionState
from noetl.domain.unreadable import UnreadableRowError
from noetl.engine.decision import Decision, does_one_command
from noetl.engine.folds.compensation import REPORT
from noetl.engine.pausing import Waiting, waits
from noetl.engine.scopes.prefetch import prefetch
from noetl.engine.scopes.slot_view import DELETED, SCOPES, NeedSlots, View
from noetl.ports.executions.execution_store import (
    Change,
    Committed,
    Loaded,
    LoadRequest,
    Poll,
    Snapshot,
    VersionConflictError,
)
from noetl.services.history.execution_state import state_of
from noetl.services.history.recover_state import cancels_first, recover_state
from noetl.services.history.steering_order import in_order
from noetl.services.orchestrator.admission import admitted
from noetl.services.orchestrator.after_commit import add_effects
from noetl.services.orchestrator.build_commit import make_change
from noetl.services.orchestrator.complete_events import Completion
from noetl.services.orchestrator.decide import decide_one
from noetl.services.orchestrator.engine_deps import BatchEffects, EngineDeps
from noetl.services.orchestrator.execution_work import AheadRun, Decided, Work, settled_names
from noetl.services.orchestrator.handle_items import handle_items
from noetl.services.orchestrator.id_collisions import commit_with_free_ids, refuse_start, was_unborn
from noetl.services.orchestrator.loop_redrive import earlier_loop
from noetl.services.orchestrator.paused_events import Holding
from noetl.services.orchestrator.requeue_polls import asks_again, handle_polls
from noetl.services.orchestrator.snapshot_cache import after_commit
from noetl.services.results.stored_bytes import outages

READS = 4
"""How often the engine repeats a decision that needed slots which were not foreseen; then it reads whole scopes.

Slots of ``undo`` belong to no scope: a run that is compensated costs one more read.
"""
TRIES = 20
"""Most times that the engine decides a batch again after a version conflict."""


def handle_events(
    events: Sequence[Event], deps: EngineDeps, handled: BatchEffects | None = None
) -> BatchEffects:
    """Apply a batch of events. Returns the commands to run and the events to handle next.

    ``handled``: filled with what was committed, so that a caller can continue from there when this raises.
    Raises InfrastructureError when the store is unreachable (nothing was lost).
    """
    handled = BatchEffects() if handled is None else handled
    holding = Holding()
    items: list[ItemsDone] = []
    polls: list[Poll | WorkAdvanced] = []
    work: dict[int, Work] = {}
    batch, refused = admitted(holding.unwrap(events), deps, handled)
    for event in map(fitting, batch):
        if (poll := asks_again(event)) is not None:
            polls.append(poll)
        elif isinstance(event, ItemsDone):
            items.append(event)
        elif not isinstance(event, (Held, WorkAdvanced)):
            found = work.setdefault(event.execution_id, Work(event.execution_id, ahead=handled.ahead))
            if isinstance(event, (Pause, Resume)):
                found.events += in_order(event, found.events, deps.store)
                # A remembered snapshot does not show a pause or resume that was delivered before and did not fit then.
                found.trust = False
            else:
                found.events.append(event)
    for execution_id, error in refused.items():
        work[execution_id].refused = error
    if polls:
        handle_polls(polls, deps, handled)
    if items:
        handle_items(items, deps, handled, holding)
    if work:
        _prepare(work.values(), deps)
        _handle(list(work.values()), deps, handled, holding)
    holding.settle(deps)
    return handled


def _handle(works: list[Work], deps: EngineDeps, handled: BatchEffects, holding: Holding) -> None:
    def decide_and_commit(taken: frozenset[int]) -> None:
        left = [work for work in works if work.events]
        for work in left:
            work.taken = taken
        if left:
            _round(left, deps, handled, holding)

    def refuse_starts(executions: frozenset[int]) -> None:
        for work in works:
            if work.execution_id in executions:
                _refuse_starts(work, deps, handled)

    for _ in range(TRIES + 1):
        try:
            known = frozenset[int]().union(*(work.taken for work in works))
            commit_with_free_ids(decide_and_commit, known, refuse_starts)
            return
        except VersionConflictError:
            works = [work for work in works if work.events]
            for work in works:
                work.trust = False
            if len(works) > 1:
                for work in works:
                    _handle([work], deps, handled, holding)
                return
        except InfrastructureError:
            raise
        except Exception as error:
            ahead = [work.execution_id for work in works if work.stay_behind()]
            if not ahead:
                raise
            deps.log(f"executions {ahead} are decided again without runs ahead: {error!r}")
    raise InfrastructureError(
        f"execution {works[0].execution_id} is changed by other processes again and again", code="contention"
    )


def _refuse_starts(work: Work, deps: EngineDeps, handled: BatchEffects) -> None:
    """Refuse and remove the Start of an execution whose id is taken."""
    work.trust = False
    for event in [event for event in work.events if isinstance(event, Start)]:
        refuse_start(event, deps, handled)
        work.events.remove(event)


def _prepare(works: Iterable[Work], deps: EngineDeps) -> None:
    """Fold finished loops, find the programs, and collect the slots to read."""
    completion = Completion(deps)
    for work in works:
        work.events = [completion.completed(event) for event in work.events]
        for event in work.events:
            try:
                names, scopes = (
                    prefetch(work.program_of(event.program, deps), event) if event.program else ((), ())
                )
            except NotFoundError:
                continue  # The decision reports it: a Start is refused.
            work.names.update(names)
            work.scopes.update(scopes)


def _round(works: list[Work], deps: EngineDeps, handled: BatchEffects, holding: Holding) -> None:
    loaded, known = _read(works, deps)
    sizes = dict(known)
    executions = dict(loaded.executions)
    outcome: dict[int, Decided] = {}
    for work in works:
        decided = _decide_isolated(work, loaded, deps, work.execution_id in known)
        if work.execution_id in known and (decided.late or decided.done):
            # The remembered snapshot cannot distinguish a redelivery from a late event: ask the store.
            del known[work.execution_id], sizes[work.execution_id]
            work.whole = _reads_whole(work, deps)
            again = deps.store.load([work.request()])
            decided = _decide_isolated(work, again, deps, known=False)
            executions.pop(work.execution_id, None)
            executions.update(again.executions)
            loaded = msgspec.structs.replace(loaded, sizes={**loaded.sizes, **again.sizes})
        if work.whole and work.execution_id in executions:
            sizes[work.execution_id] = loaded.sizes.get(work.execution_id, 0)
        outcome[work.execution_id] = decided
    for start in [start for decided in outcome.values() for start in decided.refused]:
        refuse_start(start, deps, handled)
    late = [row for decided in outcome.values() for row in decided.late]
    done = [
        (execution_id, event_id) for execution_id, decided in outcome.items() for event_id in decided.done
    ]
    changes = [decided.change for decided in outcome.values() if decided.change is not None]
    if changes:
        committed, left = _commit(changes, deps, handled)
        for work in works:
            work.ran = []
        handled.add(left, committed.events)
        for change in changes:
            add_effects(change, handled, outcome[change.execution_id].slots)
        _remember(outcome, sizes, executions, committed, deps)
    if late or done:
        # Only now: an event may be too late because of another one of this batch, which is not applied before the commit.
        deps.store.record_superseded(late, done)
    holding.hold([event for decided in outcome.values() for event in decided.held], deps, handled)
    holding.hand_back([event for decided in outcome.values() for event in decided.again], handled)


def _commit(
    changes: list[Change], deps: EngineDeps, handled: BatchEffects
) -> tuple[Committed, Sequence[Command]]:
    """Write changes. Also returns the issued commands that have not begun yet."""
    begun = None if handled.early is None else handled.early(changes)
    try:
        committed = deps.store.commit(changes, deps.owner)
    except BaseException:
        if begun is not None:
            begun.refuse()
        raise
    return committed, committed.commands if begun is None else begun.settle(committed.commands)


def _read(works: list[Work], deps: EngineDeps) -> tuple[Loaded, dict[int, int]]:
    """Read the snapshots that the decisions need.

    Also returns (execution → bytes of history) for the executions that this process knows whole: it remembers them, or they begin.
    """
    now = deps.recent.now() if deps.recent is not None else None
    if deps.recent is None or now is None:
        for work in works:
            work.whole = _reads_whole(work, deps)
        loaded = deps.store.load([work.request() for work in works])
        if deps.recent is None:
            return loaded, {}
        deps.recent.observe(loaded.now)
        begins = [work for work in works if work.starts() and work.execution_id not in loaded.executions]
        return loaded, dict.fromkeys((work.execution_id for work in begins), 0)
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
            work.whole = _reads_whole(work, deps)
            missing.append(work.request())
    if missing:
        loaded = deps.store.load(missing)
        deps.recent.observe(loaded.now)
        executions.update(loaded.executions)
        return msgspec.structs.replace(loaded, executions=executions), known
    return Loaded(now, executions), known


def _reads_whole(work: Work, deps: EngineDeps) -> bool:
    """Return whether to read all slots of an unknown execution, to remember it from then on."""
    runs = [event.run for event in work.events if isinstance(event, CommandDone)]
    return deps.recent is not None and bool(runs) and deps.recent.reads_whole(work.execution_id, max(runs))


def _remember(
    outcome: dict[int, Decided],
    sizes: dict[int, int],
    executions: Mapping[int, Snapshot],
    committed: Committed,
    deps: EngineDeps,
) -> None:
    """Remember executions whose slots were all known before the commit.

    ``sizes``: execution → bytes, for executions that are known whole. It leaves out executions that ended, and those that compensate:
    these need slots that are not remembered.
    """
    if deps.recent is None:
        return
    given: dict[int, list[Command]] = {}
    for command in committed.commands:
        given.setdefault(command.execution_id, []).append(command)
    for execution_id, size in sizes.items():
        decided = outcome[execution_id]
        change = decided.change
        if change is None or change.end or REPORT in change.slots:
            continue
        before = executions.get(execution_id)
        fences = before.fences if before is not None else {}
        after = after_commit(change, decided.slots, fences, given.get(execution_id, []))
        deps.recent.put(after, size + sum(len(row.facts) for row in change.events))


def _decide_isolated(work: Work, loaded: Loaded, deps: EngineDeps, known: bool) -> Decided:
    """Decide the events of one execution; read slots that were not foreseen and decide again.

    ``known``: every slot is available.
    """
    if known:
        work.scopes |= SCOPES
    reads = 0
    while True:
        try:
            with outages():
                return _decide(work, loaded, deps, known)
        except NeedSlots as need:
            reads += 1
            if need.names <= work.names and need.scopes <= work.scopes:
                # NeedSlots is no Exception: what handles failed events would not see it, and the engine would end.
                raise RuntimeError(f"a decision asks again for slots that were read: {need}") from None
            work.names |= need.names
            work.scopes |= need.scopes | (SCOPES if reads >= READS else frozenset())
            again = deps.store.load([work.request()])
            loaded = msgspec.structs.replace(again, now=loaded.now) if work.ran else again
        except Exception as error:
            # It may be about an event that follows from a run ahead: the first one is decided, and written, without.
            if not work.stay_behind():
                raise
            deps.log(f"execution {work.execution_id} is decided again without runs ahead: {error!r}")


def _decide(work: Work, loaded: Loaded, deps: EngineDeps, known: bool) -> Decided:
    snapshot = loaded.executions.get(work.execution_id)
    born = snapshot is not None and snapshot.version > 0
    state = _state(work, snapshot, deps) if snapshot is not None and born else ExecutionState()
    view = View(
        dict(snapshot.slots) if snapshot is not None else {},
        frozenset(work.names),
        frozenset(work.scopes) if snapshot is not None else SCOPES,
        deps.hydrate,
        deps.limits,
        lambda again, **loop: earlier_loop(deps, work.execution_id, again, **loop),
        work.taken,
        deps.proofs,
    )
    decided = Decided()
    decisions: list[tuple[MainEvent, Decision]] = []
    times: list[float] = []
    left: deque[MainEvent] = deque(work.events)
    now, ahead = loaded.now, False
    while left:
        event = left.popleft()
        if decided.again or (isinstance(event, Redrive) and decisions):
            decided.again.append(event)
            continue
        if not ahead:
            applied = {handled.event_id for handled, _ in decisions}
            if _needs_nothing(event, snapshot, born, applied, decided, now, deps):
                continue
        if born and isinstance(event, Start) and not was_unborn(state):
            decided.refused.append(event)
            decided.done.append(event.event_id)
            continue
        if _waits(event, state, snapshot):
            decided.held.append(event)
            continue
        before = state if born else None
        decision = decide_one(
            event, before, now, view, lambda name: work.program_of(name, deps), deps, work.refused
        )
        if isinstance(decision.facts[0], Superseded):
            decided.too_late(work.execution_id, event, now, decision.facts[0].status)
            continue
        decisions.append((event, decision))
        times.append(now)
        born, state = True, decision.state
        _show(view, decision)
        if known and not left and (ran := _run_ahead(work, decision, now, deps)) is not None:
            ahead, now = True, ran.at
            left.append(ran.done)
    decided.slots = view.slots
    if decisions:
        decided.change = make_change(work.execution_id, snapshot, decisions, times, deps)
    return decided


def _run_ahead(work: Work, decision: Decision, now: float, deps: EngineDeps) -> AheadRun | None:
    """Run the command that a decision issues, where that can be done before it is issued."""
    recent = deps.recent
    if work.ahead is None or recent is None or not does_one_command(decision):
        return None
    return work.run_ahead(decision.issue[0], lambda: max(now, recent.now() or now))


def _state(work: Work, snapshot: Snapshot, deps: EngineDeps) -> ExecutionState:
    """Return the stored state; for a Cancel, rebuild an unreadable one from history.

    Nothing else could end such an execution. Raises UnreadableRowError when the batch holds no Cancel for it.
    """
    try:
        return state_of(work.execution_id, snapshot.state)
    except UnreadableRowError as error:
        if not any(isinstance(event, Cancel) for event in work.events):
            raise
        deps.log(f"{error.message}: it is cancelled by its history")
        work.events = cancels_first(work.events, error.message)
        return recover_state(snapshot, deps.store)


def _waits(event: MainEvent, state: ExecutionState, snapshot: Snapshot | None) -> TypeGuard[Waiting | Start]:
    """Check whether ``event`` is for a paused execution.

    For a Start: whether the execution was paused with its parent before it began.
    """
    if isinstance(event, Start):
        return snapshot is not None and snapshot.version == 0 and snapshot.status == "paused"
    return isinstance(event, Waiting) and waits(state, event)


def _needs_nothing(
    event: MainEvent,
    snapshot: Snapshot | None,
    born: bool,
    known: set[str],
    decided: Decided,
    now: float,
    deps: EngineDeps,
) -> bool:
    """Check whether ``event`` was applied before, has no execution, or comes too late.

    ``known``: events that this batch applies; its commit settles them.
    """
    if event.event_id in known:
        return True
    if snapshot is not None and not snapshot.applied.isdisjoint(settled_names(event)):
        decided.done.append(event.event_id)
        return True
    if not born and (not isinstance(event, (Start, Cancel)) or _is_of_nothing(event, snapshot, deps)):
        deps.log(f"event {event.event_id} is for execution {event.execution_id}, which has not started")
        decided.done.append(event.event_id)
        return True
    if isinstance(event, CommandDone) and not is_fenced(event, snapshot):
        decided.too_late(event.execution_id, event, now)
        return True
    return False


def _is_of_nothing(event: Start | Cancel, snapshot: Snapshot | None, deps: EngineDeps) -> bool:
    """Check whether ``event`` cancels an execution that neither exists nor can begin.

    A parent may cancel a child whose Start is still on its way. A client cancels what exists. A cancel that is delivered again after
    retention has removed the execution, perhaps before its parent, must not create it a second time: it has left the outbox. Its row of
    history may still be there, in a partition that has not been dropped.
    """
    if snapshot is not None or not isinstance(event, Cancel):
        return False
    parent = cascade_parent(event.event_id)
    if parent is None or deps.store.info(parent) is None:
        return True
    found = deps.store.find_events(event.execution_id, [event.event_id])
    return not found or found[0].event is None


def is_fenced(event: CommandDone, snapshot: Snapshot | None) -> bool:
    """Check whether the command is open with the attempt and turn of ``event``."""
    fence = snapshot.fences.get(event.command_id) if snapshot is not None else None
    return fence is not None and (fence.attempt, fence.turn) == (event.attempt, event.turn)


def _show(view: View, decision: Decision) -> None:
    """Write the slots of a decision to the view that the next event of the batch reads."""
    for key, value in decision.slots.items():
        if value is DELETED:
            view.slots.pop(key, None)
        else:
            view.slots[key] = value
