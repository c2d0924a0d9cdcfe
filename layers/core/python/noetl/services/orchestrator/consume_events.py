"""The engine's consumer of queues: it admits, decides and commits a batch, then publishes.

The engine handles a message that was delivered before alone, after it has committed the rest, so that a message which breaks the engine
harms no other. It handles events that the batch itself causes (the end of a loop or of a child) at once, without a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError, NoetlError, as_exception
from noetl.domain.events import Event
from noetl.domain.messages import Message
from noetl.domain.workers.direct_requests import POOL
from noetl.ports.queue import MAX_DELAY, Delivery, Outgoing, Queue
from noetl.ports.revocations import Revocations
from noetl.ports.workers import CommandLeases
from noetl.services.messaging.back_off import USUAL, BackOff
from noetl.services.messaging.send_events import signed_event
from noetl.services.orchestrator.authenticate import AuthenticBatch, MessageAuthenticator
from noetl.services.orchestrator.dead_letters import lay_aside
from noetl.services.orchestrator.engine_deps import BatchEffects, DueTimer, EngineDeps
from noetl.services.orchestrator.failed_events import TRIES, after_failure, brief, is_outage
from noetl.services.orchestrator.handle_events import handle_events
from noetl.services.orchestrator.publish import Publisher
from noetl.services.orchestrator.snapshot_cache import Recent
from noetl.services.support.lease_owner_id import new_owner

LIFETIME = 60.0
"""Seconds that what an invocation commits stays its own: longer than any invocation lasts. Then a sweep publishes it."""
MARGIN_SECONDS = 5.0
"""Seconds of an invocation that are reserved for publishing."""
EARLY_SECONDS = 1.0
"""First pause of a message that came before another one of its command, which may itself wait for the end of an outage."""


@dataclass(frozen=True, slots=True)
class MessageDeps:
    """The dependencies of a batch of messages.

    ``clock``: epoch seconds. ``who``: part of the owner's name. ``back_off``: pauses of messages while a dependency is unavailable.
    ``dead_letters``: (a queue) → the queue for its messages that the engine cannot handle; None: they stay.
    """

    door: MessageAuthenticator
    engine: EngineDeps
    publisher: Publisher
    revocations: Revocations
    clock: Callable[[], float]
    who: str
    log: Callable[[str], None]
    back_off: BackOff = USUAL
    dead_letters: Callable[[Queue], Queue | None] = lambda queue: None
    leases: CommandLeases | None = None
    """Of commands that were handed over in answers (``answer_requests``); None: none was."""


@dataclass(slots=True)
class EventBatchResult:
    """The outcome of a batch. ``give_back``: ids of messages that the queue has to keep."""

    give_back: list[str] = field(default_factory=list)
    events: int = 0
    followed: int = 0
    """Events that the batch caused and handled itself."""
    refused: int = 0
    commands: int = 0
    unsent: int = 0
    failures: int = 0
    failed: int = 0
    """Executions that ended failed in this batch."""
    laid_aside: int = 0
    """Messages with which the engine can do nothing: they are dead letters now."""
    again: bool = False
    """Something was delivered before: an invocation may have died, and left work for a sweep."""
    executions: set[int] = field(default_factory=set)


def handle_messages(
    deliveries: Sequence[Delivery], source: Queue, deps: MessageDeps, deadline: Callable[[], float]
) -> EventBatchResult:
    """Handle the messages of ``source``; return them to it during an outage.

    ``deadline`` returns the seconds left.
    """
    return MessageBatch(source, deps, deadline).handle(list(deliveries))


class MessageBatch:
    """A batch that is being handled.

    ``source``: None when its messages came from no queue (``answer_requests``).
    """

    def __init__(
        self, source: Queue | None, deps: MessageDeps, deadline: Callable[[], float], owner: str = ""
    ) -> None:
        self.source = source
        self.deps = deps
        self.deadline = deadline
        self.owner = owner or new_owner(deps.clock(), LIFETIME, deps.who)
        recent = Recent() if deps.engine.recent is None else deps.engine.recent
        self.engine = replace(deps.engine, owner=self.owner, recent=recent)
        self.commands: list[Command] = []
        self.follow: list[Event] = []
        self.timers: list[DueTimer] = []
        self.dropped: list[tuple[int, int | None]] = []
        self.late: dict[int, list[Delivery]] = {}
        self.taken: set[tuple[int, str]] = set()
        """Starts that were refused, because another execution has their id."""
        self.managed = EventBatchResult()

    def handle(self, deliveries: list[Delivery]) -> EventBatchResult:
        try:
            admitted = self.deps.door.admit(deliveries, timers=self.source is self.deps.publisher.timers)
        except InfrastructureError as outage:
            self.deps.log(f"{len(deliveries)} message(s) are given back: {outage}")
            self.managed.failures += len(deliveries)
            self._back_off(deliveries)
            self._give_back()
            return self.managed
        self.managed.refused = len(admitted.refused)
        self._back_off(admitted.unread)
        for delivery, why in admitted.broken:
            self._lay_aside(delivery, why, wait=delivery.received < TRIES)
        self._relay(admitted)
        fresh = [pair for pair in admitted.events if pair[0].received <= 1]
        again = [pair for pair in admitted.events if pair[0].received > 1]
        self.managed.again = bool(again)
        try:
            if fresh:
                self._decide(fresh)
            for pair in again:
                self._decide([pair])
            self._follow()
        finally:
            self._publish()
        self._free_leases(admitted.leases)
        self._give_back()
        return self.managed

    def _free_leases(self, leased: Sequence[tuple[Event, str]]) -> None:
        """Free commands that were leased in answers which did not arrive.

        A sweep sends them to their queues. The outcomes come through the queue now, so the worker that made the request does not run
        these commands. They may be of other executions: of a sub-playbook that an outcome began, or of the one that waited for it.
        """
        leases = self.deps.leases
        if leases is None:
            return
        for name in dict.fromkeys(name for _, name in leased):
            try:
                if leases.free(POOL, name):
                    self.managed.again = True
            except InfrastructureError as outage:
                self.deps.log(f"commands of an answer are free when their lease is over: {outage}")

    # --- deciding ---

    def _decide(self, pairs: list[tuple[Delivery, Event]]) -> None:
        error = self._try(pairs)
        if error is None:
            return
        if isinstance(error, InfrastructureError) and is_outage(error):
            self._put_off(pairs, error)
        elif len(pairs) == 1:
            self._failed(*pairs[0], error)
        else:
            for pair in pairs:
                self._decide([pair])

    def _try(self, pairs: list[tuple[Delivery, Event]]) -> Exception | None:
        """Handle events, and keep what follows from them.

        Returns the error that the engine failed with; a part may have been committed before.
        """
        handled, failure = BatchEffects(), None
        try:
            handle_events([event for _, event in pairs], self.engine, handled)
        except BaseException as error:
            failure = as_exception(error)
        else:
            early = {id(event) for event in handled.events}
            self._back_off([delivery for delivery, event in pairs if id(event) in early], EARLY_SECONDS)
            self.managed.events += len(pairs)
            self.managed.executions.update(event.execution_id for _, event in pairs)
        self._take(handled, [event for _, event in pairs])
        return failure

    def _put_off(self, pairs: list[tuple[Delivery, Event]], outage: InfrastructureError) -> None:
        """Return events to their queue during an outage; the queue delivers them again."""
        for delivery, event in pairs:
            self.deps.log(
                f"event {event.event_id} of execution {event.execution_id}, delivery {delivery.received}: {outage}"
            )
            self._back_off([delivery])
        self.managed.failures += len(pairs)

    def _failed(self, delivery: Delivery, event: Event, error: Exception) -> None:
        """Try an event on which the engine failed again, alone, and fail its execution at last.

        The tries are counted here, because the queue counts deliveries during an outage as well.
        """
        self.managed.executions.add(event.execution_id)
        tries, failure = 1, error
        while (seconds := self._settled(delivery, event, failure, tries)) is not None:
            if tries == TRIES:
                self._lay_aside(delivery, brief(failure))
                return
            if self.deadline() <= MARGIN_SECONDS:
                self._keep([delivery], round(seconds))
                return
            tries += 1
            again = self._try([(delivery, event)])
            if again is None:
                return
            failure = again

    def _settled(self, delivery: Delivery, event: Event, error: Exception, tries: int) -> float | None:
        """Apply the policy for failed events.

        Return the pause before the next attempt; None: the event is settled.
        """
        handled = BatchEffects()
        try:
            if isinstance(error, InfrastructureError) and is_outage(error):
                raise error
            seconds = after_failure(event, error, tries, self.engine, handled)
            self.managed.failures += 1
            return seconds
        except InfrastructureError as outage:
            self._put_off([(delivery, event)], outage)
            return None
        finally:
            self._take(handled, [event])

    def _take(self, handled: BatchEffects, inputs: Sequence[Event]) -> None:
        """Keep the commands, timers and events that ``inputs`` caused.

        Inputs that were handed back (they came early) stay with their queue.
        """
        known = {id(event) for event in inputs}
        self.commands += handled.commands
        self.timers += handled.timers
        self.dropped += handled.dropped
        self.taken |= handled.taken
        self.managed.failed += sum(status == "failed" for _, status in handled.ended)
        self.follow += [event for event in handled.events if id(event) not in known]

    def _follow(self) -> None:
        """Handle the events that the batch caused, until time is short.

        The rest goes through the queue, where each event is retried by itself.
        """
        while self.follow and self.deadline() > MARGIN_SECONDS:
            events, self.follow = self.follow, []
            handled = BatchEffects()
            try:
                handle_events(events, self.engine, handled)
            except BaseException as broken:
                error = as_exception(broken)
                self.deps.log(f"{len(events)} event(s) go through the queue: {type(error).__name__}: {error}")
                # A part of them may have been committed before.
                self._take(handled, events)
                self.follow += events
                return
            self._take(handled, events)
            self.managed.followed += len(events)

    # --- out ---

    def _publish(self) -> None:
        self._revoke()
        commands = self._to_send()
        if not (commands or self.follow or self.timers):
            return
        try:
            done = self.deps.publisher.publish(self.owner, commands, self.follow, self.timers)
        except InfrastructureError as outage:
            # All of it is committed. What is not marked is published again by a sweep, as further attempts.
            self.deps.log(f"what was published could not be marked: {outage}")
            self.managed.unsent = len(commands) + len(self.follow)
            return
        self.managed.commands = len(done.sent_commands)
        self.managed.unsent = done.unsent

    def _to_send(self) -> list[Command]:
        """Return the commands that go to their queues."""
        return self.commands

    def _revoke(self) -> None:
        for execution_id, run in self.dropped:
            try:
                self.deps.revocations.revoke(execution_id, run)
            except BaseException as error:
                # A mark only saves work.
                self.deps.log(f"work of {execution_id} could not be revoked: {as_exception(error)!r}")

    def _relay(self, admitted: AuthenticBatch) -> None:
        """Send early messages on: back to the delay queue, or a due command to its worker."""
        publisher = self.deps.publisher
        for delivery, message in admitted.early:
            try:
                self._forward(message, publisher)
            except BaseException as error:
                self.deps.log(f"message {delivery.message_id} is tried again: {as_exception(error)!r}")
                self._back_off([delivery])

    def _forward(self, message: Message, publisher: Publisher) -> None:
        """Send a delayed message on with a new signature.

        A long delay may outlive the key of the first signature.
        """
        left = message.due - self.deps.clock()
        delay = max(1, min(MAX_DELAY, round(left))) if left > 0.5 else 0
        queue: Queue = publisher.timers
        if message.command is not None:
            text = publisher.command_message(message.command, message.due if delay else 0.0)
            outgoing = Outgoing(text, str(message.command.execution_id), delay=delay)
            queue = queue if delay else publisher.queue_of(message.command)
        else:
            assert message.event is not None
            signed = signed_event(
                message.event, self.owner, publisher.keys(), publisher.results, publisher.limit, message.due
            )
            outgoing = msgspec.structs.replace(signed, delay=delay)
        if queue.send([outgoing]):
            raise InfrastructureError("it could not be sent on", code="not_relayed")

    def _lay_aside(self, delivery: Delivery, why: str, *, wait: bool = False) -> None:
        """Make a message a dead letter, because it would block its group.

        ``wait``: back off instead; the message may have come before what it refers to.
        """
        dead = None if wait or self.source is None else self.deps.dead_letters(self.source)
        if dead is None:
            self._back_off([delivery])
            return
        try:
            lay_aside(delivery, why, dead)
        except NoetlError as error:
            self.deps.log(f"message {delivery.message_id} could not be laid aside: {error}")
            self._back_off([delivery])
            return
        self.deps.log(f"message {delivery.message_id} is a dead letter: {why}")
        self.managed.laid_aside += 1

    def _back_off(self, deliveries: Sequence[Delivery], first: float | None = None) -> None:
        for delivery in deliveries:
            self._keep([delivery], self.deps.back_off.after(delivery.received, first))

    def _keep(self, deliveries: Sequence[Delivery], seconds: int) -> None:
        if deliveries:
            self.managed.give_back += [delivery.message_id for delivery in deliveries]
            self.late.setdefault(seconds, []).extend(deliveries)

    def _give_back(self) -> None:
        """Return messages to the queue before its visibility timeout would.

        When that fails, the queue delivers them again after its own timeout.
        """
        if self.source is None:
            return
        for seconds, deliveries in self.late.items():
            try:
                self.source.nack(deliveries, seconds)
            except NoetlError as error:
                self.deps.log(f"{len(deliveries)} message(s) come back later than wanted: {error}")
