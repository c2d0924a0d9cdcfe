"""Failed items of loops: the first ones with their causes, counted by error, for bounded work."""

from __future__ import annotations

from tests.unit.cli.conftest import database, noetl, write

__all__ = ["database", "noetl", "write"]

LOOP = """\
workflow:
  - step: start
    loop: { in: "{{ range(60) | list }}", iterator: n, spec: { mode: parallel, policy: { failure: { mode: best_effort } } } }
    tool: { kind: double, value: "{{ 1 / (iter.n % 20) }}" }
"""
FAST = """\
workflow:
  - step: start
    loop: { in: [1, 2, 3], iterator: n }
    tool: { kind: boom }
"""


def test_status_analyze_and_the_end_of_a_run_name_failed_items(noetl, write):
    ran = noetl("run", write("loop.yaml", LOOP))
    assert ran.code == 0 and "3 failed: 3 × " in ran.out
    assert "start[0]  " in ran.out and "start[20]  " in ran.out and "start[40]  " in ran.out
    assert "3 failed: 3 × " in noetl("status").out
    (step,) = noetl("status", "--json").json[0]["steps"]
    failed = step["failed_items"]
    assert (failed["total"], failed["counted"], [one["index"] for one in failed["first"]]) == (
        3,
        3,
        [0, 20, 40],
    )
    assert sum(one["count"] for one in failed["errors"]) == 3 and failed["first"][0]["message"]
    found = noetl("analyze").out
    assert "3 of 60 items of step start failed" in found and "3 × " in found and "redrive" in found


def test_the_item_that_fails_a_loop_is_named(noetl, write):
    ran = noetl("run", write("fast.yaml", FAST))
    assert ran.code == 1 and "start[0]  the pipe burst" in ran.out + ran.err


def test_the_work_is_bounded(noetl, write, database, monkeypatch):
    noetl("run", write("loop.yaml", LOOP))
    asked = []
    real = database.store.failed_items
    monkeypatch.setattr(
        database.store, "failed_items", lambda one, run, limit: asked.append(limit) or real(one, run, 2)
    )
    monkeypatch.setattr(database.store, "item_events", None)
    (step,) = noetl("status", "--json").json[0]["steps"]
    assert asked == [1000]
    assert (step["failed_items"]["total"], step["failed_items"]["counted"]) == (3, 2)
