"""Libraries of playbooks: built once, kept while they are used, gone when their build ends early. Nothing is downloaded here."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext, TaskSettings
from noetl.domain.sizes.table import LIBRARIES_BYTES, LIBRARIES_KEPT, LIBRARIES_SECONDS, Size
from noetl.kinds.sandbox import libraries
from noetl.kinds.sandbox.libraries import use_libraries
from tests.parts import ABOUT_A_LIMIT
from tests.waiting import PATIENCE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the template process is Linux's")
PIP = 'runpy.run_module("pip", run_name="__main__", alter_sys=True)'
HEAD = """
place = lambda option: sys.argv[sys.argv.index(option) + 1]
from pathlib import Path
target, wheels = Path(place("--target")), Path(place("--find-links"))
"""
"""What stands for pip; the folder of wheels is where it and the test meet."""
MAKES = "target.mkdir(); (target / 'colours.py').touch(); open(wheels / 'made', 'a').write('x')"
WAITS = "open(wheels / 'go').read()"
HANGS = "(target).mkdir(); (target / 'half.py').touch(); print('Collecting', os.getpid(), flush=True); import signal; signal.pause()"


def locked(number: int = 0) -> str:
    return f"# noetl lock 1\n# requires: colours\ncolours=={number} --hash=sha256:{'0' * 64}\n"


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "environments"


def pip_does(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    assert PIP in libraries.BOOT
    monkeypatch.setattr(libraries, "BOOT", libraries.BOOT.replace(PIP, HEAD + code))


def context(root: Path, wheels: Path, number: int = 0, **more) -> TaskContext:
    facts = {
        "execution_id": 1,
        "step": "s",
        "task": "t",
        "attempt": 1,
        "idempotency_key": "1/s/0/t",
        "timeout": 5.0,
        "settings": TaskSettings(libraries_dir=str(root), wheels_dir=str(wheels)),
        "credential": lambda name: pytest.fail(f"no credential is needed: {name}"),
        "lock": locked(number),
    }
    return TaskContext(**(facts | more))


def used(given: TaskContext) -> str:
    with use_libraries(given) as folder:
        return folder


def kept(root: Path) -> set[str]:
    return {str(folder) for folder in root.glob("*-*")}


def test_a_playbook_without_requirements_touches_nothing(root, wheels):
    assert used(context(root, wheels, lock="")) == ""
    assert not root.exists()


def test_runs_at_once_share_one_build(root, wheels, monkeypatch):
    pip_does(monkeypatch, f"print('Collecting colours', flush=True); {WAITS}; {MAKES}")
    os.mkfifo(wheels / "go")
    building, waiting = threading.Event(), threading.Event()

    def builds(line: str) -> None:
        if line == "pip: Collecting colours":
            building.set()

    def waits(line: str) -> None:
        if line.startswith("waiting for"):
            waiting.set()

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(used, context(root, wheels, log=builds))
        assert building.wait(PATIENCE)
        second = pool.submit(used, context(root, wheels, log=waits))
        assert waiting.wait(PATIENCE)
        (wheels / "go").write_text("")
        assert first.result(PATIENCE) == second.result(PATIENCE)
    assert (wheels / "made").read_text() == "x"
    assert kept(root) == {first.result()}


def test_libraries_in_use_are_not_removed(root, wheels, monkeypatch):
    pip_does(monkeypatch, MAKES)
    with use_libraries(context(root, wheels)) as held:
        aged(held, 1)
        for number in range(1, LIBRARIES_KEPT.value + 1):
            aged(used(context(root, wheels, number)), 1 + number)
        assert held in kept(root) and Path(held, "colours.py").exists()
        assert len(kept(root)) == LIBRARIES_KEPT.value + 1
    used(context(root, wheels, LIBRARIES_KEPT.value + 1))
    assert held not in kept(root)
    assert len(kept(root)) == LIBRARIES_KEPT.value


@pytest.mark.parametrize("over", ABOUT_A_LIMIT)
def test_locks_whose_libraries_are_kept(over, root, wheels, monkeypatch):
    pip_does(monkeypatch, MAKES)
    made = []
    for number in range(LIBRARIES_KEPT.value + over):
        made.append(used(context(root, wheels, number)))
        aged(made[-1], 1 + number)
    assert kept(root) == set(made[max(0, over) :])


def aged(folder: str, at: int) -> None:
    os.utime(folder, (at, at))


def test_libraries_that_were_removed_are_installed_under_another_name(root, wheels, monkeypatch):
    pip_does(monkeypatch, MAKES)
    first = used(context(root, wheels))
    libraries.remove_tree(first)
    assert used(context(root, wheels)) != first


def test_libraries_whose_removal_was_cut_short_are_installed_again(root, wheels, monkeypatch):
    """The process died after the first file."""
    pip_does(monkeypatch, MAKES)
    for number in range(LIBRARIES_KEPT.value):
        aged(used(context(root, wheels, number)), 1 + number)

    def dies(folder: str) -> None:
        for file in Path(folder).iterdir():
            file.unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(libraries, "remove_tree", dies)
        with pytest.raises(KeyboardInterrupt):
            used(context(root, wheels, LIBRARIES_KEPT.value))
    assert Path(used(context(root, wheels)), "colours.py").exists()
    assert not list(root.glob(".building-*"))


def test_a_cancelled_build_leaves_nothing(root, wheels, monkeypatch):
    pip_does(monkeypatch, HANGS)
    started: list[int] = []

    def log(line: str) -> None:
        if line.startswith("pip: Collecting"):
            started.append(int(line.split()[-1]))

    with pytest.raises(TaskError) as refused:
        used(context(root, wheels, log=log, cancelled=lambda: bool(started)))
    assert (refused.value.kind, refused.value.code) == ("cancelled", "cancelled")
    assert list(root.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


def test_a_failed_build_leaves_nothing(root, wheels, monkeypatch):
    pip_does(monkeypatch, "target.mkdir(); sys.exit('ERROR: no wheel fits')")
    with pytest.raises(TaskError, match="cannot be installed: no wheel fits") as refused:
        used(context(root, wheels))
    assert refused.value.code == "libraries_not_installed" and "NOETL_WHEELS" in (refused.value.hint or "")
    assert list(root.iterdir()) == []


KILLED = """
import sys
from pathlib import Path
from noetl.kinds.sandbox import libraries
from tests.unit.kinds import test_libraries as ours
libraries.BOOT = libraries.BOOT.replace(ours.PIP, ours.HEAD + ours.HANGS)
ours.used(ours.context(Path(sys.argv[1]), Path(sys.argv[2]), log=lambda line: print(line, flush=True)))
"""


def test_pip_ends_with_a_worker_that_is_killed(root, wheels, monkeypatch):
    worker = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(root), str(wheels)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert worker.stdout is not None
        started = next(line for line in worker.stdout if line.startswith("pip: Collecting"))
        pip = os.pidfd_open(int(started.split()[-1]))
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.communicate(timeout=PATIENCE)
    try:
        assert select.select([pip], [], [], PATIENCE)[0], "pip goes on without its worker"
    finally:
        os.close(pip)
    assert list(root.glob("*-*/*")) != [] and kept(root) == set(map(str, root.glob(".building-*")))
    pip_does(monkeypatch, MAKES)
    folder = used(context(root, wheels))
    assert kept(root) == {folder}, "the next installation removes what is left"
    assert [one.name for one in Path(folder).iterdir()] == ["colours.py"]


@pytest.mark.parametrize("over", ABOUT_A_LIMIT)
def test_the_size_of_libraries_at_its_limit(over, root, wheels, monkeypatch):
    bare = len(libraries.pins_text(libraries.read_lock(locked()).pins)) + 1
    size = LIBRARIES_BYTES.value + over - bare
    pip_does(
        monkeypatch, f"target.mkdir(); os.truncate(os.open(target / 'a', os.O_RDWR | os.O_CREAT), {size})"
    )
    if over <= 0:
        assert Path(used(context(root, wheels)), "a").stat().st_size == size
        return
    with pytest.raises(TaskError) as refused:
        used(context(root, wheels))
    assert (refused.value.kind, refused.value.code) == ("storage_quota", "libraries_too_large")
    assert refused.value.hint and list(root.iterdir()) == []


class Clock:
    """A process that ends at a moment, in virtual time."""

    def __init__(self, end: float) -> None:
        self.now, self.end = 0.0, end
        self.returncode: int | None = None

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now = min(self.now + seconds, self.end)
        if self.now < self.end:
            raise subprocess.TimeoutExpired("pip", seconds)
        self.returncode = 0


@pytest.mark.parametrize("over", ABOUT_A_LIMIT)
def test_the_time_of_an_installation_at_its_limit(over, tmp_path, monkeypatch):
    process = Clock(LIBRARIES_SECONDS.value + over)
    monkeypatch.setattr(libraries, "time", SimpleNamespace(monotonic=process.monotonic))
    if over <= 0:
        libraries._wait(process, tmp_path, lambda: None)
        assert process.now == process.end
        return
    with pytest.raises(TaskError, match=f"more than {LIBRARIES_SECONDS.value} seconds") as refused:
        libraries._wait(process, tmp_path, lambda: None)
    assert refused.value.code == "libraries_not_installed"


def test_a_lock_that_would_steer_pip_is_not_followed(root, wheels, monkeypatch):
    pip_does(monkeypatch, MAKES)
    with pytest.raises(TaskError) as refused:
        used(context(root, wheels, lock=locked() + "--index-url https://example.com\n"))
    assert refused.value.code == "lock_invalid" and not kept(root)


def test_pip_has_no_secret_of_the_engine(monkeypatch):
    for name in ("NOETL_DATABASE_URL", "AWS_SECRET_ACCESS_KEY", "PIP_INDEX_URL", "https_proxy"):
        monkeypatch.setenv(name, "x")
    given = libraries.pip_environment()
    assert given["PIP_INDEX_URL"] == given["https_proxy"] == "x"
    assert not {"NOETL_DATABASE_URL", "AWS_SECRET_ACCESS_KEY"} & given.keys()


def sizes_under_test() -> set[Size]:
    """Limits that have a case here, for the test that every limit has one."""
    return {LIBRARIES_BYTES, LIBRARIES_KEPT, LIBRARIES_SECONDS}
