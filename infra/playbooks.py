"""The playbooks that a deployment brings along: collected from the environment's folders into one."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from infra.config import ConfigError

ROOT = Path(__file__).resolve().parent.parent
STAGED = ROOT / "build/playbooks"


def playbook_files(folders: Sequence[str]) -> Iterator[Path]:
    """YAML files that are playbooks, sorted. Raises ConfigError for a folder that does not exist or lies outside the repository."""
    for folder in folders:
        place = (ROOT / folder).resolve()
        if not place.is_dir() or not place.is_relative_to(ROOT):
            raise ConfigError(f"playbooks: {folder!r} is not a folder of this repository")
        yield from sorted(path for path in place.rglob("*.y*ml") if path.is_file() and _is_playbook(path))


def staged(folders: Sequence[str]) -> Path:
    """A folder with these playbooks at their paths below the repository's root, named by their content."""
    files = list(playbook_files(folders))
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    folder = STAGED / digest.hexdigest()[:16]
    if not folder.is_dir():
        STAGED.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".staging-", dir=STAGED))
        for path in files:
            to = scratch / path.relative_to(ROOT)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)
        _move(scratch, folder)
    return folder


def _move(scratch: Path, folder: Path) -> None:
    """Whoever comes second finds the same content there."""
    try:
        scratch.rename(folder)
    except OSError:
        shutil.rmtree(scratch)


def _is_playbook(path: Path) -> bool:
    """Examples come with other YAML files (payloads, data): a playbook says what it is."""
    return "\nkind: Playbook" in f"\n{path.read_text(encoding='utf-8', errors='replace')}"
