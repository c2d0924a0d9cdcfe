"""Port of the execution store.

Adapters: ``adapters/postgres`` and ``adapters/memory``; one contract suite holds both to this text.

Every method is one round trip unless it says otherwise. Two lanes write:

* the **main lane** (``load`` → decide → ``commit``): serialised per execution by ``version`` (compare and swap);
* the **item lane** (``commit_items``): loop items count themselves under their loop's row and never touch the execution's.

Locks are taken execution → event → loop → command, each ascending by key. Only the store's clock decides leases, delays and timers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from noetl.domain.commands import Command
from noetl.domain.events import Event, Held, Start
from noetl.domain.state import Status
from noetl.domain.variables import VariableWrite
from noetl.domain.workers.lease_owners import QUEUE
from noetl.ports.executions.answers import EVERY as _EVERY
from noetl.ports.executions.answers import NOTHING as _NOTHING
from noetl.ports.executions.answers import CreatedExecution as CreatedExecution
from noetl.ports.executions.answers import Creation as Creation
from noetl.ports.executions.answers import ExecutionFilter as ExecutionFilter
from noetl.ports.executions.answers import FoundEvent as FoundEvent
from noetl.ports.executions.answers import IdempotencyKey as IdempotencyKey
from noetl.ports.executions.answers import Offer as Offer
from noetl.ports.executions.answers import Posted as Posted
from noetl.ports.executions.answers import Published as Published
from noetl.ports.executions.answers import Steering as Steering
from noetl.ports.executions.changes import Change as Change
from noetl.ports.executions.changes import ChildrenWord as ChildrenWord
from noetl.ports.executions.changes import Committed as Committed
from noetl.ports.executions.changes import EventRow as EventRow
from noetl.ports.executions.changes import ItemBatch as ItemBatch
from noetl.ports.executions.changes import ItemsCommitted as ItemsCommitted
from noetl.ports.executions.changes import Poll as Poll
from noetl.ports.executions.changes import TimerChange as TimerChange
from noetl.ports.executions.changes import Wake as Wake
from noetl.ports.executions.figures import Figures
from noetl.ports.executions.loop_rows import GateChange as GateChange
from noetl.ports.executions.loop_rows import ItemBand as ItemBand
from noetl.ports.executions.loop_rows import ItemBands as ItemBands
from noetl.ports.executions.loop_rows import ItemRow as ItemRow
from noetl.ports.executions.loop_rows import ItemWork as ItemWork
from noetl.ports.executions.loop_rows import LoopProgress as LoopProgress
from noetl.ports.executions.loop_rows import LoopRow as LoopRow
from noetl.ports.executions.snapshots import Fence as Fence
from noetl.ports.executions.snapshots import Loaded as Loaded
from noetl.ports.executions.snapshots import LoadRequest as LoadRequest
from noetl.ports.executions.snapshots import Snapshot as Snapshot
from noetl.ports.limit_store import LimitStore


class ExecutionInfo(msgspec.Struct, frozen=True):
    """What lists and status show."""

    execution_id: int
    path: str
    name: str
    status: Status
    program: str
    version: int
    started_at: float
    ended_at: float | None
    parent_execution_id: int | None
    state: bytes
    ahead: bool = False
    """It was asked for a later time, which has not come by the clock of the store. A reader's own clock may be behind that one."""
    playbook_version: str = ""
    principal: str = ""
    labels: Mapping[str, str] = {}
    rested: float = 0.0
    """Seconds that it rested so far, by the clock of the store (``domain.state.rest_until``)."""


class Ending(msgspec.Struct, frozen=True):
    """The outcome of an execution, as far as it has one.

    Of one that completed, ``facts`` are those of the last row of its history, and ``slots`` holds what the steps named there left, by
    step.
    """

    info: ExecutionInfo
    facts: bytes = b"[]"
    slots: Mapping[str, Any] = {}


class LoopPulse(msgspec.Struct, frozen=True, array_like=True):
    """How far a round of a loop is."""

    run: int
    round: int
    step: str
    done: int
    failed: int
    total: int


