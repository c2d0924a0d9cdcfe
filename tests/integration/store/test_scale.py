"""What a call of the item lane costs grows with its items, not with their square. Measured in processor time of the database."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import msgspec
import pytest

from noetl.domain import ids
from noetl.domain.commands import LoopSlice
from noetl.domain.outcomes import Outcome, Suspend

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc"),
]

EID = ids.execution_id(ids.EPOCH_MS + 86_400_000, 7)
CHILDREN = EID + 1_000_000_000
ME = "me"
EXECUTIONS = 8
BATCHES = 32
"""Of each execution."""
TIMES = 8


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def backend(store, admin) -> int:
    """The process that serves the store's one session."""
    store.heartbeat(ME, 600)
    row = admin.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'noetl'"
    ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture
def cost(store, make, backend):
    """What it costs to report chunks whose items all begin a sub-execution and wait for it, so many in each."""
    places = itertools.count()

    def measure(items: int) -> float:
        first = EID + 1000 * next(places)
        total = BATCHES * (items + 1)
        loops = (make.loop(total, total, first=BATCHES),)
        changes = [make.change(0, first + place, loops=loops) for place in range(EXECUTIONS)]
        begun = [make.items(one, one.loop.start, chunk=items) for one in store.commit(changes, ME).commands]
        chunks = store.commit_items(begun, ME)[1].commands
        assert len(chunks) == EXECUTIONS * BATCHES and chunks[0].loop.stop - chunks[0].loop.start == items
        reports = [waiting(make, chunk) for chunk in chunks]
        before = processor_seconds(backend)
        answers, committed = store.commit_items(reports, ME)
        taken = processor_seconds(backend) - before
        assert not any(answer.superseded for answer in answers)
        assert len(committed.events) == EXECUTIONS * BATCHES * items
        return taken

    return measure


def waiting(make, chunk):
    """A report of ``chunk``: each of its items waits for a sub-execution."""
    indexes = range(chunk.loop.start, chunk.loop.stop)
    outcome = Outcome("suspended", suspend=Suspend({"pc": 1}))
    batch = make.items(chunk, *indexes, outcomes=dict.fromkeys(indexes, outcome))
    return msgspec.structs.replace(
        batch,
        rows=tuple(
            make.row(ids.item_turn_event(1, 0, index, 0), seq=index, lane=1, facts=b"{}") for index in indexes
        ),
        waiting=tuple(
            make.command(
                ids.item_command_id(1, 0, index),
                chunk.execution_id,
                turn=1,
                loop=LoopSlice(0, index, index + 1, 0, "", "parallel"),
            )
            for index in indexes
        ),
        outbox=tuple(make.start(CHILDREN + (chunk.execution_id - EID) * 10_000 + index) for index in indexes),
    )


def test_many_items_that_begin_sub_executions_cost_each_what_a_few_do(cost):
    cost(4)
    few, many = min(cost(4), cost(4)), cost(4 * TIMES)
    assert many < 2 * TIMES * few, f"{TIMES} times the items took {many / few:.1f} times as long"


@pytest.fixture
def batch_blocks(store, make, admin):
    """How many blocks the database reads to choose a batch of members that go, in a tree of so many children."""

    def measure(children: int) -> int:
        root = EID + 10_000_000 * children
        store.commit([make.change(0, root, created=make.created(), status="completed", end=True)])
        admin.execute(
            "INSERT INTO noetl.execution SELECT (jsonb_populate_record(e, jsonb_build_object("
            "'execution_id', e.execution_id + n, 'parent_execution_id', e.execution_id))).*"
            " FROM noetl.execution e, generate_series(1, %s) AS n WHERE e.execution_id = %s",
            (children, root),
        )
        admin.execute("ANALYZE noetl.execution")
        asked = f"SELECT * FROM noetl.leaves_first(ARRAY[{root}]::bigint[], 50)"
        assert len(admin.execute(asked.encode()).fetchall()) == 50
        row = admin.execute(b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + asked.encode()).fetchone()
        plan = row[0][0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    return measure


def test_a_batch_that_is_removed_costs_the_same_in_a_tree_of_any_size(batch_blocks):
    small, large = batch_blocks(500), batch_blocks(8000)
    assert large < 2 * small, (small, large)
