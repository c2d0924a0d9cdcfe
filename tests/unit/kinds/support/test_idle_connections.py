"""What is kept for the next task: how much of it, for how long, and for whom. Time passes when a test says so."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.kinds.support import idle_connections as idle_module
from noetl.kinds.support.idle_connections import Idle, Moment
from tests.waiting import wait_until


class Clocks:
    """Both clocks of a machine."""

    def __init__(self) -> None:
        self.steady, self.wall = 1000.0, 2_000_000_000.0

    def __call__(self) -> Moment:
        return Moment(self.steady, self.wall)

    def wait(self, seconds: float) -> None:
        self.steady, self.wall = self.steady + seconds, self.wall + seconds


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def closed() -> list[str]:
    return []


@pytest.fixture
def kept(clocks: Clocks, closed: list[str]) -> Idle[str, str]:
    return Idle(3, 60.0, closed.append, clocks)


def test_the_latest_of_its_key_is_given_once(kept: Idle[str, str], closed: list[str]) -> None:
    for key, thing in (("a", "a1"), ("a", "a2"), ("b", "b1")):
        kept.keep(key, thing)
    assert [kept.take("a"), kept.take("a"), kept.take("a"), kept.take("c")] == ["a2", "a1", None, None]
    assert (len(kept), closed) == (1, [])


def test_what_was_idle_longest_gives_way(kept: Idle[str, str], closed: list[str]) -> None:
    for number in range(5):
        kept.keep("ab"[number % 2], str(number))
    assert closed == ["0", "1"]
    assert [kept.take("a"), kept.take("a"), kept.take("b"), kept.take("b")] == ["4", "2", "3", None]


def test_what_is_too_old_is_closed_instead(kept: Idle[str, str], closed: list[str], clocks: Clocks) -> None:
    kept.keep("a", "old")
    clocks.wait(59.0)
    kept.keep("a", "new")
    clocks.wait(1.0)
    assert kept.take("a") == "new"
    assert kept.take("a") is None
    assert closed == ["old"]


@pytest.mark.parametrize("clock", ["steady", "wall"])
def test_a_machine_that_was_frozen_trusts_neither_clock_alone(
    kept: Idle[str, str], closed: list[str], clocks: Clocks, clock: str
) -> None:
    kept.keep("a", "before")
    setattr(clocks, clock, getattr(clocks, clock) + 900.0)
    assert kept.take("a") is None
    assert closed == ["before"]


def test_a_forked_process_neither_uses_nor_closes_what_its_parent_has(
    kept: Idle[str, str], closed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.keep("a", "of the parent")
    pid = idle_module.os.getpid()
    monkeypatch.setattr(idle_module.os, "getpid", lambda: pid + 1)
    assert kept.take("a") is None
    kept.keep("a", "own")
    kept.close_idle()
    assert closed == ["own"]


def test_what_nobody_asks_for_any_more_is_closed_all_the_same() -> None:
    closed: list[Any] = []
    kept: Idle[str, str] = Idle(3, 0.01, closed.append)
    for thing in ("1", "2"):
        kept.keep("a", thing)
    wait_until(lambda: closed == ["1", "2"])
    kept.keep("a", "3")
    wait_until(lambda: closed == ["1", "2", "3"])
