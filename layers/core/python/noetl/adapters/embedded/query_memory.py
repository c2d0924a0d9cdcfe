"""What the processes that run people's queries may take from others.

Postgres has no limit for what one query holds: a row may have many values of a gigabyte, and planning has no limit at all. So the kernel
keeps it: an allocation beyond the limit fails, which Postgres reports as an error of the query alone. The limit leaves out the stack, which
Postgres limits itself: a stack that may not grow is no error of a query but a signal that ends its process, and then Postgres restarts for
everyone. macOS has no such call: there a query has the limit of time alone.

A row that takes long cannot be ended, except with the whole server: it gets the processor after everything else.
"""

from __future__ import annotations

import math
import os
import resource
import subprocess
from pathlib import Path

from noetl.adapters.embedded import processes
from noetl.domain.errors import InfrastructureError

GROWTH = 256 * 1024 * 1024
"""Bytes that a query may use beyond what its process has at the start."""
NICE = 10
"""Beside what the engine does. Not the most: others may wait for what the process holds for a moment."""
_HELPER_SECONDS = 10


def bound(process: int, data: Path) -> None:
    """Let a process of the server over ``data`` grow by ``GROWTH``, behind all others.

    Limits that the server was started with stay where they are narrower: root alone may widen them.

    Raises InfrastructureError(code="query_memory") when the system refuses it.
    """
    if not hasattr(resource, "prlimit"):
        return
    try:
        if str(processes.parent_of(process)) != processes.pid_file_line(data, 0):
            raise ProcessLookupError(f"process {process} is none of this server")
        most = int(_line(process, "status", "VmData:").split()[0]) * 1024 + GROWTH
        if most < _data_limit(process):
            try:
                resource.prlimit(process, resource.RLIMIT_DATA, (most, most))
            except PermissionError:
                _as_owner("prlimit", f"--pid={process}", f"--data={most}:{most}")
        if os.getpriority(os.PRIO_PROCESS, process) < NICE:
            try:
                os.setpriority(os.PRIO_PROCESS, process, NICE)
            except PermissionError:
                _as_owner("renice", "-n", str(NICE), "-p", str(process))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise InfrastructureError(
            f"the memory of a query cannot be limited: {error}",
            code="query_memory",
            hint="run noetl as an ordinary user, or install prlimit and renice (of util-linux)",
            retryable=False,
        ) from error


def _as_owner(*command: str) -> None:
    """Run a program of util-linux, which each Linux with users has, as the user of the server.

    Root without CAP_SYS_RESOURCE and CAP_SYS_NICE may limit its own processes alone.
    """
    subprocess.run(
        command,
        env=processes.environment(),
        check=True,
        capture_output=True,
        timeout=_HELPER_SECONDS,
        **processes.run_as(),
    )


def _data_limit(process: int) -> float:
    """Return what holds for the process now.

    prlimit(2) needs a right to answer that, and the file needs none.
    """
    soft = _line(process, "limits", "Max data size").split()[0]
    return math.inf if soft == "unlimited" else int(soft)


def _line(process: int, file: str, begin: str) -> str:
    """Return the rest of a line of a file about the process."""
    with Path(f"/proc/{process}/{file}").open(encoding="ascii", errors="replace") as lines:
        for line in lines:
            if line.startswith(begin):
                return line.removeprefix(begin).strip()
    raise ProcessLookupError(f"process {process} has no {begin}")
