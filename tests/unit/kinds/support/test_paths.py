"""Paths of playbooks stay inside the allowed folders."""

from __future__ import annotations

import os

import pytest

from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskSettings
from noetl.kinds.support.given_folders import settled
from noetl.kinds.support.paths import locate, open_file, path_of_file_uri, resolve_inside


@pytest.fixture
def roots(tmp_path):
    """Two allowed folders beside a forbidden one, with links that try to leave."""
    for name in ("first", "second", "forbidden", "first-evil"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text(name)
    (tmp_path / "first" / "way_out").symlink_to(tmp_path / "forbidden")
    (tmp_path / "first" / "across").symlink_to(tmp_path / "second" / "second.txt")
    (tmp_path / "first" / "loop").symlink_to(tmp_path / "first" / "loop")
    return tmp_path


def test_inside(roots):
    allowed = (str(roots / "first"), str(roots / "second"))
    second = roots / "second" / "second.txt"
    assert resolve_inside("first.txt", allowed) == roots / "first" / "first.txt"
    assert resolve_inside("second.txt", allowed) == second
    assert resolve_inside(str(second), allowed) == second
    assert resolve_inside("./x/../first.txt", allowed) == roots / "first" / "first.txt"
    assert resolve_inside("across", allowed) == second
    assert resolve_inside("new.txt", allowed, must_exist=False) == roots / "first" / "new.txt"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../forbidden/forbidden.txt", "path_outside"),
        ("way_out/forbidden.txt", "path_outside"),
        ("../first-evil/first-evil.txt", "path_outside"),
        ("{root}/forbidden/forbidden.txt", "path_outside"),
        ("/etc/passwd", "path_outside"),
        ("way_out/new.txt", "path_outside"),
        ("first.txt\0.csv", "path_invalid"),
        ("", "path_invalid"),
        ("absent.txt", "file_not_found"),
        ("a" * 5000, "path_invalid"),
    ],
)
def test_outside(roots, path, code):
    with pytest.raises(TaskError) as caught:
        resolve_inside(path.format(root=roots), (roots / "first",))
    assert caught.value.code == code


def test_without_folders_nothing_is_allowed(roots):
    with pytest.raises(TaskError, match="allows no data folders"):
        resolve_inside(str(roots / "first" / "first.txt"), ())


def test_link_to_itself_is_not_found(roots):
    with pytest.raises(TaskError):
        resolve_inside("loop", (roots / "first",))


def test_a_pipe_is_no_file(roots):
    """Whoever opens it would wait."""
    pipe = roots / "first" / "pipe"
    os.mkfifo(pipe)
    for attempt in (lambda: resolve_inside("pipe", (roots / "first",)), lambda: open_file(pipe)):
        with pytest.raises(TaskError) as caught:
            attempt()
        assert caught.value.code == "path_invalid"


def test_a_file_is_opened_where_it_was_checked(roots):
    """A task may lead a name to another place in between, at the end of the way or on it."""
    settings = TaskSettings(data_dirs=(str(roots / "first"),), task_folders=(str(roots / "first"),))
    (roots / "first" / "in").mkdir()
    (roots / "first" / "in" / "first.txt").write_text("in")
    for name, before in (("in/first.txt", "in"), ("first.txt", "first.txt")):
        found = locate(name, settings)
        with open_file(found) as stream:
            assert stream.read() in (b"in", b"first")
        (roots / "first" / before).rename(roots / f"was {before}")
        (roots / "first" / before).symlink_to(roots / f"was {before}")
        with pytest.raises(TaskError) as caught:
            open_file(found)
        assert caught.value.code == "file_unreadable"
        with pytest.raises(TaskError) as caught:
            locate(name, settings)
        assert caught.value.code == "path_outside"


def test_a_folder_that_tasks_led_elsewhere_is_none_of_those_that_are_read(roots):
    """It lies in one that they may write to; one in another place stays."""
    given, books = roots / "first", roots / "first" / "books"
    settings = TaskSettings(data_dirs=(str(books), str(roots / "second")), task_folders=(str(given),))
    books.mkdir()
    (books / "own.txt").touch()
    assert locate("own.txt", settings) == books / "own.txt"
    books.rename(given / "old")
    books.symlink_to(roots / "forbidden")
    with pytest.raises(TaskError) as caught:
        locate("forbidden.txt", settings)
    assert caught.value.code == "file_not_found"
    assert locate("second.txt", settings) == roots / "second" / "second.txt"
    given.rename(roots / "was")
    given.symlink_to(roots / "forbidden")
    assert settled(str(given), settings.task_folders) is None, "by tasks of another process"


def test_file_uris():
    assert path_of_file_uri("file:///a%20b/c.py") == "/a b/c.py"
    assert path_of_file_uri("file://localhost/a") == "/a"
    for bad in ("file://server/a", "http://x/a", "file:///a?b", "file:///a#b", "file://[", "/a"):
        with pytest.raises(TaskError):
            path_of_file_uri(bad)


@pytest.fixture
def user(tmp_path, monkeypatch):
    """The user's own folder with a playbook's data, keys, and the engine's home."""
    home = tmp_path / "user"
    for name in (
        "data.csv",
        ".netrc",
        "ssh/id",
        ".noetl/token",
        ".noetl/work/new.csv",
        "project/.noetl/token",
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(name)
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.mark.parametrize("root", ["", ".."])
@pytest.mark.parametrize("name", [".netrc", "ssh/id", ".noetl/token"])
def test_keys_beside_a_playbook_are_closed(user, root, name):
    assert resolve_inside(str(user / "data.csv"), [user / root], hidden=[str(user / ".noetl")]).is_file()
    with pytest.raises(TaskError) as caught:
        resolve_inside(str(user / name), [user / root], hidden=[str(user / ".noetl")])
    assert caught.value.code == "path_outside"


def test_the_engine_s_home_beside_a_playbook_is_closed_and_its_folder_for_files_of_tasks_is_open(user):
    closed, project = [str(user / "project/.noetl"), str(user / ".noetl")], user / "project"
    with pytest.raises(TaskError):
        resolve_inside(".noetl/token", [project], hidden=closed)
    assert resolve_inside("new.csv", [project, user / ".noetl/work"], hidden=closed).is_file()
