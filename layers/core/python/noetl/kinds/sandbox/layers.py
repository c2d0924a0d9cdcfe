"""Layers that confine playbook code here: available ones, used ones, what they cover.

``detect`` tries, in a process of its own and once per process of a worker. ``choose_layers`` is a pure function of what
was found. The reports (``noetl doctor``, ``noetl serve``) show ``Layers.protections``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.domain.shortages import shortage, shortage_in

GUEST_FOLDER = str(Path(__file__).resolve().parent)
PROBE = "import sys; sys.path.insert(0, sys.argv[1]); from noetl_guest.probe import main; main()"
PROBE_SECONDS = 30.0
SCOPES_SINCE = 6
"""The first ABI of Landlock that keeps a task from other processes: their signals, their abstract sockets."""
WITHOUT = "NOETL_WITHOUT_LAYERS"
"""Layers that are not to be used although they are there: to see how code runs on a machine that lacks them."""
SWITCHES = {
    "landlock": ("landlock",),
    "namespaces": ("namespaces", "process_limit"),
    "common_root": ("common_root",),
    "socket_filter": ("socket_filter",),
    "other_user": ("other_user",),
    "subreaper": ("subreaper",),
}
"""What each word of that takes away."""
OTHER_USERS = range(0x70000000, 0x78000000)
"""Numbers that no account has: each task of a root worker gets one where nothing else confines it."""
_detecting = threading.Lock()


@dataclass(frozen=True, slots=True)
class Detected:
    """What a machine can do. A text says why not; an empty one that it can."""

    system: str
    """``sys.platform``."""
    landlock: int = 0
    """Its ABI; 0: none."""
    namespaces: str = "not Linux"
    """User, process and mount namespaces without privileges."""
    socket_filter: str = "not Linux"
    """A filter of system calls (seccomp)."""
    other_user: str = "not root"
    """Tasks may run as a user that nothing else runs as."""
    root: bool = False
    """Limits on the processes of a user do not count for root."""
    process_limit: str = "not Linux"
    """A process namespace may have a limit of its own (since Linux 6.14)."""
    subreaper: str = ""
    """A process may get all orphans below it (since Linux 3.4)."""
    common_root: str = "not Linux"
    """A root that is made once, for the namespaces of all tasks (since Linux 5.3)."""


class Protection(msgspec.Struct, frozen=True):
    """One purpose of confinement.

    ``by`` names the layers, ``missing`` what a task can do without them.
    """

    name: str
    by: str
    missing: str


@dataclass(frozen=True, slots=True)
class Layers:
    """What is used."""

    landlock: int = 0
    namespaces: bool = False
    common_root: bool = False
    """The namespaces of all tasks are made from one root: that confines as well, and takes less time."""
    socket_filter: bool = False
    other_user: bool = False
    process_limit: bool = False
    """Processes of a task are refused above a number."""
    supervisor: bool = False
    """A process between worker and task that gets every orphan, and ends what the task started."""
    watched: bool = False
    """The worker looks at the size of a task's folder."""
    key_filter: bool = False
    """The filter of system calls refuses keys of the kernel, and calls that keep memory which no process has mapped."""

    @property
    def confines_files(self) -> bool:
        """Whether a task can read no more of this machine's files than it was given."""
        return bool(self.landlock or self.namespaces or self.other_user)

    @property
    def protections(self) -> tuple[Protection, ...]:
        """Each with the layers that give it, or what is missing without them."""
        return tuple(_protections(self))


def choose_layers(found: Detected) -> Layers:
    """Choose every layer that adds something to those that are stronger.

    Another user is the last resort, because the folder of a playbook may be closed to it.
    """
    if found.system != "linux":
        return Layers()
    namespaces = not found.namespaces
    scoped = found.landlock >= SCOPES_SINCE
    other_user = not (found.other_user or namespaces or found.landlock)
    return Layers(
        landlock=found.landlock,
        namespaces=namespaces,
        common_root=namespaces and not found.common_root,
        socket_filter=not found.socket_filter and not (namespaces and scoped),
        other_user=other_user,
        process_limit=other_user or not found.root or (namespaces and not found.process_limit),
        supervisor=not found.subreaper,
        watched=True,
        key_filter=not found.socket_filter,
    )


