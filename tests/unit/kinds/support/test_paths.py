"""Paths of playbooks stay inside the allowed folders."""

from __future__ import annotations

import pytest

from noetl.domain.errors import TaskError
from noetl.kinds.support.paths import path_of_file_uri, resolve_inside


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


def test_file_uris():
    assert path_of_file_uri("file:///a%20b/c.py") == "/a b/c.py"
    assert path_of_file_uri("file://localhost/a") == "/a"
    for bad in ("file://server/a", "http://x/a", "file:///a?b", "file:///a#b", "file://[", "/a"):
        with pytest.raises(TaskError):
            path_of_file_uri(bad)
