"""Starting a worker for work that needs more than a function has. Adapters: Fargate, a process of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec


class Container(msgspec.Struct, frozen=True):
    """``exit_code``: None while it runs, or when it never started. ``reason``: why it stopped, in the platform's words."""

    container_id: str
    state: Literal["starting", "running", "stopping", "stopped"]
    exit_code: int | None = None
    reason: str = ""


class Containers(Protocol):
    """Raises InfrastructureError when the platform cannot be reached or has no room."""

    def start(self, token: str, environment: Mapping[str, str]) -> str:
        """The id of a worker started with these variables beside its own. The same ``token`` again: the same worker, started once.

        Raises ConflictError(code="container_token") when the token was used with other variables.
        """

    def stop(self, container_id: str, reason: str) -> None:
        """Ask it to end (SIGTERM), then end it. One that is gone is no error."""

    def describe(self, container_id: str) -> Container | None:
        """None when the platform does not know it (any more)."""
