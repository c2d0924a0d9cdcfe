"""Bulk control: what a filter names is done, each in its own event; what cannot be done is told of the one it is about."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from noetl.domain.events import Event
from noetl.services.executions import bulk_control
from noetl.services.history.history_pages import history
from tests.parts import over
from tests.unit.api.ground import FAILING, GATED, HELLO, Ground

GONE = "382358247895465985"


def ask(ground: Ground, verb: str, status: int = 200, **body):
    reply = ground.ask("POST", f"/api/executions/{verb}", body)
    assert reply.status == status, reply
    return reply.json


def outcomes(answer) -> list[tuple[str, str, str]]:
    return [(one["execution_id"], one["outcome"], one.get("code", "")) for one in answer["executions"]]


def test_what_fits_is_done_with_who_and_why_and_nothing_else(ground: Ground) -> None:
    over = ground.run(HELLO)
    first, second = sorted((ground.run(GATED), ground.run(GATED)), key=int)
    would = ask(ground, "cancel", filter={"path": "demo/gated"}, dry_run=True)
    assert {one["status"] for one in would["executions"]} == {"waiting"}, "as the list of executions has it"
    assert outcomes(would) == [(second, "would", ""), (first, "would", "")]
    paused = ask(ground, "pause", filter={"status": "waiting"}, reason="a look")
    assert (paused["done"], paused["refused"], paused["more"]) == (2, 0, False)
    ground.settle()
    assert outcomes(ask(ground, "pause", filter={"ids": [first, over, GONE]})) == [
        (GONE, "refused", "execution_not_found"),
        *sorted(
            [(first, "done", ""), (over, "refused", "execution_ended")],
            key=lambda one: -int(one[0]),
        ),
    ]
    ask(ground, "resume", filter={"parent": GONE})
    cancelled = ask(ground, "cancel", filter={"path": "demo/gated", "version": 1}, reason="too many")
    assert outcomes(cancelled) == [(second, "done", ""), (first, "done", "")]
    ground.settle()
    events = list(history(ground.store, int(first)))
    (told,) = [one for one in events if one.event_type == "execution.cancelled"]
    assert told.payload["reason"] == "too many" and told.payload["principal"]
    assert ground.store.info(int(over)).status == "completed"


def test_failed_ones_are_redriven_page_by_page(ground: Ground) -> None:
    failed = sorted((ground.run(FAILING) for _ in range(3)), key=int)
    ended = ground.run(HELLO)
    page = ask(ground, "redrive", filter={"status": "failed"}, limit=2, reason="mended")
    assert outcomes(page) == [(failed[2], "done", ""), (failed[1], "done", "")]
    assert page["more"] and page["next"] == failed[1]
    rest = ask(ground, "redrive", filter={"status": "failed"}, limit=2, after=page["next"])
    assert outcomes(rest) == [(failed[0], "done", "")] and rest["next"] is None
    ground.settle()
    assert [ground.store.info(int(one)).status for one in failed] == ["failed"] * 3
    refused = ask(ground, "redrive", filter={"ids": [ended]})
    assert outcomes(refused) == [(ended, "refused", "not_redrivable")]
    assert "name the step" in refused["executions"][0]["detail"]


def test_a_commit_takes_a_batch_of_executions(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    post_all = ground.store.post_all

    def counted(events: Sequence[Event], owner: str | None = None):
        sizes.append(len(events))
        return post_all(events, owner)

    monkeypatch.setattr(ground.store, "post_all", counted)
    monkeypatch.setattr(bulk_control, "BATCH", 3)
    for _ in range(7):
        ground.run(GATED)
    assert ask(ground, "cancel", filter={"status": "waiting"})["done"] == 7
    assert sizes == [3, 3, 1]


@over(
    ("body", "code"),
    [
        ({}, "empty_filter"),
        ({"filter": {}}, "empty_filter"),
        ({"filter": {"status": "done"}}, "invalid_filter"),
        ({"filter": {"ids": []}}, "invalid_filter"),
        ({"filter": {"ids": ["x"]}}, "invalid_filter"),
        ({"filter": {"ids": ["1"] * 1001}}, "invalid_filter"),
        ({"filter": {"version": 1}}, "invalid_filter"),
        ({"filter": {"started_before": "yesterday"}}, "invalid_filter"),
        ({"filter": {"path": "a"}, "limit": 1001}, "invalid_limit"),
        ({"filter": {"path": "a"}, "after": "x"}, "invalid_filter"),
        ({"filter": {"status": "failed"}, "version": 2}, "invalid_filter"),
        ({"filter": {"path": "a"}, "from": "load["}, "invalid_redrive"),
        ({"filter": {"path": "a", "colour": "red"}}, "body_invalid"),
    ],
    ground=Ground,
)
def test_what_is_no_filter_is_refused_before_anything_is_done(ground: Ground, body, code) -> None:
    assert ask(ground, "redrive", 422, **body)["code"] == code
