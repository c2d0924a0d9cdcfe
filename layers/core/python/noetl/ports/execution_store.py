"""Where executions live. Adapters: ``adapters/postgres`` and ``adapters/memory``; one contract suite holds both to this text.

Every method is one round trip unless it says otherwise. Two lanes write:

* the **main lane** (``load`` → decide → ``commit``): serialised per execution by ``version`` (compare and swap);
* the **item lane** (``commit_items``): loop items count themselves under their loop's row and never touch the execution's.

Locks are taken execution → event → loop → command, each ascending by key. Only the store's clock decides leases, delays and timers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from noetl.domain.commands import Command
from noetl.domain.events import Event, Held, ItemsDone, Start
from noetl.domain.outcomes import Outcome
from noetl.domain.owners import QUEUE
from noetl.domain.result_life import KeptResult
from noetl.domain.state import Status
from noetl.domain.variables import VariableWrite
from noetl.ports.answers import EVERY as _EVERY
from noetl.ports.answers import NOTHING as _NOTHING
from noetl.ports.answers import CreatedExecution as CreatedExecution
from noetl.ports.answers import Creation as Creation
from noetl.ports.answers import ExecutionFilter as ExecutionFilter
from noetl.ports.answers import FoundEvent as FoundEvent
from noetl.ports.answers import IdempotencyKey as IdempotencyKey
from noetl.ports.answers import Offer as Offer
from noetl.ports.answers import Posted as Posted
from noetl.ports.answers import Published as Published
from noetl.ports.limit_store import LimitStore
from noetl.ports.loop_rows import GateChange as GateChange
from noetl.ports.loop_rows import ItemRow as ItemRow
from noetl.ports.loop_rows import LoopProgress as LoopProgress
from noetl.ports.loop_rows import LoopRow as LoopRow


class LoadRequest(msgspec.Struct, frozen=True):
    """What the shell wants to know about one execution, in one round trip.

    ``names``: slot names, in whatever scope they are. ``scopes``: scopes wanted whole. ``commands``: command ids whose fence is needed.
    ``events``: event ids of which it must know whether they were applied already.
    """

    execution_id: int
    names: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    events: tuple[str, ...] = ()


class Fence(msgspec.Struct, frozen=True):
    """An open command as the store knows it."""

    attempt: int
    turn: int


class Snapshot(msgspec.Struct, frozen=True):
    """An execution at one version. ``state`` is encoded (domain/state.py). ``now``: the store's clock, epoch seconds."""

    execution_id: int
    version: int
    program: str
    status: Status
    state: bytes
    slots: dict[tuple[str, str], Any]
    fences: dict[str, Fence]
    applied: frozenset[str]


class Loaded(msgspec.Struct, frozen=True):
    """``executions`` lacks the ids that do not exist. ``fetched``: pools with a worker over HTTP that lives."""

    now: float
    executions: Mapping[int, Snapshot]
    fetched: frozenset[str] = frozenset()


class EventRow(msgspec.Struct, frozen=True):
    """One row of history. ``facts`` is encoded (domain/facts.py). ``lane`` 0 is the main lane; otherwise the run number of a loop.

    ``seq``: place in the main lane (1, 2, …); for item rows the item's index. ``type``: stored name of the row's leading fact.
    """

    event_id: str
    seq: int
    type: str
    facts: bytes
    lane: int = 0
    at: float = 0.0


class TimerChange(msgspec.Struct, frozen=True):
    """Set (``seconds`` from now, by the store's clock) or clear (``seconds`` None) a timer."""

    timer: str
    generation: int
    seconds: float | None


class Wake(msgspec.Struct, frozen=True):
    """A waiting command goes on: its sub-execution ended with ``outcome``."""

    command_id: str
    turn: int
    outcome: Outcome


class ChildrenWord(msgspec.Struct, frozen=True):
    """A Pause or Resume for every child that runs (one whose Start is on its way is not told). ``event_id``: the same for all of them.
    ``seq``: its place in the parent's history."""

    what: Literal["pause", "resume"]
    event_id: str
    seq: int


