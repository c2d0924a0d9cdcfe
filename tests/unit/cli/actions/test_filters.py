"""Executions by --filter: what a filter is, what is asked before anything is done, and what is told of each."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from noetl.cli.actions import filters
from noetl.domain.automations.schedules import parse_instant
from noetl.domain.errors import InvalidInputError
from noetl.services.executions.bulk_control import ManyFilter
from tests.parts import over
from tests.unit.api.ground import FAILING, GATED
from tests.unit.cli.test_remote import far  # noqa: F401

TTY = SimpleNamespace(isatty=lambda: True)


def test_filters_are_pairs_and_ages_are_moments(monkeypatch) -> None:
    monkeypatch.setattr(filters.time, "time", lambda: parse_instant("2026-11-21T12:00:00Z"))
    found = filters.parse_filter(["path=a/b", "version=3", "id=7", "id=8", "started_after=2d"], "90m")
    assert found == ManyFilter(
        path="a/b",
        version=3,
        started_before="2026-11-21T10:30:00Z",
        started_after="2026-11-19T12:00:00Z",
        ids=["7", "8"],
    )


@over(
    "texts",
    [["status"], ["colour=red"], ["path="], ["path=a", "path=b"], ["version=x"], ["started_before=x"]],
)
def test_what_is_no_filter_says_what_one_is(texts) -> None:
    with pytest.raises(InvalidInputError) as raised:
        filters.parse_filter(texts, "2h")
    assert raised.value.code == "invalid_filter" and raised.value.hint


def test_all_that_fit_are_looked_at_and_then_steered(noetl, far) -> None:  # noqa: F811
    first, second = (far.ground.run(FAILING) for _ in range(2))
    waiting = far.ground.run(GATED)
    mine = ["--filter", "status=failed", "--filter", "path=demo/failing", "--remote"]
    assert {one["execution_id"] for one in noetl("list", *mine, "--json").json} == {first, second}
    named = ["--filter", f"id={first}", "--filter", f"id={waiting}", "--remote"]
    assert [one["execution_id"] for one in noetl("list", *named, "--json").json] == [waiting, first]
    assert not noetl("list", "--filter", f"id={waiting}", *mine, "--json").json
    *told, last = noetl("redrive", *mine, "--dry-run", "--json").json
    assert [one["outcome"] for one in told] == ["would", "would"]
    assert last == {"done": 2, "refused": 0, "dry_run": True, "more": False}
    unasked = noetl("redrive", *mine)
    assert unasked.code == 2 and "--dry-run" in unasked.err
    done = noetl("redrive", *mine, "--yes", "--reason", "mended")
    assert done.code == 0 and "2 executions are redriven" in done.out
    refused = noetl("unpause", "--filter", f"id={waiting}", "--yes", "--remote")
    assert refused.code == 1 and "not paused" in refused.out
    assert noetl("pause", "--filter", "status=waiting", "--yes", "--remote").code == 0
    again = noetl("pause", "--filter", f"id={waiting}", "--yes", "--remote")
    assert again.code == 0 and "1 execution is paused" in again.out
    assert "1 execution is resumed" in noetl("unpause", "--filter", "status=paused", "-y", "--remote").out
    assert "1 execution is cancelled" in noetl("cancel", "--before", "0s", "--yes", "--remote").out


@pytest.mark.parametrize("agreed", [True, False])
def test_on_a_terminal_one_sees_them_and_is_asked(noetl, far, monkeypatch, agreed) -> None:  # noqa: F811
    far.ground.run(GATED)
    asked: list[str] = []
    monkeypatch.setattr(filters, "sys", SimpleNamespace(stdin=TTY, stderr=TTY))
    monkeypatch.setattr(filters.typer, "confirm", lambda text, **more: asked.append(text) or agreed)
    ran = noetl("cancel", "--filter", "path=demo/gated", "--remote")
    assert asked == ["cancel 1 execution?"] and "demo/gated" in ran.err and ran.code == 0
    assert ("1 execution is cancelled" in ran.out) is agreed
    noetl("cancel", "--filter", "path=demo/none", "--remote")
    assert len(asked) == 1


@pytest.mark.parametrize(
    "words", [["cancel"], ["cancel", "latest", "--filter", "path=a"], ["pause", "latest", "--dry-run"]]
)
def test_one_is_named_or_many_are(noetl, words) -> None:
    ran = noetl(*words)
    assert ran.code == 2 and "filter" in ran.err
