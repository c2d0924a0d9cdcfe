"""``noetl schedule``: what people and machines are told."""

from __future__ import annotations

import re
import signal
import threading
import time

import pytest

from noetl.cli.actions import schedules
from noetl.cli.client import runtime_access
from noetl.domain.automations.schedules import parse_instant
from noetl.domain.events import Start
from noetl.ports.automations.schedule_store import Skipped
from noetl.services.automations.fire_schedule import Fired
from tests.unit.cli.fake_runtime import MemoryRuntime

AT = parse_instant("2026-03-01T05:00:00Z")
DAILY = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: daily
  path: etl/daily
  schedule: { cron: "0 6 * * *", timezone: Europe/Berlin, payload: { n: 1 } }
workflow:
  - step: start
    tool: { kind: double, value: "{{ workload.n }}" }
"""


@pytest.fixture
def registered(noetl, tmp_path):
    (tmp_path / "daily.yaml").write_text(DAILY)
    return noetl("register", "daily.yaml")


def test_registering_tells_when_it_fires(registered):
    assert registered.code == 0
    assert "etl/daily version 1  schedule etl.daily fires next at 2" in registered.out
    assert registered.out.rstrip().endswith("Z (if `noetl schedule run` or `noetl serve` is running then)")


def test_registering_without_a_schedule_takes_it_away(noetl, registered, tmp_path):
    lines = DAILY.splitlines(keepends=True)
    (tmp_path / "daily.yaml").write_text("".join(line for line in lines if "schedule:" not in line))
    (shown,) = noetl("register", "daily.yaml", "--json").json
    assert shown["schedule"] is None
    ran = noetl("schedule", "list")
    assert (ran.code, ran.out) == (0, "") and "no schedules" in ran.err


def test_list_and_show(noetl, registered):
    (one,) = noetl("schedule", "list", "--json").json
    assert (one["name"], one["path"], one["state"], one["declared"]) == (
        "etl.daily",
        "etl/daily",
        "active",
        True,
    )
    assert (one["cron"], one["timezone"], one["payload"]) == ("0 6 * * *", "Europe/Berlin", {"n": 1})
    assert parse_instant(one["next_at"]) > time.time()
    assert noetl("schedule", "show", "etl.daily", "--json").json == [one]
    header, line = noetl("schedule", "list").out.splitlines()
    assert header.split() == ["SCHEDULE", "STATE", "WHEN", "NEXT", "LAST", "PLAYBOOK", "LAST", "SKIPPED"]
    assert line.split() == [
        "etl.daily", "active", "0", "6", "*", "*", "*", "Europe/Berlin", one["next_at"], "-", "etl/daily", "-"
    ]  # fmt: skip
    shown = noetl("schedule", "show", "etl.daily").out
    assert one["next_at"] in shown and "missed moments: once; overlap: allow" in shown


@pytest.mark.parametrize(
    ("cause", "reason", "last"),
    [
        ("catch_up", "it was missed: catch_up is none", "skipped"),
        ("overlap", "overlap: execution 7\nstill runs", "skipped"),
        ("refused", "playbook_not_found: there is none", "failed"),
    ],
)
def test_list_and_show_say_which_moments_were_skipped_and_why(
    noetl, registered, database, cause, reason, last
):
    store = database.schedules
    fired = {"next_at": AT + 90_000, "execution_id": None}
    before = {"catch_up": Skipped(AT - 86_400, "it was missed before")}
    store.fired(store.get("etl.daily"), AT - 1, **fired, error="x", skipped=before)
    store.fired(store.get("etl.daily"), AT, **fired, error=reason, skipped={cause: Skipped(AT, reason)})
    _, line = noetl("schedule", "list").out.splitlines()
    shown = f"2026-03-01T05:00:00Z  {' '.join(reason.split())}"
    assert re.search(rf"  {last}  +etl/daily +{re.escape(shown)}$", line), line
    lines = [one for one in noetl("schedule", "show", "etl.daily").out.splitlines() if "skipped" in one]
    assert lines[0] == f"skipped {shown}" and len(lines) == (1 if cause == "catch_up" else 2)
    assert lines[-1].endswith("it was missed before") or cause == "catch_up"
    store.fired(store.get("etl.daily"), AT + 1, next_at=AT + 90_000, execution_id=7)
    _, line = noetl("schedule", "list").out.splitlines()
    assert re.search(rf"  7  +etl/daily +{re.escape(shown)}$", line), "it stays when a later moment started"


def test_next_tells_the_time_of_its_zone(noetl, registered):
    found = noetl("schedule", "next", "etl.daily", "-n", "3", "--json").json
    assert len(found) == 3
    assert all(one["local"][11:19] == "06:00:00" for one in found)
    assert [parse_instant(one["local"]) for one in found] == [parse_instant(one["at"]) for one in found]
    assert len(noetl("schedule", "next", "etl.daily").out.splitlines()) == 5


def test_pause_resume_delete(noetl, registered):
    assert noetl("schedule", "pause", "etl.daily", "--json").json[0]["state"] == "paused"
    assert "paused" in noetl("schedule", "next", "etl.daily").err
    assert "etl.daily is paused" in noetl("register", "daily.yaml").out
    assert noetl("schedule", "resume", "etl.daily", "--json").json[0]["state"] == "active"
    ran = noetl("schedule", "delete", "etl.daily")
    assert ran.out == "etl.daily is deleted\n" and "comes back" in ran.err


def test_moments_of_the_past_are_started_once(noetl, registered):
    days = ("--from", "2026-02-27T00:00:00Z", "--to", "2026-02-28T12:00:00Z")
    (planned,) = noetl("schedule", "backfill", "etl.daily", *days, "--dry-run", "--json").json
    assert [one["status"] for one in planned["moments"]] == ["pending", "pending"]
    ran = noetl("schedule", "backfill", "etl.daily", *days, "--limit", "1")
    header, line = ran.out.splitlines()
    assert ran.code == 0 and header.split() == ["MOMENT", "STATE", "EXECUTION"]
    assert line.split()[:2] == ["2026-02-27T05:00:00Z", "started"]
    assert "--from 2026-02-28T05:00:00Z" in ran.err and "noetl schedule run" in ran.err
    (rest,) = noetl("schedule", "backfill", "etl.daily", *days, "--only-missed", "--json").json
    assert [(one["at"], one["status"]) for one in rest["moments"]] == [("2026-02-28T05:00:00Z", "started")]
    assert "missed none" in noetl("schedule", "backfill", "etl.daily", *days, "--only-missed").err
    assert len(noetl("list", "--json").json) == 2


@pytest.mark.parametrize(
    ("since", "until", "said"),
    [
        ("2026-02-27", "2026-02-28T00:00:00Z", "is not a time"),
        ("2026-03-27T00:00:00Z", "2026-02-28T00:00:00Z", "from is after to"),
        ("2026-02-27T00:00:00Z", "2126-02-28T00:00:00Z", "not over yet"),
    ],
)
def test_a_range_that_is_none(noetl, registered, since, until, said):
    ran = noetl("schedule", "backfill", "etl.daily", "--from", since, "--to", until)
    assert ran.code == 2 and said in ran.err


@pytest.mark.parametrize("command", ["show", "next", "pause", "resume", "delete"])
def test_a_name_that_is_not_there(noetl, registered, command):
    ran = noetl("schedule", command, "etl.dayly")
    assert ran.code == 2 and "did you mean 'etl.daily'?" in ran.err


class Firing(MemoryRuntime):
    """Tells of three firings, runs what was started, and is interrupted a moment later."""

    def __init__(self, database, on_fired):
        super().__init__(database)
        self.on_fired = on_fired

    def __enter__(self):
        execution_id = self.start(self.catalog.get("etl/daily"), {"n": 4})
        start = Start(execution_id, "start", "")
        self.on_fired(Fired("etl.daily", AT, execution_id, start))
        self.on_fired(Fired("etl.daily", AT, execution_id))
        self.on_fired(Fired("other", AT, reason="no playbook\x1b[31m"))
        self.run_until([execution_id])
        threading.Timer(0.6, signal.raise_signal, [signal.SIGINT]).start()
        return super().__enter__()


@pytest.fixture
def interruptible():
    """What a shell starts in the background ignores interrupts, and so do the tests there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.timeout(20)
