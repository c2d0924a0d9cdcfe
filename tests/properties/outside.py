"""Somebody outside who is sent addresses of callbacks, and answers them: early, late, often, always with the same words for the same place."""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from noetl.domain.callbacks import CallbackId, read_token
from noetl.domain.errors import GoneError, NotFoundError
from noetl.domain.events import Event
from noetl.services.callbacks.complete_callback import CallbackDeps, answer
from noetl.testing.callbacks import RING

if TYPE_CHECKING:
    from tests.properties.world import World


def words(callback: CallbackId) -> dict[str, int]:
    """What is answered there, whoever answers."""
    return {"v": zlib.crc32(f"{callback.place}/{callback.serial}".encode()) % 1000}


@dataclass(slots=True)
class Outside:
    """``tokens``: those that may count (still). ``answered``: what was accepted, each once."""

    world: World
    tokens: list[str] = field(default_factory=list)
    answered: set[str] = field(default_factory=set)

    def sent(self, token: str) -> None:
        if token not in self.tokens:
            self.tokens.append(token)

    def answer(self, token: str, owner: str = "") -> list[Event]:
        """The event, durable; none when it is too late, or was answered before."""
        name = read_token(token, RING)
        assert name is not None, "the address that a playbook sent is one"
        value = words(name)
        world = self.world
        deps = CallbackDeps(
            world.store, world.results, world.programs, lambda fresh: RING, world.setting.inline_bytes
        )
        try:
            taken = answer(token, value, deps, owner)
        except (GoneError, NotFoundError) as error:
            gone = isinstance(error, GoneError) or name.execution_id in world.leaving
            assert gone, f"{error}, and nobody removed its execution"
            self.tokens.remove(token)
            return []
        assert (taken.event is None) == (token in self.answered), (
            "an answer counts once, and is not forgotten"
        )
        self.answered.add(token)
        return [] if taken.event is None else [taken.event]

    def answer_any(self, rng: random.Random) -> None:
        if self.tokens:
            self.answer(rng.choice(self.tokens))

    @property
    def open(self) -> list[str]:
        """Tokens nobody has answered yet."""
        return [token for token in self.tokens if token not in self.answered]

    def answer_all(self, owner: str = "") -> list[Event]:
        return [event for token in self.open for event in self.answer(token, owner)]
