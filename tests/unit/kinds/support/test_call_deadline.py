"""Alarms ring once, in time, and never after their block was left."""

from __future__ import annotations

import gc
import threading
import time
import weakref

from noetl.kinds.support.call_deadline import CallDeadline
from tests.waiting import PATIENCE


def test_an_alarm_rings_when_its_time_comes():
    rung = threading.Event()
    with CallDeadline(time.monotonic() + 0.05, rung.set) as alarm:
        assert rung.wait(PATIENCE)
    assert alarm.rang


def test_alarms_ring_in_the_order_of_their_times():
    """One that is set while the clock waits for a later one rings before it."""
    late, early = threading.Event(), threading.Event()
    with CallDeadline(time.monotonic() + 3600, late.set), CallDeadline(time.monotonic() + 0.05, early.set):
        assert early.wait(PATIENCE)
        assert not late.is_set()


def test_a_block_that_was_left_is_not_stopped():
    """Also when the clock has taken the alarm out of its line by then."""
    rung = []
    for _ in range(500):
        with CallDeadline(time.monotonic() + 3600, lambda: rung.append(1)) as alarm:
            pass
        alarm.ring()
        assert not alarm.rang
    assert rung == []


def test_a_failing_stop_does_not_end_the_clock(caplog):
    rung = threading.Event()

    def fail() -> None:
        raise OSError("gone")

    with CallDeadline(time.monotonic(), fail), CallDeadline(time.monotonic() + 0.05, rung.set):
        assert rung.wait(PATIENCE)
    assert "could not stop" in caplog.text


def test_what_an_alarm_would_stop_is_not_kept_alive():
    class Held:
        def stop(self) -> None: ...

    held = Held()
    seen = weakref.ref(held)
    with CallDeadline(time.monotonic() + 3600, held.stop):
        pass
    del held
    gc.collect()
    assert seen() is None
