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
PAUSE, LONGEST_PAUSE = 0.02, 0.25
"""Seconds between two looks: at first, and at most. In between it is a twentieth of the wait so far, because a look is often work for what is
waited for."""


def wait_until(check: Callable[[], Any], what: object = "it", *, seconds: float = PATIENCE) -> Any:
    """Poll ``check`` until it gives something true, and return that.

    ``what`` names the thing in the AssertionError of a wait that is given up; a callable is asked then.
    """
    began = time.monotonic()
    while not (found := check()):
        waited = time.monotonic() - began
        if waited > seconds:
            raise AssertionError(
                f"{what() if callable(what) else what} did not happen within {seconds:.0f} s"
            )
        time.sleep(min(max(PAUSE, waited / 20), LONGEST_PAUSE))
    return found
