"""How often the garbage collector runs in a command and in a function of a deployment.

Modules that load make many objects, and hardly any garbage. So does an engine: its values have no cycles.
"""

from __future__ import annotations

import gc

RUNNING = (10_000, 10, 10)
"""New objects after which it runs in a process that stays, and how many of these runs make the next larger one. With Python's own 700
objects it ran for each second execution."""
STARTING = 200_000
"""New objects after which it runs: more than a command makes that only looks. With Python's own number it takes a tenth of its time."""


def collect_rarely() -> None:
    """Let modules load without collecting."""
    gc.set_threshold(STARTING)


def collect_as_usual() -> None:
    """Collect the garbage of a process that stays.

    What was loaded until now is never looked through.
    """
    gc.freeze()
    gc.set_threshold(*RUNNING)
