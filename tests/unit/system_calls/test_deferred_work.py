"""Work that a thread defers until it waits for something else."""

from __future__ import annotations

import threading

import pytest

from noetl.system_calls.deferred_work import (
    defer,
    deferring,
    do_deferred,
    has_deferred,
    is_deferring,
)


def test_work_is_done_at_once_where_nothing_is_deferred():
    done = []
    defer(lambda: done.append(1))
    assert done == [1] and not is_deferring() and not has_deferred()


def test_work_is_done_once_in_its_order_when_the_thread_waits_or_at_the_end():
    done: list[int] = []
    with deferring():
        for number in (1, 2):
            defer(lambda number=number: done.append(number))
        assert has_deferred() and done == []
        do_deferred()
        assert done == [1, 2] and not has_deferred()
        defer(lambda: done.append(3))
    assert done == [1, 2, 3] and not is_deferring()


def test_what_is_left_is_done_when_the_body_fails():
    done = []
    with pytest.raises(ValueError), deferring():
        defer(lambda: done.append(1))
        raise ValueError
    assert done == [1] and not is_deferring()


def test_another_thread_defers_nothing_and_does_nothing_of_this_one():
    done, seen = [], []

    def in_another() -> None:
        do_deferred()
        seen.append(is_deferring())

    with deferring():
        defer(lambda: done.append(1))
        other = threading.Thread(target=in_another)
        other.start()
        other.join()
        assert seen == [False] and done == []
