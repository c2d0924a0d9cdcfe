"""Executions that meet each other, while processes and the database are killed: all of it comes to its undisturbed end.

Large families with loops of their own, concurrent runs of one step, joins of case routes, compensations, queued children, hostile texts;
and clients that pause, resume, cancel and redrive meanwhile. ``NOETL_SOAK_KILLS=500`` and ``NOETL_SOAK_STOPS=50`` run as many rounds,
``NOETL_FIRST_ROUND`` is the first of them; a round that fails is run again by ``-k`` with its number.
"""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from tests.faults.disturbing import kill_sometime, suicide
from tests.faults.ground import Ground
from tests.faults.stock import LINGERING, WIDE, shapes, texts
from tests.parts import repeated

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
FIRST = int(os.environ.get("NOETL_FIRST_ROUND", "0"))
ROUNDS = int(os.environ.get("NOETL_SOAK_KILLS", repeated(gate=1, full=2)))
STOPS = int(os.environ.get("NOETL_SOAK_STOPS", "1"))
CONTROLS = ("", "", "", "pause", "pause", "stop", "cancel", "again", "again")
"""What clients do to the first execution: nothing; pause and resume; pause and cancel; cancel; cancel, redrive and perhaps cancel."""


def drawn(rng: random.Random) -> list[str]:
    """Some shapes, with one hostile payload at most: its values are known by name."""
    large = [WIDE, *(name for name in shapes() if name.endswith(("crowd0", "crowd8", "crowd16")))]
    hostile = [name for name in shapes() if name.startswith("hostile")]
    small = sorted(shapes().keys() - {*large, *hostile})
    names = rng.choices(small, k=rng.randint(1, 2))
    if rng.random() < 0.25:
        names.append(rng.choice(large))
    if rng.random() < 0.35:
        names.append(rng.choice(hostile))
    rng.shuffle(names)
    return names


@pytest.mark.soak("kills of processes")
@pytest.mark.parametrize("number", range(FIRST, FIRST + ROUNDS))
def test_what_meets_goes_on_when_processes_are_killed(ground: Ground, number: int) -> None:
    rng = random.Random(f"shape kill {number}")
    names, control = drawn(rng), rng.choice(CONTROLS)
    if control in ("stop", "cancel") and rng.random() < 0.5:
        names[0] = LINGERING
    # The name of a lock cannot be put aside, as a hostile one would be with less.
    inline = 32_768 if any(name.startswith("hostile") for name in names) else rng.choice((1024, 32_768))
    running = ground.begin(names, seed=number, inline_limit=inline, **suicide(rng))
    kill_sometime(running, rng)
    for _ in range(rng.choice((0, 0, 1, 2))):
        both = [
            ground.run(seed=number, inline_limit=inline, **suicide(rng)) for _ in range(rng.choice((1, 1, 2)))
        ]
        for one in both:
            kill_sometime(one, rng)
    changed = control_it(ground, rng, control, running.started[:1])
    if LINGERING in names and not changed:  # Its client was never told of it, so another one ends it.
        changed = end_the_lingering(ground, rng)
    ground.resume(seed=number, inline_limit=inline)
    ground.judge(names, running.started, changed)


def control_it(ground: Ground, rng: random.Random, control: str, roots: list[int]) -> set[int]:
    """Let clients change an execution, through processes that are killed. Returns those that may end otherwise now."""
    if not control or not roots:
        return set()
    asked = {
        "pause": ["pause", "resume"],
        "stop": ["pause", "cancel"],
        "cancel": ["cancel"],
        "again": ["cancel", "redrive", *rng.choice(([], ["cancel", "redrive"]))],
    }[control]
    for place, what in enumerate(asked):
        ask(ground, rng, what, roots[0], f"{what} {place}")
    return set(roots) if control != "pause" else set()


def ask(ground: Ground, rng: random.Random, what: str, execution_id: int, unique: str) -> str:
    """Ask until it is answered. The process that asks lives a moment longer, and is killed, too."""
    answer, tries = "", 0
    while not answer:
        tries += 1
        wish = [(what, execution_id, unique)]
        running = ground.run(ask=wish, stays=True, **(suicide(rng) if tries < 3 else {}))
        answer = running.answer()
        if not answer:
            assert running.finish() == -signal.SIGKILL, running.errors.read_text()[-5000:]
    time.sleep(rng.random() * rng.choice((0.05, 0.8)))
    running.kill()
    return answer


def end_the_lingering(ground: Ground, rng: random.Random) -> set[int]:
    found = {info.execution_id for info in ground.live(LINGERING)}
    for one in found:
        ask(ground, rng, "cancel", one, "end")
    return found


@pytest.mark.soak("stops of the database")
@pytest.mark.parametrize("number", range(FIRST, FIRST + STOPS))
def test_what_meets_goes_on_when_the_database_is_killed(ground: Ground, number: int) -> None:
    """It is killed, or stopped at once, and started again: by hand, or by the processes over it."""
    rng = random.Random(f"shape stop {number}")
    names = drawn(rng)
    one = ground.begin(names, seed=number)
    for _ in names:
        assert one.wait_for("started"), one.errors.read_text()[-5000:]
    processes = [one]
    if rng.random() < 0.5:
        processes.append(ground.run(seed=number))
        assert processes[-1].wait_for("ready"), processes[-1].errors.read_text()[-5000:]
    for _ in range(rng.randint(1, 2)):
        time.sleep(rng.random() * rng.choice((0.2, 2.0)))
        how = rng.choice((signal.SIGQUIT, signal.SIGKILL))
        if rng.random() < 0.5:
            ground.stop_at_once(how)
            time.sleep(rng.random())
            ground.start_again()
        else:
            ground.kill_leader(how)
            ground.server.revive()
            ground.wait_until_up()
    for running in processes:
        running.check_end()
    ground.judge(names, one.started)


def test_the_shapes_are_there() -> None:
    """The playbooks that are drawn have what these tests are about."""
    crowds = [text for path, text in texts().items() if path.startswith("properties/crowd")]
    for sign in (
        '"join": "each"',
        '"case"',
        '"compensate"',
        "queued_leaf",
        "properties/nest",
        '"arrivals"',
        '"undoes"',
    ):
        assert sum(sign in text for text in crowds) >= 2, sign
    assert sum(name.startswith("hostile") for name in shapes()) > 5
