"""Retention: by hand and by the settings, in rounds, results with their execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from noetl.adapters.memory import MemoryResultStore
from noetl.adapters.tiered import TieredResults
from noetl.domain.errors import InfrastructureError, NotFoundError
from noetl.ports.executions.retention import Removed
from noetl.runtime.retention import tidy
from noetl.services.results import collect_results
from noetl.services.results import prune as pruning
from noetl.services.results.prune import DAY, RetentionDays, keep_to
from tests.unit.api.ground import GATED, Ground

YES = lambda: True  # noqa: E731


@pytest.fixture
def ground(monkeypatch):
    monkeypatch.setattr(pruning, "BATCH", 2)
    monkeypatch.setattr(pruning, "ROWS", 3)
    return Ground()


def ask(ground, **body):
    return ground.ask("POST", "/api/admin/prune", body)


def test_what_ended_long_ago_goes_with_its_results_and_what_runs_stays(ground):
    old = [ground.run() for _ in range(5)]
    waiting = ground.run(GATED)
    for one in old:
        ground.database.results.put(f"noetl://execution/{one}/result/start/x", b"1")
    ground.database.now += 40 * DAY
    young = ground.run()
    told = ask(ground, older_than_days=30, dry_run=True).json
    assert (told["executions"], told["dry_run"], told["status"]) == (5, True, "complete")
    assert len(ground.store.executions(limit=20)) == 7, "nothing has happened"
    done = ask(ground, older_than_days=30).json
    assert (done["executions"], done["status"]) == (5, "complete") and done["events"] > 5
    assert {str(one.execution_id) for one in ground.store.executions(limit=20)} == {waiting, young}
    assert ground.ask("GET", f"/api/executions/{old[0]}").status == 404
    assert all(ground.database.results.delete_execution(int(one)) == 0 for one in old)
    assert ask(ground, older_than_days=30).json["executions"] == 0


def test_a_repeated_start_of_something_that_is_gone_is_a_new_one(ground):
    key = {"idempotency-key": "k"}
    ground.register()
    first = ground.ask("POST", "/api/execute", {"path": "demo/hello"}, headers=key).json["execution_id"]
    ground.settle()
    ground.database.now += 2 * DAY
    assert ask(ground, older_than_days=1).json["executions"] == 1
    again = ground.ask("POST", "/api/execute", {"path": "demo/hello"}, headers=key)
    assert again.status == 201 and again.json["execution_id"] != first


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "retention_unset"),
        ({"older_than_days": 0}, "invalid_retention"),
        ({"older_than_days": -1}, "invalid_retention"),
        ({"older_than_days": 1e9}, "invalid_retention"),
        ({"older_than_days": "30d"}, "body_invalid"),
    ],
)
def test_an_age_that_is_none_is_refused(ground, body, code):
    refused = ask(ground, **body)
    assert (refused.status, refused.json["code"]) == (422, code)


def test_maintenance_keeps_to_the_settings_and_stops_when_time_is_short(ground):
    ground.run()
    execution_id = ground.run(GATED)
    ground.database.now += 10 * DAY
    ground.ask("POST", f"/api/executions/{execution_id}/cancel")
    ground.settle()
    deps = replace(ground.deps.prune, days=RetentionDays(7))
    assert keep_to(deps, lambda: False).executions == 0
    assert keep_to(deps, YES).executions == 1
    assert keep_to(replace(deps, days=RetentionDays()), YES).executions == 0, "kept for ever"
    ground.database.now += 8 * DAY
    assert keep_to(deps, YES).executions == 1


@pytest.mark.parametrize("failing", ["partition_history", "drop_history"])
def test_what_is_over_goes_although_partitions_cannot_be_made_or_dropped(ground, monkeypatch, failing):
    def fail(*_):
        raise InfrastructureError("it took too long", code="database_unreachable")

    ground.run()
    ground.database.now += 10 * DAY
    deps, said = replace(ground.deps.prune, days=RetentionDays(7)), []
    monkeypatch.setattr(deps.retention, failing, fail)
    assert keep_to(deps, YES, said.append) == Removed(1, 2, 0)
    assert said == ["partitions of history are made and dropped later: it took too long"]


def test_a_prune_that_was_interrupted_is_finished_without_days_and_takes_no_redrive_meanwhile(ground):
    execution_id = ground.run()
    ground.database.now += 10 * DAY
    told = iter([True, True, False])
    deps = replace(ground.deps.prune, days=RetentionDays())
    wish = pruning.PruneRequest(older_than_days=5)
    assert pruning.prune(wish, deps, lambda: next(told, False)).status == "partly"
    refused = ground.ask("POST", f"/api/executions/{execution_id}/redrive", {"from": "start"})
    assert (refused.status, refused.json["code"]) == (409, "execution_leaving")
    said: list[str] = []
    tidy(ground.store, ground.deps.credentials.store, deps, said.append)
    assert said == ["1 executions are gone: their removal had begun"]
    assert ground.ask("GET", f"/api/executions/{execution_id}").status == 404


def test_moments_of_schedules_are_known_for_a_year(ground):
    store, now = ground.database.schedules, ground.database.now
    ground.register()
    wish = {"path": "demo/hello", "name": "s", "cron": "* * * * *"}
    assert ground.ask("POST", "/api/schedules", wish).status == 201
    for days in (1, 100, 367, 400, 500, 600):
        store.keep_moment("s", now - days * DAY, days)
    keep_to(ground.deps.prune, YES)
    assert list(store.moments("s", 0, now).values()) == [100, 1]
    keep_to(replace(ground.deps.prune, days=RetentionDays(30)), YES)
    assert list(store.moments("s", 0, now).values()) == [1]


def test_a_row_that_names_no_result_keeps_no_other():
    results = MemoryResultStore()
    fine = [f"noetl://execution/7/result/a/{number}" for number in range(3)]
    for one in fine:
        results.put(one, b"1")
    forgotten: list[tuple[int, str, str]] = []

    class Rows:
        def permanent(self, before: float, limit: int) -> list[tuple[int, str, str]]:
            return (
                []
                if forgotten
                else [(7, ref, "memory") for ref in (fine[0], "noetl://execution/7/", *fine[1:])]
            )

        def forget_results(self, gone: Sequence[tuple[int, str, str]]) -> int:
            forgotten.extend(gone)
            return len(gone)

    removed, over = collect_results.remove_permanent(
        Rows(), TieredResults({"memory": results}, "memory"), 0.0, YES
    )
    assert (removed, over) == (4, True)
    for one in fine:
        with pytest.raises(NotFoundError):
            results.get(one)


def test_permanent_results_of_a_tier_that_is_not_here_end_the_round(monkeypatch):
    """They stay noted for whoever has the tier: asking for them again and again would have no end."""
    monkeypatch.setattr(collect_results, "BATCH", 2)
    away = [(0, f"noetl://execution/0/result/s/{number}", "gcs") for number in range(3)]
    asked: list[float] = []

    class Noted:
        def permanent(self, before, limit):
            asked.append(before)
            assert len(asked) < 5
            return away[:limit]

    tiers = TieredResults({"memory": MemoryResultStore()}, "memory")
    assert collect_results.remove_permanent(Noted(), tiers, 1.0, YES) == (0, True) and asked == [1.0]
