"""Outages of the local database of one second to two minutes, under executions of every shape: all of it comes to its undisturbed end.

Nobody restarts a process meanwhile, and nobody asks for anything afterwards (``tests/outages.py`` says how many there are, and how long).
"""

from __future__ import annotations

import random
import signal
import time

import pytest

from tests import outages
from tests.faults.ground import Ground
from tests.faults.test_shapes import drawn
from tests.waiting import PATIENCE

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.timeout(round(4 * PATIENCE + outages.MOST)),
]


@pytest.mark.full
@pytest.mark.soak("outages on one machine")
@pytest.mark.parametrize("number", outages.NUMBERS)
def test_executions_go_on_by_themselves_when_the_database_was_away(ground: Ground, number: int) -> None:
    rng = random.Random(f"local outage {number}")
    names, away = drawn(rng), outages.seconds(rng)
    how = rng.choice((signal.SIGINT, signal.SIGQUIT, signal.SIGKILL))
    processes = [ground.begin(names, seed=number, timeout=PATIENCE + away)]
    for _ in names:
        assert processes[0].wait_for("started"), processes[0].errors.read_text()[-5000:]
    if rng.random() < 0.5:
        processes.append(ground.run(seed=number, timeout=PATIENCE + away))
        assert processes[1].wait_for("ready"), processes[1].errors.read_text()[-5000:]
    time.sleep(rng.random() * 0.5)
    ground.stop_at_once(how)
    time.sleep(away)
    ground.start_again()
    for running in processes:
        running.check_end()
    ground.judge(names, processes[0].started)
    print(f"outage {number}: {how.name}, {away:.1f} s, {len(processes)} processes, {', '.join(names)}")
