"""Who gets which child."""

from __future__ import annotations

import select
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from noetl.domain.errors import InfrastructureError
from noetl.domain.kinds import TaskContext, TaskSettings
from noetl.domain.workers.process_need import Need
from noetl.kinds.sandbox import child as child_module
from noetl.kinds.sandbox import pool as pool_module
from noetl.kinds.sandbox import process
from noetl.kinds.sandbox.child import Owner
from noetl.kinds.sandbox.layers import layers
from noetl.kinds.sandbox.memory import processes_below
from noetl.kinds.sandbox.needed import reporting_needs
from noetl.kinds.sandbox.places import Places
from noetl.kinds.sandbox.pool import ChildPool
from noetl.kinds.sandbox.process import TaskLimits
from noetl.kinds.sandbox.watch import Watch
from noetl.system_calls.deferred_work import deferring, has_deferred
from tests.parts import parted
from tests.waiting import PATIENCE, wait_until

WHO = "import os, sys\nsys.test_name = getattr(sys, 'test_name', None) or os.urandom(8).hex()\nresult = sys.test_name"
"""A name that a process gives itself: its number may be the same in every process namespace."""


@pytest.fixture
def make_pool():
    pools = []

    def make(keep, **options):
        pools.append(ChildPool(keep, **options))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def watch(timeout=PATIENCE, cancelled=lambda: False) -> Watch:
    return Watch.start(
        TaskContext(
            execution_id=1,
            step="s",
            task="t",
            attempt=1,
            idempotency_key="k",
            timeout=timeout,
            settings=TaskSettings(),
            credential=lambda name: pytest.fail(name),
            cancelled=cancelled,
        )
    )


def owner(execution_id: int) -> Owner:
    return Owner(execution_id, TaskLimits(1 << 30, 1 << 20))


def call(pool: ChildPool, execution_id: int, code: str = WHO):
    clock = watch()
    with pool.lease(owner(execution_id)) as child:
        return child.call(code, {}, clock)["result"]


def test_a_child_serves_one_execution_only(make_pool):
    pool = make_pool(4)
    first = [call(pool, 1) for _ in range(3)]
    second = [call(pool, 2) for _ in range(3)]
    assert len(set(first)) == 1
    assert len(set(second)) == 1
    assert set(first).isdisjoint(second)
    assert call(pool, 1) == first[0]


def shared(program: str = "one", **limits: int) -> Owner:
    return Owner(0, TaskLimits(1 << 30, 1 << 20, **limits), program=program)


def name_in(pool: ChildPool, who: Owner, code: str = WHO) -> str:
    clock = watch()
    with pool.lease(who) as child:
        return child.call(code, {}, clock)["result"]


def test_a_child_of_a_program_serves_its_executions_and_no_other_program(make_pool):
    pool = make_pool(4)
    first = name_in(pool, shared())
    pool.end(range(1, 1000))
    assert name_in(pool, shared()) == first
    assert name_in(pool, shared("two")) != first
    assert name_in(pool, Owner(0, TaskLimits(1 << 30, 1 << 20))) != first
    with pool.lease(shared()), pool.lease(shared()) as beside:
        assert beside.call(WHO, {}, watch())["result"] != first, "one call at a time"


def test_a_child_of_a_program_ends_after_many_calls(make_pool, monkeypatch):
    monkeypatch.setattr(child_module, "SHARED_CALLS", 3)
    pool = make_pool(4)
    names = [name_in(pool, shared()) for _ in range(7)]
    assert [len(set(names[start : start + 3])) for start in (0, 3, 6)] == [1, 1, 1]
    assert len(set(names)) == 3
    assert len({call(pool, 1) for _ in range(7)}) == 1, "a child of an execution is kept"


