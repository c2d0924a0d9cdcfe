"""``noetl fmt``: what is written, what is told, and with which code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from noetl.cli import errors

MESSY = """\
kind: Playbook
apiVersion: noetl.io/v2
metadata: {name: m}
workflow:
- {step: start, tool: {kind: noop}, next: end}
- {step: end, tool: {kind: noop}}
"""
NEAT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: m }
workflow:
  - { step: start, tool: { kind: noop }, next: end }
  - { step: end, tool: { kind: noop } }
"""
BROKEN = "apiVersion: noetl.io/v2\nmetadata: {name: [}\n"
KEPT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: kept }
workflow:
  - step: start
    tool: { kind: noop, args: { n: 1 } }
    case:
      - when: "{{ event.name == 'step.enter' }}"
        then: { set: { ctx: { n: 1 } } }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "m.yaml"
    path.write_text(MESSY)
    return path


def test_a_file_is_rewritten_once(noetl: Any, file: Path) -> None:
    file.chmod(0o640)
    first = noetl("fmt", str(file))
    assert (first.code, first.out, file.read_text()) == (errors.DONE, f"changed {file}\n", NEAT)
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in file.parent.glob(".*.fmt")] == []
    again = noetl("fmt", str(file))
    assert (again.code, again.out) == (errors.DONE, "")


def test_a_link_beside_a_file_is_not_followed(noetl: Any, file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("of another program")
    for name in (".m.yaml.fmt", "m.yaml.fmt"):
        (tmp_path / name).symlink_to(other)
    assert noetl("fmt", str(file)).code == errors.DONE
    assert (file.read_text(), other.read_text()) == (NEAT, "of another program")
    assert not file.is_symlink()


@pytest.mark.parametrize("option", ["--check", "--diff"])
def test_asking_writes_nothing(noetl: Any, file: Path, option: str) -> None:
    ran = noetl("fmt", option, str(file))
    assert (ran.code, file.read_text()) == (errors.FAILED, MESSY)
    assert ("would change" in ran.out) == (option == "--check")
    assert ("+apiVersion: noetl.io/v2" in ran.out) == (option == "--diff")
    file.write_text(NEAT)
    assert noetl("fmt", option, str(file)).code == errors.DONE


def test_one_broken_file_leaves_all_as_they_are(noetl: Any, file: Path) -> None:
    broken = file.with_name("n.yaml")
    broken.write_text(BROKEN)
    ran = noetl("fmt", str(file), str(broken))
    assert (ran.code, file.read_text()) == (errors.USAGE, MESSY)
    assert f"{broken.name}:2:19: yaml-syntax" in ran.err


def test_stdin_goes_to_stdout(noetl: Any) -> None:
    ran = noetl("fmt", "-", stdin=MESSY)
    assert (ran.code, ran.out) == (errors.DONE, NEAT)


def test_stdin_stands_alone(noetl: Any, file: Path) -> None:
    assert noetl("fmt", "-", str(file)).code == errors.USAGE


def test_canonical_tells_what_it_left(noetl: Any, file: Path) -> None:
    file.write_text(KEPT)
    ran = noetl("fmt", "--canonical", "--json", str(file))
    (line,) = ran.json
    assert (line["valid"], line["changed"], line["converted"]) == (True, True, [])
    assert line["kept"] == [{"step": "start", "line": 5, "reason": "an entry answers `step.enter`"}]
    assert "input: { n: 1 }" in file.read_text()
    told = noetl("fmt", "--canonical", str(file))
    assert f"{file}:5: step start stays in the event form: an entry answers `step.enter`" in told.err


def test_canonical_rewrites_and_is_done(noetl: Any, file: Path) -> None:
    ran = noetl("fmt", "--canonical", "--json", str(file))
    assert ran.json[0]["converted"] == ["start"]
    assert "next: { arcs: [{ step: end }] }" in file.read_text()
    assert noetl("fmt", "--canonical", "--check", str(file)).code == errors.DONE


def test_an_invalid_playbook_is_told_as_json(noetl: Any, file: Path) -> None:
    file.write_text(MESSY.replace("next: end", "next: nowhere"))
    ran = noetl("fmt", "--canonical", "--json", str(file))
    assert ran.code == errors.USAGE
    assert ran.json[0]["diagnostics"][0]["code"] == "unknown-step"
    assert noetl("fmt", str(file)).code == errors.DONE, "its layout needs no meaning"


def test_a_link_is_followed(noetl: Any, file: Path) -> None:
    link = file.with_name("link.yaml")
    link.symlink_to(file)
    assert noetl("fmt", str(link)).code == errors.DONE
    assert link.is_symlink()
    assert file.read_text() == NEAT


def test_files_of_tests_are_left_alone(noetl: Any, file: Path) -> None:
    file.write_text(NEAT)
    tests = file.with_name("m.test.yaml")
    tests.write_text("cases:\n- {name: a}\n")
    ran = noetl("fmt", "--check", str(file), str(tests))
    assert (ran.code, ran.out) == (errors.DONE, "")
    assert f"noetl test {tests}" in ran.err and "playbooks" not in ran.err
