"""Finds out which layers this machine has, by trying them; prints one JSON object."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from . import landlock, syscall_filter
from .kernel import PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, prctl
from .namespaces import (
    RESERVED_PIDS,
    Ground,
    enter_own_root,
    fork_into_task,
    leave_user_and_processes,
    renew_ipc,
    temporary_above,
)

OTHER_USER = 0x70000000
PROCESSES = 400


def main() -> None:
    """Report what this machine has for confinement.

    Arguments: the guest's folder, an empty folder, and paths that another user must be able to read.
    """
    folder, paths = sys.argv[2], sys.argv[3:]
    found: dict[str, Any] = {
        "landlock": landlock.abi_version(),
        "namespaces": _try(lambda: _namespaces(folder)),
        "common_root": _try(lambda: _common_root(folder)),
        "socket_filter": _try(_filter),
        "subreaper": _try(lambda: prctl(PR_SET_CHILD_SUBREAPER, 1)),
        "root": os.geteuid() == 0,
        "process_limit": _try(lambda: _namespaces(folder, _process_limit)),
        "other_user": _try(lambda: _other_user(paths)) if os.geteuid() == 0 else "not root",
    }
    sys.stdout.write(json.dumps(found))


def _try(action: Callable[[], object], fork: Callable[[], int] = os.fork) -> str:
    """Try an action in a process that ``fork`` makes; return "" or what went wrong."""
    reading, writing = os.pipe()
    child = fork()
    if not child:
        try:
            action()
            problem = b""
        except OSError as error:
            problem = str(error).encode()
        os.write(writing, problem + b".")
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        answer = stream.read().decode()
    os.waitpid(child, 0)
    return answer[:-1] if answer else "the process that tried was ended"


def _namespaces(folder: str, then: Callable[[], None] = lambda: None) -> None:
    leave_user_and_processes()

    def enter() -> None:
        enter_own_root((), (), folder, PROCESSES)
        then()

    problem = _try(enter)
    if problem:
        raise OSError(0, problem)


def _common_root(folder: str) -> None:
    ground = Ground(folder, (), (), temporary_above(folder))
    ground.enter()

    def enter() -> None:
        ground.enter_task(folder, PROCESSES)
        renew_ipc()

    problem = _try(enter, fork_into_task)
    if problem:
        raise OSError(0, problem)


def _process_limit() -> None:
    with open("/proc/sys/kernel/pid_max") as stream:
        if int(stream.read()) != RESERVED_PIDS + PROCESSES:
            raise OSError(0, "the number of processes is that of the machine")


def _filter() -> None:
    import socket

    if not syscall_filter.is_known():
        raise OSError(0, f"the system calls of {os.uname().machine} are not known")
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    syscall_filter.filter_calls(sockets=True)
    try:
        socket.socket(socket.AF_UNIX).close()
    except PermissionError:
        return
    raise OSError(0, "the filter has no effect")


def _other_user(paths: list[str]) -> None:
    os.setgroups([])
    os.setresgid(OTHER_USER, OTHER_USER, OTHER_USER)
    os.setresuid(OTHER_USER, OTHER_USER, OTHER_USER)
    for path in paths:
        if not os.access(path, os.R_OK):
            raise OSError(0, f"{path} cannot be read by another user")
