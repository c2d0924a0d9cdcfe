"""A process of the command line in which the code ``poison`` of the kind python kills the process itself, as a guest once could."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

from noetl.domain.kinds import TaskContext
from noetl.kinds import registry as registries
from noetl.kinds.registry import Registry


class Poisoned:
    """The registry of built-in kinds but for that."""

    def __init__(self, kinds: Registry) -> None:
        self._kinds = kinds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kinds, name)

    def run(self, name: str, raw_params: Mapping[str, Any], context: TaskContext) -> Any:
        if raw_params.get("code") == "poison":
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
