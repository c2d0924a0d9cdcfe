"""A process of the command line in which the code ``poison`` of the kind python kills the process itself, as a guest once could.

The code ``poison_beside`` does so once three run beside each other, and ``bystander`` runs until then; from when the file ``calm`` is there,
neither waits.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noetl.domain.kinds import TaskContext
from noetl.kinds import registry as registries
from noetl.kinds.registry import Registry

POISON, BESIDE, BYSTANDER = "poison", "poison_beside", "bystander"


class Poisoned:
    """The registry of built-in kinds but for that."""

    def __init__(self, kinds: Registry) -> None:
        self._kinds = kinds
        self._together = threading.Barrier(3)
        self._calm = Path(os.environ["NOETL_HOME"]).parent / "calm"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kinds, name)

    def run(self, name: str, raw_params: Mapping[str, Any], context: TaskContext) -> Any:
        code = raw_params.get("code")
        if code in (BESIDE, BYSTANDER) and not self._calm.exists():
            self._together.wait()
        if code == BYSTANDER:
            while not self._calm.exists():
                time.sleep(0.01)
            return self._kinds.run(name, {"code": "result = 1"}, context)
        if code in (POISON, BESIDE):
            os.kill(os.getpid(), signal.SIGKILL)
        return self._kinds.run(name, raw_params, context)


def main() -> int:
    kinds = Poisoned(registries.default_registry())
    from noetl.runtime import bootstrap

    bootstrap.default_registry = lambda: kinds  # type: ignore[assignment, return-value]
    from noetl.cli.main import main as command_line

    return command_line()


if __name__ == "__main__":
    sys.exit(main())