KEEP = """
import mmap, sys, threading, uuid
kept = sys.kept = getattr(sys, "kept", [])
def fill(folder):
    for _ in range(16):
        with open(f"{folder}/{uuid.uuid4().hex}", "wb") as file:
            file.write(bytes(1 << 20))
"""
LEFT = {
    "memory": "kept.append(bytearray(100 << 20))",
    "address space": "kept.append(mmap.mmap(-1, 100 << 20))",
    "files": "kept += [open('/dev/null') for _ in range(60)]",
    "threads": "for _ in range(2): threading.Thread(target=threading.Event().wait, daemon=True).start()",
    "its folder": "fill('.')",
    "/tmp": "fill('/tmp')",
    "/dev/shm": "fill('/dev/shm')",
}


@linux
@pytest.mark.parametrize("what", parted(LEFT, ["memory", "files", "/tmp"]))
def test_no_execution_meets_a_limit_that_others_have_used_up(make_pool, what):
    if what.startswith("/") and not layers().namespaces:
        pytest.skip("it is the machine's own")
    pool = make_pool(4)
    owner = Owner(0, TaskLimits(1 << 30, 1 << 20, disk_bytes=128 << 20), program="p")
    names = [name_in(pool, owner, f"{KEEP}{LEFT[what]}\n{WHO}") for _ in range(24)]
    assert 1 < len(set(names)) < len(names), "some share a process, and all have room"


@linux
def test_what_the_first_execution_loads_is_kept(make_pool):
    pool, owner = make_pool(4), Owner(0, TaskLimits(256 << 20, 1 << 20), program="p")
    load = "import sys\nif not hasattr(sys, 'model'): sys.model = bytearray(160 << 20)\n"
    assert len({name_in(pool, owner, load + WHO) for _ in range(5)}) == 1, "more than half of the memory"


@linux
def test_an_execution_may_use_up_its_own_process(make_pool):
    pool = make_pool(4)
    code = f"{KEEP}{LEFT['files'].replace('60', '100')}\n{WHO}"
    assert len({call(pool, 1, code) for _ in range(4)}) == 1


def test_output_that_was_not_read_in_time_is_in_no_other_log(make_pool, monkeypatch):
    class Late(Watch, frozen=True):
        @property
        def left(self) -> float:
            return -1.0 if late else PATIENCE

    def answer_to(child, call_id, watch, output):
        answer = answered(child, call_id, watch, output)
        if call_id != child_module.READY:
            assert select.select([child._output], [], [], PATIENCE)[0]
            late.append(True)
        return answer

    late, printed, pool = [], [], make_pool(4)
    answered = child_module.Child._answer_to
    with monkeypatch.context() as patch, pool.lease(shared()) as child:
        patch.setattr(child_module.Child, "_answer_to", answer_to)
        code = "import threading\nthreading.Timer(0.1, print, ['of the first']).start()"
        child.call(code, {}, Late(watch().context, 0.0))
    clock = watch()
    with pool.lease(shared()) as child:
        object.__setattr__(clock.context, "log", printed.append)
        child.call("print('of the second')", {}, clock)
    assert (late, printed) == ([True], ["of the second"])


@linux
def test_a_folder_that_was_replaced_is_seen_by_the_next_execution(make_pool, monkeypatch, tmp_path):
    if not (layers().namespaces or layers().landlock):
        pytest.skip("folders are not closed to tasks here")
    monkeypatch.setattr(child_module, "LOOK_SECONDS", 0)
    folder, pool = tmp_path / "out", make_pool(4)
    folder.mkdir()
    owner = Owner(0, TaskLimits(1 << 30, 1 << 20), Places(write=(str(folder),)), program="p")
    code = f"open({str(folder / 'file')!r}, 'w').close()\n{WHO}"
    first = name_in(pool, owner, code)
    assert name_in(pool, owner, code) == first
    folder.rename(tmp_path / "before")
    folder.mkdir()
    assert name_in(pool, owner, code) != first
    assert (folder / "file").exists()


