"""Starts a confined process: its own session, an environment without the parent's, a folder of its own.

Before the first one starts, this process makes its own memory and environment unreadable for others of the
same user (Linux), because what it holds, credentials above all, is what confinement is about.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

GUEST_FOLDER = str(Path(__file__).resolve().parent)
BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from noetl_guest.{mode} import main; main()"
PR_SET_DUMPABLE = 4
SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"
LOADER_VARIABLES = ("LD_LIBRARY_PATH",)
"""Kept from the parent: some interpreters, Lambda's among them, do not start without."""


@dataclass(frozen=True, slots=True)
class Confined:
    """A running process and the folder it works in."""

    process: subprocess.Popen[bytes]
    folder: Path

    def kill(self) -> None:
        """End the process and everything in its group, reap it, and remove its folder."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def start_confined(
    mode: Literal["serve", "launch"],
    argument: str,
    *,
    stdin: int,
    stdout: int,
    stderr: int,
    pass_fds: Sequence[int] = (),
    env: Mapping[str, str] | None = None,
) -> Confined:
    """Start the guest in ``mode``. Standard streams are descriptors or the constants of ``subprocess``.

    ``env`` is added to the scrubbed environment. Raises OSError when no process can be started.
    """
    protect_own_memory()
    folder = Path(tempfile.mkdtemp(prefix="noetl-task-")).resolve()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", BOOT.format(mode=mode), GUEST_FOLDER, argument],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=pass_fds,
            close_fds=True,
            env=_environment(folder) | dict(env or {}),
            cwd=folder,
            start_new_session=True,
            bufsize=0,
        )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Confined(process, folder)


def library_path() -> list[str]:
    """Where this process finds libraries; relative entries are left out, since a guest stands elsewhere."""
    return [entry for entry in sys.path if entry and Path(entry).is_absolute()]


@cache
def protect_own_memory() -> None:
    """Make this process non-dumpable: its memory and environment are closed to others of the same user.

    Raises OSError when Linux refuses. Other systems have no such switch and need none: without /proc,
    reading another process takes a privilege that a confined process has not got.
    """
    if sys.platform != "linux":
        return
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot protect this process: {os.strerror(number)}")


def describe_end(returncode: int) -> tuple[str, str]:
    """Code and words for a process that ended by itself: (``process_exited``, "exit code 3")."""
    if returncode >= 0:
        return "process_exited", f"exit code {returncode}"
    number = -returncode
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    reason = {"SIGKILL": ", perhaps for want of memory", "SIGXCPU": ", its processor time was used up"}
    return "process_crashed", f"killed by {name}{reason.get(name, '')}"


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in LOADER_VARIABLES if name in os.environ}
    return {"PATH": SEARCH_PATH, "LANG": "C.UTF-8", "HOME": str(folder), "TMPDIR": str(folder), **kept}
