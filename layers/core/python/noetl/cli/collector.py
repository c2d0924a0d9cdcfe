"""How often the garbage collector runs while a command starts: modules that load make many objects, and hardly any garbage."""

from __future__ import annotations

import gc

USUAL = gc.get_threshold()
STARTING = 200_000
"""New objects after which it runs: more than a command makes that only looks. With Python's own number it takes a tenth of its time."""


def collect_rarely() -> None:
    """Let modules load without collecting."""
    gc.set_threshold(STARTING)


def collect_as_usual() -> None:
    """What goes on for long has started: its garbage is collected as Python does it, and what was loaded is never looked through."""
    gc.freeze()
    gc.set_threshold(*USUAL)
