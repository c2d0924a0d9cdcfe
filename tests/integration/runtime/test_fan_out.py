"""Loops over many sub-playbooks through the local runtime: everything that is issued comes back (`make fan-out` does it at full size)."""

from __future__ import annotations

import pytest

from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from noetl.services.history.replay import replay
from tests.bench import fan_out
from tests.parts import repeated

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(1200)]

STALL = 240.0
"""Seconds without any progress after which it counts as stuck: only a defect waits for them."""


@pytest.mark.parametrize(
    ("children", "items"),
    [
        # More loops in one batch than a store remembers.
        pytest.param(300, 20, id="children with loops", marks=pytest.mark.full),
        pytest.param(repeated(gate=500, full=3000), 0, id="children of one step"),
    ],
)
def test_everything_that_is_issued_comes_back(database, tmp_path, children, items):
    with LocalRuntime(Settings.from_env({}, home=tmp_path, database_url=database)) as runtime:
        execution, counts, _ = fan_out.run(fan_out.Here(runtime), children, items, stall=STALL)
        assert counts.whole(children, items), counts
        assert not any(runtime.store.open_work(execution).values())
        assert replay(runtime.store, execution).agrees
