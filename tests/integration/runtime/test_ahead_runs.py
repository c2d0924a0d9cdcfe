"""Code that keeps nothing runs before the change is written that issues it: what of that can be seen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError
from noetl.kinds.sandbox.child import Child
from noetl.ports.executions.execution_store import Change, Committed, VersionConflictError
from noetl.runtime.local import ahead_runs
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from noetl.services.history.history_pages import history
from noetl.services.history.replay import replay
from noetl.services.worker import run_ahead
from noetl.services.worker.run_command import run_command
from tests.bench.playbooks import chain
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.postgres
STEPS = 20

MIXED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: mixed, path: mixed }
workload: { value: 1 }
workflow:
  - step: start
    tool: { kind: python, args: { n: "{{ workload.value }}" }, code: "result = n + 1" }
    next:
      arcs: [{ step: fails, when: "{{ start > 1 }}" }, { step: never, when: "{{ start < 1 }}" }]
  - step: never
    tool: { kind: python, code: "result = 0" }
  - step: fails
    tool:
      kind: python
      code: "raise ValueError('no')"
      spec: { policy: { rules: [{ when: "{{ outcome.status == 'error' }}", then: { do: continue } }] } }
    next: { spec: { mode: inclusive }, arcs: [{ step: left }, { step: right }] }
  - step: left
    tool: { kind: python, args: { n: "{{ start }}" }, code: "result = n * 10" }
    next: { arcs: [{ step: both }] }
  - step: right
    tool: { kind: python, args: { n: "{{ start }}" }, code: "print('to the right')\\nresult = n * 100" }
    next: { arcs: [{ step: both }] }
  - step: both
    tool: { kind: python, args: { a: "{{ left }}", b: "{{ right }}" }, code: "result = a + b" }
    next: { arcs: [{ step: last }] }
  - step: last
    tool: { kind: python, args: { n: "{{ both }}" }, code: "result = n + 1" }
"""
CYCLE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: cycle, path: cycle }
workflow:
  - step: start
    tool: { kind: python, code: "result = 1" }
    next: start
"""
SLEEPS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: sleeps, path: sleeps }
workflow:
  - step: start
    tool: { kind: python, code: "result = 1" }
    next: sleeps
  - step: sleeps
    tool: { kind: python, args: { n: "{{ start }}" }, code: "import time\\ntime.sleep(0.05)\\nresult = n + 1" }
"""
COMPENSATED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: compensated, path: compensated }
workflow:
  - step: start
    spec: { compensate: { kind: python, code: "result = 'undone'" } }
    tool: { kind: python, code: "result = 1" }
    next: { arcs: [{ step: fails }] }
  - step: fails
    tool: { kind: python, code: "result = 1 // 0" }
"""
STORED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: stored, path: stored }
workflow:
  - step: start
    tool: { kind: python, code: "result = 1" }
    next: { arcs: [{ step: large, args: { values: "{{ range(60000) | list }}" } }] }
  - step: large
    tool: { kind: python, args: { n: 1 }, code: "result = n" }
"""
READS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: reads, path: reads }
workflow:
  - step: start
    tool: { kind: python, code: "result = 1" }
    next: { arcs: [{ step: rows }] }
  - step: rows
    loop: { in: "file:FILE", iterator: row, mode: sequential }
    tool: { kind: python, args: { row: "{{ row }}" }, code: "result = row" }
"""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ahead runs take as long as this machine wants."""
    monkeypatch.setattr(ahead_runs, "SECONDS", PATIENCE)
    monkeypatch.setattr(run_ahead, "SHORT_SECONDS", PATIENCE)
    monkeypatch.setattr(run_ahead, "MOST_SECONDS", PATIENCE)


