"""What a step writes to the database, counted in records of the WAL: load on the machine changes nothing here."""

from __future__ import annotations

import pytest

from noetl.adapters.embedded import processes
from tests.bench.playbooks import chain
from tests.bench.wal import Bench

pytestmark = pytest.mark.postgres
STEPS = 60


@pytest.mark.skipif(not (processes.binaries() / "pg_waldump").exists(), reason="needs pg_waldump")
@pytest.mark.parametrize(
    ("kind", "whole", "command", "event"),
    [("tick", 1120, 200, 225), pytest.param("python-own", 1240, 255, 275, marks=pytest.mark.full)],
)
def test_a_step_of_a_chain_writes_each_row_once_in_one_commit(tmp_path, kind, whole, command, event):
    """``whole``: bytes of a step at most, with a share of what its execution writes once; ``command``, ``event``: of these rows."""
    tmp_path.chmod(0o755)
    bench = Bench(tmp_path)
    with bench.runtime:
        bench.run(chain(5, kind), 1)
        cost = bench.count(STEPS, 1, lambda: bench.run(chain(STEPS, kind), 1))
    assert cost.commits <= 1.1 * STEPS
    assert cost.size - cost.images <= whole * STEPS
    writes = {
        name: part.records
        for name, part in cost.parts.items()
        if name.split()[1] in ("insert", "update", "hot_update")
    }
    assert writes["execution insert"] == 1, (
        "an execution that begins is written as its first commit leaves it"
    )
    assert writes["execution hot_update"] + writes.get("execution update", 0) <= STEPS + 1
    assert writes["command insert"] == 1 and writes["command hot_update"] == STEPS - 1, (
        "a command takes over the row of the one before it, and its place in the indexes"
    )
    assert (
        cost.parts["command_owner insert_leaf"].records == cost.parts["command_pkey insert_leaf"].records == 1
    )
    assert cost.parts["command hot_update"].size <= command * STEPS, (
        "what commands of an execution have in common is not logged again"
    )
    assert cost.parts["command delete"].records == 1
    assert cost.parts["event_0 insert"].size <= event * (STEPS + 1), (
        "no fact says again what another one says"
    )
    assert writes["slot insert"] <= STEPS + 1, "a result each, and the workload"
    assert "slot heap_confirm" not in cost.parts, "a new slot needs no second record"
    state = cost.parts["execution hot_update"]
    assert state.size <= 260 * state.records, "what stays of a state lies behind what changes"
