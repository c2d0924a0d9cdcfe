"""``noetl migrate``: what is written, what is told, and with which code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from noetl.cli import errors

HEAD = "kind: Playbook\nmetadata: { name: m }\nworkflow:\n"
OLD = f"apiVersion: noetl.io/v1\n{HEAD}  - step: start\n    tool: double # twice\n    args: {{ n: 2 }}\n"
NEW = f"apiVersion: noetl.io/v2\n{HEAD}  - step: start\n    tool:\n      kind: double  # twice\n      input: {{ n: 2 }}\n"
STUCK = f"apiVersion: noetl.io/v1\n{HEAD}  - step: start\n    type: whale\n"
BROKEN = "apiVersion: noetl.io/v2\nmetadata: {name: [}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "old.yaml"
    path.write_text(OLD)
    path.chmod(0o640)
    return path


def test_without_options_changes_are_explained_and_nothing_is_written(noetl: Any, file: Path) -> None:
    ran = noetl("migrate", str(file))
    assert (ran.code, file.read_text()) == (errors.DONE, OLD)
    lines = ran.out.splitlines()
    assert lines[0].startswith("old.yaml:1: api-version: ")
    assert "    - apiVersion: noetl.io/v1" in lines and "    + apiVersion: noetl.io/v2" in lines
    assert "old.yaml:6: tool-name: " in ran.out
    assert lines[-1] == "old.yaml: would be rewritten at 3 places: the result compiles; --write saves it"


def test_a_file_is_written_once(noetl: Any, file: Path) -> None:
    first = noetl("migrate", "--write", str(file))
    assert (first.code, file.read_text(), file.stat().st_mode & 0o777) == (errors.DONE, NEW, 0o640)
    again = noetl("migrate", "--write", str(file))
    assert (again.code, again.out) == (errors.DONE, "old.yaml: nothing to rewrite\n")
    assert [path.name for path in file.parent.iterdir()] == ["old.yaml"]


@pytest.mark.parametrize(("option", "code"), [("--check", errors.FAILED), ("--diff", errors.DONE)])
def test_asking_writes_nothing(noetl: Any, file: Path, option: str, code: int) -> None:
    ran = noetl("migrate", option, str(file))
    assert (ran.code, file.read_text()) == (code, OLD)
    file.write_text(NEW)
    assert noetl("migrate", option, str(file)).code == errors.DONE


def test_a_diff_can_be_applied(noetl: Any, file: Path) -> None:
    ran = noetl("migrate", "--diff", str(file))
    lines = ran.out.splitlines()
    assert lines[:2] == ["--- old.yaml", "+++ old.yaml (migrated)"]
    assert [line[1:] for line in lines[2:] if line[:1] in "+ " and line[:1]] == [*NEW.splitlines()]


def test_what_no_rule_rewrites_leaves_its_file_and_no_other(noetl: Any, file: Path) -> None:
    stuck = file.with_name("stuck.yaml")
    stuck.write_text(STUCK)
    ran = noetl("migrate", "--write", str(file.parent))
    assert (ran.code, file.read_text(), stuck.read_text()) == (errors.USAGE, NEW, STUCK)
    assert "stuck.yaml:6:" in ran.err and "unknown-kind" in ran.err
    assert "stuck.yaml: left as it is: 1 place is not rewritten by any rule" in ran.err
    assert "2 playbooks: 1 rewritten, 1 refused, 0 as they should be" in ran.err


def test_text_that_is_no_yaml_is_told_with_its_place(noetl: Any, file: Path) -> None:
    file.write_text(BROKEN)
    ran = noetl("migrate", "--write", str(file))
    assert (ran.code, file.read_text()) == (errors.USAGE, BROKEN)
    assert "old.yaml:2:" in ran.err and "Traceback" not in ran.err


def test_json_has_changes_and_the_text(noetl: Any, file: Path) -> None:
    (report,) = noetl("migrate", "--json", str(file)).json
    assert (report["runs"], report["changed"], report["written"], report["proved"]) == (
        True,
        True,
        False,
        False,
    )
    assert report["text"] == NEW
    assert report["changes"][0] == {
        "rule": "api-version",
        "line": 1,
        "before": "apiVersion: noetl.io/v1",
        "after": "apiVersion: noetl.io/v2",
    }
    (written,) = noetl("migrate", "--json", "--write", str(file)).json
    assert written["written"] and "text" not in written


def test_stdin_becomes_stdout(noetl: Any) -> None:
    ran = noetl("migrate", "-", stdin=OLD)
    assert (ran.code, ran.out) == (errors.DONE, NEW)


@pytest.mark.parametrize("words", [("--check", "--write", "a.yaml"), ("-", "a.yaml")])
def test_options_that_contradict_each_other(noetl: Any, words: tuple[str, ...]) -> None:
    assert noetl("migrate", *words).code == errors.USAGE


def test_a_script_is_taken_from_the_folder_of_the_playbook_alone(noetl: Any, tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("result = 1\n")
    folder = tmp_path / "books"
    folder.mkdir()
    (folder / "good.py").write_text("result = 2\n")
    body = "  - step: start\n    tool:\n      kind: python\n      script: {{ path: {} }}\n"
    for name in ("good.py", "../secret.py", "/etc/hostname"):
        path = folder / "book.yaml"
        path.write_text(f"apiVersion: noetl.io/v2\n{HEAD}{body.format(name)}")
        (report,) = noetl("migrate", "--json", str(path)).json
        assert ("result = 1" in report["text"], "result = 2" in report["text"]) == (False, name == "good.py")


def test_validate_takes_an_older_dialect_and_names_the_command(noetl: Any, file: Path) -> None:
    ran = noetl("validate", str(file))
    assert ran.code == errors.DONE and "older-dialect" in ran.out
    assert ran.out.count("noetl migrate --write") == 1
    assert noetl("validate", "--strict", str(file)).code == errors.USAGE


def test_validate_names_the_command(noetl: Any, file: Path) -> None:
    file.write_text(
        f"{file.read_text()}  - step: lost\n    tool: shell\n    cmds: ['echo {{{{ workload }}}}']\n"
    )
    ran = noetl("validate", str(file))
    assert ran.code == errors.USAGE
    assert (
        ran.out.splitlines()[-1] == f"  hint: `noetl migrate {file}` rewrites older spellings of the language"
    )
    (report,) = noetl("validate", "--json", str(file)).json
    assert report["hint"] == f"noetl migrate {file}"
    file.write_text(STUCK.replace("type: whale", "tool: { kind: whale }").replace("/v1", "/v2"))
    assert "noetl migrate" not in noetl("validate", str(file)).out


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("cat ./seen.txt", "./seen.txt"),
        ("x=1; ../bin/tool $x", "../bin/tool"),
        ("# ./no\n          cat /etc/hosts", ""),
        ("echo a./b; find . -name x", ""),
    ],
)
def test_a_script_that_names_a_relative_path_is_told_of_the_folder_it_begins_in(
    noetl: Any, tmp_path: Path, command: str, named: str
) -> None:
    """A note that asks for nothing: the playbook also runs as it is."""
    path = tmp_path / "shell.yaml"
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: s }\nworkflow:\n  - step: start\n"
    path.write_text(f"{head}    tool:\n      kind: shell\n      cmds:\n        - |\n          {command}\n")
    ran = noetl("migrate", str(path))
    assert ran.code == errors.DONE
    assert (
        ("--task-folder ." in ran.err) == bool(named) and f"note: {named}" in ran.err
        if named
        else not ran.err
    )
    assert noetl("validate", str(path)).code == errors.DONE
