"""Items of a loop by pages, at every door: each item once, as it ended, for the work of one page."""

from __future__ import annotations

import json

from noetl.domain import codec
from noetl.services.history import loop_items
from noetl.services.history.loop_items import PREVIEW
from tests.unit.cli.conftest import database, noetl, write

__all__ = ["database", "noetl", "write"]

LOOP = """\
workflow:
  - step: start
    loop: { in: "{{ range(60) | list }}", iterator: n, spec: { mode: parallel, policy: { failure: { mode: best_effort } } } }
    tool: { kind: double, value: "{{ 1 / (iter.n % 20) }}" }
"""
TEXTS = """\
workflow:
  - step: start
    loop: { in: [1, 900], iterator: n }
    tool: { kind: noop, args: { text: "{{ 'ä' * iter.n }}" } }
"""
WAITING = """\
workflow:
  - step: start
    loop: { in: [true, false], iterator: asks, spec: { mode: parallel } }
    tool:
      - name: ask
        kind: wait
        approve: true
        spec: { policy: { rules: [{ else: { then: { do: continue } } }] } }
"""


def items(noetl, *words):
    return noetl("items", *words, "--json").json


def test_every_item_is_shown_once_in_the_order_of_the_loop(noetl, write, monkeypatch):
    noetl("run", write("loop.yaml", LOOP))
    monkeypatch.setattr(loop_items, "PAGE", 7)
    found = items(noetl)
    assert [one["index"] for one in found] == list(range(60))
    assert [one["index"] for one in found if one["status"] == "failed"] == [0, 20, 40]
    assert {one["status"] for one in found} == {"done", "failed"}
    assert [one["index"] for one in items(noetl, "--failed")] == [0, 20, 40]
    assert all(one["error"]["code"] for one in items(noetl, "--failed"))


def test_an_item_says_how_long_its_calls_took(noetl, write, database):
    noetl("run", write("loop.yaml", LOOP))
    execution_id = int(noetl("list", "--json").json[0]["execution_id"])
    stored = [codec.decode(row.facts) for row in database.store.item_events(execution_id, 1)]
    assert all(one["meta"]["duration_ms"] > 0 for one in stored if one["status"] == "ok")
    shown = [one.get("tool_ms", 0.0) for one in items(noetl)]
    assert shown == [one["meta"]["duration_ms"] for one in stored]
    assert "TIME" in noetl("items").out


def test_a_page_costs_the_work_of_a_page(noetl, write, database, monkeypatch):
    noetl("run", write("loop.yaml", LOOP))
    execution_id = int(noetl("list", "--json").json[0]["execution_id"])
    rows = []
    for name in ("item_events", "failed_items"):
        real = getattr(database.store, name)
        monkeypatch.setattr(
            database.store,
            name,
            lambda *at, real=real, **page: rows.append(found := real(*at, **page)) or found,
        )
    page = loop_items.loop_items(database.store, execution_id, 1, after=9, limit=5)
    assert ([one.index for one in page.items], page.next) == ([10, 11, 12, 13, 14], 14)
    failed = loop_items.loop_items(database.store, execution_id, 1, after=0, limit=1, failed=True)
    assert ([one.index for one in failed.items], failed.next) == ([20], 20)
    assert loop_items.loop_items(database.store, execution_id, 1, after=20, limit=1, failed=True).next is None
    assert [len(one) for one in rows] == [6, 2, 1]


def test_a_long_result_shows_its_beginning(noetl, write):
    noetl("run", write("texts.yaml", TEXTS))
    short, long = items(noetl)
    assert json.loads(short["preview"]) == {"text": "ä"}
    assert (
        len(long["preview"]) == PREVIEW
        and long["preview"].startswith('{"text":"ää')
        and long["preview"].endswith("…")
    )


def test_an_item_between_two_turns_waits(noetl, write):
    noetl("run", write("waiting.yaml", WAITING))
    assert [(one["index"], one["status"]) for one in items(noetl)] == [(0, "waiting"), (1, "waiting")]


def test_a_redriven_loop_has_the_items_that_it_picked(noetl, write):
    noetl(
        "run",
        write("loop.yaml", LOOP.replace("best_effort", "fail_fast").replace("iter.n % 20", "iter.n - 58")),
    )
    noetl("redrive", "latest")
    runs = [step["run"] for step in noetl("status", "--json").json[0]["steps"]]
    assert [one["index"] for one in items(noetl, "--run", str(runs[-1]))] == [58]
    assert [one["index"] for one in items(noetl)] == [58], "without a choice, the last run"
    assert [one["index"] for one in items(noetl, "--run", str(runs[0]))] == list(range(60))


def test_a_row_that_cannot_be_read_harms_itself(noetl, write, database):
    noetl("run", write("texts.yaml", TEXTS))
    execution_id = int(noetl("list", "--json").json[0]["execution_id"])
    history = database.store._tables.work[execution_id].history
    (broken,) = [name for name, row in history.items() if row.lane == 1 and row.seq == 0]
    history[broken] = type(history[broken])(
        **{
            **{name: getattr(history[broken], name) for name in history[broken].__struct_fields__},
            "facts": b"[1]",
        }
    )
    bad, good = items(noetl)
    assert bad["unreadable"] == "it is not an outcome" and good["status"] == "done"
    assert "it is not an outcome" in noetl("items").out


def test_a_loop_that_is_not_there_is_refused_with_those_that_are(noetl, write):
    noetl("run", write("texts.yaml", TEXTS))
    for words in (("--step", "other"), ("--run", "7")):
        refused = noetl("items", *words)
        assert refused.code != 0 and "it has start (run 1)" in refused.err
    assert "no item of start has failed" in noetl("items", "--failed").err
    assert "there are more" in noetl("items", "--limit", "1").err
