"""Workers as processes of this machine: what Fargate does, for tests and local runs."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from noetl.domain.errors import ConflictError, InfrastructureError
from noetl.ports.containers import Container

GRACE_SECONDS = 30.0
"""Between SIGTERM and SIGKILL, as on ECS."""


@dataclass(slots=True)
class _Started:
    process: subprocess.Popen[bytes]
    environment: dict[str, str]
    stopping: str = ""
    """Why it was asked to stop."""


class ProcessContainers:
    """``command`` is run with the variables of this process and those given to ``start``. Its processes end with ``close``."""

    def __init__(self, command: Sequence[str], *, grace: float = GRACE_SECONDS) -> None:
        self._command = list(command)
        self._grace = grace
        self._started: dict[str, _Started] = {}
        self._lock = threading.Lock()

    def start(self, token: str, environment: Mapping[str, str]) -> str:
        with self._lock:
            known = self._started.get(token)
            if known is None:
                self._started[token] = _Started(self._run(environment), dict(environment))
            elif known.environment != dict(environment):
                raise ConflictError(
                    f"token {token!r} has started a process with other variables", code="container_token"
                )
        return token

    def stop(self, container_id: str, reason: str) -> None:
        found = self._started.get(container_id)
        if found is None or found.process.poll() is not None:
            return
        found.stopping = reason
        found.process.terminate()
        threading.Thread(target=self._end, args=(found.process,), daemon=True).start()

    def describe(self, container_id: str) -> Container | None:
        found = self._started.get(container_id)
        if found is None:
            return None
        code = found.process.poll()
        if code is None:
            return Container(container_id, "stopping" if found.stopping else "running", reason=found.stopping)
        return Container(container_id, "stopped", code if code >= 0 else 128 - code, found.stopping)

    def close(self) -> None:
        """End them all and wait."""
        for token in list(self._started):
            self.stop(token, "closed")
        for found in self._started.values():
            self._end(found.process)

    def _run(self, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self._command,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise InfrastructureError(
                f"{self._command[0]} cannot be started: {error.strerror or error}", code="container_refused"
            ) from error

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        try:
            process.wait(self._grace)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
