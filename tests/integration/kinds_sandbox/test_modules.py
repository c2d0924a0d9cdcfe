"""Tasks import files beside their playbook: by ``noetl run``, and from the catalog when the folder is gone."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.kinds_sandbox.test_python_places import home, noetl  # noqa: F401

pytestmark = pytest.mark.postgres
PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: beside, path: beside }
modules: [rates.py, lib/tax.py]
workload: { parts: 1 }
workflow:
  - step: start
    tool:
      kind: python
      cache: 1h
      input: { parts: "{{ workload.parts }}" }
      code: |
        import sys, rates
        from lib.tax import share
        rates.CALLS.append(parts)
        result = {"share": share(parts), "calls": rates.CALLS, "path": [one for one in sys.path if "plays" in one]}
"""


@pytest.fixture
def plays(tmp_path: Path) -> Path:
    """A folder with the playbook and its modules."""
    folder = tmp_path / "plays"
    (folder / "lib").mkdir(parents=True)
    (folder / "p.yaml").write_text(PLAYBOOK)
    (folder / "rates.py").write_text("WHOLE = 12\nCALLS = []\n")
    (folder / "lib" / "tax.py").write_text(
        "from rates import WHOLE\n\n\ndef share(parts):\n    return WHOLE / parts\n"
    )
    return folder


def ended(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What the last line of a run tells."""
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_modules_run_with_their_version_and_leave_nothing_behind(home, plays):  # noqa: F811
    ran = noetl(home, plays, "run", "p.yaml", "--json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (plays / "rates.py").write_text("WHOLE = 24\nCALLS = []\n")
    changed = noetl(home, plays, "run", "p.yaml", "--json")
    assert ended(changed)["result"]["share"] == 24.0, "a result of other modules is not taken from the cache"
    shutil.rmtree(plays)
    again = noetl(home, plays.parent, "run", "beside", "--set", "parts=3", "--json")
    assert again.returncode == 0, again.stdout + again.stderr
    assert ended(again)["result"] == {"share": 8.0, "calls": [3], "path": []}


@pytest.mark.full
def test_an_error_in_a_module_of_the_catalog_names_its_line(home, plays):  # noqa: F811
    assert noetl(home, plays, "run", "p.yaml", "--json").returncode == 0
    shutil.rmtree(plays)
    result = noetl(home, plays.parent, "result", "latest", "--json")
    assert json.loads(result.stdout)["share"] == 12.0
    failed = noetl(home, plays.parent, "run", "beside", "--set", "parts=0", "--json")
    assert (
        ended(failed)["error"]["details"]["traceback"][-1]
        == "lib/tax.py line 5, in share: return WHOLE / parts"
    )
