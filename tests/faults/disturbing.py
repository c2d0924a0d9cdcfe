"""How processes die in the fault tests: at a named point, or at a random instant."""

from __future__ import annotations

import random
import threading

from tests.faults.ground import Running
from tests.faults.runner import PORTS


def suicide(rng: random.Random) -> dict[str, object]:
    """A named point at which the process kills itself, for two out of three."""
    if rng.random() < 0.33:
        return {}
    return {
        "port": rng.choice(sorted(PORTS)),
        "call": rng.choice((1, 2, 3, 5, 8, 13, 21)),
        "after": rng.random() < 0.5,
    }


def kill_sometime(running: Running, rng: random.Random) -> None:
    """Kill it at a random instant after it got ready, if it does not kill itself or end before."""
    delay = rng.random() * rng.choice((0.2, 1.5))
    timer = threading.Timer(delay, lambda: None)
    if running.wait_for("ready"):
        timer = threading.Timer(delay, running.process.kill)
        timer.start()
    running.finish()
    timer.cancel()
