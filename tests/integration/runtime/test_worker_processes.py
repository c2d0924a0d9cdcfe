"""Commands in worker processes: they have the outcomes that they have here, and lose nothing when a process ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest

from noetl.kinds import noop
from noetl.kinds.registry import Registry
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.local.worker_process import processes
from noetl.runtime.settings import Settings
from noetl.services.history.replay import replay
from tests.bench.playbooks import chain
from tests.parts import parted, repeated
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.postgres

WHERE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: where, path: where }
workflow:
  - step: start
    tool:
      kind: python
      process: playbook
      code: |
        import os
        print("from the code")
        result = {"group": os.getpgid(0)}
    next: second
  - step: second
    loop: { in: "{{ range(30) | list }}", iterator: item, mode: parallel }
    tool: { kind: python, args: { n: "{{ item }}" }, code: "result = n * n" }
"""
STUCK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: stuck, path: stuck }
workload: { folder: "" }
workflow:
  - step: start
    tool:
      kind: python
      args: { folder: "{{ workload.folder }}" }
      code: |
        import pathlib, time
        (pathlib.Path(folder) / "begun").touch()
        while not (pathlib.Path(folder) / "go").exists():
            time.sleep(0.02)
        result = "went"
"""


ONE = {"NOETL_WORKER_PROCESSES": "1"}
SEVERAL = repeated(gate=8, full=20)
MORE = repeated(gate=40, full=50)
"""Executions at once."""


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command goes to a worker process, from the first one on that is there."""
    send_at_once(monkeypatch)


def send_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(processes, "BUSY", 0)
    patch.setattr(processes, "CROWDED", 1)
    patch.setattr(processes, "RESTART_SECONDS", (0.0,))


@contextmanager
def running(
    home: Path, database: str, env: Mapping[str, str] = ONE, **more: object
) -> Iterator[LocalRuntime]:
    """A runtime that has a worker process, or as many as ``env`` says."""
    (home / "given").mkdir(exist_ok=True)
    env = {**env, "NOETL_TASK_FOLDERS": str(home / "given")}
    settings = Settings.from_env(env, home=home / "home", database_url=database)
    lines: list[str] = []
    with LocalRuntime(settings, on_log=lines.append, **more) as runtime:  # type: ignore[arg-type]
        warm(runtime)
        runtime.lines = lines  # type: ignore[attr-defined]
        yield runtime


def warm(runtime: LocalRuntime) -> int:
    """Wait for a worker process; return its id."""
    entry = runtime.register(chain(1, "python"), source_name="chain.yaml")
    runtime.run_until(runtime.start_many(entry, [{}] * 3), timeout=PATIENCE)
    return int(wait_until(lambda: runtime._processes.pids, "a worker process")[0])


@pytest.fixture(scope="module")
def shared(tmp_path_factory, module_database: str) -> Iterator[LocalRuntime]:
    """A runtime with a worker process, to which each command goes."""
    with pytest.MonkeyPatch.context() as patch:
        send_at_once(patch)
        with running(tmp_path_factory.mktemp("shared"), module_database) as runtime:
            yield runtime


@pytest.fixture
def given(shared: LocalRuntime, tmp_path: Path) -> Path:
    """A folder of the test, of which tasks of the shared runtime know."""
    folder = Path(shared.settings.task_folders[0]) / tmp_path.name
    folder.mkdir()
    return folder


def test_steps_and_loops_have_the_results_that_they_have_here(shared, at_once):
    (pid,) = shared._processes.pids
    _gives_way(pid)
    entry = shared.register(WHERE, source_name="where.yaml")
    found = shared.start_many(entry, [{}] * SEVERAL)
    shared.run_until(found, timeout=PATIENCE)
    assert {shared.status(one) for one in found} == {"completed"}
    for one in found:
        slots = shared.store.slots(one)
        assert slots["step", "second"]["data"]["results"] == [n * n for n in range(30)]
        assert slots["step", "start"]["data"]["group"] != os.getpgid(0)
        page = shared.task_logs.read(one, "", 10, everything=True)
        assert [line.line for line in page.lines] == ["from the code"]
        assert replay(shared.store, one).agrees

    def idle() -> bool:
        return not any(gauge.waiting or gauge.in_flight for gauge in shared.gauges())

    wait_until(idle, "the places that the last commands held")


