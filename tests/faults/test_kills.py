"""Processes are killed, the database is killed, two processes meet: whatever was accepted comes to its undisturbed end.

``NOETL_SOAK_KILLS=500`` runs a fifth as many rounds here (the rest is in ``test_shapes``); a round that fails is run again by ``-k`` with
its number.
"""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress

import pytest

from tests.faults.disturbing import kill_sometime, suicide
from tests.faults.ground import Ground
from tests.faults.stock import workloads
from tests.parts import repeated

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
ROUNDS = max(repeated(gate=1, full=3), int(os.environ.get("NOETL_SOAK_KILLS", "0")) // 5)
OUTAGES = max(2, ROUNDS // 10)


def picked(rng: random.Random, most: int = 6) -> list[str]:
    return rng.choices(sorted(workloads()), k=rng.randint(2, most))


@pytest.mark.soak("kills of processes")
@pytest.mark.parametrize("number", range(ROUNDS))
def test_what_was_killed_goes_on_in_another_process(ground: Ground, number: int) -> None:
    rng = random.Random(f"kill {number}")
    paths = picked(rng)
    running = ground.begin(paths, seed=number, inline_limit=rng.choice((1024, 32_768)), **suicide(rng))
    kill_sometime(running, rng)
    for _ in range(rng.choice((0, 0, 1, 2))):
        kill_sometime(ground.run(seed=number, **suicide(rng)), rng)
    ground.resume(seed=number)
    ground.judge(paths, running.started)


@pytest.mark.full
def test_slots_of_the_killed_are_free_again(ground: Ground) -> None:
    rng = random.Random("slots")
    paths = [
        "properties/limited",
        "properties/alone",
        "properties/alone",
        "properties/limited",
        "properties/alone",
    ]
    running = ground.begin(paths, seed=7)
    kill_sometime(running, rng)
    kill_sometime(ground.run(seed=8, port="commit", call=9, after=True), rng)
    ground.resume(seed=9)
    ground.judge(paths, running.started)


@pytest.mark.full
@pytest.mark.soak("stops of the database")
@pytest.mark.parametrize("number", range(OUTAGES))
def test_a_process_outlives_the_crash_of_its_database(ground: Ground, number: int) -> None:
    """A backend dies (the server drops everybody and recovers), or the whole server is gone for a while."""
    rng = random.Random(f"outage {number}")
    paths = picked(rng)
    running = ground.begin(paths, seed=number)
    for _ in paths:
        assert running.wait_for("started"), running.errors.read_text()[-2000:]
    for _ in range(rng.randint(1, 2)):
        time.sleep(rng.random() * 0.5)
        if number % 2:
            ground.stop_at_once()
            time.sleep(rng.random())
            ground.start_again()
        else:
            kill_a_backend(ground, rng)
    running.check_end()
    ground.resume()
    ground.judge(paths, running.started)


def kill_a_backend(ground: Ground, rng: random.Random) -> None:
    backends = ground.backends()
    if backends:
        with suppress(ProcessLookupError):
            os.kill(rng.choice(backends), signal.SIGKILL)
            ground.counts["database stops"] += 1
        ground.wait_until_up()


@pytest.mark.full
@pytest.mark.parametrize("killed", [False, True])
def test_two_processes_share_a_database(ground: Ground, killed: bool) -> None:
    rng = random.Random(f"two {killed}")
    paths, others = picked(rng), picked(rng)
    one, two = ground.begin(paths, seed=1), ground.begin(others, seed=2)
    if killed:
        kill_sometime(one, rng)
    for running in (one, two):
        if killed and running is one:
            running.finish()
        else:
            running.check_end()
    ground.resume()
    told = [(running.started, names) for running, names in ((one, paths), (two, others))]
    ground.judge(
        [name for started, names in told for name, _ in zip(names, started, strict=False)],
        [root for started, _ in told for root in started],
    )