@pytest.mark.usefixtures("interruptible")
def test_run_tells_each_firing_and_each_end_until_it_is_interrupted(noetl, registered, database, monkeypatch):
    monkeypatch.setattr(
        runtime_access, "open_scheduler", lambda home, *, on_fired, on_log: Firing(database, on_fired)
    )
    ran = noetl("schedule", "run", "--json")
    assert ran.code == 130
    (info,) = database.store.executions(limit=9)
    execution_id = str(info.execution_id)
    at = {"event": "schedule.fired", "at": "2026-03-01T05:00:00Z"}
    assert ran.json == [
        {**at, "schedule": "etl.daily", "execution_id": execution_id, "error": None},
        {**at, "schedule": "etl.daily", "execution_id": execution_id, "error": None},
        {**at, "schedule": "other", "execution_id": None, "error": "no playbook\x1b[31m"},
        {"event": "execution.ended", "execution_id": execution_id, "status": "completed"},
    ]
    lines = noetl("schedule", "run").out.splitlines()
    assert lines[0] == "1 schedule; interrupt to end"
    assert lines[1].split(" ", 2)[2].lstrip().startswith("etl.daily  execution ")
    assert lines[2].split(" ", 2)[2].lstrip() == "other  not started: no playbook\\x1b[31m"
    assert lines[3].endswith(" completed")
    assert len(lines) == 4


class Continuing(MemoryRuntime):
    """Has executions of before, and runs them to their end."""

    def recover(self):
        left = super().recover()
        self.run_until(left)
        return left


def test_run_names_what_it_continues(noetl, registered, database, monkeypatch):
    ended = schedules._ended

    def interrupt_at_the_end(*args):
        ended(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(schedules, "_ended", interrupt_at_the_end)
    monkeypatch.setattr(runtime_access, "open_scheduler", lambda home, **_: Continuing(database))
    day = ("--from", "2026-02-27T00:00:00Z", "--to", "2026-02-27T23:00:00Z")
    (started,) = noetl("schedule", "backfill", "etl.daily", *day, "--json").json[0]["moments"]
    ran = noetl("schedule", "run")
    assert ran.code == 130
    assert [line.split("  ", 1)[1] for line in ran.out.splitlines()[1:]] == [
        f"etl/daily  execution {started['execution_id']} continues",
        f"etl/daily  execution {started['execution_id']} completed",
    ]
