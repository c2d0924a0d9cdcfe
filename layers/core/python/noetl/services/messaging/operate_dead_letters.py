"""Dead letters for operators: a list with reasons, their return and their removal.

A home without queues has none. Work that was given up ends there as a failed execution, which the list names in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from noetl.domain.errors import InvalidInputError
from noetl.domain.sizes.gate import exceeded
from noetl.domain.sizes.table import DEAD_LETTER_IDS
from noetl.domain.text.timestamps import Timestamp
from noetl.ports.deliveries import DeadLetter
from noetl.ports.executions.answers import ExecutionFilter
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.ports.queue import Delivery, Queue
from noetl.ports.results import ResultStore
from noetl.services.orchestrator import dead_letters as core
from noetl.services.queries.queue_findings import reason_of
from noetl.services.queries.read_execution import list_executions

Verb = Literal["retry", "delete"]
QueueName = Literal["events", "timers"]
QUEUE_NAMES: tuple[QueueName, ...] = ("events", "timers")
LOST_CODES = ("worker_lost", "engine_error")
"""Errors with which the engine ends an execution whose work was given up."""
LOST_DAYS = 14
"""How far back executions are looked for: as long as a queue keeps its dead letters."""
LOST_SHOWN = 50
NO_QUEUES = (
    "This server keeps its work in the database and has no queue, so no message can become a dead letter. "
    "Work that was given up ends as a failed execution: with the code worker_lost after three processes died, "
    "with engine_error when the engine could not handle an event. Redrive it when the cause is mended."
)
QUEUES = (
    "Letters that the engine laid aside wait for an operator; those that a queue gave up go back by themselves "
    "once the deployment is ready. Commands have no dead letters to send back: the engine ends them as worker_lost."
)


@dataclass(frozen=True, slots=True)
class LetterQueue:
    """A queue of dead letters.

    ``home``: where they came from. ``count``: returns how many there are, as the queue counts.
    """

    name: str
    dead: Queue
    home: Queue
    count: Callable[[], int]


@dataclass(frozen=True, slots=True)
class LetterDeps:
    """The queues of dead letters, none at a home without, and what reads them.

    ``clock``: epoch seconds. ``log``: gets a line for each letter that is moved.
    """

    queues: Sequence[LetterQueue]
    results: ResultStore
    store: ExecutionStore
    clock: Callable[[], float]
    log: Callable[[str], None]


class DeadLetterView(msgspec.Struct, frozen=True):
    """A message that its queue or the engine gave up.

    ``id``: its queue and the id that it has there.
    ``laid_aside``: the engine did, and it waits for an operator. ``kind``: the type of its event; empty when it cannot be read.
    ``executions``: those that it is about; ``step``, ``run`` and ``command_id``: of the work in it. ``age``: seconds. ``deliveries``: as
    the queue counts them, looks at the dead letters among them. Its content is not shown.
    """

    id: str
    queue: str
    reason: str
    next: str
    laid_aside: bool
    kind: str
    executions: list[str]
    step: str
    run: int | None
    command_id: str
    sent_at: Timestamp
    age: float
    deliveries: int


class LetterQueueView(msgspec.Struct, frozen=True):
    """A queue of dead letters: how many it counts, and how many could be read.

    Fewer are read when other readers hold some, or when more than ten are of one execution.
    """

    queue: str
    count: int
    read: int


class LostExecution(msgspec.Struct, frozen=True):
    """An execution that failed because its work was given up."""

    execution_id: str
    path: str
    error_code: str
    ended_at: Timestamp | None


class DeadLetterPage(msgspec.Struct, frozen=True):
    """Dead letters, the oldest first.

    ``queues``: those that were read; empty where there are none. ``about``: what that means. ``lost``: the newest executions that failed
    within two weeks because their work was given up. ``next``: the cursor of the next page, null on the last.
    """

    queues: list[LetterQueueView]
    letters: list[DeadLetterView]
    lost: list[LostExecution]
    about: str
    next: str | None = None


class DeadLetterRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request to send back or remove dead letters.

    ``ids``: only these. ``all``: every one. ``queue`` and ``execution_id`` choose among them; an execution alone means all of its letters.
    ``dry_run``: only report which they are.
    """

    ids: list[str] | None = None
    all: bool = False
    queue: QueueName | None = None
    execution_id: str | None = None
    dry_run: bool = False


class DeadLettersDone(msgspec.Struct, frozen=True):
    """The dead letters that were, or would be, sent back or removed.

    ``missing``: ids that were not found: they are gone, or another reader holds them. ``unsent``: their queue did not take them. ``left``:
    the count of those that stay. ``status`` partly: there may be more, ask again. ``about``: that there is no queue here.
    """

    action: Verb
    dry_run: bool
    status: Literal["complete", "partly"]
    ids: list[str]
    missing: list[str]
    unsent: list[str]
    left: int
    about: str = ""


def list_letters(
    deps: LetterDeps, *, queue: str | None = None, execution_id: str | None = None
) -> DeadLetterPage:
    """Read every dead letter, the oldest first. Raises InfrastructureError."""
    now = deps.clock()
    views: list[LetterQueueView] = []
    found: list[DeadLetter] = []
    for one in _queues(deps, queue):
        count = one.count()
        letters = core.look(one.name, one.dead, deps.results, expected=count)
        views.append(LetterQueueView(one.name, max(count, len(letters)), len(letters)))
        found += [letter for letter in letters if execution_id is None or execution_id in letter.executions]
    found.sort(key=_order)
    lost = [] if execution_id else _lost(deps.store, now)
    about = QUEUES if deps.queues else NO_QUEUES
    return DeadLetterPage(views, [_view(letter, now) for letter in found], lost, about)


