"""State of an execution at any fact of its history: the engine's own fold, stopped there.

A moment is the number of facts that are folded: 0 is before the first one. Each process keeps what it has folded at a few moments of the
latest executions that were read (checkpoints), so moving along a history folds a part of it.
"""

from __future__ import annotations

import copy
import threading
from functools import partial
from typing import Any

import msgspec

from noetl.caching.lru_cache import LruCache
from noetl.domain import codec
from noetl.domain.errors import InvalidInputError
from noetl.domain.facts.facts import decode_facts
from noetl.domain.long_work import begin_long_work
from noetl.domain.state import ExecutionState, Slots, copy_state
from noetl.domain.text.timestamps import Timestamp
from noetl.domain.unreadable import demand
from noetl.engine.folds.apply import evolve
from noetl.ports.executions.execution_store import ExecutionInfo, ExecutionStore, StoredEvent
from noetl.services.history.progress import Progress
from noetl.services.history.read_history import events_of_fact, read_facts

PAGE = 2000
LONG = 20_000
"""Facts of one request from which on it counts as long work."""
NEAREST = 2_000
"""Facts between two checkpoints, at least; later ones are further apart."""
EXECUTIONS = 8
"""Executions that have checkpoints."""
MOST_BYTES = 32 * 1024 * 1024
"""Bytes of history above which an execution has no further checkpoints: they hold its values."""


MICROSECOND = 1e-6
"""Times are shown in microseconds, and read back from what is shown."""


class Moment(msgspec.Struct, frozen=True):
    """A moment of a history: after a fact, after an event of a row, or at a time.

    ``fact``: how many facts. ``event``: of row ``seq``. ``time``: epoch seconds. Without any of them: the end.
    """

    fact: int | None = None
    seq: int | None = None
    event: int = 0
    time: float | None = None


class FactSeen(msgspec.Struct, frozen=True):
    """One fact of history.

    ``number``: how many facts there are up to this one. ``seq``: its row.
    """

    number: int
    name: str
    step: str
    run: int
    seq: int
    at: Timestamp


class Folded(msgspec.Struct):
    """An execution after ``fact`` facts.

    ``last``: the latest of them. ``seq``: the last row that is folded as a whole. ``within``: how many facts of the next row are folded.
    """

    state: ExecutionState = msgspec.field(default_factory=ExecutionState)
    slots: Slots = msgspec.field(default_factory=dict)
    progress: Progress = msgspec.field(default_factory=Progress)
    fact: int = 0
    seq: int = 0
    within: int = 0
    last: FactSeen | None = None

    def twin(self) -> Folded:
        """Return a copy to fold further; it shares values, which the fold never changes."""
        runs = {number: copy.copy(run) for number, run in self.progress.runs.items()}
        for run in runs.values():
            run.loop = copy.copy(run.loop)
        progress = copy.copy(self.progress)
        progress.runs, progress.taken = runs, dict(progress.taken)
        progress.unreadable = list(progress.unreadable)
        return Folded(
            copy_state(self.state), dict(self.slots), progress, self.fact, self.seq, self.within, self.last
        )


class Reading(msgspec.Struct):
    """The history that one request has read.

    It has the moment, ``total`` facts of the history, and the latest facts up to the moment.
    """

    folded: Folded
    total: int


class _History(msgspec.Struct):
    """What a process remembers of one history. ``seq``: the last row that is counted."""

    lock: Any = msgspec.field(default_factory=threading.Lock)
    seq: int = 0
    total: int = 0
    bytes: int = 0
    checkpoints: list[tuple[float, Folded]] = []


class Histories:
    """Checkpoints of the histories that this process has read lately."""

    def __init__(self) -> None:
        self._known: LruCache[int, _History] = LruCache(EXECUTIONS)

    def fold(self, store: ExecutionStore, info: ExecutionInfo, moment: Moment) -> Reading:
        """Fold the history of an execution up to a moment.

        Raises UnreadableRowError, and InvalidInputError(code="no_such_moment") for one that has not been.
        """
        history = self._known.get_or_put(info.execution_id, _History())
        with history.lock:
            return _fold(store, info.execution_id, moment, history)


