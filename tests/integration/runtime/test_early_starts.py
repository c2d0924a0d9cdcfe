"""The first command of an execution is prepared while its start is written: what may happen before that, and what must not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from noetl.domain.errors import InfrastructureError
from noetl.kinds.sandbox import pool as pools
from noetl.kinds.sandbox.child import Child
from noetl.ports.executions.execution_store import VersionConflictError
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from tests.bench.playbooks import chain
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.postgres


class Seen:
    """What became of processes and of the code in them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started: list[int] = []
        self.called: list[int] = []
        start, call = pools._start, Child.call

        def counted(owner):
            self.started.append(owner.execution_id)
            return start(owner)

        def noted(child, *given):
            self.called.append(child.owner.execution_id)
            return call(child, *given)

        monkeypatch.setattr(pools, "_start", counted)
        monkeypatch.setattr(Child, "call", noted)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    return Seen(monkeypatch)


@pytest.fixture
def runtime(tmp_path: Path, database: str) -> Iterator[LocalRuntime]:
    settings = Settings.from_env({"NOETL_PYTHON_WORKERS": "2"}, home=tmp_path, database_url=database)
    with LocalRuntime(settings) as made:
        yield made


@contextmanager
def writing(runtime: LocalRuntime, before: Callable[[], None]) -> Iterator[None]:
    """Let ``before`` come before each commit of the engine."""
    commit = runtime.store.commit

    def later(*given: Any) -> Any:
        before()
        return commit(*given)

    runtime.store.commit = later  # type: ignore[method-assign]
    try:
        yield
    finally:
        del runtime.store.commit


def ends_well(runtime: LocalRuntime, execution_id: int) -> bool:
    runtime.run_until([execution_id], timeout=PATIENCE)
    return runtime.status(execution_id) == "completed"


def test_the_process_is_there_before_the_start_is_written_and_its_code_is_not_called(
    runtime: LocalRuntime, seen: Seen
) -> None:
    written = threading.Event()
    found: list[int] = []
    entry = runtime.register(chain(2, "python-own"), source_name="chain.yaml")
    with writing(runtime, lambda: written.wait(PATIENCE) or pytest.fail("not written")):
        start = threading.Thread(target=lambda: found.append(runtime.start(entry, {})))
        start.start()
        wait_until(lambda: seen.started, "a process for the code")
        assert not seen.called and not found and not runtime.store.executions(limit=10)
        written.set()
        start.join(PATIENCE)
        assert ends_well(runtime, found[0])
    assert seen.started == found and seen.called == found * 2


def test_what_is_not_written_is_not_called(runtime: LocalRuntime, seen: Seen) -> None:
    def refuse() -> None:
        wait_until(lambda: len(seen.started) > before, "a process for the code")
        raise InfrastructureError("no database", code="database_unreachable")

    entry = runtime.register(chain(2, "python-own"), source_name="chain.yaml")
    before = len(seen.started)
    with writing(runtime, refuse), pytest.raises(InfrastructureError):
        runtime.start(entry, {})
    wait_until(runtime._quiet, "the end of what was prepared")
    assert len(seen.started) == 1 and not seen.called
    again = runtime.start(entry, {})
    assert ends_well(runtime, again) and seen.called == [again, again]


def test_after_a_version_conflict_the_command_is_called_once(runtime: LocalRuntime, seen: Seen) -> None:
    conflicts = iter([VersionConflictError([1])])

    def conflict_once() -> None:
        for conflict in conflicts:
            wait_until(lambda: seen.started, "a process for the code")
            raise conflict

    entry = runtime.register(chain(2, "python-own"), source_name="chain.yaml")
    with writing(runtime, conflict_once):
        execution_id = runtime.start(entry, {})
        assert ends_well(runtime, execution_id)
    assert seen.called == [execution_id] * 2
    assert len(runtime.store.executions(limit=10)) == 1


def test_a_command_that_breaks_its_worker_before_it_is_issued_is_run_again(
    runtime: LocalRuntime, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It belongs to this process from the moment at which it is written, and no other would run it."""
    broken = threading.Event()
    worker = runtime.opened.worker

    def break_once(name: str) -> Any:
        if not broken.is_set():
            broken.set()
            raise SystemExit("the worker breaks")
        return worker.programs(name)

    entry = runtime.register(chain(2, "python-own"), source_name="chain.yaml")
    monkeypatch.setattr(runtime.opened, "worker", replace(worker, programs=break_once))
    with writing(runtime, lambda: broken.wait(PATIENCE) or pytest.fail("nothing was prepared")):
        execution_id = runtime.start(entry, {})
    assert ends_well(runtime, execution_id) and seen.called == [execution_id] * 2
