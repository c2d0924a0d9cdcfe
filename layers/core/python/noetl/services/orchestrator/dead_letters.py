"""Dead letters of the engine: events and timers that their queue or the engine gave up.

A queue gives up after hundreds of deliveries, so only an outage of days makes such a dead letter; it is sent back as soon as the
deployment is ready. The engine itself sets aside the messages that it cannot handle, and states the reason. These wait for an operator,
who removes the cause first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from noetl.domain.errors import InfrastructureError, NoetlError, NotFoundError
from noetl.domain.text.masking import loggable
from noetl.ports.deliveries import DeadLetter
from noetl.ports.queue import Delivery, Outgoing, Queue
from noetl.ports.results import ResultStore
from noetl.services.messaging.large_messages import bodies_of, unpack

MOST = 1000
"""Dead letters that one look goes through, or one call sends back."""
REASON = 400
"""Characters of a reason that travel with a message."""
MARGIN_SECONDS = 10.0


WAIT_SECONDS = 1.0
"""How long a look waits for messages that the queue counts and does not give out at once."""
Wanted = Callable[[Delivery], bool]


@dataclass(slots=True)
class Handled:
    """The dead letters that were sent back or removed.

    ``left``: the count of those that stay. ``unsent``: those among them that their queue did not take. ``stopped``: the time was over, or
    as many were handled as one call handles.
    """

    done: list[str] = field(default_factory=list)
    unsent: list[str] = field(default_factory=list)
    left: int = 0
    stopped: bool = False


def lay_aside(delivery: Delivery, why: str, dead: Queue) -> None:
    """Send ``delivery`` to the dead-letter queue with the reason ``why``.

    The caller acknowledges it. Raises NoetlError when it could not be sent.
    """
    letter = Outgoing(
        delivery.body, delivery.group or "none", f"dead.{delivery.message_id}", why=why[:REASON] or "broken"
    )
    if dead.send([letter]):
        raise InfrastructureError("the dead letter could not be sent", code="not_laid_aside")


def look(
    name: str, dead: Queue, results: ResultStore, most: int = MOST, *, expected: int = 0
) -> list[DeadLetter]:
    """Read dead letters and leave them where they are. Raises InfrastructureError.

    ``expected``: how many the queue counts. A queue may give out fewer at first; a FIFO queue gives out ten of a group at most.
    """
    found: list[Delivery] = []
    try:
        while len(found) < most and (got := _receive(dead, len(found), expected)):
            found += got
        return [_letter(name, one, results) for one in found]
    finally:
        dead.nack(found, 0)


def send_back(
    dead: Queue,
    home: Queue,
    *,
    wanted: Wanted,
    deadline: Callable[[], float],
    log: Callable[[str], None],
    most: int = MOST,
    expected: int = 0,
) -> Handled:
    """Send dead letters back to the queue they came from.

    ``wanted``: which of them. ``deadline``: seconds left. Sending one twice does no harm: the engine recognizes by its id what it has
    applied. Raises InfrastructureError when a queue is unreachable.
    """

    def send(letters: Sequence[Delivery]) -> set[int]:
        return set(home.send([_again(one) for one in letters]))

    return _handle(dead, send, "is sent back", wanted, deadline, log, most, expected)


def remove(
    dead: Queue,
    *,
    wanted: Wanted,
    deadline: Callable[[], float],
    log: Callable[[str], None],
    most: int = MOST,
    expected: int = 0,
) -> Handled:
    """Remove dead letters for good. Arguments and errors are those of ``send_back``."""
    return _handle(dead, lambda letters: set(), "is removed", wanted, deadline, log, most, expected)


def _handle(
    dead: Queue,
    act: Callable[[Sequence[Delivery]], set[int]],
    verb: str,
    wanted: Wanted,
    deadline: Callable[[], float],
    log: Callable[[str], None],
    most: int,
    expected: int,
) -> Handled:
    """Take what is ``wanted`` out of the queue after ``act``.

    ``act`` returns the places that stay.
    """
    handled = Handled()
    kept: list[Delivery] = []
    try:
        while True:
            seen = len(handled.done) + len(kept)
            if seen >= most or deadline() <= MARGIN_SECONDS:
                handled.stopped = True
                break
            if not (found := _receive(dead, seen, expected)):
                break
            chosen = [one for one in found if wanted(one)]
            kept += [one for one in found if one not in chosen]
            stay = act(chosen) if chosen else set()
            gone = [one for place, one in enumerate(chosen) if place not in stay]
            for place in sorted(stay):
                kept.append(chosen[place])
                handled.unsent.append(chosen[place].message_id)
            dead.ack(gone)
            for one in gone:
                handled.done.append(one.message_id)
                why = f"; it was laid aside: {_why(one)}" if one.why else ""
                log(f"dead letter {one.message_id} {verb}{why}")
    finally:
        handled.left = len(kept)
        dead.nack(kept, 0)
    return handled


def _again(delivery: Delivery) -> Outgoing:
    return Outgoing(delivery.body, delivery.group, f"again.{delivery.message_id}")


def _receive(dead: Queue, seen: int, expected: int) -> Sequence[Delivery]:
    return dead.receive(10, WAIT_SECONDS if seen < expected else 0.0)


def _why(delivery: Delivery) -> str:
    return loggable(delivery.why, REASON)


def _letter(name: str, delivery: Delivery, results: ResultStore) -> DeadLetter:
    """Describe a dead letter as far as its body can be read; nothing of its data is repeated."""
    letter = DeadLetter(
        name, delivery.message_id, delivery.sent_at, _why(delivery), [], received=delivery.received
    )
    try:
        message = unpack(delivery.body, results)
    except NotFoundError:
        stored = sorted(map(str, bodies_of(delivery.body)))
        return msgspec.structs.replace(letter, executions=stored)
    except NoetlError:
        return letter
    about = message.command or message.event
    if about is None:
        return letter
    return msgspec.structs.replace(
        letter,
        executions=[str(about.execution_id)],
        kind="command" if message.command else str(about.__struct_config__.tag),
        step=getattr(about, "step", ""),
        run=getattr(about, "run", None),
        command_id=getattr(about, "command_id", ""),
    )


def about_execution(delivery: Delivery, results: ResultStore, execution_id: str) -> bool:
    """Whether a dead letter is about this execution."""
    return execution_id in _letter("", delivery, results).executions


def of_execution(letters: Sequence[DeadLetter], execution_id: int) -> list[DeadLetter]:
    """Return the dead letters that are about one execution."""
    return [one for one in letters if str(execution_id) in one.executions]
