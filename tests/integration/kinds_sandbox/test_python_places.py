"""Failing code is told with its file, line and column, however the playbook spells it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests import forked
from tests.parts import parted

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: places }\nworkflow:\n  - step: start\n"
TOOL = "    tool:\n      kind: python\n      code: "
"""What follows begins on line 8."""
SPELLINGS = {
    "literal": (TOOL + "|\n        x = 0\n\n        if True:\n            1 / x\n", (12, 13)),
    "blank lines first": (TOOL + "|\n\n\n        1 / 0\n", (11, 9)),
    "indented as a whole": (TOOL + "|2\n          x = 0\n          1 / x\n", (10, 11)),
    "wide characters": (TOOL + '|\n        é = "漢"; 1 / 0\n', (9, 18)),
    "braces": (TOOL + '|\n        a = "{{ b }}"\n        1 / 0\n', (10, 9)),
    "called": (
        TOOL + "|\n        def main():\n          return f()\n        def f():\n          return 1 / 0\n",
        (12, 18),
    ),
    "plain": ("    tool: { kind: python, code: 1 / 0 }\n", (6, 33)),
    "quoted": ('    tool: { kind: python, code: "x = 0; 1 / x" }\n', (6, 41)),
    "line ends escaped": ('    tool: { kind: python, code: "x = 0\\n1 / x" }\n', (6, 34)),
    "folded": (TOOL + ">\n        x = 0;\n        1 / x\n", (9, 9)),
    "labelled": (
        "    tool:\n      - one: { kind: noop }\n      - two:\n          kind: python\n"
        "          code: |\n            1 / 0\n",
        (11, 13),
    ),
    "in a loop": (
        "    loop: { in: [0], iterator: n }\n" + TOOL + "|\n        1 / n\n      args: { n: 0 }\n",
        (10, 9),
    ),
    "in the workbook": (
        "    tool: { kind: workbook, name: bad }\nworkbook:\n  bad:\n" + TOOL + "|\n        1 / 0\n",
        (12, 9),
    ),
}


pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, module_database: str) -> Path:
    folder = tmp_path_factory.mktemp("home")
    (folder / "database").write_text(module_database)
    return folder


def noetl(home: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    database = (home / "database").read_text()
    environment = {
        **os.environ,
        "NOETL_HOME": str(home),
        "NOETL_DATABASE_URL": database,
        "NO_COLOR": "1",
    }
    return forked.noetl(*words, env=environment, cwd=folder)


GATE = ("folded",)


@pytest.mark.parametrize("spelling", parted(SPELLINGS, GATE))
def test_failing_code(spelling, home, tmp_path):
    text, (line, column) = SPELLINGS[spelling]
    (tmp_path / "places.yaml").write_text(HEAD + text, encoding="utf-8")
    ran = noetl(home, tmp_path, "run", "places.yaml", "--json")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    error = json.loads(ran.stdout.splitlines()[-1])["error"]
    assert error["code"] == "ZeroDivisionError"
    assert error["position"] == f"{tmp_path / 'places.yaml'}:{line}:{column}"


def test_the_place_is_told_to_people_and_to_later_steps(home, tmp_path):
    text, (line, column) = SPELLINGS["literal"]
    later = """\
    next:
      arcs: [{ step: tell, when: "{{ event.name == 'step.failed' }}", args: { at: "{{ outcome.error.position }}" } }]
  - step: tell
    tool:
      kind: python
      args: { at: "{{ args.at }}", same: "{{ start.error.position }}" }
      code: "assert at != same, at"
"""
    (tmp_path / "told.yaml").write_text(HEAD + text + later)
    ran = noetl(home, tmp_path, "run", "told.yaml")
    assert ran.returncode == 1
    assert f"AssertionError: {tmp_path / 'told.yaml'}:{line}:{column} " in ran.stderr
    assert "  at: told.yaml:19:" in ran.stderr


def test_code_that_is_not_python(home, tmp_path):
    code = "    tool:\n      kind: python\n      code: |\n        x = 1\n        if x:\n          y = (1 +\n"
    (tmp_path / "syntax.yaml").write_text(HEAD + code)
    ran = noetl(home, tmp_path, "validate", "syntax.yaml")
    assert ran.returncode == 2
    assert ran.stdout.startswith("syntax.yaml:11:15: kind-params: 'code' is not Python: '(' was never closed")