def _protections(layers: Layers) -> Iterator[Protection]:
    landlock = f"Landlock (ABI {layers.landlock})" if layers.landlock else ""
    spaces = "namespaces" if layers.namespaces else ""
    user = "a user of its own" if layers.other_user else ""
    calls = "a filter of system calls"
    sockets = calls if layers.socket_filter else ""
    keys = calls if layers.key_filter else ""
    scope = landlock if layers.landlock >= SCOPES_SINCE else ""
    supervisor = "a supervising process" if layers.supervisor else ""
    watched = "a worker that looks at its folder" if layers.watched else ""
    for name, by, missing in (
        (
            "files",
            (spaces, landlock, user),
            "code reads and writes all files of this user, those of the home folder among them",
        ),
        (
            "sockets",
            (spaces, scope if spaces else "", sockets, user),
            "code connects to sockets of this user's servers",
        ),
        ("signals", (spaces, scope, user), "code can end the worker and other tasks"),
        (
            "memory",
            (spaces, landlock, user),
            "code can look into processes of this user that do not forbid it",
        ),
        ("keys", (keys,), "code reads and changes keys that the system keeps for this user (keyrings)"),
        ("hidden memory", (keys,), "code can hold memory that counts towards no limit"),
        ("leftovers", (spaces, supervisor), "processes that leave the task's group outlive it"),
        (
            "processes",
            (layers.process_limit and "a limit of the kernel",),
            "code can start processes faster than they are ended (fork bomb)",
        ),
        ("disk", (watched,), "code can fill the disk"),
    ):
        yield Protection(name, " and ".join(text for text in by if text), missing)


@cache
def detect() -> Detected:
    """Try what this machine has. Raises InfrastructureError when not even that can be started."""
    if sys.platform != "linux":
        return Detected(sys.platform)
    folder = tempfile.mkdtemp(prefix="noetl-probe-")
    readable = [sys.executable, str(Path(os.__file__).parent), GUEST_FOLDER]
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", PROBE, GUEST_FOLDER, os.path.realpath(folder), *readable],
            capture_output=True,
            timeout=PROBE_SECONDS,
            check=True,
            cwd=folder,
            env={},
        )
        return Detected(sys.platform, **json.loads(done.stdout))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise _unknown(error) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unknown(error: Exception) -> InfrastructureError:
    """Say why the layers cannot be found out.

    It is what the machine is short of, or the program's last line.
    """
    complaint = ""
    if isinstance(error, subprocess.CalledProcessError):
        complaint = error.stderr.decode("utf-8", "replace").strip()
    lacking = shortage_in(complaint) or shortage(error)
    reason = lacking.reason if lacking else complaint.rpartition("\n")[2][:300] or str(error)
    return InfrastructureError(
        f"what confines code on this machine cannot be found out: {reason}",
        code="confinement_unknown",
        hint=lacking.remedy if lacking else None,
    )


def without(found: Detected, left_out: str) -> Detected:
    """Return ``found`` without the layers that ``left_out`` names.

    ``left_out``: words of ``SWITCHES`` with commas. Raises InvalidInputError.
    """
    names = {word.strip() for word in left_out.split(",") if word.strip()}
    if unknown := sorted(names - SWITCHES.keys()):
        raise InvalidInputError(
            f"{WITHOUT}: {unknown[0][:40]!r} is no layer",
            code="unknown_layer",
            hint=f"name some of {', '.join(SWITCHES)}, with commas",
        )
    changes: dict[str, Any] = {}
    for name in names:
        changes |= dict.fromkeys(SWITCHES[name], f"left out by {WITHOUT}")
    if "landlock" in changes:
        changes["landlock"] = 0
    return replace(found, **changes)


def layers() -> Layers:
    """Return the layers of this machine, without what ``WITHOUT`` leaves out.

    Raises InfrastructureError and InvalidInputError.
    """
    with _detecting:  # one thread tries, and the others take what it has found
        found = detect()
    return choose_layers(without(found, os.environ.get(WITHOUT, "")))
