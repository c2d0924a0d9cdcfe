"""One local runtime for all examples, and an API for those that call one."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from noetl.cli.client.runtime_access import callbacks_of
from noetl.domain.outcomes.outcomes import Patch
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from noetl.services.callbacks import complete_callback
from noetl.services.catalog.register_playbook import playbooks_below
from noetl.services.history.history_pages import history
from noetl.services.history.read_history import HistoryEvent
from noetl.services.queries import read_execution
from tests import forked
from tests.integration.examples.api import EXAMPLES, Api, ApiServer
from tests.integration.examples.seen import Seen
from tests.waiting import PATIENCE, wait_until

SECONDS = PATIENCE


@dataclass
class Run(Seen):
    execution_id: int
    status: str
    result: Any
    error: dict[str, Any] | None
    events: list[HistoryEvent]
    runtime: LocalRuntime

    def slots(self, scope: str) -> dict[str, Any]:
        found = self.runtime.store.slots(self.execution_id)
        return {name: value for (where, name), value in found.items() if where == scope}

    def children(self) -> list[str]:
        return sorted(
            info.status
            for info in self.runtime.store.executions(limit=1000)
            if info.parent_execution_id == self.execution_id
        )


@dataclass
class Local:
    """``run`` an example to its end (or to the point where it waits)."""

    runtime: LocalRuntime

    def run(self, example: str, payload: dict[str, Any] | None = None) -> Run:
        entries = {
            file.stem: self.runtime.register(file.read_text(), source_name=str(file))
            for file in playbooks_below(EXAMPLES / example)
        }
        execution_id = self.runtime.start(entries[example], payload or {})
        return self.follow(execution_id)

    def follow(self, execution_id: int) -> Run:
        self.runtime.run_until([execution_id], timeout=SECONDS)
        view = read_execution.describe(self.runtime.store, self.runtime.programs, execution_id, now=0.0)
        done = view.status == "completed"
        result = (
            read_execution.result(self.runtime.store, self.runtime.results, execution_id) if done else None
        )
        events = list(history(self.runtime.store, execution_id))
        return Run(execution_id, view.status, result, view.error, events, self.runtime)

    def patch(self, execution_id: int, values: dict[str, Any], reason: str = "a test decides") -> Run:
        patches = [Patch("ctx", name, value) for name, value in values.items()]
        self.runtime.patch_context(execution_id, patches, "ada", reason)
        return self.follow(execution_id)

    def answer(self, execution_id: int, link: str, body: Any) -> Run:
        """As the page at ``link`` does it when somebody has decided."""
        runtime = self.runtime
        keys, _ = callbacks_of(str(runtime.settings.home))
        deps = complete_callback.CallbackDeps(runtime.store, runtime.results, runtime.programs, keys)
        taken = complete_callback.answer(link.rpartition("/")[2], body, deps, runtime.owner)
        assert taken.event is not None
        runtime.accept([taken.event])
        wait_until(
            lambda: read_execution.find(runtime.store, execution_id).status == "completed", "the answer"
        )
        return self.follow(execution_id)


def sample_credentials(scratch: str) -> dict[str, Any]:
    """What the examples sign in with. ``scratch``: connection string of the scratch database."""
    found: dict[str, Any] = {}
    for file in sorted(EXAMPLES.glob("*/credentials.json")):
        found |= json.loads(file.read_text().replace("$SCRATCH", json.dumps(scratch)[1:-1]))
    return found


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    home = tmp_path_factory.mktemp("noetl-examples")
    keys = home / "credentials.json"
    settings = Settings.from_env({"NOETL_HOME": str(home), "NOETL_CREDENTIALS": str(keys)})
    folders = [str(EXAMPLES / name) for name in ("seattle_weather", "config_loader")]
    with LocalRuntime(settings, data_dirs=folders) as runtime:
        keys.touch(mode=0o600)
        keys.write_text(json.dumps(sample_credentials(runtime.opened.workspace or "")))
        yield Local(runtime)


@pytest.fixture
def api() -> Iterator[Api]:
    with ApiServer(Api()) as running:
        yield running


@dataclass
class Cli:
    """The ``noetl`` command in a process of its own."""

    home: Path

    def __call__(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "NOETL_HOME": str(self.home), "NO_COLOR": "1", **more}
        return forked.noetl(*arguments, env=environment)


@pytest.fixture(scope="session")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    return Cli(tmp_path_factory.mktemp("noetl-cli"))
