"""What time it is says the store, to processes whose own clocks are wrong, jump, or stood still while the machine slept."""

from __future__ import annotations

import pytest

from noetl.domain.errors import InfrastructureError
from noetl.ports.executions.execution_store import Loaded
from noetl.services.support import store_time
from noetl.services.support.store_time import StoreTime, store_clock


class Machine:
    """``skew``: by how much its wall clock is wrong. ``asleep``: seconds that the monotonic clock has missed."""

    def __init__(self, skew: float = 0.0) -> None:
        self.true = 1_800_000_000.0
        self.skew = skew
        self.asleep = 0.0

    def clock(self) -> float:
        return self.true - self.asleep

    def wall(self) -> float:
        return self.true + self.skew


@pytest.mark.parametrize("skew", [0.0, 600.0, -600.0])
def test_the_store_is_followed_whatever_the_own_clock_says(skew):
    machine = Machine(skew)
    told = StoreTime(machine.clock, machine.wall)
    assert told.now() is None
    told.observe(machine.true)
    machine.true += 45
    assert told.now() == machine.true
    assert told.now(most_age=44) is None


@pytest.mark.parametrize("what", ["sleep", "set ahead", "set back"])
def test_after_a_sleep_or_a_jump_of_the_clock_the_store_is_asked_again(what):
    machine = Machine()
    told = StoreTime(machine.clock, machine.wall)
    told.observe(machine.true)
    if what == "sleep":
        machine.true, machine.asleep = machine.true + 28_800, 28_800
    else:
        machine.skew += 600 if what == "set ahead" else -600
    assert told.now() is None
    told.observe(machine.true)
    assert told.now() == machine.true


def test_a_clock_asks_once_a_minute_and_raises_when_the_store_is_away(monkeypatch):
    machine, asked = Machine(600.0), []
    monkeypatch.setattr(store_time, "StoreTime", lambda: StoreTime(machine.clock, machine.wall))

    def load(requests):
        asked.append(machine.true)
        if len(asked) > 2:
            raise InfrastructureError("away")
        return Loaded(machine.true, {})

    clock = store_clock(load)
    for _ in range(100):
        assert clock() == machine.true
        machine.true += 1.0
    assert len(asked) == 2
    machine.true += 60.0
    with pytest.raises(InfrastructureError):
        clock()
