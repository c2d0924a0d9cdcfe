"""What a redrive would run, decided as the engine decides it; nothing is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from noetl.domain.events import Redrive
from noetl.domain.facts.facts import Arrival
from noetl.domain.loop_resume import FAILED
from noetl.domain.state import ExecutionState
from noetl.dsl.program import Program, Step, step_index
from noetl.engine.redriving import arrivals_of

Action = Literal["run", "join", "leave"]


class StepAgain(msgspec.Struct, frozen=True):
    """A step that a redrive begins with.

    ``action``: ``run``; ``join`` (it waits at its join again, and runs when the rest has come), or ``leave`` (with the output that was
    given, without running). ``items`` of its loop: ``all``, ``failed`` (those that failed or never ran), or the index of one, which runs
    with those that never ran; null without a loop. ``count``: how many runs of the step begin so.
    """

    step: str
    action: Action
    items: str | None
    count: int


class RedrivePreview(msgspec.Struct, frozen=True):
    """What a redrive would run.

    ``begins``: the steps that it begins with. ``follows``: the steps that the playbook leads to from there, in its order; which of them run
    is decided when they are reached. ``kept``: its other steps, which run no more.
    """

    execution_id: str
    begins: list[StepAgain]
    follows: list[str]
    kept: list[str]


def preview(program: Program, state: ExecutionState, event: Redrive) -> RedrivePreview:
    """Say what ``event`` would run of ``program`` in an execution that has ended in ``state``."""
    steps = step_index(program)
    arrivals = arrivals_of(program, state, event, lambda run: {})
    found = Counter((one.step, _action(event, one), _items(steps[one.step], one)) for one in arrivals)
    begins = [StepAgain(*what, count) for what, count in found.items()]
    first = {one.step for one in begins}
    after = _reached(steps, first) | set(program.last_steps)
    names = [one.name for one in program.steps]
    return RedrivePreview(
        str(event.execution_id),
        begins,
        [name for name in names if name in after - first],
        [name for name in names if name not in after | first],
    )


def _action(event: Redrive, arrival: Arrival) -> Action:
    if event.with_output:
        return "leave"
    return "join" if arrival.sync else "run"


def _items(step: Step, arrival: Arrival) -> str | None:
    if step.loop is None:
        return None
    if arrival.again is None:
        return "all"
    return "failed" if arrival.again.item == FAILED else str(arrival.again.item)


def _reached(steps: dict[str, Step], begin: Iterable[str]) -> set[str]:
    """Find the steps that arcs and routes lead to from some, and from those, and so on."""
    found: set[str] = set()
    left = list(begin)
    while left:
        for target in _targets(steps[left.pop()]):
            if target in steps and target not in found:
                found.add(target)
                left.append(target)
    return found


def _targets(step: Step) -> Iterator[str]:
    yield from (arc.target for arc in step.arcs)
    yield from (route.target for route in step.routes)