class Change(msgspec.Struct, frozen=True):
    """Everything one or more handled events of one execution write, in one commit.

    ``expected``: the version that was read (0: the execution must not exist yet, ``created`` tells how to make it).
    ``slots``: values to write (null is a value); ``unset``: slots to delete. ``issue``: new commands, or new turns of
    existing ones (same id, higher turn: the row is replaced and keeps its attempt count). ``waiting`` commands are stored, but not given
    out until a Wake.
    ``close``: (command id, attempt, turn) that must still be open, or the commit conflicts. ``drop_runs``: step runs whose commands go and
    whose loops end (withdrawal, timeout), with a Cancel for every live child they wait for. ``end``: the execution is over: all its commands,
    timers, loops' gates and slots of the scope ``undo`` go.
    ``outbox``: events for this or other executions, delivered at least once. ``cancel_children``: a Cancel for every live child.
    ``handled``: event ids whose outbox rows are done with. ``release``: events that are held for this execution are given out.
    """

    execution_id: int
    expected: int
    status: Status
    state: bytes
    program: str
    events: tuple[EventRow, ...]
    slots: Mapping[tuple[str, str], Any] = {}
    unset: tuple[tuple[str, str], ...] = ()
    issue: tuple[Command, ...] = ()
    waiting: tuple[Command, ...] = ()
    close: tuple[tuple[str, int, int], ...] = ()
    drop_runs: tuple[int, ...] = ()
    loops: tuple[LoopRow, ...] = ()
    gates: tuple[GateChange, ...] = ()
    wakes: tuple[Wake, ...] = ()
    timers: tuple[TimerChange, ...] = ()
    outbox: tuple[Event, ...] = ()
    handled: tuple[str, ...] = ()
    end: bool = False
    cancel_children: bool = False
    cancel_reason: str = ""
    words: tuple[ChildrenWord, ...] = ()
    release: bool = False
    redriven: bool = False
    """It had ended, and runs again."""
    variables: tuple[VariableWrite, ...] = ()
    """Rows of ``transient``, with the value after the change."""
    created: CreatedExecution | None = None
    limited: bool = False
    """It may ask for slots or give some back: who waits is looked at in the same commit."""
    priority: int = 0
    """Of what it issues."""
    kept: tuple[KeptResult, ...] = ()
    """Large results that live differently; ``reaches``: executions whose results this one was told of, and which stay while it lives."""
    reaches: tuple[int, ...] = ()


class Committed(msgspec.Struct, frozen=True):
    """``events``: to be handled next (outbox of this commit, loops that ended by a gate). ``commands``: given out to the owner,
    woken ones and a new loop's first chunks included, in issue order, without those that wait for a slot; and those of any execution
    that have theirs now (starts are among ``events``). Without an owner all stay in the store for ``claim``/``undelivered``."""

    commands: tuple[Command, ...] = ()
    events: tuple[Event, ...] = ()


class ItemBatch(msgspec.Struct, frozen=True):
    """One ItemsDone, with the encoded row of each item (facts column holds the encoded Outcome). ``chunk``: items per new command
    (pure policy decided by the shell). A closed command is followed by at most one new one (of up to ``chunk`` items, within the free
    window), so the number of commands in flight stays what the loop started with; a partial flush refills nothing."""

    event: ItemsDone
    rows: tuple[EventRow, ...]
    chunk: int
    size: int
    """Bytes of results in ``rows``: kept in the loop row, so that folding knows whether they fit inline."""
    failed: int
    patched: int
    """How many items carry patches."""
    alert: Literal["", "failed", "next"] = ""
    alert_index: int = -1
    resumed: tuple[Command, ...] = ()
    """Continuations of suspended items, or of the rest of the chunk, ready to be stored."""
    waiting: tuple[Command, ...] = ()
    outbox: tuple[Event, ...] = ()
    limited: bool = False  # its loop's commands have limits
    kept: tuple[KeptResult, ...] = ()
    """As of a Change, and noted whatever becomes of the batch, for they exist."""
    reaches: tuple[int, ...] = ()


