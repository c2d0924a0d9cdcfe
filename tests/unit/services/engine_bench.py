"""The engine behind queues in memory, to be handed messages one batch at a time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from noetl.adapters.memory import MemoryCatalog, MemoryExecutionStore, MemoryResultStore
from noetl.domain.capability_tokens import KeyRing, grant
from noetl.domain.commands import Command, ItemOutcome
from noetl.domain.events import CommandDone, Event, ItemsDone, Start
from noetl.domain.messages import VERSION, Message
from noetl.domain.outcomes.outcomes import ErrorInfo, Outcome
from noetl.kinds.registry import default_registry
from noetl.ports.executions.execution_store import CreatedExecution
from noetl.ports.queue import Delivery, Outgoing
from noetl.runtime.programs import Programs
from noetl.services.executions.start_execution import start_event
from noetl.services.messaging.large_messages import pack, unpack
from noetl.services.messaging.send_events import signed_event
from noetl.services.orchestrator.authenticate import MessageAuthenticator
from noetl.services.orchestrator.consume_events import EventBatchResult, MessageDeps, handle_messages
from noetl.services.orchestrator.engine_deps import EngineDeps
from noetl.services.orchestrator.publish import Publisher
from noetl.services.results.hydration import make_hydrate
from tests.doubles.queue import MemoryQueue
from tests.doubles.revocations import MemoryRevocations

RING = KeyRing.of(["the key of this deployment"])
NOW = 1_800_000_000.0
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: it, path: it }\nworkflow:\n"
STEP = HEAD + "  - step: start\n    tool: { kind: http, url: 'http://a.test/' }\n"


class RefusingQueue(MemoryQueue):
    """``refuses``: positions of the next requests that it does not take. ``sent``: what it took."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.refuses: set[int] = set()
        self.sent: list[Outgoing] = []

    def send(self, messages: Sequence[Outgoing]) -> Sequence[int]:
        taken = [message for number, message in enumerate(messages) if number not in self.refuses]
        super().send(taken)
        self.sent += taken
        return sorted(number for number in self.refuses if number < len(messages))


class Bench:
    def __init__(self, text: str = STEP, limit: int = 256 * 1024) -> None:
        self.time = NOW
        clock = lambda: self.time  # noqa: E731
        self.results = MemoryResultStore()
        self.store = MemoryExecutionStore(clock)
        self.events = RefusingQueue(fifo=True, clock=clock)
        self.timers = RefusingQueue(clock=clock)
        self.commands = {name: RefusingQueue(clock=clock) for name in ("http", "plain", "mixed")}
        self.programs = Programs(MemoryCatalog(), default_registry())
        self.program = self.programs(self.programs.register(text, source_name="it.yaml").program)
        self.log: list[str] = []
        self.rings = [RING]
        self.left = 25.0
        self.revocations = MemoryRevocations()
        publisher = Publisher(
            store=self.store,
            results=self.results,
            events=self.events,
            timers=self.timers,
            commands=self.commands.__getitem__,
            workers={"http": "http", "noop": "plain", "python": "plain"},
            programs=self.programs,
            keys=lambda: self.rings[-1],
            clock=clock,
            limit=limit,
            log=self.log.append,
        )
        engine = EngineDeps(
            self.store,
            self.results,
            self.programs,
            self.programs.resolve,
            make_hydrate(self.results),
            log=self.log.append,
        )
        door = MessageAuthenticator(self.store, self.results, self.keys, clock, self.log.append)
        self.deps = MessageDeps(door, engine, publisher, self.revocations, clock, "engine", self.log.append)

    def keys(self, fresh: bool) -> KeyRing:
        return self.rings[-1] if fresh else self.rings[0]

    def start(self) -> Start:
        number = random.Random(len(self.store.executions(limit=999))).getrandbits(20)
        event = start_event(self.program, {}, now_ms=int(self.time * 1000), random_bits=number)
        self.store.create(event, CreatedExecution("it", "it"), "until:1:nobody")
        return event

    def text(self, event: Event) -> str:
        """Return a message about ``event``, as a sender with the key writes it."""
        return signed_event(event, "client", RING, self.results, 10**6).body

    def put(self, *events: Event) -> list[Delivery]:
        self.events.send([signed_event(event, "client", RING, self.results, 10**6) for event in events])
        return self.receive()

    def receive(self) -> list[Delivery]:
        found: list[Delivery] = []
        while got := self.events.receive(10):
            found += got
        return found

    def handle(self, deliveries: Sequence[Delivery], source: MemoryQueue | None = None) -> EventBatchResult:
        queue = self.events if source is None else source
        managed = handle_messages(deliveries, queue, self.deps, lambda: self.left)
        queue.ack([one for one in deliveries if one.message_id not in managed.give_back])
        return managed

    def given(self, worker: str = "http") -> list[tuple[Command, str]]:
        """Commands on a worker's queue, with their tokens."""
        found = []
        while got := self.commands[worker].receive(10):
            for delivery in got:
                message = unpack(delivery.body, self.results)
                assert message.command is not None
                found.append((message.command, message.token))
            self.commands[worker].ack(got)
        return found

    def answer(
        self, command: Command, token: str | None = None, result: Any = 1, error: ErrorInfo | None = None
    ) -> str:
        """What a worker says, as text: a result, or the ``error`` that its task ended with."""
        outcome = Outcome("ok", result) if error is None else Outcome("error", error=error)
        event = CommandDone(
            command.execution_id, f"cmd:{command.command_id}:{command.turn}", command.program, command.command_id,
            command.attempt, command.turn, command.run, command.step, outcome, command.stage,
        )  # fmt: skip
        return pack(
            Message(VERSION, grant(command, RING) if token is None else token, event=event), self.results
        )

    def items(self, command: Command, count: int | None = None) -> str:
        """What a worker says about the first ``count`` items of a chunk; None: about all of them, so that it is closed."""
        loop = command.loop
        assert loop is not None
        stop = loop.stop if count is None else loop.start + count
        done = [ItemOutcome(index, Outcome("ok", index)) for index in range(loop.start, stop)]
        event = ItemsDone(
            command.execution_id, f"items:{command.command_id}", command.program, command.command_id,
            command.attempt, command.turn, command.run, command.step, loop.round, done, closed=count is None,
        )  # fmt: skip
        return pack(Message(VERSION, grant(command, RING), event=event), self.results)


def delivery(body: str, received: int = 1, name: str = "m") -> Delivery:
    return Delivery(name, f"r-{name}", body, received)
