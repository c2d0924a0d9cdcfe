"""Publisher of committed commands, events and timers.

It makes few requests to queues, and one round trip to mark what it sent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from noetl.domain.capability_tokens import KeyRing, grant
from noetl.domain.commands import Command
from noetl.domain.errors import InvalidInputError, NoetlError, as_exception
from noetl.domain.events import Event, TimerFired
from noetl.domain.messages import VERSION, Message
from noetl.domain.workers.lease_owners import offered
from noetl.dsl.program import Program
from noetl.ports.executions.execution_store import ExecutionStore, Published
from noetl.ports.queue import MAX_DELAY, Outgoing, Queue
from noetl.ports.results import ResultStore
from noetl.services.callbacks.callback_keys import callback_key
from noetl.services.messaging.large_messages import pack
from noetl.services.messaging.send_events import signed_event
from noetl.services.orchestrator.engine_deps import DueTimer
from noetl.services.orchestrator.select_worker import worker_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Publisher:
    """The publisher of a process.

    ``workers``: kind → worker. ``commands``: the queue of a worker. ``timers`` takes delayed messages. ``clock``: epoch seconds.
    ``fetched``: workers whose commands are fetched over HTTP, as of the latest look; their commands are offered instead of sent.
    ``digests``: program → SHA-256 of its stored form, which workers compare (empty: they do not).
    """

    store: ExecutionStore
    results: ResultStore
    events: Queue
    timers: Queue
    commands: Callable[[str], Queue]
    workers: Mapping[str, str]
    programs: Callable[[str], Program]
    keys: Callable[[], KeyRing]
    clock: Callable[[], float]
    limit: int
    log: Callable[[str], None]
    fetched: Callable[[], frozenset[str]] = frozenset
    digests: Callable[[str], str] = lambda program: ""

    def publish(
        self,
        owner: str,
        commands: Sequence[Command],
        events: Sequence[Event],
        timers: Sequence[DueTimer] = (),
        fired: Sequence[TimerFired] = (),
    ) -> Publication:
        """Send what ``owner`` committed, and mark the rows as the queues'.

        ``fired``: timers that ``owner`` claimed because they are due. What could not be sent has no owner afterwards, so that the next
        sweep sends it.

        Raises InfrastructureError when it could not be marked: it stays ``owner``'s until that is over, and is sent again then.
        """
        done = Publication()
        self._commands(commands, done)
        self._events(owner, [*events, *fired], done)
        self._timers(owner, timers)
        claimed = {(event.execution_id, event.event_id) for event in fired}
        sent, unsent = _parts(done.sent_events, claimed), _parts(done.unsent_events, claimed)
        published = Published(done.sent_commands, sent[0], sent[1])
        freed = Published(done.unsent_commands, unsent[0], unsent[1])
        if published or freed:
            self.store.hand_over(owner, published, freed)
        for worker, offer in done.offered.items():
            self.store.hand_over(owner, Published(offer), heir=offered(worker))
        return done

    def command_message(self, command: Command, due: float = 0.0) -> str:
        keys = self.keys()
        key = callback_key(command, self.programs, keys)
        digest = self.digests(command.program)
        plain = Message(VERSION, grant(command, keys), due, command=command, callbacks=key, digest=digest)
        return pack(plain, self.results, limit=self.limit)

    def queue_of(self, command: Command) -> Queue:
        return self.commands(self._worker_of(command))

    def _worker_of(self, command: Command) -> str:
        return worker_of(command, self.programs(command.program), self.workers)

    def _commands(self, commands: Sequence[Command], done: Publication) -> None:
        """Send each command to its worker's queue.

        A command with a longer delay than a queue supports waits in the timers' queue.
        """
        queues: dict[int, tuple[Queue, list[tuple[Command, Outgoing]]]] = {}
        fetched = self.fetched() if commands else frozenset()
        for command in commands:
            try:
                if fetched and (worker := self._worker_of(command)) in fetched:
                    done.offered.setdefault(worker, []).append(command)
                    continue
                queue, message = self._addressed(command)
            except BaseException as error:
                # A row that cannot be sent keeps no other from being sent: they would all come again with it.
                self.log(
                    f"command {command.command_id} of {command.execution_id} waits for a sweep: {as_exception(error)!r}"
                )
                done.unsent_commands.append(command)
                continue
            queues.setdefault(id(queue), (queue, []))[1].append((command, message))
        for queue, addressed in queues.values():
            sent, unsent = self._send(queue, addressed)
            done.sent_commands += sent
            done.unsent_commands += unsent

    def _addressed(self, command: Command) -> tuple[Queue, Outgoing]:
        delay = math.ceil(command.delay)
        group = str(command.execution_id)
        if delay > MAX_DELAY:
            due = self.clock() + command.delay
            return self.timers, Outgoing(self.command_message(command, due), group, delay=MAX_DELAY)
        return self.queue_of(command), Outgoing(self.command_message(command), group, delay=delay)

    def _events(self, owner: str, events: Iterable[Event], done: Publication) -> None:
        addressed: list[tuple[Event, Outgoing]] = []
        for event in events:
            try:
                message = signed_event(event, owner, self.keys(), self.results, self.limit)
                addressed.append((event, message))
            except BaseException as error:
                self.log(
                    f"event {event.event_id} of {event.execution_id} waits for a sweep: {as_exception(error)!r}"
                )
                done.unsent_events.append(event)
        if addressed:
            sent, unsent = self._send(self.events, addressed)
            done.sent_events += sent
            done.unsent_events += unsent

    def _timers(self, owner: str, timers: Sequence[DueTimer]) -> None:
        """Send timers to the delay queue.

        Each is a row as well: a sweep fires what could not be sent, later than its time.
        """
        addressed = []
        for timer in timers:
            delay = max(0, math.ceil(timer.seconds))
            due = self.clock() + timer.seconds if delay > MAX_DELAY else 0.0
            try:
                message = signed_event(timer.event, owner, self.keys(), self.results, self.limit, due)
            except BaseException as error:
                self.log(
                    f"timer {timer.event.timer} of {timer.event.execution_id} waits: {as_exception(error)!r}"
                )
                continue
            addressed.append((timer, Outgoing(message.body, message.group, delay=min(delay, MAX_DELAY))))
        if addressed:
            self._send(self.timers, addressed)

    def _send(self, queue: Queue, addressed: Sequence[tuple[T, Outgoing]]) -> tuple[list[T], list[T]]:
        """Send messages to ``queue``. Returns what was sent, and what was not."""
        try:
            failed = set(queue.send([message for _, message in addressed]))
        except InvalidInputError as error:
            if len(addressed) > 1:
                parts = [self._send(queue, [one]) for one in addressed]
                return [one for sent, _ in parts for one in sent], [one for _, left in parts for one in left]
            self.log(f"a message can never be sent: {error}")
            failed = {0}
        except NoetlError as error:
            self.log(f"{len(addressed)} message(s) could not be sent: {error}")
            failed = set(range(len(addressed)))
        sent = [one for number, (one, _) in enumerate(addressed) if number not in failed]
        return sent, [one for number, (one, _) in enumerate(addressed) if number in failed]


@dataclass(slots=True)
class Publication:
    sent_commands: list[Command] = field(default_factory=list)
    unsent_commands: list[Command] = field(default_factory=list)
    sent_events: list[Event] = field(default_factory=list)
    unsent_events: list[Event] = field(default_factory=list)
    offered: dict[str, list[Command]] = field(default_factory=dict)
    """By worker: the commands that it fetches over HTTP."""

    @property
    def unsent(self) -> int:
        return len(self.unsent_commands) + len(self.unsent_events)


def _parts(
    events: Iterable[Event], claimed: set[tuple[int, str]]
) -> tuple[list[Event], list[tuple[int, str]]]:
    """Return the outbox rows and the timers that ``events`` came from."""
    posted: list[Event] = []
    timers: list[tuple[int, str]] = []
    for event in events:
        if isinstance(event, TimerFired) and (event.execution_id, event.event_id) in claimed:
            timers.append((event.execution_id, event.timer))
        else:
            posted.append(event)
    return posted, timers
