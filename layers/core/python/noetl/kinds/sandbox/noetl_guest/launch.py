"""Confines this process and then becomes another program."""

from __future__ import annotations

import json
import os
import sys

from .confine import Confinement, confine

CANNOT_START = 126


def main() -> None:
    """Arguments: the guest's folder, the lifeline, a JSON object with ``confinement`` and ``command``."""
    order = json.loads(sys.argv[3])
    confine(Confinement.from_message(order["confinement"]), int(sys.argv[2]))
    command: list[str] = order["command"]
    try:
        os.execv(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be started: {error.strerror}\n")
        sys.exit(CANNOT_START)
