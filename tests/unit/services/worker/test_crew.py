"""Threads that are used again."""

from __future__ import annotations

import threading

import pytest

from noetl.services.worker.crew import Crew
from tests.waiting import PATIENCE, wait_until


def name_of(crew: Crew) -> int:
    """Which thread runs a piece of work; it has ended then."""
    found, told = [], threading.Event()

    def work():
        found.append(threading.get_ident())
        told.set()

    crew.begin(work)
    assert told.wait(PATIENCE)
    return found[0]


def test_a_thread_is_used_again():
    crew = Crew()
    first = name_of(crew)
    wait_until(lambda: crew._idle == 1)
    assert name_of(crew) == first


def test_what_does_not_end_holds_up_nothing_else():
    crew, end = Crew(), threading.Event()
    for _ in range(3):
        crew.begin(lambda: end.wait(PATIENCE))
    name_of(crew)
    end.set()
    wait_until(lambda: crew._idle == 4)


def test_each_piece_of_work_is_done_once_while_threads_end():
    crew, done = Crew(idle_seconds=0.0), []
    for number in range(500):
        crew.begin(lambda number=number: done.append(number))
    wait_until(lambda: len(done) == 500)
    assert sorted(done) == list(range(500))
    wait_until(lambda: crew._idle == 0)


def test_work_that_fails_ends_its_thread_alone(monkeypatch):
    crew, failed = Crew(), threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda about: failed.set())
    crew.begin(lambda: 1 / 0)
    assert failed.wait(PATIENCE)
    assert crew._idle == 0
    name_of(crew)


def test_without_a_thread_it_says_so(monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError):
        Crew().begin(lambda: None)
