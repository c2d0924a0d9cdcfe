"""Any program, and any events for it in any order: history is the state, nothing waits for what does not come, nothing is left behind."""

from __future__ import annotations

import pytest

from tests.parts import parted
from tests.unit.engine.wandering import wander

SEEDS = 150
GATE = range(50)
"""Seeds of `make test`."""


@pytest.mark.parametrize("seed", parted(range(SEEDS), GATE))
def test_any_program_takes_any_events(seed: int) -> None:
    wander(seed)
