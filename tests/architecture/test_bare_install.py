"""What `pip install noetl-serverless` brings suffices to check, plan and serve playbooks: nothing that these load belongs to an extra."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = """
import json, sys
from noetl.cli.main import main
sys.argv = ["noetl", *sys.argv[1:]]
code = main()
print(json.dumps([code, sorted({name.partition(".")[0] for name in sys.modules})]), file=sys.stderr)
"""
PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: bare, path: bare }
workflow:
  - step: start
    tool: { kind: python, code: "result = 1" }
  - step: second
    tool: { kind: http, url: "http://127.0.0.1/" }
"""


def names(wanted: list[str]) -> set[str]:
    return {re.match(r"[A-Za-z0-9._-]+", one).group().lower() for one in wanted}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "words", [("validate", "bare.yaml"), ("run", "bare.yaml", "--dry-run"), ("list",), ("doctor",), ("docs",)]
)
def test_what_a_command_loads_comes_with_a_bare_install(words, tmp_path):
    (tmp_path / "bare.yaml").write_text(PLAYBOOK)
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, *words],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "NOETL_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    code, loaded = json.loads(ran.stderr.splitlines()[-1])
    assert code in ((0, 3) if words == ("doctor",) else (0,)), ran.stderr
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extra = names([one for group in project["optional-dependencies"].values() for one in group])
    extra -= names(project["dependencies"])
    owners = packages_distributions()
    used = {owner.lower() for name in loaded for owner in owners.get(name, ())}
    assert not used & extra


def test_the_oldest_psycopg_that_is_accepted_can_wait_for_a_limited_time():
    """`Connection.wait` has taken `timeout` since 3.3.6: with an earlier one every query of `noetl sql` failed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (oldest,) = [one.partition(">=")[2] for one in project["dependencies"] if one.startswith("psycopg")]
    assert tuple(map(int, oldest.split("."))) >= (3, 3, 6)
