"""The engine's door: admits a delivered message only with a token that fits its content."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from noetl.domain.capability_tokens import KeyRing, fits, granted, signed, verified
from noetl.domain.errors import InfrastructureError, InvalidInputError, NotFoundError, as_exception
from noetl.domain.events import CommandDone, Event, ItemsDone, encode_event
from noetl.domain.messages import Message, NewerMessageError
from noetl.domain.outcomes.report_checks import is_own_id
from noetl.domain.text.masking import loggable
from noetl.domain.workers.direct_requests import is_lease
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.ports.queue import Delivery
from noetl.ports.results import ResultStore
from noetl.services.messaging.large_messages import bodies_of, unpack
from noetl.services.orchestrator.failed_events import unapplied_row

SHOWN = 1000
"""Characters of a refused message that the log keeps."""
UNKNOWN_KEY_DELIVERIES = 3
"""The delivery at which a message of an unknown key is refused: the pauses before it outlast two readings of the keys."""


@dataclass(slots=True)
class AuthenticBatch:
    """The events of a batch of messages, and the messages that are no event now.

    ``refused``: never retried, since they are no messages, or forged (which is recorded). ``unread``: the queue keeps them until a
    dependency is available again, a function of a newer version reads them, or this engine has read keys that may have been rotated.
    ``broken``: messages that this engine cannot handle at all, each with the reason.
    """

    events: list[tuple[Delivery, Event]] = field(default_factory=list)
    early: list[tuple[Delivery, Message]] = field(default_factory=list)
    """Messages that are not due yet, and commands whose time has come."""
    refused: list[Delivery] = field(default_factory=list)
    unread: list[Delivery] = field(default_factory=list)
    broken: list[tuple[Delivery, str]] = field(default_factory=list)
    leases: list[tuple[Event, str]] = field(default_factory=list)
    """Outcomes that were in a request which was not answered, each with the name of its lease."""
    outages: list[InfrastructureError] = field(default_factory=list)
    """Why messages of ``unread`` cannot be read yet, except those of a newer version."""


@dataclass(frozen=True, slots=True)
class MessageAuthenticator:
    """The authentication of messages.

    ``keys(fresh)``: the key ring, read again when ``fresh`` (a rotation may have happened). ``clock``: epoch seconds.
    """

    store: ExecutionStore
    results: ResultStore
    keys: Callable[[bool], KeyRing]
    clock: Callable[[], float]
    log: Callable[[str], None]

    def admit(self, deliveries: list[Delivery], *, timers: bool = False) -> AuthenticBatch:
        """Sort deliveries into events, early, refused, unread and broken messages.

        ``timers``: they come from the queue that delays, to which no worker can send. Only there do messages wait, and commands: a
        worker must not reach another worker's queue through the engine.

        Raises InfrastructureError when the database is unreachable while something forged has to be recorded."""
        found = AuthenticBatch()
        for delivery in deliveries:
            try:
                message = unpack(delivery.body, self.results)
            except NotFoundError as error:
                if not self._is_moot(delivery):
                    self.log(f"message {delivery.message_id} cannot be read: {error}")
                    found.broken.append((delivery, str(error)))
                continue
            except (NewerMessageError, InfrastructureError) as error:
                self.log(f"message {delivery.message_id} is left to its queue: {error}")
                found.unread.append(delivery)
                if isinstance(error, InfrastructureError):
                    found.outages.append(error)
                continue
            except InvalidInputError as error:
                self._report(delivery, str(error))
                found.refused.append(delivery)
                continue
            except BaseException as error:
                self._broken(delivery, error, found)
                continue
            try:
                self._sort(delivery, message, found, timers)
            except InfrastructureError as error:
                if error.code != "key_unknown":
                    raise
                self._put_off(delivery, message, error, found)
            except BaseException as error:
                self._broken(delivery, error, found)
        return found

    def _broken(self, delivery: Delivery, error: BaseException, found: AuthenticBatch) -> None:
        """Note a message that could not be read; the rest of the batch continues."""
        why = repr(as_exception(error))
        self.log(f"message {delivery.message_id} could not be looked at: {why}")
        found.broken.append((delivery, why))

    def _is_moot(self, delivery: Delivery) -> bool:
        """Return whether a message whose body is gone was for an execution that has been removed.

        Only the removal of its execution removes a body.
        """
        about = bodies_of(delivery.body)
        if not about or any(self.store.info(one) is not None for one in about):
            return False
        self.log(f"message {delivery.message_id} is dropped: execution {min(about)} has been removed")
        return True

    def _sort(self, delivery: Delivery, message: Message, found: AuthenticBatch, timers: bool) -> None:
        waits = message.command is not None or message.due > self.clock() + 0.5
        if waits and not timers:
            self._refuse(delivery, message, "only what is delayed waits, in a queue of its own", found)
        elif not self._proven(message):
            self._refuse(delivery, message, "its token does not fit", found)
        elif waits or message.event is None:
            found.early.append((delivery, message))
        else:
            found.events.append((delivery, message.event))
            if is_lease(message.asked):  # no token proves it: a worker may send any text
                found.leases.append((message.event, message.asked))

    def _put_off(
        self, delivery: Delivery, message: Message, error: InfrastructureError, found: AuthenticBatch
    ) -> None:
        """Leave a message of an unknown key to its queue; refuse it after a few deliveries.

        Its sender may have read a rotated key before this process.
        """
        if delivery.received >= UNKNOWN_KEY_DELIVERIES:
            self._refuse(delivery, message, error.message, found)
            return
        self.log(
            f"message {delivery.message_id}, delivery {delivery.received}, is left to its queue: {error.message}"
        )
        found.unread.append(delivery)
        found.outages.append(error)

    def _refuse(self, delivery: Delivery, message: Message, why: str, found: AuthenticBatch) -> None:
        self._report(delivery, why)
        if message.event is not None:
            self._record(delivery, message.event)
        found.refused.append(delivery)

    def _proven(self, message: Message) -> bool:
        return verified(message.token, lambda ring: _holds(message, ring), self.keys)

    def _record(self, delivery: Delivery, event: Event) -> None:
        """Record a refused event beside the history of its execution, if that exists."""
        if not 0 < event.execution_id < 2**63 or self.store.info(event.execution_id) is None:
            return
        self.store.record_superseded(
            [
                (
                    event.execution_id,
                    unapplied_row(event, delivery.body.encode("utf-8", "surrogatepass"), "refused"),
                )
            ]
        )

    def _report(self, delivery: Delivery, why: str) -> None:
        self.log(
            f"message {delivery.message_id} is refused: {why}; it was {loggable(delivery.body, SHOWN)!r}"
        )


def _holds(message: Message, ring: KeyRing) -> bool:
    if message.command is not None:
        return granted(message.token, message.command, ring)
    event = message.event
    assert event is not None
    if isinstance(event, (CommandDone, ItemsDone)):
        return is_own_id(event) and fits(message.token, event, ring)
    return signed(message.token, encode_event(event), ring)
