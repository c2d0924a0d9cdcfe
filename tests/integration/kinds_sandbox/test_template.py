"""The process that forks tasks: what its children have of it, and what becomes of them when it or its worker dies."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from noetl.domain.errors import InfrastructureError
from noetl.kinds.sandbox import process, template
from noetl.kinds.sandbox.child import Owner
from noetl.kinds.sandbox.layers import detect, layers
from noetl.kinds.sandbox.places import Places
from noetl.kinds.sandbox.pool import ChildPool
from noetl.kinds.sandbox.process import TaskLimits, start_template
from tests.integration.kinds_sandbox.leaks import forget_cells
from tests.integration.kinds_sandbox.test_pool import watch
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="other systems start an interpreter for each task"
)

LOOK = """
import os
result = {"files": sorted(map(int, os.listdir("/proc/self/fd")))[:-1], "environment": sorted(os.environ), "folder": os.getcwd(),
          "draws": __import__("random").random()}
"""
WORKER = """
import os, sys, time
from tests.integration.kinds_sandbox.test_template import call, template_pid
from noetl.kinds.sandbox.pool import ChildPool
pool = ChildPool(4)
call(pool, 1, "result = 1")
confined = pool._idle[0].child._confined
print(template_pid(), confined.process.pid, confined.folder.parent, flush=True)
time.sleep(1000)
"""
ELSEWHERE = """
import json, sys
from dataclasses import asdict
from tests.integration.kinds_sandbox.test_template import call
from noetl.kinds.sandbox.layers import detect, layers
from noetl.kinds.sandbox.pool import ChildPool
pool = ChildPool(4)
code = f"import os\\nopen('own', 'w').close()\\ntry:\\n    beside = os.listdir({sys.argv[1]!r})\\nexcept OSError:\\n    beside = []\\n"
print(json.dumps([asdict(detect()), call(pool, 1, code + "result = [os.getcwd(), beside]")]))
pool.close()
"""


@pytest.fixture
def pool():
    made = ChildPool(8)
    yield made
    made.close()


def call(pool: ChildPool, execution_id: int, code: str, places: Places | None = None):
    with pool.lease(Owner(execution_id, TaskLimits(1 << 30, 1 << 20), places or Places())) as child:
        return child.call(code, {}, watch())["result"]


def template_pid() -> int:
    """Of the template that was used last."""
    *_, last = template.templates()._current.values()
    return last._process.pid


def kill_template() -> None:
    """Kill the template that was used last; the next task finds it dead."""
    killed = template_pid()
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: gone(killed), "the end of the template")
    forget_cells()  # one that outlives its template for a moment would still serve


def gone(pid: int) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


def test_children_have_the_same_few_files_however_many_there_are(pool):
    """Neither another task's channels nor the template's own are left open, and nothing is drawn twice."""
    found = [call(pool, number, LOOK) for number in range(5)]
    # The last one lists the folder of open files; its number follows what the template had open when it forked.
    assert {tuple(one["files"][:-1]) for one in found} == {tuple(found[0]["files"][:-1])}
    assert len(found[0]["files"]) <= 8, found[0]["files"]
    assert {tuple(one["environment"]) for one in found} == {("HOME", "LANG", "PATH", "TMPDIR")}
    assert len({one["folder"] for one in found}) == len({one["draws"] for one in found}) == 5


def test_one_process_is_started_for_many_children(pool, monkeypatch):
    monkeypatch.setattr(template, "identities_at", lambda ground: ())  # others may mount something meanwhile
    call(pool, 1, "result = 1")
    before = template_pid()
    for number in range(2, 6):
        call(pool, number, "result = 1")
    assert template_pid() == before


def test_a_template_that_was_started_ahead_forks_the_first_task(pool, monkeypatch):
    monkeypatch.setattr(template, "identities_at", lambda ground: ())
    places = Places(hidden=("/var/tmp/of-this-test-alone",))
    start_template(places)
    ahead = template_pid()
    assert call(pool, 1, "result = 1", places) == 1
    assert template_pid() == ahead


@pytest.fixture
def own_templates(monkeypatch) -> Iterator[None]:
    """Templates that have no children but those of the test: idle ones of others may be there for a minute."""
    made = template.Templates()
    monkeypatch.setattr(template, "_shared", made)
    yield
    made._forget()


def test_a_template_that_dies_is_replaced_and_its_children_go_on(own_templates, pool):
    with pool.lease(Owner(1, TaskLimits(1 << 30, 1 << 20))) as child:
        assert child.call("kept = 1\nresult = 1", {}, watch())["result"] == 1
        died = child._confined.folder.parent
        kill_template()
        assert child.call("result = 2", {}, watch())["result"] == 2
        assert call(pool, 2, "result = 3") == 3
    assert call(pool, 1, "result = 4") == 4
    pool.close()
    wait_until(lambda: template.templates()._tidy() or not died.exists(), "the removal of its folder")


@pytest.fixture
def apart() -> Iterator[Path]:
    """A folder outside of /tmp, which each task has to itself."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


def test_a_folder_that_is_replaced_is_the_new_one_for_the_next_execution(pool, apart):
    """Tasks have a root in common that was made before; a worker lives for months."""
    book, data = apart / "book", apart / "book" / "data.csv"
    read = f"result = open({str(data)!r}).read()"
    for number, text in enumerate(("first", "second", "third")):
        if book.exists():
            book.rename(apart / text)
        book.mkdir()
        data.write_text(text)
        assert call(pool, number, read, Places(read=(str(book),))) == text


