"""Threads of the emulator that are used again."""

from __future__ import annotations

import sys
import threading
from types import ModuleType

import pytest

from noetl.local.noetl_emulator import threads
from tests.waiting import PATIENCE, wait_until


def named(target):
    target.__name__ = "_run"
    return target


def run(target, of):
    """A thread for this function, under a name that the emulator gives to short ones."""
    made = of.Thread(target=named(target), daemon=True, name="x")
    made.start()
    return made


@pytest.fixture
def short():
    return threads.Threading(idle_seconds=0.01)


def test_a_short_thread_is_used_again():
    patient = threads.Threading(idle_seconds=PATIENCE)
    found: list[int] = []
    run(lambda: found.append(threading.get_ident()), patient).join()
    wait_until(lambda: patient._pool.idle == 1)
    run(lambda: found.append(threading.get_ident()), patient).join()
    assert len(set(found)) == 1 and len(found) == 2


def test_a_thread_that_is_not_needed_ends(short):
    found: list[threading.Thread] = []
    run(lambda: found.append(threading.current_thread()), short).join()
    wait_until(lambda: not found[0].is_alive())
    assert short._pool.idle == 0


def test_it_has_not_begun_when_none_can_be_started(short, monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("can't start new thread")

    made = short.Thread(target=named(lambda: None))
    monkeypatch.setattr(threads.threading, "Thread", refuse)
    with pytest.raises(RuntimeError):
        made.start()
    assert not made.is_alive()


def test_it_is_alive_until_it_ends(short):
    end = threading.Event()
    made = run(lambda: end.wait(PATIENCE), short)
    made.join(timeout=0.01)
    assert made.is_alive()
    run(lambda: None, short).join()  # what does not end holds up nothing else
    end.set()
    made.join()
    assert not made.is_alive()


def test_one_that_fails_has_ended(short, monkeypatch):
    failed = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda about: failed.set())
    made = run(lambda: 1 / 0, short)
    made.join()
    assert failed.wait(PATIENCE) and not made.is_alive()


def test_all_run_while_threads_end(short):
    done: list[int] = []
    made = [run(lambda number=number: done.append(number), short) for number in range(300)]
    for one in made:
        one.join()
    assert sorted(done) == list(range(300))


def test_other_threads_and_all_else_are_pythons():
    def serve():
        pass

    module = threads.Threading()
    assert isinstance(module.Thread(target=serve), threading.Thread)
    assert module.Lock is threading.Lock and module.current_thread is threading.current_thread


def test_the_emulator_gets_them(monkeypatch):
    core = ModuleType("ministack.core")
    core.concurrency, core.lambda_runtime = ModuleType("concurrency"), ModuleType("lambda_runtime")
    monkeypatch.setitem(sys.modules, "ministack", ModuleType("ministack"))
    monkeypatch.setitem(sys.modules, "ministack.core", core)
    threads.improve()
    for module in (core.concurrency, core.lambda_runtime):
        assert isinstance(module.threading, threads.Threading)
