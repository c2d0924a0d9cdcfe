"""``--task-folder`` of `noetl run`, `resume` and `redrive`."""

from __future__ import annotations

import os

import pytest

from noetl.cli.options import CommandTarget
from noetl.cli.task_folders import give_folders, words_of
from noetl.domain.errors import InvalidInputError
from noetl.kinds.sandbox import layers as found_layers
from noetl.kinds.sandbox import places
from noetl.kinds.sandbox.layers import Layers

STEP = 'workflow:\n  - step: start\n    tool: { kind: shell, command: "cat ./seen.txt" }\n'


@pytest.fixture(autouse=True)
def no_setting(monkeypatch):
    """The option changes the setting of its process."""
    monkeypatch.setenv("NOETL_TASK_FOLDERS", "")


def test_relative_folders_begin_where_the_command_runs(tmp_path, monkeypatch):
    (tmp_path / "a b").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOETL_TASK_FOLDERS", f"/srv/data{os.pathsep}{tmp_path}")
    monkeypatch.setenv("NOETL_HOME", "/srv/home")
    give_folders([".", "a b", "./a b/.."], CommandTarget())
    assert os.environ["NOETL_TASK_FOLDERS"].split(os.pathsep) == [
        str(tmp_path),
        f"{tmp_path}/a b",
        "/srv/data",
    ]
    assert words_of([".", "a b"]) == " --task-folder . --task-folder 'a b'"


def test_a_dry_run_shows_the_folders(noetl, write, tmp_path):
    (tmp_path / "work").mkdir()
    file = write("one.yaml", STEP)
    ran = noetl("run", file, "--dry-run", "--task-folder", "work")
    assert (
        ran.code == 0
        and f"tasks read and write: {tmp_path}/work; shell commands begin in the first" in ran.out
    )
    plan = noetl("run", file, "--dry-run", "--task-folder", "work", "--json").json[0]
    assert plan["task_folders"] == [f"{tmp_path}/work"]


def test_without_it_a_dry_run_says_nothing(noetl, write):
    file = write("one.yaml", STEP)
    assert "tasks read" not in noetl("run", file, "--dry-run").out
    assert noetl("run", file, "--dry-run", "--json").json[0]["task_folders"] == []


@pytest.mark.parametrize(
    "folder", ["nowhere", "one.yaml", "home", ".", "/", "a:b", "", "~nobody of that name", "loop", "x" * 300]
)
def test_a_folder_that_cannot_be_given_ends_the_command(noetl, write, tmp_path, folder):
    for name in ("home", "a:b"):
        (tmp_path / name).mkdir()
    (tmp_path / "loop").symlink_to("loop")
    file = write("one.yaml", STEP)
    for words in (("run", file), ("run", file, "--dry-run"), ("resume",), ("redrive", "latest")):
        ran = noetl(*words, "--task-folder", folder)
        assert ran.code == 2 and "cannot be given to tasks" in ran.err, ran


def test_behind_a_link_the_folder_above_is_that_of_its_place(tmp_path, monkeypatch):
    (tmp_path / "real" / "in").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/in")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOETL_HOME", "/srv/home")
    give_folders(["link/..", "link"], CommandTarget())
    assert os.environ["NOETL_TASK_FOLDERS"].split(os.pathsep) == [f"{tmp_path}/real", f"{tmp_path}/link"]


def test_a_variable_that_is_not_set_names_no_folder(tmp_path, monkeypatch):
    """``--task-folder "$UNSET"``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOETL_HOME", "/srv/home")
    with pytest.raises(InvalidInputError, match="it is empty"):
        give_folders([""], CommandTarget())


def test_a_dry_run_refuses_what_the_run_refuses(noetl, write, tmp_path, monkeypatch):
    """Programs that run tasks, where nothing keeps tasks from changing them."""
    library = tmp_path / "work" / "deep" / "er"
    library.mkdir(parents=True)
    monkeypatch.setattr(places, "library_path", lambda: [str(library)])
    monkeypatch.setattr(found_layers, "layers", lambda: Layers(landlock=6, namespaces=True))
    ran = noetl("run", write("one.yaml", STEP), "--dry-run", "--task-folder", "work")
    assert ran.code == 2 and "keeps tasks from changing them" in ran.err, ran


def test_it_is_for_this_machine_and_for_one_execution(noetl, write, tmp_path):
    (tmp_path / "work").mkdir()
    for words in (("run", write("one.yaml", STEP)), ("redrive", "1")):
        ran = noetl(*words, "--remote", "--task-folder", "work")
        assert ran.code == 2 and "tasks that run on this machine" in ran.err, ran
    many = noetl("redrive", "--filter", "status=failed", "--task-folder", "work")
    assert many.code == 2 and "--task-folder" in many.err
