"""Recovery of a command whose process died while it ran it.

The command runs again at once, then alone after a delay, and then fails with ``worker_lost``.
"""

from __future__ import annotations

from typing import Literal

Takes = Literal["everything", "sound", "nothing"]
"""What a process takes over from others: ``sound`` is all but commands that a process died of."""

MOST = 3
"""How many processes may die while they run one turn of a command. Then the command ends with ``worker_lost`` (as a
queue moves a message to its dead letters)."""
WAIT_SECONDS = 3.0
"""How long a turn waits, by the store's clock, after each death beyond the first."""
ALONE_SECONDS = 30.0
"""How long nothing else that two processes died of is given to a process that has got such a command."""


def suspicious(lost: int) -> bool:
    """Whether so many have died of it that it is given out alone."""
    return 1 < lost < MOST


def wait_seconds(lost: int) -> float:
    """How long a turn waits that ``lost`` processes have died of."""
    return WAIT_SECONDS * max(0, lost - 1)