def test_a_child_of_a_program_gives_way_to_one_whose_execution_goes_on(make_pool):
    pool = make_pool(2)
    with reporting_needs({1: Need.NONE, 2: Need.SOON, 3: Need.SOON}.__getitem__):
        of_program, first = name_in(pool, shared()), call(pool, 1)
        second = call(pool, 2)
        assert name_in(pool, shared()) == of_program, "1 needs its child less"
        call(pool, 3)
        assert (call(pool, 2), name_in(pool, shared()) == of_program) == (second, False)
        assert call(pool, 1) != first


def test_other_limits_are_another_owner(make_pool):
    pool = make_pool(4)
    clock = watch()
    memory = "import resource\nresult = resource.getrlimit(resource.RLIMIT_AS)[1]"
    for limit in (600 << 20, 700 << 20):
        with pool.lease(Owner(1, TaskLimits(limit, 1 << 20))) as child:
            assert child.call(memory, {}, clock)["result"] == limit


def test_the_longest_idle_child_gives_way(make_pool):
    pool = make_pool(2)
    first, second, third = (call(pool, execution) for execution in (1, 2, 3))
    assert len({first, second, third}) == 3
    assert call(pool, 3) == third
    assert call(pool, 1) != first


def test_the_child_gives_way_whose_execution_needs_it_least(make_pool):
    pool = make_pool(2)
    needs = {1: Need.NOW, 2: Need.ELSEWHERE, 3: Need.SOON, 4: Need.NONE}
    with reporting_needs(needs.__getitem__):
        first, second, third = (call(pool, execution) for execution in (1, 2, 3))
        assert call(pool, 4), "it is given back last, and goes"
        assert call(pool, 1) == first
        assert call(pool, 3) == third
        assert call(pool, 2) != second


def test_children_end_with_their_execution(make_pool):
    """Those that idle; one at work goes on."""
    pool = make_pool(4)
    with ExitStack() as leases:
        of_one, of_two = (leases.enter_context(pool.lease(owner(number))) for number in (1, 2))
        assert of_one.call("result = 1", {}, watch())["result"] == 1
        leases.pop_all().close()
    with pool.lease(owner(1)) as at_work:
        before = at_work.call(WHO, {}, watch())["result"]
        pool.end({1, 3})
        assert at_work.call(WHO, {}, watch())["result"] == before
    assert at_work is of_one
    pool.end({1, 3})
    wait_until(lambda: of_one._confined.process.returncode is not None, "the end of the child of 1")
    assert not of_one.alive
    assert of_two.alive


@linux
def test_idle_children_are_ended(make_pool):
    pool = make_pool(4, idle_seconds=0.2)
    clock = watch()
    with pool.lease(owner(1)) as child:
        before = child.call(WHO, {}, clock)["result"]
    wait_until(lambda: not child.alive, "the child's end")
    assert call(pool, 1) != before


def test_many_threads_at_once(make_pool):
    pool = make_pool(3)

    def work(number: int) -> tuple[int, int]:
        clock = watch()
        with pool.lease(owner(number % 5)) as child:
            answer = child.call("result = n * n", {"n": number}, clock)
        return number, answer["result"]

    with ThreadPoolExecutor(8) as threads:
        answers = dict(threads.map(work, range(60)))
    assert answers == {number: number * number for number in range(60)}


def test_nobody_waits_for_another_execution(make_pool):
    """Each of many that are at work has a child at once; afterwards those are kept that were used last."""
    pool = make_pool(2)
    with ExitStack() as leases:
        children = [leases.enter_context(pool.lease(owner(number))) for number in range(5)]
        assert all(child.call("result = 1", {}, watch())["result"] == 1 for child in children)
    wait_until(lambda: sum(child.alive for child in children) == 2, "the end of three children")
    assert [child.alive for child in children] == [True, True, False, False, False]


