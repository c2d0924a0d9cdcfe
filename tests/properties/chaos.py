"""What can go wrong inside one process: it dies at a port call, the store is away, or others get a turn in the middle of its work."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from noetl.domain.errors import InfrastructureError


class Crash(KeyboardInterrupt):
    """The process died: whatever it had in memory is gone.

    A KeyboardInterrupt, because that is what no boundary keeps from ending the process.
    """

    def __init__(self, owner: str, where: str) -> None:
        super().__init__(f"{owner} died {where}")
        self.owner = owner


class Faults:
    """The fate of one process. ``doom``: port calls it still makes; it dies before or after the last one took effect."""

    def __init__(self, owner: str, rng: random.Random, meanwhile: Callable[[str, str], None]) -> None:
        self.owner = owner
        self.rng = rng
        self.meanwhile = meanwhile
        self.dead = False
        self.doom = 0
        self.after = False
        self.away = 0
        """How many of the next calls find the store away, or never hear its answer."""

    def call(self, name: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.dead:
            raise Crash(self.owner, f"before {name}, again")
        if self.away > 0:
            self.away -= 1
            if self.rng.random() < 0.5:
                method(*args, **kwargs)
            raise InfrastructureError(f"{name}: the store is away", retryable=True)
        self.doom -= 1
        if self.doom == 0 and not self.after:
            self._die(f"before {name}")
        answer = method(*args, **kwargs)
        if self.doom == 0:
            self._die(f"after {name}")
        self.meanwhile(self.owner, name)
        return answer

    def _die(self, where: str) -> None:
        self.dead = True
        raise Crash(self.owner, where)


class FaultyPort:
    """A port whose every call may be the last."""

    def __init__(self, target: Any, faults: Faults) -> None:
        self._target = target
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not callable(found):
            return found
        return lambda *args, **kwargs: self._faults.call(name, found, *args, **kwargs)
