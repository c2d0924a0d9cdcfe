"""Tasks import files beside their playbook: by ``noetl run``, and from the catalog when the folder is gone."""

from __future__ import annotations

import json
import shutil

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


def test_modules_run_with_their_version_and_leave_nothing_behind(home, tmp_path):  # noqa: F811
    folder = tmp_path / "plays"
    (folder / "lib").mkdir(parents=True)
    (folder / "p.yaml").write_text(PLAYBOOK)
    (folder / "rates.py").write_text("WHOLE = 12\nCALLS = []\n")
    (folder / "lib" / "tax.py").write_text(
        "from rates import WHOLE\n\n\ndef share(parts):\n    return WHOLE / parts\n"
    )
    ran = noetl(home, folder, "run", "p.yaml", "--json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (folder / "rates.py").write_text("WHOLE = 24\nCALLS = []\n")
    assert noetl(home, folder, "run", "p.yaml", "--json").returncode == 0
    changed = noetl(home, folder, "result", "latest", "--json")
    assert json.loads(changed.stdout)["share"] == 24.0, (
        "a result of other modules is not taken from the cache"
    )
    shutil.rmtree(folder)
    again = noetl(home, tmp_path, "run", "beside", "--set", "parts=3", "--json")
    result = noetl(home, tmp_path, "result", "latest", "--json")
    assert again.returncode == 0, again.stdout + again.stderr
    assert json.loads(result.stdout) == {"share": 8.0, "calls": [3], "path": []}
    failed = noetl(home, tmp_path, "run", "beside", "--set", "parts=0", "--json")
    error = json.loads(failed.stdout.splitlines()[-1])["error"]
    assert error["details"]["traceback"][-1] == "lib/tax.py line 5, in share: return WHOLE / parts"
