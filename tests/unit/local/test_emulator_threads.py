"""Threads of the emulator that are used again."""

from __future__ import annotations

import sys
import threading
from types import ModuleType

import pytest

from noetl.local.noetl_emulator import threads
from tests.waiting import PATIENCE, wait_until


def run(target):
    """A thread for this function, under a name that the emulator gives to short ones."""
    target.__name__ = "_run"
    made = threads.Threading().Thread(target=target, daemon=True, name="x")
    made.start()
    return made


@pytest.fixture(autouse=True)
def none_is_idle(monkeypatch):
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.01)
    wait_until(lambda: threads._idle == 0)


def test_a_short_thread_is_used_again(monkeypatch):
    monkeypatch.setattr(threads, "IDLE_SECONDS", PATIENCE)
    found: list[int] = []
    run(lambda: found.append(threading.get_ident())).join()
    wait_until(lambda: threads._idle == 1)
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.01)
    run(lambda: found.append(threading.get_ident())).join()
    assert len(set(found)) == 1 and len(found) == 2


def test_it_is_alive_until_it_ends():
    end = threading.Event()
    made = run(lambda: end.wait(PATIENCE))
    made.join(timeout=0.01)
    assert made.is_alive()
    run(lambda: None).join()  # what does not end holds up nothing else
    end.set()
    made.join()
    assert not made.is_alive()


def test_one_that_fails_has_ended(monkeypatch):
    failed = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda about: failed.set())
    made = run(lambda: 1 / 0)
    made.join()
    assert failed.wait(PATIENCE) and not made.is_alive()


def test_all_run_while_threads_end():
    done: list[int] = []
    made = [run(lambda number=number: done.append(number)) for number in range(300)]
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
