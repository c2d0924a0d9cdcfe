"""``noetl lock`` writes beside its playbook and in no other place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from noetl.cli import errors
from noetl.cli.commands import lock
from noetl.domain.errors import InfrastructureError
from noetl.domain.text.lock_text import Pin
from tests.parts import over

PLAYBOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: report }
executor: { spec: { requirements: [colours] } }
workflow: [{ step: start, tool: { kind: python, code: "result = 1" } }]
"""


@pytest.mark.parametrize("there", [True, False], ids=["a file", "no file yet"])
def test_a_link_out_of_the_folder_is_not_followed(noetl: Any, tmp_path: Path, there: bool) -> None:
    folder, other = tmp_path / "plays", tmp_path / "other"
    folder.mkdir()
    (folder / "report.yaml").write_text(PLAYBOOK)
    (folder / "report.lock").symlink_to(other)
    if there:
        other.write_text("of another program")
    ran = noetl("lock", str(folder / "report.yaml"), "--wheels", str(tmp_path))
    assert ran.code == errors.USAGE
    assert "report.lock is a link that leads out of the playbook's folder" in ran.err
    assert (other.read_text() if other.exists() else None) == ("of another program" if there else None)


def test_a_circle_of_links_is_refused(noetl: Any, tmp_path: Path) -> None:
    (tmp_path / "report.yaml").write_text(PLAYBOOK + "modules: [rates.py]\n")
    for name in ("report.lock", "rates.py"):
        (tmp_path / name).symlink_to(name)
    assert noetl("lock", "report.yaml", "--wheels", str(tmp_path)).code == errors.USAGE
    checked = noetl("validate", "report.yaml")
    assert checked.code == errors.USAGE
    assert "report.yaml:6:11: module-missing: rates.py cannot be read" in checked.out + checked.err


def test_a_wheel_whose_name_cannot_be_pinned_is_refused(
    noetl: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = "colours\x1b[2J"
    pin = Pin(named, "1.0", ("a" * 64,))
    monkeypatch.setattr(lock, "_resolved", lambda required, platform, wheels: {named: pin})
    (tmp_path / "report.yaml").write_text(PLAYBOOK)
    ran = noetl("lock", "report.yaml", "--wheels", str(tmp_path))
    assert "the requirements cannot be resolved" in ran.err and "unexpected" not in ran.err, ran
    assert "\x1b" not in ran.err and not (tmp_path / "report.lock").exists()


@over(
    ("archive", "found"),
    [
        ({"hash": "sha256=" + "a" * 64, "hashes": {"sha256": "b" * 64}}, "b"),
        ({"hash": "sha256=" + "a" * 64}, "a"),
        ({"hash": "md5=" + "a" * 32}, None),
        ({}, None),
    ],
)
def test_the_hash_of_a_wheel_is_that_of_any_pip(archive: dict[str, Any], found: str | None) -> None:
    """pip 23.0, of Debian 12, has the older field alone for a wheel of a folder."""
    entry = {"metadata": {"name": "Colours", "version": "1.0"}, "download_info": {"archive_info": archive}}
    if found is None:
        with pytest.raises(InfrastructureError, match="no SHA-256 of colours"):
            lock._pin(entry)
    else:
        assert lock._pin(entry) == ("colours", Pin("colours", "1.0", (found * 64,)))