class Pulse(msgspec.Struct, frozen=True):
    """What of an execution a watcher sees change.

    ``seq``: of the last row of its history. ``loops``: the newest ones, newest first.
    """

    version: int
    seq: int
    status: str
    loops: list[LoopPulse] = []


NEWEST = 0
"""The id of the list of executions among ids of executions: no execution has it."""
PULSE_LOOPS = 20
"""Most loops of one pulse."""


class StoredEvent(msgspec.Struct, frozen=True):
    event_id: str
    lane: int
    seq: int
    type: str
    at: float
    facts: bytes


class VersionConflictError(Exception):
    """A commit that wrote nothing because another process was first.

    It moved on at least one of the executions, a fence was gone, or an event was applied already.
    """

    def __init__(self, execution_ids: Sequence[int] = ()) -> None:
        super().__init__("version conflict")
        self.execution_ids = tuple(execution_ids)


class ExecutionIdTakenError(Exception):
    """Other executions have these ids: nothing was written.

    ``children``: ids that Starts in an outbox ask for; they are derived again. ``starts``: ids of executions that a Start begins, though
    their row, or the Start that waits for them, came from another one; the client gets another id. Or both are gone, although the Start was
    kept before it was sent: it came again after its execution was removed.
    """

    def __init__(self, children: Iterable[int] = (), starts: Iterable[int] = ()) -> None:
        super().__init__("execution ids are taken")
        self.children = frozenset(children)
        self.starts = frozenset(starts)