class Ground:
    """A runtime whose commits a test can disturb. ``written``: rows of history of each change."""

    def __init__(self, runtime: LocalRuntime) -> None:
        self.runtime = runtime
        self.written: list[int] = []
        self.conflicts = 0
        self.before: Callable[[], None] = lambda: None
        self._commit = runtime.store.commit
        runtime.store.commit = self.commit  # type: ignore[method-assign]

    def commit(self, changes: Sequence[Change], owner: str | None) -> Committed:
        self.before()
        try:
            found = self._commit(changes, owner)
        except VersionConflictError:
            self.conflicts += 1
            raise
        self.written += [len(change.events) for change in changes]
        return found

    def play(self, text: str, status: str = "completed") -> int:
        entry = self.runtime.register(text, source_name="p.yaml")
        execution = self.runtime.start(entry, {})
        self.runtime.run_until([execution], timeout=PATIENCE)
        assert self.runtime.status(execution) == status
        assert replay(self.runtime.store, execution).agrees
        return execution

    def events(self, execution_id: int) -> list[tuple[str, str]]:
        entity = {str(execution_id): "the execution"}
        events = history(self.runtime.store, execution_id)
        return [(one.event_type, entity.get(one.entity_id, one.entity_id)) for one in events]

    def value(self, execution_id: int, step: str) -> Any:
        return self.runtime.store.slots(execution_id)["step", step]["data"]


@pytest.fixture
def ground(tmp_path: Path, database: str) -> Iterator[Ground]:
    settings = Settings.from_env({"NOETL_PYTHON_WORKERS": "2"}, home=tmp_path, database_url=database)
    (tmp_path / "data").mkdir()
    with LocalRuntime(settings, data_dirs=[str(tmp_path / "data")]) as runtime:
        yield Ground(runtime)


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The code of each call of a process."""
    found: list[str] = []
    call = Child.call

    def noted(child: Child, code: str, *given: Any) -> Any:
        found.append(code)
        return call(child, code, *given)

    monkeypatch.setattr(Child, "call", noted)
    return found


def test_steps_of_a_chain_share_a_commit(ground: Ground) -> None:
    """The first execution begins its process; the next one finds it, and is written as a whole."""
    first = ground.play(chain(STEPS, "python"))
    assert sum(ground.written) == STEPS + 1 and len(ground.written) <= 3
    ground.written.clear()
    second = ground.play(chain(STEPS, "python"))
    assert ground.written == [STEPS + 1]
    assert ground.events(first) == ground.events(second)
    assert ground.value(second, f"s{STEPS - 1}") == {"value": STEPS}


def test_each_step_of_a_process_of_its_own_has_a_commit(ground: Ground) -> None:
    ground.play(chain(STEPS, "python-own"))
    assert ground.written == [1] * (STEPS + 1)


def test_histories_are_the_same(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Branches, rules, errors, joins and printed lines, with ahead runs and without."""
    ground.play(MIXED)
    ground.written.clear()
    ahead = ground.play(MIXED)
    commits = len(ground.written)
    monkeypatch.setattr(ahead_runs, "MOST", 0)
    ground.written.clear()
    one_by_one = ground.play(MIXED)
    assert commits < len(ground.written), "without, there are more commits"
    assert sorted(ground.events(ahead)) == sorted(ground.events(one_by_one))
    for step in ("start", "left", "right", "both", "last"):
        assert ground.value(ahead, step) == ground.value(one_by_one, step)
    for execution in (ahead, one_by_one):
        page = ground.runtime.task_logs.read(execution, "", 10, everything=True)
        assert [one.line for one in page.lines] == ["to the right"]


def test_a_version_conflict_drops_the_runs_and_they_are_made_again(ground: Ground, called: list[str]) -> None:
    ground.play(chain(STEPS, "python"))
    called.clear()
    conflicts = iter([VersionConflictError])

    def conflict() -> None:
        for error in conflicts:
            raise error

    ground.before = conflict
    execution = ground.play(chain(STEPS, "python"))
    assert ground.value(execution, f"s{STEPS - 1}") == {"value": STEPS}
    assert len(called) > STEPS, "runs that were not written are made again"


def test_an_outage_drops_the_runs_and_the_start(ground: Ground, called: list[str]) -> None:
    ground.play(chain(STEPS, "python"))
    ground.written.clear()

    def outage() -> None:
        raise InfrastructureError("away", code="database_refused", retryable=True)

    entry = ground.runtime.register(chain(STEPS, "python"), source_name="p.yaml")
    ground.before = outage
    with pytest.raises(InfrastructureError):
        ground.runtime.start(entry, {})
    assert not ground.written and len(ground.runtime.store.executions(limit=10)) == 1


