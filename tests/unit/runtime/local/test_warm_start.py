"""Which playbooks have the template of tasks started before their first task, and with which places."""

from __future__ import annotations

import threading

import pytest

from noetl.domain.errors import InfrastructureError
from noetl.dsl.compiler import compile_playbook
from noetl.kinds.registry import default_registry
from noetl.kinds.sandbox import process
from noetl.kinds.sandbox.places import Places
from noetl.runtime.local.warm_start import prepare_first_task
from noetl.runtime.settings import Settings

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\nworkflow:\n  - step: start\n    tool: "


def program(tool: str):
    return compile_playbook(HEAD + tool, source_name="t.yaml", kinds=default_registry()).program


@pytest.fixture
def settings(tmp_path) -> Settings:
    return Settings(tmp_path / "home", task_folders=(str(tmp_path),))


def prepare(tool: str, settings: Settings) -> None:
    """Return when the thread has ended."""
    prepare_first_task(program(tool), settings)
    for thread in threading.enumerate():
        if thread.name == "noetl-first-task":
            thread.join()


@pytest.mark.parametrize(
    ("tool", "runs_code"),
    [
        ("{kind: python, code: result = 1}", True),
        ("{kind: shell, command: echo}", True),
        ("{kind: http, url: 'http://example.test'}", False),
        ("{kind: noop}", False),
    ],
)
def test_the_template_starts_for_code_alone_with_the_places_of_its_tasks(
    monkeypatch, settings, tmp_path, tool, runs_code
):
    started: list[Places] = []
    monkeypatch.setattr(process, "start_template", started.append)
    prepare(tool, settings)
    places = Places((), (str(tmp_path),), (str(tmp_path / "home"),))
    assert started == ([places] if runs_code else [])


@pytest.mark.parametrize("error", [OSError("no process"), InfrastructureError("no layers")])
@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_failure_is_left_to_the_first_task(monkeypatch, settings, error):
    def fail(places: Places) -> None:
        raise error

    monkeypatch.setattr(process, "start_template", fail)
    prepare("{kind: python, code: result = 1}", settings)
