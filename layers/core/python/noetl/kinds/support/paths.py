"""The check that a playbook's path stays inside the folders that a deployment allows.

Tasks may write to some of these folders while a kind reads there. So a file is opened without links on the way that was checked.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskSettings
from noetl.kinds.support.given_folders import settled
from noetl.kinds.support.open_parts import is_inside, is_open

_AT = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Without a wait for a process that writes to a pipe."""


def locate(path: str, settings: TaskSettings, more: Iterable[str] = ()) -> Path:
    """Resolve the path of a file that a task may read, as ``resolve_inside`` does.

    ``more``: folders beside those of ``settings``. Where tasks may write, open it with ``open_file``, and by no other name.
    """
    places = (settled(folder, settings.task_folders) for folder in (*settings.data_dirs, *more))
    roots = [place for place in places if place is not None]
    found = resolve_inside(path, roots, hidden=settings.hidden_dirs)
    if not any(is_inside(str(found), root) for root in roots):  # a root was led to another place meanwhile
        raise TaskError(
            f"{path!r} is outside the allowed folders", kind="storage_access", code="path_outside"
        )
    return found


def open_file(path: Path) -> BinaryIO:
    """Open a file at its real path; no link on the way is followed.

    Raises TaskError: ``storage_access`` (code ``path_invalid`` for what is no file, or ``file_unreadable``).
    """
    at = os.open("/", _AT)
    try:
        for name in path.parts[1:-1]:
            above, at = at, os.open(name, _AT, dir_fd=at)
            os.close(above)
        file = os.open(path.name or ".", _FILE, dir_fd=at)
    except OSError as error:
        raise TaskError(
            f"{str(path)!r} cannot be read: {error.strerror}", kind="storage_access", code="file_unreadable"
        ) from None
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise not_a_file(path)
    return os.fdopen(file, "rb")


def refuse_special(path: Path) -> None:
    """Refuse a pipe, which would be waited for, a socket and a device.

    Raises TaskError(code="path_invalid").
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise not_a_file(path)


def not_a_file(path: object) -> TaskError:
    return TaskError(f"{str(path)!r} is not a file", kind="storage_access", code="path_invalid")


def resolve_inside(
    path: str, roots: Iterable[str | Path], *, hidden: Iterable[str] = (), must_exist: bool = True
) -> Path:
    """Resolve ``path`` (symbolic links and ``..`` too) to a real path inside one of ``roots``.

    A relative path is looked for below each root in turn; the first that exists wins. With
    ``must_exist=False`` the file itself may be missing (it is about to be written); its folder is still
    resolved and checked. ``hidden``: folders that tasks never see, also where one of ``roots`` contains them.
    Raises TaskError: kind ``storage_access`` (code ``path_outside`` or ``path_invalid``) or ``not_found``
    (code ``file_not_found``).
    """
    if not path or "\0" in path:
        raise TaskError(f"{path!r} is not a file path", kind="storage_access", code="path_invalid")
    allowed = [Path(root).resolve() for root in roots]
    if not allowed:
        raise TaskError(
            f"{path!r} cannot be read: this deployment allows no data folders",
            kind="storage_access",
            code="path_outside",
            hint="run the playbook from its folder, or set the allowed data folders of the deployment",
        )
    closed = tuple(hidden)
    inside = [
        found for found in (_resolve(root / path) for root in allowed) if _is_inside(found, allowed, closed)
    ]
    if not inside:
        raise TaskError(
            f"{path!r} is outside the allowed folders",
            kind="storage_access",
            code="path_outside",
            hint=f"keep files below {', '.join(str(root) for root in allowed)}, "
            "and in a folder of their own where that is your home folder or one of temporary files",
        )
    existing = next((found for found in inside if _exists(found)), None)
    if existing is not None:
        refuse_special(existing)
        return existing
    if must_exist:
        raise TaskError(f"{path!r} does not exist", kind="not_found", code="file_not_found")
    return inside[0]


def path_of_file_uri(uri: str) -> str:
    """Convert ``file:///a%20b`` to ``/a b``.

    Raises TaskError(code="path_invalid") for all but local file URIs.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
        raise TaskError(
            f"{uri!r} is not a local file",
            kind="storage_access",
            code="path_invalid",
            hint="write file:///path",
        )
    return unquote(parts.path)


def _resolve(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise TaskError(
            f"{path} cannot be resolved: {error}", kind="storage_access", code="path_invalid"
        ) from None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise TaskError(
            f"{path.name[:100]!r} is not a file path: {error.strerror}",
            kind="storage_access",
            code="path_invalid",
        ) from None


def _is_inside(path: Path, roots: Iterable[Path], hidden: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(root) and is_open(str(path), str(root), hidden) for root in roots)