def test_a_cancel_ends_a_cycle(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead_runs, "SECONDS", 0.01)
    entry = ground.runtime.register(CYCLE, source_name="p.yaml")
    execution = ground.runtime.start(entry, {})
    wait_until(lambda: sum(ground.written) > 100, "a hundred steps")
    ground.runtime.cancel(execution, "enough", "ada")
    ground.runtime.run_until([execution], timeout=PATIENCE)
    assert ground.runtime.status(execution) == "cancelled"
    assert replay(ground.runtime.store, execution).agrees


def test_a_call_that_takes_long_is_made_again_when_it_is_issued(
    ground: Ground, called: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_ahead, "SHORT_SECONDS", 0.005)
    monkeypatch.setattr(run_ahead, "MOST_SECONDS", 0.005)
    ground.play(SLEEPS)
    called.clear()
    execution = ground.play(SLEEPS)
    assert ground.value(execution, "sleeps") == 2
    assert sum("sleep" in code for code in called) == 1, "its step is known by now"


def test_a_failure_that_is_compensated_is_one_run_and_no_conflict(ground: Ground, called: list[str]) -> None:
    ground.play(COMPENSATED, "failed")
    called.clear()
    ground.conflicts = 0
    ground.play(COMPENSATED, "failed")
    assert called.count("result = 1 // 0") == called.count("result = 'undone'") == 1
    assert not ground.conflicts


def test_what_a_later_decision_meets_does_not_stop_the_first_one(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The arguments of the second step cannot be stored for a moment: the start is written all the same."""
    ground.play(STORED)
    results = type(ground.runtime.results)
    put, outages = results.put, iter([InfrastructureError("away", code="results_unreachable")])

    def fails_once(*given: Any) -> None:
        for error in outages:
            raise error
        put(*given)

    monkeypatch.setattr(results, "put", fails_once)
    ground.play(STORED)
    assert next(outages, None) is None


def test_the_collection_of_a_loop_is_read_when_that_is_issued(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tmp_path / "data" / "rows.csv"
    rows.write_text("n\n1\n2\n")
    entry = ground.runtime.register(READS.replace("FILE", str(rows)), source_name="p.yaml")
    seen: list[str] = []
    read = run_command.__globals__["_run"]

    def noted(command: Command, *given: Any) -> None:
        if command.stage == "collection":
            seen.append(threading.current_thread().name)
        read(command, *given)

    monkeypatch.setitem(run_command.__globals__, "_run", noted)
    for _ in range(2):
        execution = ground.runtime.start(entry, {})
        ground.runtime.run_until([execution], timeout=PATIENCE)
        assert ground.runtime.status(execution) == "completed"
    assert len(seen) == 2 and all(name.startswith("noetl-") for name in seen)


def test_an_execution_of_one_commit_has_a_duration(ground: Ground) -> None:
    ground.play(chain(STEPS, "python"))
    execution = ground.play(chain(STEPS, "python"))
    info = ground.runtime.store.info(execution)
    assert info is not None and info.ended_at is not None
    first, *_, last = history(ground.runtime.store, execution)
    took = datetime.fromisoformat(last.timestamp) - datetime.fromisoformat(first.timestamp)
    assert 0 < took.total_seconds() <= info.ended_at - info.started_at + 1e-4


def test_one_command_runs_at_once_where_one_thread_runs_code(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.from_env({"NOETL_PYTHON_WORKERS": "1"}, home=tmp_path, database_url=database)
    now, most, lock, call = [0], [0], threading.Lock(), Child.call

    def counted(*given: Any) -> Any:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        try:
            return call(*given)
        finally:
            with lock:
                now[0] -= 1

    monkeypatch.setattr(Child, "call", counted)
    with LocalRuntime(settings) as runtime:
        texts = [SLEEPS.replace("sleeps", f"sleeps{one}") for one in range(3)]
        entries = [runtime.register(text, source_name="p.yaml") for text in texts]
        for entry in entries * 2:
            runtime.run_until([runtime.start(entry, {})], timeout=PATIENCE)
        found: list[int] = []
        threads = [
            threading.Thread(target=lambda one=one: found.append(runtime.start(one, {}))) for one in entries
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        runtime.run_until(found, timeout=PATIENCE)
        assert len(found) == 3 and {runtime.status(one) for one in found} == {"completed"}
    assert most == [1]
