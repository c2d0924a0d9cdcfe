"""Calls of several threads done together: those that come while one is under way share the next one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from noetl.services.support.group_calls import GroupedCalls
from tests.waiting import PATIENCE, wait_until


class Doubling:
    """``work`` that waits in its first call until ``go``; ``calls``: what it was asked for, by call."""

    def __init__(self, refuses: Callable[[Sequence[int]], bool] = lambda asked: False) -> None:
        self.calls: list[list[int]] = []
        self.began, self.go = threading.Event(), threading.Event()
        self._refuses = refuses

    def __call__(self, asked: Sequence[int]) -> Sequence[int]:
        self.calls.append(list(asked))
        if len(self.calls) == 1:
            self.began.set()
            assert self.go.wait(PATIENCE)
        if self._refuses(asked):
            raise ValueError(f"refused {list(asked)}")
        return [2 * one for one in asked]


def asked_meanwhile(work: Doubling, others: int, most: int = 100) -> list[Future[int]]:
    """Ask for 0, and for 1, 2, … while that is under way, one after the other."""
    together = GroupedCalls(work, most)
    with ThreadPoolExecutor(others + 1) as threads:
        asked = [threads.submit(together, 0)]
        assert work.began.wait(PATIENCE)
        for number in range(1, others + 1):
            asked.append(threads.submit(together, number))
            wait_until(lambda: together.waiting == number, f"{number} calls wait")  # noqa: B023
        work.go.set()
    assert together.waiting == 0
    return asked


def test_a_call_that_finds_nobody_at_work_waits_for_no_other():
    work = Doubling()
    work.go.set()
    together = GroupedCalls(work, 100)
    assert [together(1), together(2)] == [2, 4]
    assert work.calls == [[1], [2]]


def test_calls_that_come_meanwhile_are_done_together_and_each_gets_its_own_answer():
    work = Doubling()
    assert [one.result() for one in asked_meanwhile(work, 9)] == [2 * number for number in range(10)]
    assert work.calls == [[0], [1, 2, 3, 4, 5, 6, 7, 8, 9]]


def test_no_more_are_done_together_than_allowed():
    work = Doubling()
    assert [one.result() for one in asked_meanwhile(work, 5, most=2)] == [0, 2, 4, 6, 8, 10]
    assert work.calls == [[0], [1, 2], [3, 4], [5]]


def test_one_that_fails_harms_only_itself():
    work = Doubling(lambda asked: 2 in asked)
    zero, one, two, three = asked_meanwhile(work, 3)
    assert [zero.result(), one.result(), three.result()] == [0, 2, 6]
    with pytest.raises(ValueError, match=r"refused \[2\]"):
        two.result()
    assert work.calls[:2] == [[0], [1, 2, 3]] and sorted(work.calls[2:]) == [[1], [2], [3]]


def test_those_who_wait_go_on_when_the_one_under_way_fails():
    work = Doubling(lambda asked: 0 in asked)
    zero, one, two = asked_meanwhile(work, 2)
    assert [one.result(), two.result()] == [2, 4]
    assert isinstance(zero.exception(), ValueError)
