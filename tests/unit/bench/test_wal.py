"""What a record of the WAL counts for."""

from __future__ import annotations

from tests.bench.wal import Cost, Part, parse, table

DUMP = """\
rmgr: Heap        len (rec/tot):    211/   211, tx:  770, lsn: 0/1A2B, prev 0/1A, desc: INSERT off: 1, blkref #0: rel 1663/5/100 blk 0
rmgr: Heap        len (rec/tot):     59/  8059, tx:  770, lsn: 0/1A2B, prev 0/1A, desc: INSERT off: 2, blkref #0: rel 1663/5/100 blk 1 FPW
rmgr: Btree       len (rec/tot):     72/    72, tx:  770, lsn: 0/1A2B, prev 0/1A, desc: INSERT_LEAF off: 1, blkref #0: rel 1663/5/101 blk 1
rmgr: Heap        len (rec/tot):     50/    50, tx:  770, lsn: 0/1A2B, prev 0/1A, desc: DELETE off: 1, blkref #0: rel 1663/5/7 blk 1
rmgr: Transaction len (rec/tot):     34/    34, tx:  770, lsn: 0/1A2B, prev 0/1A, desc: COMMIT 2026-11-22 21:57:10 UTC
"""


def test_records_count_for_their_relation_and_kind():
    parts = parse(iter(DUMP.splitlines()), {100: "event", 101: "event_pkey"})
    assert parts == {
        "event insert": Part(2, 8270, 8000),
        "event_pkey insert_leaf": Part(1, 72),
        "pg_catalog delete": Part(1, 50),
        "Transaction commit": Part(1, 34),
    }


def test_a_cost_is_told_for_each_step():
    cost = Cost(2, 1, parse(iter(DUMP.splitlines()), {100: "event", 101: "event_pkey"}), {"event": 8192})
    head, _, largest, *_ = table(cost)
    assert head.startswith("2 steps of 1 executions: 0.50 commits a step, 4213 B of WAL a step (4000 B")
    assert largest.split() == ["event", "insert", "1.00", "4135", "4000"]
