"""What is kept of a task that succeeded: its result under its names, selections of it, and what ``accumulate`` gathers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from noetl.domain.errors import TaskError
from noetl.domain.patches import deep_merge
from noetl.domain.results import is_ref, plain_loop, select
from noetl.dsl.program import Gather, ResultSpec, Task
from noetl.pipeline.state import Frame, Last

if TYPE_CHECKING:
    from noetl.pipeline.machine import PipelineRun


def remember(run: PipelineRun, frame: Frame, task: Task, value: Any) -> None:
    """Put a result under the task's label (a task that stands alone has none that anybody could ask for) and its second name."""
    if run.inside_sink():
        return
    state = run.state
    names = [task.label] if len(run.pipeline.tasks) > 1 or frame.address else []
    names += [task.alias] if task.alias else []
    chosen = selections(run, task.result, value) if names else {}
    for name in names:
        state.labels[name] = value
        if chosen:
            state.promoted[name] = chosen


def selections(run: PipelineRun, spec: ResultSpec | None, value: Any) -> dict[str, Any]:
    """The parts of a result that ``select`` names; a path that leads nowhere gives none."""
    if spec is None or not spec.select:
        return {}
    if is_ref(value) and run.around.hydrate is not None:
        value = run.around.hydrate(value)
    found = {name: select(value, path) for path, name in spec.select}
    return {name: part for name, part in found.items() if part is not None}


def gather(run: PipelineRun, frame: Frame, task: Task, last: Last) -> Last:
    """``last`` with the gathered value as its result. Raises TaskError when this result does not fit those before."""
    wish = task.gather
    if wish is None or not last.ok:
        return last
    state = run.state
    value = last.result
    if is_ref(value) and run.around.hydrate is not None:
        value = run.around.hydrate(value)
    part = plain_loop(select(value, wish.path) if wish.path else value)
    before = state.gathered.get(task.label)
    gathered = _added(task, wish, before, part, first=task.label not in state.gathered)
    state.gathered[task.label] = gathered
    result = _placed(task, value, wish.merge_path, gathered) if wish.merge_path else gathered
    remember(run, frame, task, result)
    return msgspec.structs.replace(last, result=result)


def _added(task: Task, wish: Gather, before: Any, part: Any, *, first: bool) -> Any:
    if wish.strategy == "replace":
        return part
    if wish.strategy == "append":
        return [part] if first else [*before, part]
    wanted = list if wish.strategy == "concat" else dict
    if not isinstance(part, wanted):
        raise _misfit(task, wish, part)
    if wish.strategy == "concat":
        return [*(before or ()), *part]
    return deep_merge({} if first else before, part)


def _misfit(task: Task, wish: Gather, part: Any) -> TaskError:
    wanted = "a list" if wish.strategy == "concat" else "a mapping"
    what = f"{wish.path} of its result" if wish.path else "its result"
    return TaskError(
        f"{task.label} accumulates by {wish.strategy}, and {what} is not {wanted}",
        kind="schema",
        code="accumulate_type",
        hint="name the part with `path`, or use strategy: append",
    )


def _placed(task: Task, value: Any, path: str, gathered: Any) -> Any:
    """``value`` with ``gathered`` at ``path`` (names only), copied on the way; mappings that are missing are made."""
    names = path.removeprefix("$").strip(".").split(".")
    if not isinstance(value, dict):
        raise TaskError(
            f"{task.label} accumulates into {path}, and its result is not a mapping",
            kind="schema",
            code="accumulate_type",
            hint="remove `merge_path`: the gathered value is the result then",
        )
    made = here = dict(value)
    for name in names[:-1]:
        inner = here.get(name)
        here[name] = dict(inner) if isinstance(inner, dict) else {}
        here = here[name]
    here[names[-1]] = gathered
    return made
