"""Which of the commands that are ready ends first is nobody's choice: a case comes to the same end, with the same history, whichever it is.

A case says when that is not so, and why: ``timing_matters`` (its outcome is a race), ``timing_shows`` (only its history tells it).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from noetl.domain.commands import Command
from noetl.testing.memory import MemoryBackend
from noetl.testing.playing import Observed
from tests.conformance.cases import Case, find_cases, play
from tests.conformance.test_conformance import check_flow, check_laws, check_outcome

SEEDS = 20
CASES = {case.name: case for case in find_cases()}


class Shuffle:
    """Picks any of the ready commands. ``chosen``: there was one to choose."""

    def __init__(self, seed: str) -> None:
        self.chance = random.Random(seed)
        self.chosen = False

    def __call__(self, ready: Sequence[Command]) -> int:
        self.chosen = self.chosen or len(ready) > 1
        return self.chance.randrange(len(ready))


@pytest.mark.parametrize("name", CASES)
def test_the_order_in_which_commands_end_changes_nothing(name: str, worker) -> None:
    """With twenty seeds; a case in which no two commands are ever ready has one order, which is played twice."""
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
            return


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
