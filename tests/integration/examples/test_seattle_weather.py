"""The main job: observations in, summaries in Postgres, a report out; the numbers are worked out here once more."""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from statistics import fmean

import pytest

from tests.integration.examples.conftest import EXAMPLES

FOLDER = EXAMPLES / "seattle_weather"


@pytest.fixture(scope="module")
def observations() -> dict[int, list[dict[str, str]]]:
    years: dict[int, list[dict[str, str]]] = defaultdict(list)
    with (FOLDER / "seattle-weather.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            years[int(row["date"][:4])].append(row)
    return years


def check_numbers(result: dict, observations: dict[int, list[dict[str, str]]], rain_day: float = 1.0) -> None:
    assert [row["year"] for row in result["years"]] == sorted(observations) == [2012, 2013, 2014, 2015]
    assert result["days"] == sum(map(len, observations.values())) == 1461
    for row in result["years"]:
        days = observations[row["year"]]
        rain = [float(day["precipitation"]) for day in days]
        highs = [float(day["temp_max"]) for day in days]
        assert row["days"] == len(days)
        assert row["rain_days"] == sum(amount >= rain_day for amount in rain)
        assert row["rain_mm"] == pytest.approx(sum(rain), abs=0.05)
        assert row["mean_max"] == pytest.approx(fmean(highs), abs=0.005)
        assert row["mean_min"] == pytest.approx(fmean(float(day["temp_min"]) for day in days), abs=0.005)
        hottest = days[highs.index(max(highs))]
        assert row["hottest"] == {"day": hottest["date"].replace("/", "-"), "celsius": max(highs)}
        assert row["wettest"]["mm"] == max(rain)
        assert row["weather"] == Counter(day["weather"] for day in days)
    everything = [day for days in observations.values() for day in days]
    assert result["record_high"] == max(float(day["temp_max"]) for day in everything)
    january = [float(day["precipitation"]) for day in everything if day["date"][5:7] == "01"]
    assert result["monthly_rain"][0] == pytest.approx(sum(january) / 4, abs=0.1)


def test_report_and_numbers(local, observations) -> None:
    run = local.run("seattle_weather")

    assert (run.status, run.error) == ("completed", None)
    check_numbers(run.result, observations)
    lines = run.result["report"].splitlines()
    assert lines[0] == "Seattle, 2012-2015: 1461 days of observations"
    assert any(line.startswith("2015") and "2015" in line[4:] for line in lines)
    assert sum("█" in line for line in lines) == 12


def test_years_run_side_by_side_and_join_once(local) -> None:
    run = local.run("seattle_weather")

    assert run.entered("summarise_years") == run.entered("report") == 1
    assert run.count("loop.item", "summarise_years") == 4
    assert run.slots("ctx")["days"] == 1461
    started = next(event for event in run.events if event.event_type == "loop.started")
    assert (started.payload["total"], started.payload["max_in_flight"]) == (4, 4)


def test_it_can_run_again_and_takes_parameters(local, observations) -> None:
    run = local.run("seattle_weather", {"rain_day_mm": 10, "parallel_years": 1})

    assert run.status == "completed"
    check_numbers(run.result, observations, rain_day=10)


@pytest.mark.full
def test_from_the_command_line(cli, observations) -> None:
    done = cli("run", str(FOLDER / "seattle_weather.yaml"), "--json")

    assert done.returncode == 0, done.stderr
    *events, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert last["status"] == "completed"
    check_numbers(last["result"], observations)
    assert events[0]["event_type"] == "playbook.initialized"
    assert events[-1]["event_type"] == "playbook.completed"

    again = cli("result", "latest", "--json")
    assert json.loads(again.stdout) == last["result"]
    assert cli("replay", "latest").returncode == 0
    count = cli(
        "db", "shell", "--scratch", "--json", "-c", "SELECT count(*) > 0 AS loaded FROM seattle_weather"
    )
    assert json.loads(count.stdout) == {"loaded": True}, count.stderr
    assert "read_only" in cli("db", "shell", "--scratch", "-c", "DELETE FROM seattle_weather").stderr


@pytest.mark.full
def test_the_report_is_readable_on_a_terminal(cli) -> None:
    done = cli("run", str(FOLDER / "seattle_weather.yaml"))

    assert done.returncode == 0, done.stderr
    assert "Seattle, 2012-2015: 1461 days of observations" in done.stdout
    assert "█" in done.stdout
