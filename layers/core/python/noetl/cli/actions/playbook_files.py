"""Playbooks as files on this machine."""

from __future__ import annotations

import errno
from pathlib import Path

from noetl.domain.errors import InvalidInputError, NotFoundError
from noetl.services.catalog.files_beside import text_with_files

_SUFFIXES = (".yaml", ".yml")
_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
"""Errors of a name that no file has. A path in the catalog may have parts longer than a file system takes, and begin with a file's name."""


def full(target: str) -> str:
    """Where it is."""
    return str(Path(target).resolve())


def playbook_text(target: str) -> str | None:
    """Read a playbook file, with its modules behind it.

    None when ``target`` is no file and may be a path in the catalog.
    """
    path = Path(target)
    try:
        return text_with_files(path.read_bytes().decode("utf-8"), path)
    except IsADirectoryError:
        found = ", ".join(sorted(p.name for p in path.iterdir() if p.suffix in _SUFFIXES)[:5])
        raise InvalidInputError(
            f"{target} is a folder",
            code="not_a_playbook",
            hint=f"name a playbook in it: {found}" if found else "name a playbook file",
        ) from None
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{target} is not UTF-8 text (byte {error.start})", code="not_a_playbook"
        ) from None
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in _NO_FILE:
            if path.suffix not in _SUFFIXES:
                return None
            raise NotFoundError(
                f"there is no file {target}", code="file_not_found", hint=_nearby(path)
            ) from None
        raise InvalidInputError(f"{target} cannot be read: {error}", code="file_unreadable") from None


def _nearby(path: Path) -> str | None:
    from noetl.dsl.diagnostics import nearest

    try:
        names = [p.name for p in path.parent.iterdir() if p.suffix in _SUFFIXES]
    except OSError:
        return f"there is no folder {path.parent} either"
    found = nearest(path.name, names)
    return f"did you mean {path.parent / found}?" if found else None