class ItemsCommitted(msgspec.Struct, frozen=True):
    """Answer to one ItemBatch. ``superseded``: the fence refused it (nothing was counted). ``counted``: items that were new.

    ``early``: nothing was counted, because an earlier message of its command has to come first.
    """

    superseded: bool
    counted: int = 0
    done: int = 0
    failed: int = 0
    total: int = 0
    early: bool = False
    paused: bool = False
    """Nothing was counted, because the execution is paused: the event has to be held."""


class Poll(msgspec.Struct, frozen=True):
    """A command whose work elsewhere is not over: the same turn again after ``delay`` seconds, with what its pipeline knows by now."""

    execution_id: int
    command_id: str
    attempt: int
    turn: int
    machine: dict[str, Any]
    delay: float


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


class StoredEvent(msgspec.Struct, frozen=True):
    event_id: str
    lane: int
    seq: int
    type: str
    at: float
    facts: bytes


class VersionConflictError(Exception):
    """Someone else moved on at least one of the executions, a fence was gone, or an event was applied already: nothing was written."""

    def __init__(self, execution_ids: Sequence[int] = ()) -> None:
        super().__init__("version conflict")
        self.execution_ids = tuple(execution_ids)


class ExecutionStore(LimitStore, Protocol):
    """Raises InfrastructureError when the store cannot be reached (the caller may try again)."""

    def load(self, requests: Sequence[LoadRequest]) -> Loaded:
        """Read without locks."""

    def commit(self, changes: Sequence[Change], owner: str | None = None) -> Committed:
        """Write all changes in one transaction, or raise VersionConflictError and write nothing.

        ``owner``: this process; what it issues is leased to it at once. Loops started here get their first chunks (one item each,
        up to ``first`` commands and ``window`` items; sequential loops one chunk with all items).
        """

    def commit_items(
        self, batches: Sequence[ItemBatch], owner: str | None = None
    ) -> tuple[Sequence[ItemsCommitted], Committed]:
        """Insert items once, count the new ones, refill the window while the gate is open, end the loop when nothing is left.

        In one statement and transaction. A batch whose command is not open with its attempt and turn is superseded as a whole. One after
        which its command would have more than ``undone`` items to answer for is early and changes nothing. An item goes on alone only
        once per turn (its row is new). The first alert of a loop emits a LoopAlert; reaching the total (or, with a closed gate, the
        issued count) emits the LoopDone, once.
        """

    def ask_again(self, polls: Sequence[Poll], owner: str | None = None) -> Sequence[Command]:
        """Keep the machines of commands that are open at their attempt and turn, as their next attempts, given out to ``owner`` after
        their delay; the others are left alone. No execution is locked, and nothing is told of it: two round trips, however many."""

    def wake_early(self, commands: Sequence[tuple[int, str]], owner: str | None = None) -> Sequence[Command]:
        """(execution, command) of work elsewhere that has got on: those that are delayed are due, and given out to ``owner`` as their
        next attempts."""

    def create(
        self,
        start: Start,
        created: CreatedExecution,
        owner: str | None = None,
        key: IdempotencyKey | None = None,
    ) -> Creation:
        """Make an execution row in version 0 with an empty state, put its Start into the outbox, and keep ``key``, in one transaction."""

    def keyed(self, key: IdempotencyKey) -> Creation | None:
        """What an earlier ``create`` made under this key; None when there was none, or when it was forgotten."""

    def post(self, event: Event, owner: str | None = None, variables: Sequence[VariableWrite] = ()) -> Posted:
        """Put an event from outside into the outbox, if its execution is live and has started (a Cancel: also before it has; a
        Redrive: if it has ended).
        ``variables``: rows that it will write, which are there at once."""

    def post_all(self, events: Sequence[Event], owner: str | None = None) -> Mapping[int, Posted]:
        """As ``post``, of at most one event for each of several executions, in one commit. Unknown executions are left out."""

    def hold(self, held: Sequence[Held]) -> Sequence[Held]:
        """Keep events of paused executions in the outbox, where nobody claims them until a commit releases them. What such an
        event is the outcome of (the command that it closes, the outbox row that it came from) is nobody's to claim either.

        Gives back those whose execution is not paused (any more): nothing was written for them. Serialised with commits."""

    def record_superseded(
        self, rows: Sequence[tuple[int, EventRow]], handled: Sequence[tuple[int, str]] = ()
    ) -> None:
        """Keep what came too late, without touching any execution (a repeat of the same row is dropped).

        ``handled``: (execution id, event id) of outbox events that are done with.
        """

    def loop_progress(self, execution_id: int) -> Sequence[LoopProgress]:
        """All loop runs of an execution, live or over."""

    def loop_run(self, execution_id: int, run: int, round_: int) -> LoopRow | None:
        """A loop run as it started, live or over."""

    def loop_items(
        self, execution_id: int, run: int, round_: int, start: int, limit: int
    ) -> Sequence[ItemRow]:
        """Finished items in index order, from ``start`` on."""

    # --- recovery: what a process asks for when it starts, and then periodically ---

    def heartbeat(self, owner: str, lease_seconds: float) -> None:
        """Say that this owner lives; whatever is leased to owners that stopped saying so can be claimed by others."""

    def release(self, owner: str) -> None:
        """This owner ends, or takes its leases anew because an answer was lost: what it holds, due or not yet, belongs to nobody."""

    def claim(self, owner: str, limit: int, offer: Offer | None = None) -> Sequence[Command]:
        """Take commands that are due and belong to nobody alive (``offer``: what is offered); the attempt goes up, unless it is
        the first. Loop chunks come with ``skip`` filled from items that are done, and a sequential loop's with the overlay of their patches."""

    def undelivered(self, owner: str, limit: int) -> Sequence[Event]:
        """Take outbox events that belong to nobody alive."""

    def due_timers(self, owner: str, limit: int) -> tuple[Sequence[Event], float | None]:
        """Timers that are due, as TimerFired (a timer row goes when its event is applied), and seconds until the next one."""

    def hand_over(
        self, owner: str, published: Published, freed: Published = _NOTHING, heir: str = QUEUE
    ) -> None:
        """What ``owner`` has published belongs to the queue (``heir``) now; ``freed`` belongs to nobody, for others to claim."""

    def forget_keys(self, older_than_seconds: float, limit: int = 1000) -> None:
        """Drop idempotency keys of that age."""

    # --- reading ---

    def info(self, execution_id: int) -> ExecutionInfo | None: ...

    def executions(
        self,
        *,
        limit: int,
        before: int | None = None,
        status: str | None = None,
        wanted: ExecutionFilter = _EVERY,
    ) -> Sequence[ExecutionInfo]:
        """Newest first."""

    def events(self, execution_id: int, *, after: int = 0, limit: int = 1000) -> Sequence[StoredEvent]:
        """Main lane, ascending ``seq``, strictly after ``after``."""

    def item_events(
        self, execution_id: int, lane: int, *, after: int = -1, limit: int = 1000
    ) -> Sequence[StoredEvent]: ...

    def slots(self, execution_id: int) -> Mapping[tuple[str, str], Any]: ...

    def find_events(self, execution_id: int, event_ids: Sequence[str]) -> Sequence[FoundEvent]:
        """Those of ``event_ids`` that were applied, or are in the outbox; what came too late is not found. Applied ones first."""

    def open_work(self, execution_id: int) -> Mapping[str, int]:
        """Counts of what is outstanding: ``commands``, ``timers``, ``outbox``."""

    def every_item(self, execution_id: int) -> Iterator[StoredEvent]:
        """All rows of all loop lanes (for replay), read in pages."""
