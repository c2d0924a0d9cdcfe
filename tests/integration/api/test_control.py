"""Pause, resume and redrive through ``noetl serve``: over real HTTP, with the engine and the database behind it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.integration.api.test_serve import GATED, Client, Serve, client, serve, server  # noqa: F401
from tests.waiting import wait_until

pytestmark = pytest.mark.postgres

BROKEN = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: broken, path: demo/broken }
workflow:
  - { step: start, tool: { kind: noop, args: { n: 1 } }, next: { arcs: [{ step: divide, args: { n: "{{ start.n }}" } }] } }
  - { step: divide, tool: { kind: noop, args: { n: "{{ args.n / 0 }}" } } }
"""
MENDED = BROKEN.replace("args.n / 0", "args.n + 1")


def test_a_paused_execution_takes_changes_and_enters_nothing_until_it_is_resumed(client: Client) -> None:  # noqa: F811
    client.register(GATED)
    execution_id = client.start("demo/gated")
    client.until(execution_id, "waiting")
    place = f"/api/executions/{execution_id}"
    assert client("POST", f"{place}/pause", {"reason": "a look"})[0] == 202
    client.until(execution_id, "paused")
    assert client("PATCH", f"{place}/ctx", {"patch": {"approved": True}})[0] == 202
    wait_until(lambda: events_of(client, place, "ctx.patched"), "the change")
    assert client("GET", f"{place}/status")[1]["status"] == "paused"
    assert client("POST", f"{place}/resume", {})[0] == 202
    client.until(execution_id, "completed")
    assert client("POST", f"{place}/resume", {})[0] == 409
    names = [event["event_type"] for event in client("GET", f"{place}/events")[1]["events"]]
    during = names[names.index("execution.paused") : names.index("execution.resumed")]
    assert during == ["execution.paused", "ctx.patched"]


def test_an_execution_that_failed_goes_on_with_a_newer_version(client: Client) -> None:  # noqa: F811
    client.register(BROKEN)
    execution_id = client.start("demo/broken")
    client.until(execution_id, "failed")
    client.register(MENDED)
    assert client("GET", f"/api/executions/{execution_id}")[1]["version"] == 1
    place = f"/api/executions/{execution_id}"
    status, refused = client("POST", f"{place}/redrive", {"from": "divde"})
    assert (status, refused["code"]) == (422, "unknown_step") and "divide" in refused["hint"]
    assert client("POST", f"{place}/redrive", {"version": 2, "reason": "mended"})[0] == 202
    client.until(execution_id, "completed")
    assert client("GET", f"{place}/result")[1]["result"] == {"n": 2}
    assert client("GET", place)[1]["version"] == 2
    names = [event["event_type"] for event in client("GET", f"{place}/events")[1]["events"]]
    assert names.count("playbook.failed") == names.count("execution.redriven") == 1
    assert names[-1] == "playbook.completed"
    status, refused = client("POST", f"{place}/redrive", {})
    assert (status, refused["code"]) == (409, "not_redrivable")


LOOPED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: looped, path: demo/looped }
workflow:
  - step: start
    tool:
      kind: python
      code: "def main(): return {'rows': [{'n': 1}, {'n': 0}, {'n': 3}], 'text': 'x' * 40000}"
    next: { arcs: [{ step: load }] }
  - step: load
    loop: { in: "{{ start.rows }}", iterator: row, spec: { mode: parallel } }
    tool: { kind: noop, args: { n: "{{ 6 / row.n }}", size: "{{ start.text | length }}" } }
    next: { arcs: [{ step: end }] }
  - { step: end, tool: { kind: noop, args: { all: "{{ load | map(attribute='n') | list }}" } } }
