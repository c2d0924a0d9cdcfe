"""What happens around the tasks of a run: ``vars`` before and after, sinks, and the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from noetl.domain.outcomes.outcomes import Patch
from noetl.pipeline import rules
from noetl.pipeline.requests import Finish, Op

if TYPE_CHECKING:
    from noetl.pipeline.run import Run


def _before(run: Run) -> Op | None:
    item = run.item
    if item is not None and item.variables:
        step = run.around.step
        values = {"index": item.index, "item": item.value, "count": item.index + 1, "total": item.total}
        for name, value in values.items():
            run.write(Patch("vars", f"{step}_{name}", value))
    for name, node in run.pipeline.vars_before:
        run.write(Patch("vars", name, run.render(node)))
    run.start_tasks()
    return None


def _vars(run: Run) -> Op | None:
    state = run.state
    if not _succeeded(run):
        state.stage = "after"
        return None
    if run.pipeline.vars:
        run.evaluate_block()
        for patch in state.block:
            run.write(patch)
        state.block, run.block = [], {}
    state.stage = "sinks"
    return None


def _succeeded(run: Run) -> bool:
    """Return whether the run has a result.

    A failed call that ``next`` answered has none, unless a ``result`` action set one.
    """
    state = run.state
    return not state.skipped and (state.pinned or state.last is None or state.last.ok)


def _sinks(run: Run) -> Op | None:
    state, sinks = run.state, run.pipeline.sinks
    while state.sink < len(sinks):
        address = ["step-sink", state.sink]
        state.sink += 1
        if rules.start_sink(run, address):
            return None
    state.stage = "after"
    return None


def _after(run: Run) -> Op | None:
    for name, node in run.pipeline.vars_after:
        run.write(Patch("vars", name, run.render(node)))
    run.state.stage = "done"
    return None


def _done(run: Run) -> Op:
    return Finish(run.outcome())


STAGES: dict[str, Callable[[Run], Op | None]] = {
    "before": _before,
    "vars": _vars,
    "sinks": _sinks,
    "after": _after,
    "done": _done,
}
