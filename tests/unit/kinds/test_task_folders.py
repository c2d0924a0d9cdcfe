"""Folders that tasks have filled: what they hold is counted, and all of it goes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from noetl.domain.errors import InfrastructureError
from noetl.kinds.sandbox import process
from noetl.kinds.sandbox.disk import LEAST, folder_bytes
from noetl.kinds.sandbox.noetl_guest.removal import remove_tree
from noetl.kinds.sandbox.places import Places
from noetl.kinds.sandbox.process import TaskLimits
from noetl.kinds.sandbox.program import Program, run_program
from noetl.kinds.sandbox.template import Template

ENOUGH = 2**30


def dig(folder: Path, depth: int, name: str = "d") -> None:
    """Make folders within folders, deeper than any path may be, and a file in the last."""
    within = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=within)
        deeper = os.open(name, os.O_RDONLY, dir_fd=within)
        os.close(within)
        within = deeper
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=within))
    os.close(within)


def test_a_tree_goes_whatever_a_task_made_of_it(tmp_path):
    folder, other = tmp_path / "task", tmp_path / "other"
    for place in (folder, other, folder / "closed" / "within"):
        place.mkdir(parents=True)
    (other / "kept").write_text("kept")
    (folder / "closed" / "within" / "file").write_text("x")
    dig(folder, 3000)
    dig(folder / "closed", 2, "n" * 255)
    (folder / "link").symlink_to(other)
    (folder / os.fsdecode(b"\xff\xfe")).symlink_to(".")
    (folder / os.fsdecode(b"\xfd")).mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "closed" / "within").chmod(0)
    (folder / "closed").chmod(0)
    remove_tree(folder)
    assert not folder.exists()
    assert (other / "kept").read_text() == "kept"


def test_a_folder_that_is_gone_is_no_error(tmp_path):
    remove_tree(tmp_path / "gone")


def test_small_files_count_as_blocks(tmp_path):
    for number in range(100):
        (tmp_path / str(number)).touch()
    assert folder_bytes(tmp_path, ENOUGH) == 100 * LEAST
    assert folder_bytes(tmp_path, 10 * LEAST) == 11 * LEAST  # it stops to count there


def test_folders_too_deep_to_look_into_are_told(tmp_path):
    dig(tmp_path, 20, "n" * 250)
    try:
        assert folder_bytes(tmp_path, ENOUGH) is None
    finally:
        remove_tree(tmp_path / ("n" * 250))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems start an interpreter for each task")
def test_a_program_that_cannot_be_confined_leaves_no_folder(monkeypatch):
    """A machine whose layers cannot be found out refuses every task, and every try of it."""

    def refuse(*arguments: object) -> None:
        raise InfrastructureError("the layers of this machine cannot be found out")

    made: list[Path] = []
    make = Template.new_folder

    def new_folder(template: Template) -> Path:
        made.append(make(template))
        return made[-1]

    monkeypatch.setattr(process, "confinement", refuse)
    monkeypatch.setattr(Template, "new_folder", new_folder)
    with pytest.raises(InfrastructureError, match="layers"):
        limits = TaskLimits(1 << 30, 1 << 20, processes=321)  # as no cell has that is idle
        run_program(Program(["/bin/true"], b"", {}), limits, Places(), None)  # type: ignore[arg-type]
    assert made and not any(folder.exists() for folder in made)