def page_of(found: DeadLetterPage, after: str, limit: int) -> tuple[DeadLetterPage, str]:
    """Return at most ``limit`` letters beyond the place ``after``, and the last place.

    The last place is empty when there are no more letters.
    """
    later = [one for one in found.letters if not after or place_of(one) > after]
    shown = later[:limit]
    last = place_of(shown[-1]) if len(later) > limit else ""
    return msgspec.structs.replace(found, letters=shown), last


def place_of(letter: DeadLetterView) -> str:
    """Return the place of a letter in the list, as text that sorts as the list does."""
    return f"{letter.sent_at:020.6f} {letter.id}"


def handle_letters(
    verb: Verb, request: DeadLetterRequest, deps: LetterDeps, deadline: Callable[[], float]
) -> DeadLettersDone:
    """Send back or remove dead letters. A repeat finds those that are left.

    Raises InvalidInputError(code="dead_letters_invalid"), InfrastructureError.
    """
    _check(request)
    ids = None if request.ids is None else frozenset(request.ids)
    done: list[str] = []
    unsent: list[str] = []
    left, stopped = 0, False
    for one in _queues(deps, request.queue):
        count = one.count()
        if request.dry_run:
            letters = core.look(one.name, one.dead, deps.results, expected=count)
            selected = [
                _id(one.name, letter.message_id)
                for letter in sorted(letters, key=_order)
                if _is_selected(letter, ids, request)
            ]
            done += selected
            left += max(count, len(letters)) - len(selected)
            continue
        wanted = _selector(one.name, ids, request, deps.results)
        if verb == "retry":
            handled = core.send_back(
                one.dead, one.home, wanted=wanted, deadline=deadline, log=deps.log, expected=count
            )
        else:
            handled = core.remove(one.dead, wanted=wanted, deadline=deadline, log=deps.log, expected=count)
        done += [_id(one.name, message_id) for message_id in handled.done]
        unsent += [_id(one.name, message_id) for message_id in handled.unsent]
        left += max(handled.left, count - len(handled.done))
        stopped = stopped or handled.stopped
    missing = sorted((ids or frozenset()) - {*done, *unsent})
    return DeadLettersDone(
        verb,
        request.dry_run,
        "partly" if stopped else "complete",
        done,
        missing,
        unsent,
        left,
        "" if deps.queues else NO_QUEUES,
    )


def _check(request: DeadLetterRequest) -> None:
    if request.ids is None and request.execution_id is None and not request.all:
        raise InvalidInputError(
            "the request names no dead letters",
            code="dead_letters_invalid",
            hint='name them by "ids", by "execution_id", or say "all": true',
        )
    if request.ids is not None and (request.all or not request.ids):
        raise InvalidInputError(
            '"ids" names at least one dead letter, and excludes "all"',
            code="dead_letters_invalid",
            hint='send either "ids" or "all"',
        )
    if request.ids is not None and len(request.ids) > DEAD_LETTER_IDS.value:
        raise exceeded(
            DEAD_LETTER_IDS,
            len(request.ids),
            "ids",
            code="dead_letters_invalid",
            remedy="send several requests",
        )


def _queues(deps: LetterDeps, name: str | None) -> list[LetterQueue]:
    return [one for one in deps.queues if name in (None, one.name)]


def _id(queue: str, message_id: str) -> str:
    return f"{queue}:{message_id}"


def _is_selected(letter: DeadLetter, ids: frozenset[str] | None, request: DeadLetterRequest) -> bool:
    if ids is not None and _id(letter.queue, letter.message_id) not in ids:
        return False
    return request.execution_id is None or request.execution_id in letter.executions


def _selector(
    queue: str, ids: frozenset[str] | None, request: DeadLetterRequest, results: ResultStore
) -> core.Wanted:
    def wanted(delivery: Delivery) -> bool:
        if ids is not None and _id(queue, delivery.message_id) not in ids:
            return False
        return request.execution_id is None or core.about_execution(delivery, results, request.execution_id)

    return wanted


def _order(letter: DeadLetter) -> tuple[float, str, str]:
    return letter.sent_at, letter.queue, letter.message_id


def _view(letter: DeadLetter, now: float) -> DeadLetterView:
    reason, next_ = reason_of(letter)
    return DeadLetterView(
        id=_id(letter.queue, letter.message_id),
        queue=letter.queue,
        reason=reason,
        next=next_,
        laid_aside=bool(letter.why),
        kind=letter.kind,
        executions=letter.executions,
        step=letter.step,
        run=letter.run,
        command_id=letter.command_id,
        sent_at=Timestamp(letter.sent_at),
        age=round(max(0.0, now - letter.sent_at), 3),
        deliveries=letter.received,
    )


def _lost(store: ExecutionStore, now: float) -> list[LostExecution]:
    since = now - LOST_DAYS * 86_400
    found = [
        LostExecution(one.execution_id, one.path, code, one.ended_at)
        for code in LOST_CODES
        for one in list_executions(
            store,
            limit=LOST_SHOWN,
            now=now,
            status="failed",
            wanted=ExecutionFilter(error_code=code, started_after=since),
        )
    ]
    return sorted(found, key=lambda one: int(one.execution_id), reverse=True)[:LOST_SHOWN]
