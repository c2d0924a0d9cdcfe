"""Confines this process and then becomes another program."""

from __future__ import annotations

import json
import os
import sys

from .confine import confine

CANNOT_START = 126


def main() -> None:
    """Arguments: the guest's folder, then a JSON object with ``memory``, ``file_size`` and ``command``."""
    order = json.loads(sys.argv[2])
    confine(order["memory"], order["file_size"])
    command: list[str] = order["command"]
    try:
        os.execv(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be started: {error.strerror}\n")
        sys.exit(CANNOT_START)
