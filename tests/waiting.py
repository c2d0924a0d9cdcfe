"""Wait for what another thread, process or function does. Every test that polls does it here.

How long something takes says nothing about the code: a busy machine is slow. So the end of a wait is generous, and only a test that
fails comes to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 150.0
"""Seconds after which what has not happened never will."""
PAUSE = 0.02
"""Seconds between two looks."""


def wait_until(check: Callable[[], Any], what: object = "it", *, seconds: float = PATIENCE) -> Any:
    """Poll ``check`` until it gives something true, and return that.

    ``what`` names the thing in the AssertionError of a wait that is given up; a callable is asked then.
    """
    until = time.monotonic() + seconds
    while not (found := check()):
        if time.monotonic() > until:
            raise AssertionError(
                f"{what() if callable(what) else what} did not happen within {seconds:.0f} s"
            )
        time.sleep(PAUSE)
    return found
