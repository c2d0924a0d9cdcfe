"""Confines this process and then becomes another program."""

from __future__ import annotations

import os
import sys

from .confine import Confinement, confine
from .order import from_arguments

TYPE_CHECKING = False
"""As checkers of types take it: ``typing`` costs more to import than all of a task's layers."""
if TYPE_CHECKING:
    from typing import Any

CANNOT_START = 126


def main() -> None:
    """Launch as a process of its own."""
    order, lifeline, own = from_arguments()
    confine(Confinement(**order["confinement"]), lifeline)
    run(order, own)


def run(order: Any, own: list[int]) -> None:
    """Become the program ``order`` names, in a process that is confined. ``own``: none."""
    command: list[str] = order["command"]
    folder = order.get("begins_in")
    try:
        if folder:
            os.chdir(folder)
    except OSError as error:
        sys.stderr.write(f"a task cannot begin in {folder}: {error.strerror}\n")
        sys.exit(CANNOT_START)
    try:
        os.execv(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be started: {error.strerror}\n")
        sys.exit(CANNOT_START)
