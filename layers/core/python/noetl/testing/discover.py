"""Discovery of test files: named files, those of a named playbook, those below a folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from noetl.domain.errors import NotFoundError
from noetl.services.catalog.register_playbook import is_playbook
from noetl.testing.testfile import FOLDER, SUFFIXES, is_test_file

SKIPPED = frozenset({"node_modules", "__pycache__", "build"})
"""Folders that hold no one's tests; nor do hidden ones."""


def find_test_files(targets: Sequence[str]) -> list[Path]:
    """Each once, in order. Raises NotFoundError for a target that has none."""
    found: dict[Path, Path] = {}
    for target in targets:
        files = list(_of(Path(target)))
        if not files:
            raise _without_tests(Path(target))
        for file in files:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _without_tests(target: Path) -> NotFoundError:
    if target.is_dir():
        return NotFoundError(
            f"there are no tests below {target}",
            code="no_tests",
            hint=f"tests of weather.yaml are in weather.test.yaml beside it, or in its folder {FOLDER}",
        )
    return NotFoundError(
        f"{target} has no tests",
        code="no_tests",
        hint=f"write them in {target.stem}.test.yaml beside it, or in its folder {FOLDER};"
        f" `noetl test {target} --from EXECUTION` writes them from an execution",
    )


def _of(target: Path) -> Iterator[Path]:
    if target.is_dir():
        yield from _below(target)
    elif not target.is_file():
        raise NotFoundError(f"there is no file {target}", code="file_not_found")
    elif is_playbook(target):
        stem = target.name.removesuffix(target.suffix)
        for folder in (target.parent, target.parent / FOLDER):
            yield from (
                folder / f"{stem}{suffix}" for suffix in SUFFIXES if (folder / f"{stem}{suffix}").is_file()
            )
    else:
        yield target


def _below(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.is_dir():
            if not entry.name.startswith(".") and entry.name not in SKIPPED and not entry.is_symlink():
                yield from _below(entry)
        elif is_test_file(entry):
            yield entry