class ExecutionStore(LimitStore, Figures, Protocol):
    """Raises InfrastructureError when the store cannot be reached (the caller may try again)."""

    def load(self, requests: Sequence[LoadRequest]) -> Loaded:
        """Read snapshots without locks."""

    def commit(self, changes: Sequence[Change], owner: str | None = None) -> Committed:
        """Write all changes in one transaction, or nothing.

        Raises VersionConflictError or ExecutionIdTakenError when it writes nothing.

        An id is taken when a Start in ``outbox`` names an execution that exists, or for which another Start waits, and when a change
        begins an execution whose row or Start came from another one.

        ``owner``: this process; what it issues is leased to it at once. Loops started here get their first chunks (one item each,
        up to ``first`` commands and ``window`` items; sequential loops one chunk with all items).
        """

    def commit_items(
        self, batches: Sequence[ItemBatch], owner: str | None = None
    ) -> tuple[Sequence[ItemsCommitted], Committed]:
        """Record outcomes of loop items, and issue the commands that follow from them.

        The store inserts items once, counts the new ones, refills the window while the gate is open, and ends the loop when nothing is
        left. It does so in one statement and transaction. A batch whose command is not open with its attempt and turn is superseded as a
        whole. One after which its command would have more than ``undone`` items to answer for is early and changes nothing. An item
        continues alone only once per turn (its row is new). The first alert of a loop emits a LoopAlert; reaching the total (or, with a
        closed gate, the issued count) emits the LoopDone, once. Raises ExecutionIdTakenError as ``commit`` does.
        """

    def ask_again(self, polls: Sequence[Poll], owner: str | None = None) -> Sequence[Command]:
        """Keep the machines of open commands as their next attempts.

        A command counts when it is open at its attempt and turn.

        The commands are given out to ``owner`` after their delay; the others are left alone. No execution is locked and history does not
        record it: two round trips for any number of commands.
        """

    def wake_early(self, commands: Sequence[tuple[int, str]], owner: str | None = None) -> Sequence[Command]:
        """Make commands due whose work in another system has advanced.

        ``commands``: (execution, command). Those that are delayed are given out to ``owner`` as their next attempts.
        """

    def create(
        self,
        start: Start,
        created: CreatedExecution,
        owner: str | None = None,
        key: IdempotencyKey | None = None,
    ) -> Creation:
        """Create an execution in version 0, put its Start into the outbox, and keep ``key``.

        It does all of it or nothing, in one transaction. The state is empty. The caller asks with another id where this one is taken.
        """

    def keyed(self, key: IdempotencyKey) -> Creation | None:
        """Return what an earlier ``create`` made under this key; None: none, or it is gone."""

    def post(self, event: Event, owner: str | None = None, variables: Sequence[VariableWrite] = ()) -> Posted:
        """Put an event from outside into the outbox, if its execution is live and has started.

        A Cancel: also before it has; a Redrive: if it has ended. ``variables``: rows that it will write, which are there at once.
        """

    def post_all(self, events: Sequence[Event], owner: str | None = None) -> Mapping[int, Posted]:
        """As ``post``, of at most one event for each of several executions, in one commit.

        Unknown executions are left out.
        """

    def disown(self, events: Sequence[Event], owner: str | None = None) -> None:
        """Note that ``owner`` will not hand these events of its outbox to its engine.

        They have no owner when it next asks for undelivered events. No round trip: it works in an outage.
        """

    def steering(self, execution_ids: Sequence[int]) -> Mapping[int, Sequence[Steering]]:
        """Return pauses and resumes in the outbox, by execution, in the order of acceptance.

        Executions without any are left out.
        """

    def hold(self, held: Sequence[Held | Start]) -> Sequence[Held | Start]:
        """Keep events of paused executions in the outbox, unclaimed until a commit releases them.

        What such an event is the outcome of (the command whose turn it ends, the outbox row that it came from) is not claimed by a
        process either. The Start of a child that was paused before it began is kept in its own row.

        Returns those whose execution is not paused (any more): nothing was written for them. Serialised with commits.
        """

    def record_superseded(
        self, rows: Sequence[tuple[int, EventRow]], handled: Sequence[tuple[int, str]] = ()
    ) -> None:
        """Record an outcome that came too late, without touching any execution.

        A repeat of the same row is dropped.

        ``handled``: (execution id, event id) of outbox events that are done with.
        """

    def loop_progress(self, execution_id: int, runs: Sequence[int] | None = None) -> Sequence[LoopProgress]:
        """Loop runs of an execution, live or over: all, or those of the step runs in ``runs``."""

    def loop_run(self, execution_id: int, run: int, round_: int) -> LoopRow | None:
        """Return a loop run as it started, live or over."""

    def loop_items(
        self, execution_id: int, run: int, round_: int, start: int, limit: int
    ) -> Sequence[ItemRow]:
        """Finished items in index order, from ``start`` on."""

    # --- recovery: what a process asks for when it starts, and then periodically ---

    def heartbeat(self, owner: str, lease_seconds: float) -> bool:
        """Extend the leases of this owner; return whether its last one was over.

        Other processes may claim what is leased to owners without a recent heartbeat."""

    def release(self, owner: str) -> None:
        """Free all that this owner holds, due or not yet.

        The owner ends, or takes its leases again because an answer was lost.
        """

    def record_lost(self, commands: Sequence[tuple[int, str, int]]) -> None:
        """Count that a process died while it ran these (execution, command, turn).

        A turn that two died of waits before it is claimed, and is claimed alone (see ``domain.workers.lost_owners``).
        """

    def claim(
        self, owner: str, limit: int, offer: Offer | None = None, *, lost: bool = True
    ) -> Sequence[Command]:
        """Take commands that are due and have no live owner.

        ``owner`` lives, even if its lease is over.
        ``offer``: what is offered. ``lost`` False: leave out commands that a process died of. The attempt goes up, unless it is the
        first. Loop chunks come with ``skip`` filled from items that are done, and a sequential loop's with the overlay of their patches.
        """

    def undelivered(self, owner: str, limit: int) -> Sequence[Event]:
        """Take outbox events that have no live owner."""

    def due_timers(self, owner: str, limit: int) -> tuple[Sequence[Event], float | None]:
        """Return due timers, and the seconds until the next one.

        Each is a TimerFired event; the row of a timer goes when its event is applied."""

    def hand_over(
        self, owner: str, published: Published, freed: Published = _NOTHING, heir: str = QUEUE
    ) -> None:
        """Hand published rows of ``owner`` over to the queue (``heir``).

        Rows of ``freed`` have no owner afterwards, and other processes may claim them."""

    def forget_keys(self, older_than_seconds: float, limit: int = 1000) -> None:
        """Remove idempotency keys of that age."""

    # --- reading ---

    def info(self, execution_id: int) -> ExecutionInfo | None: ...

    def endings(self, execution_ids: Sequence[int]) -> Mapping[int, Ending]:
        """Return the outcome of these executions, regardless of the length of their histories.

        Unknown executions are left out."""

    def pulses(self, execution_ids: Sequence[int]) -> Mapping[int, Pulse]:
        """Read what changes of these, in one round trip and however long they are.

        Unknown executions are left out.

        ``NEWEST`` among them: a pulse whose version is another one when an execution begins, or one of the newest changes its status, or
        one without a parent ends.
        """

    def are_related(self, one: int, other: int) -> bool:
        """Return whether one client's start, through sub-playbooks, led to both executions.

        False when either does not exist.
        """

    def executions(
        self,
        *,
        limit: int,
        before: int | None = None,
        status: str | None = None,
        wanted: ExecutionFilter = _EVERY,
    ) -> Sequence[ExecutionInfo]:
        """List executions, newest first."""

    def events(self, execution_id: int, *, after: int = 0, limit: int = 1000) -> Sequence[StoredEvent]:
        """Return rows of the main lane, ascending ``seq``, strictly after ``after``."""

    def events_before(self, execution_id: int, before: int, limit: int) -> Sequence[StoredEvent]:
        """Return rows of the main lane, descending ``seq``, strictly before ``before``."""

    def step_events(self, execution_id: int, *, after: int = 0, limit: int = 1000) -> Sequence[StoredEvent]:
        """The same, without rows that tell of callbacks of single items of a loop."""

    def item_events(
        self, execution_id: int, lane: int, *, after: int = -1, limit: int = 1000
    ) -> Sequence[StoredEvent]: ...

    def slots(self, execution_id: int) -> Mapping[tuple[str, str], Any]: ...

    def callback_slots(self, execution_id: int, runs: Sequence[int], limit: int) -> Mapping[str, Any]:
        """Return slots of the scope ``callback`` by place; of items of a run at most ``limit``."""

    def find_events(self, execution_id: int, event_ids: Sequence[str]) -> Sequence[FoundEvent]:
        """Return those of ``event_ids`` that were applied, or are in the outbox.

        What came too late is not found. Applied ones first.
        """

    def start_of(self, execution_id: int) -> Start | None:
        """Return the Start of an execution, while it waits in the outbox."""

    def failed_items(
        self, execution_id: int, run: int, limit: int, *, after: int = -1
    ) -> Sequence[StoredEvent]:
        """Rows of the items of a loop that failed, in the order of their places.

        ``after``: the place behind which they begin.
        """

    def item_bands(self, execution_id: int, run: int, bands: int) -> ItemBands | None:
        """Count the items of a loop that ended in each of so many spans of time.

        None before one has ended.
        """

    def item_work(self, execution_id: int, limit: int) -> Sequence[ItemWork]:
        """Add up the work of the items of loops by step run, ascending.

        At most ``limit`` rows are read: one for each item, and for each of its turns before the last.
        """

    def left_steps(self, execution_id: int, names: Sequence[str]) -> Collection[str]:
        """Those of these steps that have left a result."""

    def status_counts(self, limit: int) -> Mapping[str, int]:
        """Stored statuses of the newest executions, at most so many, counted."""

    def open_work(self, execution_id: int) -> Mapping[str, int]:
        """Count outstanding work: ``commands``, ``timers``, ``outbox``, ``lost``.

        ``lost``: commands among them that a process died of. The inspection also has the age of what is in the outbox.
        """

    def every_item(self, execution_id: int) -> Iterator[StoredEvent]:
        """All rows of all loop lanes (for replay), read in pages."""