"""


NO_LOOP = re.sub(r"    loop:.*\n    tool:.*", "    tool: { kind: noop }", LOOPED)


def until_round(ask: Client, execution_id: str, number: int) -> dict[str, Any]:
    """Until its end number ``number``, whatever that is."""
    place = f"/api/executions/{execution_id}"
    wait_until(lambda: len(events_of(ask, place, "workflow.completed")) >= number, f"end {number}")
    return ask("GET", f"/api/executions/{execution_id}/status")[1]


def events_of(ask: Client, place: str, name: str) -> list[dict[str, Any]]:
    return [one for one in ask("GET", f"{place}/events?limit=500")[1]["events"] if one["event_type"] == name]


def test_a_loop_is_mended_item_by_item_and_its_results_are_where_they_were(client: Client) -> None:  # noqa: F811
    client.register(LOOPED)
    execution_id = client.start("demo/looped")
    place = f"/api/executions/{execution_id}"
    client.until(execution_id, "failed")
    client.register(LOOPED.replace("6 / row.n", "6 / row.n if row.n else 0"))
    client.register(NO_LOOP)
    for asked, status, code, told in (
        ({"from": "load[7]"}, 409, "not_redrivable", "load[failed]"),
        ({"from": "load[1][2]"}, 409, "not_redrivable", "load[1]"),
        ({"from": "start[0]"}, 409, "not_redrivable", "start"),
        ({"from": "load[x]"}, 422, "invalid_redrive", ""),
        ({"version": 3}, 409, "not_redrivable", "load"),
    ):
        found, refused = client("POST", f"{place}/redrive", asked)
        assert (found, refused["code"]) == (status, code), refused
        assert not told or told in refused["details"]["candidates"]
    assert client("POST", f"{place}/redrive", {"version": 2})[0] == 202
    client.until(execution_id, "completed")
    assert client("GET", f"{place}/result")[1]["result"] == {"all": [6.0, 0, 2.0]}
    assert [one["payload"]["index"] for one in events_of(client, place, "loop.item")] == [0, 1, 2, 1]
    assert client("POST", f"{place}/redrive", {"from": "load[2]"})[0] == 202
    assert until_round(client, execution_id, 3)["status"] == "completed"
    _, shown = client("GET", place)
    assert [
        (one["step"], one["loop"]["done"], one["loop"]["failed"]) for one in shown["steps"] if "loop" in one
    ] == [
        ("load", 2, 1),
        ("load", 3, 0),
        ("load", 3, 0),
    ]


def test_what_is_gone_from_the_result_store_is_told_and_made_anew(serve: Serve, tmp_path: Path) -> None:  # noqa: F811
    with serve() as first:
        token = first.tokens.add("tester", ["admin"])
        ask = Client(first.address, token)
        ask.register(LOOPED)
        execution_id = ask.start("demo/looped")
        ask.until(execution_id, "failed")
    kept = [file for file in (tmp_path / "home").rglob(f"*{execution_id}*/**/*") if file.is_file()]
    assert kept
    for file in kept:
        file.unlink()
    with serve() as second:
        ask, place = Client(second.address, token), f"/api/executions/{execution_id}"
        ask.register(LOOPED.replace("6 / row.n", "6 / row.n if row.n else 0"))
        assert ask("POST", f"{place}/redrive", {"version": 2})[0] == 202
        status = until_round(ask, execution_id, 2)
        assert status["error"]["code"] == "REFERENCE_NOT_AVAILABLE"
        assert ask("POST", f"{place}/redrive", {"from": "start"})[0] == 202
        assert until_round(ask, execution_id, 3)["status"] == "completed"
        assert ask("GET", f"{place}/result")[1]["result"] == {"all": [6.0, 0, 2.0]}


def test_many_are_steered_by_what_they_have_in_common(client: Client) -> None:  # noqa: F811
    client.register(BROKEN.replace("demo/broken", "demo/many"))
    ids = [client.start("demo/many") for _ in range(3)]
    for one in ids:
        client.until(one, "failed")
    client.register(MENDED.replace("demo/broken", "demo/many"))
    wish = {
        "filter": {"status": "failed", "path": "demo/many", "version": 1},
        "version": 2,
        "reason": "mended",
    }
    status, would = client("POST", "/api/executions/redrive", {**wish, "dry_run": True})
    assert (status, would["done"], would["dry_run"]) == (200, 3, True)
    status, done = client("POST", "/api/executions/redrive", {**wish, "limit": 2})
    assert (status, done["done"], done["more"]) == (200, 2, True)
    assert client("POST", "/api/executions/redrive", {**wish, "after": done["next"]})[1]["done"] == 1
    for one in ids:
        client.until(one, "completed")
        (told,) = events_of(client, f"/api/executions/{one}", "execution.redriven")
        assert told["payload"]["reason"] == "mended" and told["payload"]["principal"]
    assert client("POST", "/api/executions/cancel", {"filter": {}})[1]["code"] == "empty_filter"
