"""Changes that a decision writes to the store, and the store's answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from noetl.domain.commands import Command
from noetl.domain.events import Event, ItemsDone
from noetl.domain.outcomes.outcomes import Outcome
from noetl.domain.results.retention import KeptResult
from noetl.domain.state import Status
from noetl.domain.variables import VariableWrite
from noetl.ports.executions.answers import CreatedExecution
from noetl.ports.executions.loop_rows import GateChange, LoopRow


class EventRow(msgspec.Struct, frozen=True):
    """One row of history.

    ``facts`` is encoded (domain/facts/facts.py). ``lane`` 0 is the main lane; otherwise the run number of a loop.

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
    """A waiting command continues: its sub-execution ended with ``outcome``."""

    command_id: str
    turn: int
    outcome: Outcome


Word = Literal["pause", "resume", "resume_below"]


class ChildrenWord(msgspec.Struct, frozen=True):
    """A Pause or Resume for every live child of an execution.

    It is for children that have begun and are not over, or below which an execution is left that is not over: a child that has ended
    passes it on. ``event_id``: the same for all of them. ``seq``: its place in the parent's history.

    ``resume_below``: a Resume for those children only that have ended. No request can resume what is below them.

    A child that has not begun (it waits for a slot, or its Start is on its way) is paused at once: its row, in version 0, is ``paused``,
    and no commit applies its Start until the parent's ``release``.
    """

    what: Word
    event_id: str
    seq: int


class Change(msgspec.Struct, frozen=True):
    """Everything one or more handled events of one execution write, in one commit.

    ``expected``: the version that was read (0: the execution must not exist yet, ``created`` states how to make it).
    ``rests_until``: what ``rest_until`` says of ``state``; the store adds up how long the execution rests, by its own clock.
    ``slots``: values to write (null is a value); ``unset``: slots to delete. ``issue``: new commands, or new turns of
    existing ones (same id, higher turn: the row is replaced and keeps its attempt count). ``waiting`` commands are stored, but not given
    out until a Wake. ``close``: (command id, attempt, turn) that must still be open, or the commit conflicts. ``drop_runs``: step runs
    whose commands go and whose loops end (withdrawal, timeout), with a Cancel for every live child they wait for, unless the run is one
    of ``left_runs``. ``over_runs``: step
    runs whose slots of the scope ``callback`` go, with the timers of those callbacks. ``end``: the execution is over: all its commands,
    timers, loops' gates and slots of the scope ``undo`` go.
    ``outbox``: events for this or other executions, delivered at least once. ``cancel_children``: a Cancel for every live child, and for every
    child that has ended with live executions below it (unless one of this execution is on its way to it), but for ``spared``: children whose
    Start is in ``outbox`` and came after the request. Those that a run of ``drop_runs`` waits for are cancelled all the same.
    ``handled``: event ids whose outbox rows are done with. ``release``: events that are held for this execution are given out, and its children
    that were paused before they began may begin (unless ``cancel_children``).
    """

    execution_id: int
    expected: int
    status: Status
    state: bytes
    program: str
    events: tuple[EventRow, ...]
    slots: Mapping[tuple[str, str], Any] = {}
    unset: tuple[tuple[str, str], ...] = ()
    rests_until: float | None = None
    issue: tuple[Command, ...] = ()
    waiting: tuple[Command, ...] = ()
    close: tuple[tuple[str, int, int], ...] = ()
    drop_runs: tuple[int, ...] = ()
    left_runs: tuple[int, ...] = ()
    over_runs: tuple[int, ...] = ()
    loops: tuple[LoopRow, ...] = ()
    gates: tuple[GateChange, ...] = ()
    wakes: tuple[Wake, ...] = ()
    timers: tuple[TimerChange, ...] = ()
    outbox: tuple[Event, ...] = ()
    handled: tuple[str, ...] = ()
    end: bool = False
    cancel_children: bool = False
    spared: tuple[int, ...] = ()
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
    """Large results with a lifetime of their own. ``reaches``: executions whose results this one refers to, and which stay while it
    lives."""
    reaches: tuple[int, ...] = ()

    @property
    def seconds(self) -> float:
        """The seconds from the first event to the last one: commands may have run in between."""
        return max(0.0, self.events[-1].at - self.events[0].at) if self.events else 0.0


class Committed(msgspec.Struct, frozen=True):
    """The answer to a commit.

    ``events``: to be handled next (outbox of this commit, loops that ended by a gate). ``commands``: given out to the owner,
    woken ones and a new loop's first chunks included, in issue order, without those that wait for a slot; and those of any execution
    that have theirs now (starts are among ``events``). Without an owner all stay in the store for ``claim``/``undelivered``.
    """

    commands: tuple[Command, ...] = ()
    events: tuple[Event, ...] = ()


class ItemBatch(msgspec.Struct, frozen=True):
    """One ItemsDone, with the encoded row of each item.

    The facts column holds the encoded Outcome. ``chunk``: items per new command
    (pure policy decided by the shell). A closed command is followed by at most one new one (of up to ``chunk`` items, within the free
    window), so the number of commands in flight stays what the loop started with; a partial flush refills nothing.
    """

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
    """As in a Change; recorded whether or not the batch is applied, because the results exist."""
    reaches: tuple[int, ...] = ()


class ItemsCommitted(msgspec.Struct, frozen=True):
    """Answer to one ItemBatch.

    ``superseded``: the fence refused it (nothing was counted). ``counted``: items that were new.

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
    """A command whose work in another system is not over.

    The same turn runs again after ``delay`` seconds, with the state that its pipeline has by now.
    """

    execution_id: int
    command_id: str
    attempt: int
    turn: int
    machine: dict[str, Any]
    delay: float