def _gives_way(pid: int) -> None:
    """Hold a worker process to its priority, by which the engine goes first."""
    assert os.getpriority(os.PRIO_PROCESS, pid) - os.getpriority(os.PRIO_PROCESS, 0) == 5
    session = Path(f"/proc/{pid}/autogroup")
    if session.exists() and session.read_text():
        wait_until(lambda: session.read_text().split()[-1] == "5", "the priority of its session")


WAITING = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: waiting, path: waiting }
workflow:
  - step: start
    loop: { in: "{{ range(40) | list }}", iterator: item, mode: parallel }
    tool: { kind: noop, args: { n: "{{ iter.item }}" } }
    next: second
  - step: second
    tool: { kind: python, code: "result = {'value': 7}" }
"""


@pytest.fixture(scope="module")
def shared_pair(tmp_path_factory, databases) -> Iterator[LocalRuntime]:
    """A runtime with two worker processes, each of which runs one command of each pool at a time."""
    two_of_each = {f"NOETL_{name}_WORKERS": "2" for name in ("IO", "CPU", "PYTHON")}
    env = {"NOETL_WORKER_PROCESSES": "2", **two_of_each}
    with pytest.MonkeyPatch.context() as patch, databases.fresh() as database:
        send_at_once(patch)
        with running(tmp_path_factory.mktemp("pair"), database, env) as runtime:
            yield runtime


@pytest.fixture
def pair(shared_pair: LocalRuntime) -> LocalRuntime:
    wait_until(lambda: len(shared_pair._processes.pids) == 2, "both processes")
    return shared_pair


def test_no_command_waits_for_a_long_one_while_another_process_is_idle(pair, at_once):
    """More of them than are sent ahead, and while one of the two processes runs the long one."""
    given = Path(pair.settings.task_folders[0])
    long = pair.register(STUCK, source_name="stuck.yaml")
    (stuck,) = pair.start_many(long, [{"folder": str(given)}])
    wait_until((given / "begun").exists, "the long command")
    found = pair.start_many(pair.register(WAITING, source_name="waiting.yaml"), [{}] * MORE)
    pair.run_until(found, timeout=PATIENCE)
    assert {pair.status(one) for one in found} == {"completed"} and pair.status(stuck) == "running"
    (given / "go").touch()
    pair.run_until([stuck], timeout=PATIENCE)
    assert pair.status(stuck) == "completed"
    assert all(replay(pair.store, one).agrees for one in (stuck, *found))


@pytest.mark.parametrize("place", parted([0, 1], [1]))
def test_one_of_two_processes_is_killed_and_all_of_their_work_is_done(pair, at_once, place):
    entry = pair.register(WAITING, source_name="waiting.yaml")
    for pid in pair._processes.pids:
        _gives_way(pid)
    found = pair.start_many(entry, [{}] * SEVERAL)
    os.kill(pair._processes.pids[place], signal.SIGKILL)
    pair.run_until(found, timeout=PATIENCE)
    assert {pair.status(one) for one in found} == {"completed"}
    assert {pair.store.slots(one)["step", "second"]["data"]["value"] for one in found} == {7}
    assert all(replay(pair.store, one).agrees for one in found)


def test_a_killed_process_loses_and_doubles_nothing(shared, at_once):
    entry = shared.register(chain(5, "python"), source_name="chain.yaml")
    found = shared.start_many(entry, [{}] * (3 * SEVERAL))
    before = shared._processes.pids
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    shared.run_until(found, timeout=PATIENCE)
    assert {shared.status(one) for one in found} == {"completed"}
    assert {shared.store.slots(one)["step", "s4"]["data"]["value"] for one in found} == {5}
    assert all(replay(shared.store, one).agrees for one in found)
    assert any("ended with -9" in line for line in shared.lines)
    assert warm(shared) not in before, "another one is started"


@pytest.mark.full
def test_a_command_that_kills_its_process_is_given_up_and_spares_the_engine(
    tmp_path, database, at_once, monkeypatch
):
    monkeypatch.setattr("noetl.domain.workers.lost_owners.WAIT_SECONDS", 0.1)
    with running(tmp_path, database) as runtime:
        entry = runtime.register(STUCK, source_name="stuck.yaml")
        (one,) = runtime.start_many(entry, [{"folder": str(tmp_path / "given")}])
        begun = tmp_path / "given" / "begun"
        for _ in range(3):
            wait_until(begun.exists, "the code")
            begun.unlink()
            (pid,) = wait_until(lambda: runtime._processes.pids, "a worker process")
            os.kill(pid, signal.SIGKILL)
        runtime.run_until([one], timeout=PATIENCE)
        assert runtime.status(one) == "failed"
        assert b"worker_lost" in runtime.store.events(one)[-1].facts, "after three deaths"
        assert sum("ended with -9" in line for line in runtime.lines) == 3


def test_what_runs_there_is_cancelled_there(shared, given, at_once):
    entry = shared.register(STUCK, source_name="stuck.yaml")
    (one,) = shared.start_many(entry, [{"folder": str(given)}])
    wait_until((given / "begun").exists, "the code")
    shared.cancel(one, "enough", "me")
    assert shared.status(one) == "cancelled"
    wait_until(lambda: not shared._here, "the end of the command")


def test_a_runtime_that_closes_takes_its_processes_with_it(tmp_path, database, at_once):
    with running(tmp_path, database) as runtime:
        pids = runtime._processes.pids
        entry = runtime.register(STUCK, source_name="stuck.yaml")
        (one,) = runtime.start_many(entry, [{"folder": str(tmp_path / "given")}])
        wait_until((tmp_path / "given" / "begun").exists, "the code")
        runtime.patience = 0.0
    for pid in pids:
        wait_until(lambda pid=pid: not alive(pid), "the end of the process")
    (tmp_path / "given" / "go").touch()
    with running(tmp_path, database) as runtime:
        runtime.recover()
        runtime.run_until([one], timeout=PATIENCE)
        assert runtime.status(one) == "completed"


def test_a_signal_to_each_process_of_the_service_leaves_what_runs(shared, given, at_once):
    """As systemd sends it by default. The process with the engine ends the others, after the commands that run."""
    entry = shared.register(STUCK, source_name="stuck.yaml")
    (one,) = shared.start_many(entry, [{"folder": str(given)}])
    wait_until((given / "begun").exists, "the code")
    pids = shared._processes.pids
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    (given / "go").touch()
    shared.run_until([one], timeout=PATIENCE)
    assert shared.status(one) == "completed" and shared._processes.pids == pids


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_kinds_that_no_other_process_knows_stay_here(tmp_path, database, at_once):
    own = SimpleNamespace(SPEC=noop.SPEC, Params=noop.Params, run=noop.run)
    registry = Registry()
    registry.add(own)
    settings = Settings.from_env({"NOETL_WORKER_PROCESSES": "1"}, home=tmp_path, database_url=database)
    with LocalRuntime(settings, registry=registry) as runtime:
        entry = runtime.register(chain(3, "python"), source_name="chain.yaml")
        runtime.run_until(runtime.start_many(entry, [{}] * 5), timeout=PATIENCE)
        assert runtime._processes.pids == []


def test_commands_alone_stay_here(tmp_path, database):
    settings = Settings.from_env({"NOETL_WORKER_PROCESSES": "1"}, home=tmp_path, database_url=database)
    with LocalRuntime(settings) as runtime:
        entry = runtime.register(chain(5, "python"), source_name="chain.yaml")
        for one in (runtime.start(entry, {}) for _ in range(3)):
            runtime.run_until([one], timeout=PATIENCE)
        assert runtime._processes.pids == []
        with psycopg.connect(database) as connection:
            assert connection.execute("SELECT count(*) FROM noetl.runtime").fetchone() == (1,)
