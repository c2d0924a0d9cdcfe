"""The playbooks that a deployment brings along: collected from the environment's folders into one."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from noetl.services.catalog.files_beside import text_with_files

from .config import ConfigError
from .places import BUILDS, HOME

STAGED = BUILDS / "playbooks"


def playbook_files(folders: Sequence[str]) -> Iterator[Path]:
    """YAML files that are playbooks, sorted.

    Raises ConfigError for a folder that is neither here nor in the repository.
    """
    for folder in folders:
        _, place = _found(folder)
        yield from sorted(path for path in place.rglob("*.y*ml") if path.is_file() and _is_playbook(path))


def staged(folders: Sequence[str]) -> Path:
    """A folder with these playbooks at their paths below the root that has them, named by their content."""
    files = {
        path.relative_to(_found(folder)[0]): _with_files(path)
        for folder in folders
        for path in playbook_files([folder])
    }
    digest = hashlib.sha256()
    for name, data in files.items():
        digest.update(f"{name}\0".encode() + hashlib.sha256(data).digest())
    folder = STAGED / digest.hexdigest()[:16]
    if not folder.is_dir():
        STAGED.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".staging-", dir=STAGED))
        for name, data in files.items():
            to = scratch / name
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(data)
        _move(scratch, folder)
    return folder


def _with_files(path: Path) -> bytes:
    """A playbook with its modules behind it; what is not UTF-8 is left to the compiler."""
    data = path.read_bytes()
    try:
        return text_with_files(data.decode("utf-8"), path).encode("utf-8")
    except UnicodeDecodeError:
        return data


def _found(folder: str) -> tuple[Path, Path]:
    """(root, folder): below the working folder, or below the one of this project.

    Raises ConfigError.
    """
    for root in (Path.cwd().resolve(), HOME):
        place = (root / folder).resolve()
        if place.is_dir() and place.is_relative_to(root):
            return root, place
    raise ConfigError(f"playbooks: {folder!r} is not a folder below {Path.cwd()}, nor of this repository")


def _move(scratch: Path, folder: Path) -> None:
    """Move a folder into place, unless another process has made the same one."""
    try:
        scratch.rename(folder)
    except OSError:
        shutil.rmtree(scratch)


def _is_playbook(path: Path) -> bool:
    """Examples come with other YAML files (payloads, data): a playbook says what it is."""
    return "\nkind: Playbook" in f"\n{path.read_text(encoding='utf-8', errors='replace')}"
