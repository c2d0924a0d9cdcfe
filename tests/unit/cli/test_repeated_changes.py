"""A change that changes nothing is told at once: nobody waits for an effect that never comes."""

from __future__ import annotations

import pytest

from noetl.cli.client import http_transport, local_transport
from tests.unit.cli.test_doors import both

__all__ = ["both"]


class Clock:
    """Time passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize("command", ["pause PAUSED", "pause WAITING"])
def test_no_door_waits_for_a_change_that_has_no_effect(both, monkeypatch, command: str) -> None:
    clocks = Clock(), Clock()
    for module, clock in zip((local_transport, http_transport), clocks, strict=True):
        monkeypatch.setattr(module, "time", clock)
    for ran in both(command):
        assert ran.code == 0, ran
    assert [clock.now < 1.0 for clock in clocks] == [True, True], [clock.now for clock in clocks]
