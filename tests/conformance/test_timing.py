"""Which of the commands that are ready ends first is nobody's choice: a case comes to the same end, with the same history, whichever it is.

A case says when that is not so, and why: ``timing_matters`` (its outcome is a race), ``timing_shows`` (only its history tells it).
A case in which work has to be done before a moment (``clock: virtual``) is played in virtual time alone: on a busy machine a real clock
would let the moment come first.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from noetl.domain.commands import Command
from noetl.testing.driver import Driver
from noetl.testing.memory import MemoryBackend
from noetl.testing.play_case import Observed
from tests.conformance.cases import Case, find_cases, play
from tests.conformance.test_conformance import check_flow, check_laws, check_outcome
from tests.parts import parted, repeated, sampled

SEEDS = repeated(gate=4, full=20)
MARGIN = 60.0
"""Seconds by which work on a real clock may be late."""
MEASURED = {
    "budget/time": "the time of a budget is over between two steps, with no moment set for it",
    "cache/time-is-over": "a cached result is too old at the next call, with no moment set for it",
}
"""Cases that need a virtual clock, though no work of theirs races a moment."""
CASES = {case.name: case for case in find_cases()}


class Shuffle:
    """Picks any of the ready commands. ``chosen``: there was one to choose."""

    def __init__(self, seed: str) -> None:
        self.chance = random.Random(seed)
        self.chosen = False

    def __call__(self, ready: Sequence[Command]) -> int:
        self.chosen = self.chosen or len(ready) > 1
        return self.chance.randrange(len(ready))


class Margins:
    """Watches a driver: ``least`` is the shortest time from any work to the next moment that had been set by then."""

    def __init__(self, case: Case) -> None:
        self.moments = [one["at"] for one in case.spec.get("happenings", ()) if "at" in one]
        self.least = math.inf

    def look(self, driver: Driver) -> None:
        now = driver.time.now()
        wait = driver._due_timers()
        moments = [moment for moment, _, command in driver.delayed if driver.is_open(command)]
        moments += [*self.moments, *(moment for moment, _, _ in driver.under_way)]
        moments += [] if wait is None else [now + wait]
        self.least = min([self.least, *(moment - now for moment in moments if moment - now > 1e-6)])


@pytest.fixture
def margins(monkeypatch: pytest.MonkeyPatch, name: str) -> Margins:
    found, tick = Margins(CASES[name]), Driver.tick

    def watched(driver: Driver) -> None:
        found.look(driver)
        tick(driver)

    monkeypatch.setattr(Driver, "tick", watched)
    return found


@pytest.mark.parametrize("name", parted(CASES, sampled(CASES)))
def test_the_order_in_which_commands_end_changes_nothing(name: str, worker, margins: Margins) -> None:
    """With several seeds; a case in which no two commands are ever ready has one order, which is played twice."""
    case = CASES[name]
    first: tuple[Any, ...] | None = None
    for seed in range(SEEDS):
        backend, pick = MemoryBackend(), Shuffle(f"{name}/{seed}")
        seen = play(case, backend, worker, pick)
        check_laws(seen, backend, case)
        if "timing_matters" not in case.spec:
            check_outcome(seen, case.expect)
            found = end_of(seen, case)
            first = first or found
            assert found == first, f"seed {seed} differs from seed 0"
        if "timing_shows" not in case.spec and "timing_matters" not in case.spec:
            check_flow(seen, case.expect, backend.tolerance)
        if seed and not pick.chosen:
            break
    races = margins.least < MARGIN or name in MEASURED
    assert races == (case.spec.get("clock") == "virtual"), f"work {margins.least} s before a moment"


def end_of(seen: Observed, case: Case) -> tuple[Any, ...]:
    """What may not differ."""
    history = None if "timing_shows" in case.spec else seen.histories
    return (seen.status, seen.result, code_of(seen.error), seen.ctx, seen.vars, seen.elapsed, history)


def code_of(error: Any) -> Any:
    return None if error is None else (error.get("kind"), error.get("code"), error.get("step"))


def test_cases_whose_timing_matters_say_why() -> None:
    told = {
        name: case.spec[key]
        for name, case in CASES.items()
        for key in ("timing_matters", "timing_shows")
        if key in case.spec
    }
    assert all(isinstance(why, str) and len(why) > 20 for why in told.values()), told
    assert len(told) <= 0.12 * len(CASES)
