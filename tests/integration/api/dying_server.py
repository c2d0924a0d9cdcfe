"""The ``noetl`` command, whose process dies between accepting a batch of events and handling it."""

from __future__ import annotations

import os
import signal
from typing import Any

from noetl.api.nouns import events
from noetl.cli import main as command


def die(batch_id: Any, deps: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> int:
    events.process_batch = die  # type: ignore[attr-defined]
    return command.main()
