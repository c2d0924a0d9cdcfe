"""Playbooks of older dialects end with the values that their authors meant, after ``noetl migrate`` and as they are.

Each file of ``older`` says its result in its first line. Files whose dialect is unclear run after their migration only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.domain.errors import ConflictError
from noetl.dsl.diagnostics import InvalidPlaybookError
from noetl.kinds.registry import default_registry
from noetl.migration.migrate import migrate_text
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from noetl.services.credentials.credentials import CredentialRequest, keep_credential
from noetl.services.queries import read_execution
from tests.databases import Databases
from tests.parts import parted, sampled
from tests.waiting import PATIENCE

pytestmark = pytest.mark.postgres

OLDER = Path(__file__).parent / "older"
PATHS = sorted(OLDER.glob("*.yaml"))
SAMPLE = sampled(path.stem.replace("-", "/", 1) for path in PATHS)
GATE = [path for path in PATHS if path.stem.replace("-", "/", 1) in SAMPLE][::2]
"""One of those whose names begin with the same word; every other word."""
RESULT = "# result: "
UNCLEAR = {"branches", "code-templates", "number-guard", "sql-joined-list"}
"""What ``noetl migrate`` decides or repairs: as they are, they are refused or fail."""


@pytest.fixture(scope="module")
def runtime(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRuntime]:
    settings = Settings.from_env({}, home=tmp_path_factory.mktemp("home"), database_url=module_database)
    with LocalRuntime(settings) as made:
        yield made


@pytest.fixture
def cellar(runtime: LocalRuntime, databases: Databases) -> Iterator[LocalRuntime]:
    """The runtime, with an empty database behind the credential ``cellar``."""
    with databases.fresh() as dsn:
        request = CredentialRequest(name="cellar", type="postgres", data={"dsn": dsn})
        keep_credential(request, "local:0", runtime.credentials)
        yield runtime


@pytest.mark.parametrize("path", parted(PATHS, GATE, ids=[path.stem for path in PATHS]))
def test_an_older_playbook_ends_with_its_values(cellar: LocalRuntime, path: Path) -> None:
    text = path.read_text()
    expected = json.loads(text.splitlines()[0].removeprefix(RESULT))
    made = migrate_text(text, source_name=path.name, kinds=default_registry())
    assert made.runs, (made.refusals, made.problems)
    assert result_of(cellar, made.text) == expected


@pytest.mark.full
@pytest.mark.parametrize(
    "path",
    [path for path in sorted(OLDER.glob("*.yaml")) if path.stem not in UNCLEAR],
    ids=lambda path: path.stem,
)
def test_so_does_one_that_is_not_migrated(cellar: LocalRuntime, path: Path) -> None:
    text = path.read_text()
    assert result_of(cellar, text) == json.loads(text.splitlines()[0].removeprefix(RESULT))


@pytest.mark.parametrize("name", sorted(UNCLEAR))
def test_what_is_unclear_never_completes_with_other_values(cellar: LocalRuntime, name: str) -> None:
    with pytest.raises((InvalidPlaybookError, ConflictError)):
        result_of(cellar, (OLDER / f"{name}.yaml").read_text())


def result_of(runtime: LocalRuntime, text: str) -> object:
    execution_id = runtime.start(runtime.register(text, source_name="older.yaml"), {})
    runtime.run_until([execution_id], timeout=PATIENCE)
    return read_execution.result(runtime.store, runtime.results, execution_id)
