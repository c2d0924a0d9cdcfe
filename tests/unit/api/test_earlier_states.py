"""States as versions before this one wrote them."""

from __future__ import annotations

import json

import pytest

from noetl.services.history.replay import replay
from tests.unit.api.ground import GATED


@pytest.mark.parametrize(("wakes", "agrees"), [(0.0, True), (0, True), (5.0, False)])
def test_a_run_that_waits_for_no_time_may_say_so_in_its_state(ground, wakes, agrees):
    """Every token had ``wakes`` once; a replay compares what it means."""
    execution = int(ground.run(GATED))
    with ground.store.tables() as tables:
        entry = tables.executions[execution]
        state = json.loads(entry.state)
        assert state["tokens"] and not any("wakes" in token for token in state["tokens"].values())
        for token in state["tokens"].values():
            token["wakes"] = wakes
        entry.state = json.dumps(state).encode()
    assert replay(ground.store, execution).agrees is agrees
