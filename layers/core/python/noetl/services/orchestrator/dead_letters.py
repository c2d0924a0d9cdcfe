"""Dead letters of the engine: events and timers that their queue or the engine gave up.

A queue gives up after hundreds of deliveries, so only an outage of days makes such a dead letter; it is sent back as soon as the
deployment is ready. The engine itself sets aside the messages that it cannot handle, and states the reason. These wait for an operator,
who removes the cause first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from noetl.domain.errors import InfrastructureError, NoetlError, NotFoundError
from noetl.ports.deliveries import DeadLetter
from noetl.ports.queue import Delivery, Outgoing, Queue
from noetl.ports.results import ResultStore
from noetl.services.messaging.large_messages import bodies_of, unpack

MOST = 1000
"""Dead letters that one look goes through, or one call sends back."""
REASON = 400
"""Characters of a reason that travel with a message."""
MARGIN_SECONDS = 10.0


@dataclass(slots=True)
class Returned:
    """The count of dead letters that were sent back.

    ``sent``: those that are in their queue again. ``left``: those that stay, because the engine judged them or they could not be sent.
    """

    sent: int = 0
    left: int = 0


def lay_aside(delivery: Delivery, why: str, dead: Queue) -> None:
    """Send ``delivery`` to the dead-letter queue with the reason ``why``.

    The caller acknowledges it. Raises NoetlError when it could not be sent.
    """
    letter = Outgoing(
        delivery.body, delivery.group or "none", f"dead.{delivery.message_id}", why=why[:REASON] or "broken"
    )
    if dead.send([letter]):
        raise InfrastructureError("the dead letter could not be sent", code="not_laid_aside")


def look(name: str, dead: Queue, results: ResultStore, most: int = MOST) -> list[DeadLetter]:
    """Read dead letters and leave them where they are. Raises InfrastructureError."""
    found = _receive(dead, most)
    try:
        return [DeadLetter(name, one.message_id, one.sent_at, one.why, _about(one, results)) for one in found]
    finally:
        dead.nack(found, 0)


def send_back(
    dead: Queue,
    home: Queue,
    *,
    judged: bool,
    deadline: Callable[[], float],
    log: Callable[[str], None],
    most: int = MOST,
) -> Returned:
    """Send dead letters back to the queue they came from.

    ``judged``: also those that the engine laid aside. ``deadline``: seconds left. Sending one twice does no harm: the engine recognizes
    by its id what it has applied. Raises InfrastructureError when a queue is unreachable.
    """
    done = Returned()
    kept: list[Delivery] = []
    try:
        while done.sent + len(kept) < most and deadline() > MARGIN_SECONDS:
            found = dead.receive(10)
            if not found:
                break
            wanted = [one for one in found if judged or not one.why]
            kept += [one for one in found if one not in wanted]
            unsent = set(home.send([_again(one) for one in wanted])) if wanted else set()
            gone = [one for place, one in enumerate(wanted) if place not in unsent]
            kept += [one for place, one in enumerate(wanted) if place in unsent]
            dead.ack(gone)
            done.sent += len(gone)
            for one in gone:
                log(
                    f"dead letter {one.message_id} is sent back"
                    + (f"; it was laid aside: {one.why}" if one.why else "")
                )
    finally:
        done.left = len(kept)
        dead.nack(kept, 0)
    return done


def _again(delivery: Delivery) -> Outgoing:
    return Outgoing(delivery.body, delivery.group, f"again.{delivery.message_id}")


def _receive(dead: Queue, most: int) -> list[Delivery]:
    found: list[Delivery] = []
    while len(found) < most and (got := dead.receive(10)):
        found += got
    return found


def _about(delivery: Delivery, results: ResultStore) -> list[str]:
    try:
        message = unpack(delivery.body, results)
    except NotFoundError:
        return sorted(map(str, bodies_of(delivery.body)))
    except NoetlError:
        return []
    about = message.command or message.event
    return [] if about is None else [str(about.execution_id)]


def of_execution(letters: Sequence[DeadLetter], execution_id: int) -> list[DeadLetter]:
    """Return the dead letters that are about one execution."""
    return [one for one in letters if str(execution_id) in one.executions]
