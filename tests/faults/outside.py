"""What a deployment has around it: queues that are strange where SQS is strange, clients that ask again, and those who are sent callbacks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from noetl.domain.callbacks import read_token
from noetl.domain.capability_tokens import KeyRing
from noetl.domain.errors import GoneError
from noetl.domain.events import Cancel, Event, Resume, Start
from noetl.domain.state import TERMINAL
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.ports.queue import Delivery, Outgoing
from noetl.runtime.programs import Programs
from noetl.services.callbacks.complete_callback import CallbackDeps, answer
from noetl.services.executions.start_execution import StartRequest, start_execution
from tests.doubles.queue import MemoryQueue
from tests.properties.outside import words


@dataclass
class Strange:
    """What queues do besides delivering. ``budget``: how often yet."""

    rng: random.Random
    budget: int = 0

    def strikes(self, chance: float) -> bool:
        if self.budget > 0 and self.rng.random() < chance:
            self.budget -= 1
            return True
        return False


class StrangeQueue(MemoryQueue):
    """Refuses some entries of a request, delivers some twice, and gives them out in any order."""

    def __init__(self, strange: Strange, **settings: Any) -> None:
        super().__init__(**settings)
        self._strange = strange

    def send(self, messages: Sequence[Outgoing]) -> Sequence[int]:
        refused = [number for number in range(len(messages)) if self._strange.strikes(0.05)]
        taken = [message for number, message in enumerate(messages) if number not in refused]
        super().send(taken)
        for message in taken:
            if self._strange.strikes(0.1):
                self.adopt(message.body, message.group)
        return refused

    def receive(self, limit: int, wait_seconds: float = 0.0) -> Sequence[Delivery]:
        if self._strange.budget > 0:
            kept = list(self._kept.items())
            self._strange.rng.shuffle(kept)
            self._kept = dict(kept)
            limit = self._strange.rng.choice((1, 2, limit))
        return super().receive(limit)

    def soonest(self, now: float) -> float | None:
        """Seconds until something hidden can be seen."""
        return min((kept.due - now for kept in self._kept.values() if kept.due > now), default=None)


@dataclass(eq=False)
class Asked:
    """What a client wants. ``born``: milliseconds and random bits of the execution's id."""

    event: Event
    born: tuple[int, int]

    def start(self, programs: Programs, store: ExecutionStore, owner: str) -> list[Event]:
        """Once, however often it is asked for. Returns what has to be published."""
        event = self.event
        assert isinstance(event, Start)
        program = programs(event.program)
        wish = StartRequest(event.payload, program.path, 1, key=f"wish {event.execution_id}")
        made = start_execution(
            program, wish, store, owner=owner, now_ms=self.born[0], random_bits=self.born[1]
        )
        assert made.execution_id == event.execution_id
        return [made.event] if made.event is not None else []

    def post(self, store: ExecutionStore, owner: str) -> list[Event] | None:
        """None: its execution has not started yet, or is not paused yet and shall go on. What was posted before is sent again, as the API
        does."""
        if isinstance(self.event, Resume):
            info = store.info(self.event.execution_id)
            if info is None or info.status == "running":
                return None
        posted = store.post(self.event, owner)
        if posted.status in TERMINAL:
            return []
        return [self.event] if posted.version or isinstance(self.event, Cancel) else None


@dataclass(eq=False)
class Called:
    """Somebody outside was sent the token of a callback, and answers it: at once or later, as often as it was sent, in the same words."""

    token: str
    ring: KeyRing
    rng: random.Random

    def post(self, deps: CallbackDeps, owner: str) -> list[Event] | None:
        """None: they take their time."""
        callback = read_token(self.token, self.ring)
        assert callback is not None, "the token that a playbook sent is one"
        if self.rng.random() < 0.5:
            return None
        try:
            taken = answer(self.token, words(callback), deps, owner)
        except GoneError:
            return []
        return [] if taken.event is None else [taken.event]
