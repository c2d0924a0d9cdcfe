"""Task containers on this machine, by the command line of Docker or Podman.

Containers are started detached, inspected, and removed a while after their end.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.workers.container_jobs import Job, JobOrder

PROGRAMS = ("docker", "podman")
LABEL = "noetl.until"
"""Epoch seconds by which a container has to be over."""
KEEP = "1h"
"""How long one that has ended is kept, so that an answer that was lost can be had again."""
CALL_SECONDS = 30.0
GRACE_SECONDS = 10
_MISSING = (
    "no such object",
    "no such container",
    "no such image",
    "image not known",
    "no container with name",
)


class DockerJobs:
    """Jobs as containers of this machine.

    ``find``: where a program is. ``now``: epoch seconds. Images are pulled in the background, however long that takes.
    """

    def __init__(
        self,
        find: Callable[[str], str | None] = shutil.which,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._find = find
        self._now = now
        self._pulls: dict[str, subprocess.Popen[bytes]] = {}
        self._orders: dict[str, JobOrder] = {}
        """Of containers whose image is being pulled."""
        self._lock = threading.Lock()

    def start(self, order: JobOrder) -> str:
        self._tidy()
        name = "noetl-" + hashlib.sha256(order.token.encode("utf-8", "surrogatepass")).hexdigest()[:24]
        with self._lock:
            self._orders[name] = order
        if self._inspect(name) is None:
            self._go_on(name, order)
        return name

    def look(self, name: str) -> Job | None:
        state = self._inspect(name)
        if state is not None:
            return _job(state)
        with self._lock:
            order = self._orders.get(name)
        return None if order is None else self._go_on(name, order)

    def logs(self, name: str, lines: int) -> str:
        return self._run(["logs", "--tail", str(lines), name], merged=True).stdout.decode("utf-8", "replace")

    def stop(self, name: str, reason: str) -> None:
        with self._lock:
            self._orders.pop(name, None)
        self._run(
            ["stop", "--time", str(GRACE_SECONDS), name],
            allowed=_MISSING,
            seconds=CALL_SECONDS + GRACE_SECONDS,
        )
        self._run(["rm", "--force", name], allowed=_MISSING)

    # --- starting --------------------------------------------------------------------------------------

    def _go_on(self, name: str, order: JobOrder) -> Job:
        """Start the container once its image is there."""
        with self._lock:
            pull = self._pulls.get(order.image)
            if pull is None and not self._has(order.image):
                pull = self._pulls[order.image] = self._pull(order.image)
            if pull is not None:
                code = pull.poll()
                if code is None:
                    return Job("preparing")
                del self._pulls[order.image]
                if code != 0:
                    self._orders.pop(name, None)
                    output = pull.stderr.read().decode("utf-8", "replace") if pull.stderr else ""
                    return Job("ended", problem="image_pull_failed", reason=output.strip()[-500:])
        self._begin(name, order)
        with self._lock:
            self._orders.pop(name, None)
        return Job("running")

    def _has(self, image: str) -> bool:
        done = self._run(["image", "inspect", "--format", "{{.Id}}", image], allowed=_MISSING)
        return done.returncode == 0

    def _pull(self, image: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [self._program(), "pull", "--quiet", image],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def _begin(self, name: str, order: JobOrder) -> None:
        """Start the container; values of variables go by the environment of the command line.

        Every user of this machine can see the words of a command line.
        """
        values = {**order.env, **_secrets(order)}
        words = [
            "run",
            "--detach",
            "--name",
            name,
            "--cpus",
            f"{order.cpu:g}",
            "--memory",
            f"{order.memory}m",
        ]
        words += ["--label", f"{LABEL}={int(self._now() + order.seconds)}"]
        for variable in values:
            words += ["--env", variable]
        done = self._run([*words, order.image, *order.command], values=values, allowed=("",))
        if done.returncode != 0 and self._inspect(name) is None:
            raise _unreachable(_output_of(done))

    # --- the command line ------------------------------------------------------------------------------

    def _inspect(self, name: str) -> dict[str, Any] | None:
        done = self._run(
            ["inspect", "--type", "container", "--format", "{{json .State}}", name], allowed=_MISSING
        )
        if done.returncode != 0:
            return None
        found = json.loads(done.stdout)
        return found if isinstance(found, dict) else None

    def _tidy(self) -> None:
        """Remove containers that ended some time ago, and stop overdue ones.

        The process that started an overdue container may have died before it could stop it.
        """
        self._run(
            ["container", "prune", "--force", "--filter", f"label={LABEL}", "--filter", f"until={KEEP}"],
            allowed=("",),
        )
        shown = '{{.Names}} {{.Label "' + LABEL + '"}}'
        done = self._run(["ps", "--filter", f"label={LABEL}", "--format", shown], allowed=("",))
        for line in done.stdout.decode("utf-8", "replace").splitlines():
            name, _, until = line.partition(" ")
            if until.strip().isdigit() and int(until) + GRACE_SECONDS < self._now():
                self.stop(name, "its time is over")

    def _run(
        self,
        words: Sequence[str],
        *,
        values: Mapping[str, str] | None = None,
        allowed: Sequence[str] = (),
        merged: bool = False,
        seconds: float = CALL_SECONDS,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the program. ``allowed``: an error message of it that is no failure.

        Raises TaskError.
        """
        try:
            done = subprocess.run(
                [self._program(), *words],
                env={**os.environ, **(values or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if merged else subprocess.PIPE,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise _unreachable(f"{words[0]} took longer than {seconds:g} s") from late
        except OSError as error:
            raise _unreachable(str(error.strerror or error)) from error
        if done.returncode != 0 and not any(part in _output_of(done).lower() for part in allowed):
            raise _unreachable(_output_of(done))
        return done

    def _program(self) -> str:
        found = next((path for path in map(self._find, PROGRAMS) if path), None)
        if found is None:
            raise TaskError(
                "containers need Docker or Podman, and neither is on the PATH",
                kind="not_found",
                code="containers_unavailable",
                hint="install one (https://docs.docker.com/get-docker, https://podman.io) and try again",
            )
        return found


def _secrets(order: JobOrder) -> dict[str, str]:
    """Return each credential as JSON, as Secrets Manager keeps it."""
    found = {}
    for variable, name in order.secrets.items():
        if order.credential is None:
            raise TaskError(
                f"no credential store can be asked for the credential {name!r}",
                kind="auth",
                code="credential_not_found",
            )
        known = order.credential(name)
        found[variable] = codec.encode({"type": known.type, "data": dict(known.data)}).decode()
    return found


def _job(state: Mapping[str, Any]) -> Job:
    status = str(state.get("Status", ""))
    if status in ("created", "configured", "initialized"):
        return Job("preparing") if not state.get("Error") else _failed(state)
    if status in ("running", "restarting", "paused", "removing", "stopping"):
        return Job("running")
    code = int(state.get("ExitCode") or 0)
    if state.get("OOMKilled"):
        return Job("ended", code, "out_of_memory")
    return _failed(state) if state.get("Error") and code in (125, 126, 127, 128) else Job("ended", code)


def _failed(state: Mapping[str, Any]) -> Job:
    return Job("ended", problem="start_failed", reason=str(state.get("Error"))[:500])


def _output_of(done: subprocess.CompletedProcess[bytes]) -> str:
    text = (done.stderr or done.stdout or b"").decode("utf-8", "replace").strip()
    return text[-500:] or f"exit code {done.returncode}"


def _unreachable(reason: str) -> TaskError:
    return TaskError(
        f"containers cannot be reached: {reason}",
        kind="connection",
        code="containers_away",
        retryable=True,
        hint="is its service running? `docker info` says",
    )
