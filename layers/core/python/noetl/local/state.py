"""Records of started processes, so that exactly these are stopped.

A record has the pid and the start time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import msgspec

from noetl.domain import codec
from noetl.domain.errors import InfrastructureError
from noetl.local.layout import Layout

GRACE_SECONDS = 8.0
POLL_SECONDS = 0.02


class Process(msgspec.Struct, frozen=True):
    """A process that this tool started.

    ``started`` is the system's own word for when it began (its form differs between systems).
    """

    pid: int
    started: str


class State(msgspec.Struct, frozen=True, omit_defaults=True):
    """The local stack as it was last brought up.

    ``endpoint`` is the emulator's URL; ``api`` the deployed API's, ``ui`` that of its web UI.
    """

    environment: str
    project: str
    endpoint: str
    port: int = 0
    postgres_port: int = 0
    emulator: Process | None = None
    postgres: Process | None = None
    api: str | None = None
    ui: str | None = None
    outputs: dict[str, dict[str, str]] = {}
    deployed_at: str | None = None


def load(layout: Layout) -> State | None:
    """The recorded state; None when nothing was brought up.

    Raises InfrastructureError for a file that is not ours.
    """
    try:
        return codec.decoder(State).decode(layout.state.read_bytes())
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InfrastructureError(
            f"{layout.state} cannot be read: {error}",
            code="local_state",
            hint="move the file away and run `noetl local up` again; what it had started may still run",
            retryable=False,
        ) from None


def save(layout: Layout, state: State) -> None:
    """Write the state; a reader sees the old or the new one, never half of it."""
    layout.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = layout.state.with_suffix(".new")
    fresh.write_bytes(msgspec.json.format(msgspec.json.encode(state), indent=2))
    fresh.chmod(0o600)
    fresh.replace(layout.state)


# --- processes ----------------------------------------------------------------------------------


def process(pid: int) -> Process | None:
    """Return the process with this number as it is now; None when there is none.

    A killed one that its parent has not reaped counts as gone.
    """
    started = _started(pid)
    return Process(pid, started) if started else None


def runs(recorded: Process | None) -> bool:
    """Whether exactly this process still runs (its number may belong to another by now)."""
    return recorded is not None and process(recorded.pid) == recorded


def end(recorded: Process | None) -> bool:
    """Ask the process to stop and, if it does not, kill it.

    What is left of the group that it leads ends with it.

    False when it did not run any more.
    """
    if recorded is None or not runs(recorded):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(recorded.pid, signal.SIGTERM)
    _wait_gone(recorded)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(recorded.pid, signal.SIGKILL)
    _wait_gone(recorded)
    return True


def _wait_gone(recorded: Process) -> None:
    deadline = time.monotonic() + GRACE_SECONDS
    while runs(recorded) and time.monotonic() < deadline:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(recorded.pid, os.WNOHANG)
        time.sleep(POLL_SECONDS)


def _started(pid: int) -> str | None:
    if Path("/proc/self/stat").exists():
        try:
            rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if rest[0] in "ZX" else rest[19]
    shown = subprocess.run(
        ["ps", "-p", str(pid), "-o", "stat=,lstart="], capture_output=True, text=True, check=False
    ).stdout.split(maxsplit=1)
    return None if len(shown) < 2 or shown[0].startswith("Z") else shown[1].strip()
