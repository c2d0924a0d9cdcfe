"""Settings that cannot be used are told by name, without what they may hide."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.adapters.embedded.files import FileResultStore
from noetl.adapters.embedded.task_logs import FileTaskLogs
from noetl.cli import errors
from noetl.cli.client import runtime_access
from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.domain.task_logs import TaskLine
from noetl.runtime.settings import Settings
from noetl.services.credentials.credentials import CACHE_SECONDS
from tests.parts import over


@over(
    ("name", "value"),
    [
        ("NOETL_DATABASE_URL", "mysql://ada:canary@db/engine"),
        ("NOETL_DATABASE_URL", "canary"),
        ("NOETL_DATABASE_URL", "postgresql://ada:canary@[::1/x"),
        ("NOETL_INLINE_LIMIT", "255"),
        ("NOETL_AWS_AUTH", "yes"),
        ("NOETL_IO_WORKERS", "0"),
        ("NOETL_LEASE_SECONDS", "soon"),
        ("NOETL_CREDENTIAL_CACHE_SECONDS", "-1"),
    ],
)
def test_a_value_that_cannot_be_understood(name, value):
    with pytest.raises(InvalidInputError, match=name) as refused:
        Settings.from_env({name: value})
    assert refused.value.code == "setting_invalid"
    assert "canary" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_an_address_is_taken_as_it_stands():
    for url in ("postgresql://ada:x@db:5433/engine?sslmode=require", "host=/tmp dbname=x", "postgres://"):
        assert Settings.from_env({"NOETL_DATABASE_URL": url}).database_url == url


@pytest.mark.parametrize("home", ["file", "file/below", "/proc/none"])
def test_a_home_that_cannot_be(home, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InfrastructureError, match="cannot be used") as refused:
        Settings(home=Path(tmp_path, home)).make_home()
    assert refused.value.code == "home_unusable"
    assert "NOETL_HOME" in (refused.value.hint or "")


PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: small, path: small}
workflow:
  - step: start
    tool: {kind: python, code: "result = 1"}
"""


RESULT = "noetl://execution/7/result/load/1"
LINE = TaskLine("2026-11-21T10:00:00.000Z", "load", "load", "Connected", run=1)


def home() -> Path:
    settings = Settings.from_env()
    settings.make_home()
    return settings.home


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(
            lambda: runtime_access.compile_playbook(PLAYBOOK, "small.yaml", None), id="the cache of programs"
        ),
        pytest.param(errors._log_traceback, id="the log of errors"),
        pytest.param(lambda: FileResultStore(home() / "results").put(RESULT, b"{}"), id="results"),
        pytest.param(
            lambda: FileTaskLogs(home() / "logs" / "executions").append(7, [LINE]), id="what tasks print"
        ),
    ],
)
def test_whatever_is_kept_first_makes_the_home_folder_private(tmp_path, monkeypatch, first):
    home = tmp_path / "made" / "home"
    monkeypatch.setenv("NOETL_HOME", str(home))
    first()
    folders = [path for path in (home, *home.rglob("*")) if path.is_dir()]
    assert len(folders) > 1
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}


def test_a_home_folder_is_made_for_its_owner_alone(tmp_path):
    own, shared = tmp_path / "made" / "home", tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o755)
    for home in (own, shared):
        Settings(home, "").make_home()
    assert own.stat().st_mode & 0o777 == 0o700
    assert shared.stat().st_mode & 0o777 == 0o755, "what an operator made stays"


def test_copies_of_credentials_are_good_as_long_as_the_service_says():
    assert Settings.from_env({}).credential_cache_seconds == CACHE_SECONDS
    assert Settings.from_env({"NOETL_CREDENTIAL_CACHE_SECONDS": "60"}).credential_cache_seconds == 60
