"""What a call was made with and what it answered, bound to the names that rules read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from noetl.domain.errors import InvalidInputError, TaskError
from noetl.dsl.program import Node, Task
from noetl.pipeline import tracing
from noetl.pipeline.errors import error_of, located, place_of, placed
from noetl.pipeline.requests import TaskOutcome
from noetl.pipeline.run import Run
from noetl.pipeline.state import LatestOutcome
from noetl.pipeline.template_views import split_result


def rendered_input(run: Run, task: Task, node: Node) -> dict[str, Any]:
    """Render a task's ``args``/``input``.

    Raises TemplateError, or InvalidInputError when they are no mapping.
    """
    given = run.render(node)
    if not isinstance(whole := run.loaded(given), Mapping):
        wrong = InvalidInputError(
            f"the input of {task.label} must be a mapping of names to values, not {str(whole)[:60]!r}",
            code="task_input",
            hint="write input: {name: value}",
        )
        raise located(wrong, place_of(node))
    return dict(given)


def bind(run: Run, outcome: TaskOutcome) -> None:
    """Keep what came back under the names that rules read."""
    frame = run.state.frames[-1]
    task = run.sequences[-1][frame.pc]
    frame.pending = None
    _keep_fresh(run, outcome)
    run.overlay.elapsed_ms += outcome.duration_ms
    meta = with_source(outcome)
    result, envelope = None, None
    if outcome.error is None:
        try:
            result, envelope = split_result(task, outcome.result)
        except TaskError as error:
            outcome = replace(outcome, error=error_of(error, run.around.source_name))
    if outcome.error is not None:
        hidden = run.around.hide(outcome.error)
        outcome = replace(outcome, error=hidden)
        frame.last = LatestOutcome(error=placed(hidden, task, run.around.source_name), meta=meta)
    else:
        frame.last = LatestOutcome(result, envelope, None, meta)
    frame.chance = outcome.chance
    if task.nested is None:
        tracing.called(run, frame, task, outcome)
    else:
        tracing.loop_ended(run, frame, task, outcome)
    frame.phase = "judge"


def _keep_fresh(run: Run, outcome: TaskOutcome) -> None:
    """Keep the answer of a call that has a cache until its task is left."""
    depth = len(run.state.frames)
    plan = run.cache_plans.pop(depth, None)
    run.fresh.pop(depth, None)
    if plan is not None and outcome.error is None and outcome.cached is None:
        run.fresh[depth] = plan, outcome


def with_source(outcome: TaskOutcome) -> dict[str, Any]:
    """Return the ``meta`` of a call, with the call whose stored result answers it."""
    return {**outcome.meta, **({} if outcome.cached is None else {"cached": dict(outcome.cached)})}