@linux
def test_a_child_that_died_while_idle_is_replaced(make_pool):
    pool = make_pool(2)
    late = f"import threading\nthreading.Timer(0.1, lambda: os._exit(0)).start()\n{WHO}"
    clock = watch()
    with pool.lease(owner(1)) as child:
        before = child.call(late, {}, clock)["result"]
    wait_until(lambda: not child.alive, "the child's end")
    assert call(pool, 1) != before


@linux
@pytest.mark.parametrize(
    "start",
    [
        "subprocess.Popen(['sleep', '3600'])",
        "subprocess.run(['setsid', '-f', 'sleep', '3600'], check=True)",
        "import threading\nbegun = threading.Event()\ndef act():\n    subprocess.Popen(['sleep', '3600'])\n    begun.set()\n"
        "    threading.Event().wait()\nthreading.Thread(target=act, daemon=True).start()\nbegun.wait()",
    ],
    ids=["a child", "an orphan", "a child of a thread"],
)
def test_a_child_whose_call_leaves_a_process_running_is_ended_with_its_call(make_pool, start):
    pool = make_pool(2)
    clock = watch()
    with pool.lease(owner(1)) as child:
        assert child.call(f"import subprocess\n{start}\nresult = 1", {}, clock)["result"] == 1
    assert not child.alive
    with pool.lease(owner(1)) as child:
        child.call("import subprocess\nsubprocess.run(['true'], check=True)", {}, clock)
    assert child.alive, "what it started has ended by itself"


@linux
def test_processes_are_listed_only_when_a_child_may_have_company(make_pool, monkeypatch):
    """A list takes twenty system calls, after each call of every execution."""
    listed: list[int] = []

    def noted(root: int, enough: int | None = None) -> list[int]:
        listed.append(root)
        return processes_below(root, enough)

    monkeypatch.setattr(process, "processes_below", noted)
    pool = make_pool(2)
    for _ in range(3):
        with pool.lease(owner(1)) as child:
            child.call("result = 1", {}, watch())
    assert not listed or not layers().common_root
    with pool.lease(owner(1)) as child:
        child.call(
            "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()",
            {},
            watch(),
        )
    assert listed, "a thread may have children of its own"
    assert child.alive


def test_a_child_that_fills_its_folder_between_calls_is_ended(make_pool):
    pool = make_pool(2, idle_seconds=100 * PATIENCE)
    fill = "import threading\nthreading.Timer(0.1, lambda: open('f', 'wb').write(bytes(100_000))).start()"
    clock = watch()
    with pool.lease(Owner(1, TaskLimits(1 << 30, 1 << 20, disk_bytes=50_000))) as child:
        child.call(fill, {}, clock)
    wait_until(lambda: not child.alive, "the child's end")


def test_folders_of_idle_children_are_not_looked_at_whenever_an_execution_ends(make_pool, monkeypatch):
    monkeypatch.setattr(pool_module, "LOOK_SECONDS", 100 * PATIENCE)
    looks = []
    monkeypatch.setattr(child_module.Child, "fits_disk", property(lambda child: looks.append(child) or True))
    pool = make_pool(8)
    for number in range(8):
        call(pool, number)
    children = [idle.child for idle in pool._idle]
    for number in range(4):
        pool.end({number})
        wait_until(lambda number=number: not children[number].alive, "the end of its child")
    assert looks == []


def test_calls_of_one_execution_do_not_wake_who_ends_children(make_pool, monkeypatch):
    monkeypatch.setattr(pool_module, "LOOK_SECONDS", 100 * PATIENCE)
    looks: list[float | None] = []
    pause = pool_module.ChildPool._until_next_look

    def look(pool: pool_module.ChildPool) -> float | None:
        looks.append(pause(pool))
        return looks[-1]

    monkeypatch.setattr(pool_module.ChildPool, "_until_next_look", look)
    pool = make_pool(8)
    for _ in range(20):
        call(pool, 1)
    (idle,) = pool._idle
    pool.end({1})
    wait_until(lambda: not idle.child.alive, "the end of its child")
    assert len(looks) <= 3


