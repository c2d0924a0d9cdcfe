"""Tasks import the libraries that their playbook locks, and no others; nothing is downloaded here."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.integration.kinds_sandbox.test_python_places import home, noetl  # noqa: F401
from tests.wheels import make_wheel

pytestmark = pytest.mark.postgres
PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: {name}, path: {name} }}
executor: {{ spec: {{ requirements: ["colours=={version}"] }} }}
workflow:
  - step: start
    tool:
      kind: python
      code: |
        import os, colours
        def found(name):
            try:
                return bool(__import__(name))
            except ImportError:
                return False
        beside = os.path.dirname(os.path.dirname(colours.__file__))
        try:
            others = sorted(os.listdir(beside))
        except OSError:
            others = []
        mine = os.path.basename(os.path.dirname(colours.__file__))
        result = {{"shade": colours.SHADE, "of the worker": found("msgspec"), "others": [one for one in others if one != mine]}}
"""


@pytest.fixture
def plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of playbooks that want other versions of a library, of which there are wheels."""
    wheels, folder = tmp_path / "wheels", tmp_path / "plays"
    monkeypatch.setenv("NOETL_WHEELS", str(wheels))
    make_wheel(wheels, "shades", "3.0", "NAMES = {1: 'red', 2: 'blue'}\n")
    for major in (1, 2):
        code = f"import shades\nSHADE = shades.NAMES[{major}]\n"
        make_wheel(wheels, "colours", f"{major}.0", code, ("shades>=2",))
    folder.mkdir()
    for name, version in (("first", "1.*"), ("second", "2.*")):
        (folder / f"{name}.yaml").write_text(PLAYBOOK.format(name=name, version=version))
    return folder


@pytest.mark.full
def test_each_playbook_imports_what_its_lock_names(home, plays):  # noqa: F811
    locked = noetl(home, plays, "lock", ".")
    assert locked.returncode == 0, locked.stderr
    text = (plays / "first.lock").read_text()
    assert "colours==1.0 \\\n    --hash=sha256:" in text and "shades==3.0 \\\n" in text
    for name, shade in (("first", "red"), ("second", "blue")):
        ran = noetl(home, plays, "run", f"{name}.yaml")
        shown = ran.stdout + ran.stderr
        assert ran.returncode == 0, shown
        assert "installing 2 libraries of this playbook" in shown and "pip: Processing" in shown
        result = json.loads(noetl(home, plays, "result", "latest", "--json").stdout)
        assert result == {"shade": shade, "of the worker": False, "others": []}


@pytest.mark.full
def test_a_playbook_without_its_lock_is_refused_and_the_catalog_keeps_the_lock(home, plays):  # noqa: F811
    refused = noetl(home, plays, "run", "first.yaml")
    assert refused.returncode == 2
    assert "first.yaml:4:35: lock-missing" in refused.stderr and "noetl lock" in refused.stderr

    assert noetl(home, plays, "lock", "first.yaml").returncode == 0
    ran = noetl(home, plays, "run", "first.yaml")
    assert ran.returncode == 0, ran.stdout + ran.stderr

    shutil.rmtree(plays.parent / "wheels")
    assert noetl(home, plays, "register", "first.yaml").returncode == 0
    shutil.rmtree(plays)
    again = noetl(home, plays.parent, "run", "first", "--json")
    assert again.returncode == 0, (
        "the lock is in the catalog, and its libraries are installed: " + again.stderr
    )


def test_a_wheel_with_another_hash_is_not_installed(home, tmp_path, monkeypatch):  # noqa: F811
    wheels = tmp_path / "wheels"
    monkeypatch.setenv("NOETL_WHEELS", str(wheels))
    make_wheel(wheels, "colours", "1.0", "SHADE = 'red'\n")
    (tmp_path / "p.yaml").write_text(PLAYBOOK.format(name="p", version="1.0"))
    assert noetl(home, tmp_path, "lock", "p.yaml").returncode == 0
    make_wheel(wheels, "colours", "1.0", "SHADE = 'black'\n")
    before = set((home / "cache" / "environments").glob("*-*"))
    failed = noetl(home, tmp_path, "run", "p.yaml", "--json")
    assert failed.returncode == 1
    error = json.loads(failed.stdout.splitlines()[-1])["error"]
    assert error["code"] == "libraries_not_installed"
    assert "NOETL_WHEELS" in error["hint"] and "HASHES" in error["message"]
    assert set((home / "cache" / "environments").glob("*-*")) == before, (
        "a failed installation leaves nothing"
    )
