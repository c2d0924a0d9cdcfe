"""Container jobs that a task starts: request and state.

Adapters: Docker or Podman, Fargate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import msgspec

from noetl.domain.errors import TaskError

WAKE = "NOETL_WAKE"
"""The variable of a container that says which command its end wakes."""
JobState = Literal["preparing", "running", "ended"]


class JobOrder(msgspec.Struct, frozen=True):
    """A container to run.

    ``command``: instead of the image's own, unless empty. ``secrets``: variable → credential. ``cpu``: processors; ``memory``: MiB.
    ``seconds``: how long it may take. ``token``: the same again is the same job, started once. ``wake``: the command that its end wakes.
    """

    image: str
    token: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    secrets: Mapping[str, str] = msgspec.field(default_factory=dict)
    cpu: float = 0.25
    memory: int = 512
    seconds: float = 3600.0
    wake: str = ""
    credential: Callable[[str], Any] | None = None
    """Reads a credential (domain/kinds.Credential) by its name, for a place that hands them over itself."""


class Job(msgspec.Struct, frozen=True):
    """The state of a container.

    ``exit_code``: of one that ended by itself. ``problem``: why it never ran, or was ended: ``image_pull_failed``, ``out_of_memory``,
    ``start_failed``, ``start_refused``, ``stopped``, ``host_lost``; ``reason``: in the platform's words.
    """

    state: JobState
    exit_code: int | None = None
    problem: str = ""
    reason: str = ""


class Jobs(Protocol):
    """A platform that runs containers.

    Every method raises TaskError: ``connection`` (retryable) when the platform is unavailable, ``auth`` when it refuses.
    """

    def start(self, order: JobOrder) -> str:
        """The name of a job that was started, or is being prepared.

        Returns soon. Raises TaskError(code="containers_unavailable").
        """

    def look(self, name: str) -> Job | None:
        """Return the state of a job; None: the platform does not know it (any more)."""

    def logs(self, name: str, lines: int) -> str:
        """The last lines of its output."""

    def stop(self, name: str, reason: str) -> None:
        """Ask it to end, then end it. One that is gone is no error."""


class NoJobs:
    """A place where no containers can be run. ``why`` and ``hint``: what to tell."""

    def __init__(self, why: str = "containers cannot be run here", hint: str | None = None) -> None:
        self.why, self.hint = why, hint

    def start(self, order: JobOrder) -> str:
        raise self._refusal()

    def look(self, name: str) -> Job | None:
        raise self._refusal()

    def logs(self, name: str, lines: int) -> str:
        raise self._refusal()

    def stop(self, name: str, reason: str) -> None:
        raise self._refusal()

    def _refusal(self) -> TaskError:
        return TaskError(self.why, kind="not_found", code="containers_unavailable", hint=self.hint)
