"""Catalog paths that playbook files claim.

Two files of one command that claim the same path are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from noetl.cli.errors import near
from noetl.domain.errors import ConflictError
from noetl.domain.text.version_text import split_version


def path_of(text: str) -> str:
    """Return the path that a playbook claims.

    ``text``: with the files that are shipped with it, where there are any. The path is `metadata.path`, else `metadata.name`; empty where
    it cannot be read.
    """
    from noetl.dsl.diagnostics import Diagnostics
    from noetl.dsl.yaml_text.loader import load

    playbook, _ = split_version(text)
    tree = load(playbook.encode(), Diagnostics(), ("a playbook", ""))
    document = tree.plain() if tree is not None else None
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict):
        return ""
    return str(metadata.get("path") or metadata.get("name") or "")


def refuse_collisions(files: Iterable[tuple[Path, str]]) -> None:
    """Refuse two files that claim one path.

    ``files``: with their texts. Raises ConflictError(code="path_claimed_twice") that names both files.
    """
    claimed: dict[str, Path] = {}
    for file, text in files:
        path = path_of(text)
        other = claimed.setdefault(path, file)
        if path and other != file:
            raise ConflictError(
                f"{near(str(other))} and {near(str(file))} are both the playbook {path}",
                code="path_claimed_twice",
                hint="one would become a version of the other: give one of them another metadata.path",
            )
