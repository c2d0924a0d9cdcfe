"""What `pip install noetl-serverless` brings suffices to check, plan and serve playbooks: nothing that these load belongs to an extra."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOADED = """
import json, sys
from noetl.cli.main import main
told = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["noetl", *words]
    told.append([main(), sorted({name.partition(".")[0] for name in sys.modules})])
print(json.dumps(told), file=sys.stderr)
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


COMMANDS = [["validate", "bare.yaml"], ["run", "bare.yaml", "--dry-run"], ["docs"], ["list"], ["doctor"]]


def test_what_a_command_loads_comes_with_a_bare_install(tmp_path):
    """One after the other in one process, which loads all that any of them does."""
    (tmp_path / "bare.yaml").write_text(PLAYBOOK)
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, json.dumps(COMMANDS)],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "NOETL_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    told = json.loads(ran.stderr.splitlines()[-1])
    assert len(told) == len(COMMANDS)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extra = names([one for group in project["optional-dependencies"].values() for one in group])
    extra -= names(project["dependencies"])
    owners = packages_distributions()
    for words, (code, loaded) in zip(COMMANDS, told, strict=True):
        assert code in ((0, 3) if words == ["doctor"] else (0,)), (words, ran.stderr)
        used = {owner.lower() for name in loaded for owner in owners.get(name, ())}
        assert not used & extra, words


def test_the_oldest_psycopg_that_is_accepted_can_wait_for_a_limited_time():
    """`Connection.wait` has taken `timeout` since 3.3.6: with an earlier one every query of `noetl sql` failed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (oldest,) = [one.partition(">=")[2] for one in project["dependencies"] if one.startswith("psycopg")]
    assert tuple(map(int, oldest.split("."))) >= (3, 3, 6)