LEAVES = "import subprocess\nsubprocess.Popen(['sleep', '3600'])\n" + WHO


@linux
@pytest.mark.parametrize("taken", [False, True])
def test_a_child_is_checked_before_its_next_call_however_late_its_thread_looks(make_pool, taken):
    """Its thread looks when it waits; another one that takes the child before looks first."""
    pool = make_pool(4)
    with deferring():
        first = call(pool, 1, LEAVES)
        (idle,) = pool._idle
        if taken:
            with ThreadPoolExecutor(1) as another:
                assert another.submit(call, pool, 1).result(PATIENCE) != first
        assert has_deferred()
    wait_until(lambda: not idle.child.alive, "the end of the child that left a process")
    assert call(pool, 1) != first and idle not in pool._idle


@linux
def test_a_child_that_left_nothing_is_looked_at_once_and_kept(make_pool, monkeypatch):
    looks: list[bool] = []
    left = child_module.Child.left_processes.fget
    monkeypatch.setattr(
        child_module.Child, "left_processes", property(lambda child: looks.append(True) or left(child))
    )
    pool = make_pool(4)
    with deferring():
        first = call(pool, 1)
        assert looks == [] and call(pool, 1) == first and looks == [True]
    assert looks == [True, True] and call(pool, 1) == first


@linux
def test_a_child_that_cannot_be_looked_at_is_not_used_again(make_pool, monkeypatch):
    def fail(child: child_module.Child) -> bool:
        raise OSError(24, "Too many open files")

    pool = make_pool(4)
    with deferring():
        first = call(pool, 1)
        monkeypatch.setattr(child_module.Child, "left_processes", property(fail))
    monkeypatch.undo()
    assert call(pool, 1) != first


@linux
def test_a_look_at_a_child_that_has_ended_opens_nothing(make_pool):
    """Its thread may look late: another one has ended the execution, and its cell serves the next task."""
    with make_pool(4).lease(owner(1)) as child:
        child.call(WHO, {}, watch())
        assert not child.left_processes
        lone = child._confined._lone
        lone.close()
        assert not lone.is_alone() and lone._files is None, "no thread would close them"


@linux
def test_only_what_is_short_is_deferred(make_pool, monkeypatch):
    """A folder with very many files takes seconds to look at, and all executions would wait for the engine's turn meanwhile."""
    looks: list[bool] = []
    fits = child_module.disk_fits
    monkeypatch.setattr(
        child_module, "disk_fits", lambda *about: looks.append(has_deferred()) or fits(*about)
    )
    pool = make_pool(4)
    shared = Owner(0, TaskLimits(1 << 30, 1 << 20), program="p")
    with deferring():
        with pool.lease(shared) as child:
            child.call(WHO, {}, watch())
        assert looks == [False] and has_deferred()
    assert looks == [False]


def test_a_system_without_processes_is_not_the_tasks_fault(make_pool, monkeypatch):
    pool = make_pool(1)

    def refuse(*args, **options):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(child_module, "start_confined", refuse)
        with pytest.raises(InfrastructureError, match="Resource temporarily unavailable"):
            call(pool, 1)
    assert call(pool, 1), "the place of the process that never was is free again"


def test_a_child_whose_end_is_an_error_is_ended_and_replaced(make_pool, monkeypatch):
    """Its cell reports once that a process could not be prepared, to the one that asks first."""
    pool, asked, closed = make_pool(2), [], []
    first = call(pool, 1)
    (child,) = [idle.child for idle in pool._idle]
    close = child.close

    def poll():
        asked.append(1)
        raise InfrastructureError("a process for a task cannot be prepared")

    monkeypatch.setattr(child._confined.process, "poll", poll)
    monkeypatch.setattr(child, "close", lambda: (monkeypatch.undo(), closed.append(1), close()))
    assert call(pool, 1) != first and asked
    wait_until(lambda: closed == [1])