def _fold(store: ExecutionStore, execution_id: int, moment: Moment, history: _History) -> Reading:
    folded = _nearest(history, moment)
    begun, more, after = folded.fact, True, folded.seq
    while True:
        page = store.events(execution_id, after=after, limit=PAGE)
        for row in page:
            after = row.seq
            count = _count(row)
            if more:
                before = folded.fact - folded.within
                more = _add(history, folded, row, _wanted(row, count, before, moment), count)
            if row.seq > history.seq:
                history.seq, history.total = row.seq, history.total + count
                history.bytes += len(row.facts)
        if folded.fact - begun > LONG:
            begin_long_work()
        if len(page) < PAGE:
            break
        if not more:
            after = max(after, history.seq)
    _check(execution_id, moment, folded, history)
    return Reading(folded, history.total)


def _nearest(history: _History, moment: Moment) -> Folded:
    for at, found in reversed(history.checkpoints):
        past = (
            (moment.fact is not None and found.fact > moment.fact)
            or (moment.seq is not None and found.seq + bool(found.within) >= moment.seq)
            or (moment.time is not None and at > moment.time)
        )
        if not past:
            return found.twin()
    return Folded()


def _count(row: StoredEvent) -> int:
    found = demand(lambda: codec.decode_as(_RAW, row.facts), f"event {row.event_id}")
    return len(found)


_RAW = codec.decoder(list[msgspec.Raw])


def _wanted(row: StoredEvent, count: int, before: int, moment: Moment) -> int:
    """Return how many facts of a row are up to the moment."""
    if moment.fact is not None:
        return min(count, max(0, moment.fact - before))
    if moment.time is not None:
        return count if row.at < moment.time + MICROSECOND else 0
    if moment.seq is None or row.seq < moment.seq:
        return count
    return _fact_of_event(row, moment.event) if row.seq == moment.seq else 0


def _fact_of_event(row: StoredEvent, event: int) -> int:
    """Return how many facts of a row there are up to the one that an event of it shows."""
    shown = 0
    for number, events in enumerate(events_of_fact(row), 1):
        shown += events
        if shown > event:
            return number
    raise InvalidInputError(
        f"row {row.seq} has no event {event}",
        code="no_such_moment",
        hint=f"its events are 0 to {shown - 1}: the last number of an event's id",
    )


def _add(history: _History, folded: Folded, row: StoredEvent, wanted: int, count: int) -> bool:
    """Fold the first ``wanted`` facts of a row that are not folded yet.

    Return whether that was the whole row.
    """
    if not wanted and count:
        return False
    facts = demand(partial(decode_facts, row.facts), f"event {row.event_id}")
    plain = demand(lambda: read_facts(row), f"event {row.event_id}")
    while folded.within < wanted:
        until = min(wanted, folded.within + NEAREST)
        for fact in facts[folded.within : until]:
            evolve(folded.state, folded.slots, fact)
        folded.progress.add_facts(plain[folded.within : until], row.at)
        folded.fact += until - folded.within
        folded.within = until
        folded.last = seen(plain[until - 1], folded.fact, row)
        _checkpoint(history, folded, row.at)
    if wanted < count:
        return False
    folded.state.seq = folded.seq = folded.progress.seq = row.seq
    folded.within = 0
    return True


def seen(fact: dict[str, Any], number: int, row: StoredEvent) -> FactSeen:
    """Describe one fact of a row in a line."""
    run, step = fact.get("run", 0), fact.get("step", "")
    arrival = fact.get("arrival")
    if not step and isinstance(arrival, dict):
        run, step = arrival.get("run", 0), arrival.get("step", "")
    return FactSeen(number, str(fact.get("name", "")), str(step), int(run or 0), row.seq, Timestamp(row.at))


def _checkpoint(history: _History, folded: Folded, at: float) -> None:
    last = history.checkpoints[-1][1].fact if history.checkpoints else 0
    if folded.fact - last >= max(NEAREST, last // 4) and history.bytes < MOST_BYTES:
        history.checkpoints = [*history.checkpoints, (at, folded.twin())]


def _check(execution_id: int, moment: Moment, folded: Folded, history: _History) -> None:
    beyond = moment.fact is not None and moment.fact > history.total
    if beyond or (moment.seq is not None and moment.seq > history.seq):
        raise InvalidInputError(
            f"execution {execution_id} has {history.total} facts in {history.seq} rows so far",
            code="no_such_moment",
            hint=f"name a fact from 0 to {history.total}, or SEQ:EVENT of an event",
        )
