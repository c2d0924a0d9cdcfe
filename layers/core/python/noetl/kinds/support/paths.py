"""The check that a playbook's path stays inside the folders that a deployment allows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from noetl.domain.errors import TaskError
from noetl.kinds.support.open_parts import is_open


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
