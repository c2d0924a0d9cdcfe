"""A real server process under load, while its database goes away and comes back. ``make load`` is the long version."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.load.clients import Asked, Load
from tests.bench.load.run import UNREACHABLE, Plan, compare, drive
from tests.bench.load.served import Served
from tests.notes import NOTES

pytestmark = pytest.mark.postgres


@pytest.fixture
def home() -> Iterator[Path]:
    """In memory where there is room: what is tested is that processes die, not that disks keep."""
    memory = Path("/dev/shm")
    room = memory.is_dir() and shutil.disk_usage(memory).free > 2**30
    with tempfile.TemporaryDirectory(
        prefix="noetl-load-", dir=memory if room else None, ignore_cleanup_errors=True
    ) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.full
def test_clients_lose_nothing_while_the_database_is_stopped_and_started(home):
    plan = Plan(clients=100, seconds=2.0, accepted=50, outages=2, down=(0.3, 0.6), settle=0.5, patience=30.0)
    with Served(home) as served:
        found = asyncio.run(drive(served, plan))
    assert found["wrong"] == []
    assert found["starts_accepted"] >= 50, found
    assert found["problems"].get(UNREACHABLE, 0) > 0, "no client met an outage"
    assert found["memory"]["after"]["threads"] < 100
    log = (home / "serve.log").read_text()
    assert "Traceback" not in log, log
    NOTES.append(
        f"load: {found['requests_per_s']} requests/s, {found['starts_per_s']} starts/s with two outages"
    )


def test_what_was_lost_or_made_twice_is_found():
    load = Load("127.0.0.1", 1, "", 0.0)
    load.asked = [
        Asked("fine", "k", {"1"}, 2),
        Asked("doubt", "", set(), 1),
        Asked("lost", "", {"2"}, 1),
        Asked("twice", "k", {"3"}, 2),
        Asked("other", "k", {"5", "6"}, 2),
    ]
    marks = {"fine": ["1"], "doubt": ["9"], "twice": ["3", "4"], "other": ["5", "6"], "nobody": ["7"]}
    told = compare(load, marks)
    assert [line.split(" ")[0] for line in told] == ["lost", "twice", "other", "nobody"]