@pytest.mark.full
def test_folders_of_tasks_may_lie_anywhere(apart):
    """With the layers that there are elsewhere, too, and none sees those of others."""
    (apart / "of another").mkdir()
    options = {"env": {**os.environ, "TMPDIR": str(apart)}, "stdout": subprocess.PIPE, "text": True}
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(apart)], check=True, timeout=PATIENCE, **options
    )
    layers, (folder, beside) = json.loads(done.stdout)
    assert layers == asdict(detect())
    assert folder.startswith(f"{apart}/")
    if not detect().namespaces:
        assert beside == [folder.split("/")[-2]]


def test_roots_that_tasks_have_in_common_are_few(pool, tmp_path):
    for number in range(template.MOST_TEMPLATES + 2):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "name").write_text(str(number))
        read = f"import os\nresult = sorted(os.listdir({str(tmp_path)!r}))"
        assert call(pool, number, read, Places(read=(str(tmp_path / str(number)),))) == [str(number)]
    shared = template.templates()
    assert len(shared._current) == template.MOST_TEMPLATES


def test_a_template_that_cannot_be_replaced_at_once_is_replaced_later(pool, monkeypatch):
    """The system may refuse a process at the very moment when the template is found dead."""
    call(pool, 1, "result = 1")
    kill_template()
    with monkeypatch.context() as refused:
        refused.setattr(template.subprocess, "Popen", refuse)
        with pytest.raises(InfrastructureError, match="no process for python code"):
            call(pool, 2, "result = 2")
    assert call(pool, 2, "result = 2") == 2


def test_whoever_still_knows_a_template_that_was_closed_is_told_that_it_is_gone():
    """Of two threads that find the template dead one replaces it; the other may not have asked it yet."""
    closed = template.Template(None)
    closed.close()
    with pytest.raises(template.TemplateGoneError):
        closed.fork("serve", (0,))
    wait_until(closed.ended, "the end of the template")


def die_after_the_first_fork(monkeypatch) -> list[list[int]]:
    """The template ends between its fork and the report of it. Answers what that child was given: the worker asks for a second one."""
    fork, given = template.Template.fork, []

    def dying(self, mode, descriptors):
        if given:
            return fork(self, mode, descriptors)
        given.append([os.dup(one) for one in descriptors])
        raise template.TemplateGoneError

    monkeypatch.setattr(template.Template, "fork", dying)
    return given


def test_a_child_whose_number_was_never_told_gets_no_order(pool, monkeypatch):
    """Or both run the program."""
    monkeypatch.setattr(process, "_ground", lambda used, task: None)
    given = die_after_the_first_fork(monkeypatch)
    assert call(pool, 1, "result = 1") == 1
    (_, order, *_) = given[0]
    assert os.read(order, 1) == b""
    for one in given[0]:
        os.close(one)


@pytest.mark.skipif(
    not layers().common_root, reason="tasks have no root in common here, so there are no cells"
)
def test_a_cell_whose_number_was_never_told_gets_no_task(pool, monkeypatch):
    """Its worker's end is closed, and nothing was sent."""
    forget_cells()
    given = die_after_the_first_fork(monkeypatch)
    assert call(pool, 1, "result = 1") == 1
    control, order = given[0]
    os.close(order)
    with socket.socket(fileno=control) as cell:
        cell.setblocking(False)
        assert cell.recv(1) == b""


@pytest.mark.parametrize("mode", ["serve", "launch"])
def test_a_child_that_gets_no_order_ends_without_a_word(mode):
    made = template.Template(None)
    (lifeline, mine), (order, told), (source, written) = os.pipe(), os.pipe(), os.pipe()
    os.close(told)
    child = made.fork(mode, (lifeline, order, lifeline, written, written))
    for descriptor in (lifeline, order, written):
        os.close(descriptor)
    assert child.wait(PATIENCE) == 1 and os.read(source, 100) == b""
    os.close(mine)
    os.close(source)
    made.close()
    wait_until(made.ended, "the end of the template")


def refuse(*arguments: object, **named: object) -> None:
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def test_a_worker_that_is_killed_leaves_neither_template_nor_children():
    worker = subprocess.Popen([sys.executable, "-c", WORKER], stdout=subprocess.PIPE, text=True)
    try:
        assert worker.stdout is not None
        *numbers, folder = worker.stdout.readline().split()
        pids = [int(number) for number in numbers]
        assert len(pids) == 2 and not any(map(gone, pids)) and Path(folder).is_dir()
    finally:
        worker.kill()
        worker.wait()
    wait_until(lambda: all(map(gone, pids)), "the end of the template and of its child")
    assert not os.path.lexists(folder)


def test_a_fork_that_the_system_refuses_is_told():
    told, tell = os.pipe()
    os.write(tell, (0).to_bytes(4, "little") + errno.EAGAIN.to_bytes(4, "little"))
    with pytest.raises(BlockingIOError):
        template.Forked(told)
    os.close(tell)


def test_a_child_of_a_dead_template_counts_as_killed():
    told, tell = os.pipe()
    os.write(tell, (12345).to_bytes(4, "little"))
    forked = template.Forked(told)
    assert (forked.pid, forked.poll()) == (12345, None)
    with pytest.raises(subprocess.TimeoutExpired):
        forked.wait(0.01)
    os.close(tell)
    assert forked.wait(PATIENCE) == -signal.SIGKILL
