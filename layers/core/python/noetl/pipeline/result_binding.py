"""Binding of a successful task's result.

The run keeps the result under the task's names, its selections, and the value that ``accumulate`` gathers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.domain import codec
from noetl.domain.errors import NoetlError, TaskError
from noetl.domain.outcomes.outcomes import Outcome, Patch
from noetl.domain.patches.scope_patches import MISSING, apply_patch, deep_merge
from noetl.domain.results.manifests import growing, is_manifest
from noetl.domain.results.references import is_ref, plain_loop, select
from noetl.dsl.program import Gather, ResultSpec, SetAction, Task
from noetl.pipeline.errors import located
from noetl.pipeline.state import Frame, LatestOutcome

if TYPE_CHECKING:
    from noetl.pipeline.run import Run

PART_BYTES = 1024 * 1024
"""What ``accumulate`` gathers is put aside whenever it has grown by so much."""


def remember(run: Run, frame: Frame, task: Task, value: Any) -> None:
    """Store a result under the task's label and its alias.

    A single task of a step has no label, since no other task could read it.
    """
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


def selections(run: Run, spec: ResultSpec | None, value: Any) -> dict[str, Any]:
    """Return the parts of a result that ``select`` names; a path that leads nowhere adds none."""
    if spec is None or not spec.select:
        return {}
    if is_ref(value) and run.around.hydrate is not None:
        value = run.around.hydrate(value)
    found = {name: select(value, path) for path, name in spec.select}
    return {name: part for name, part in found.items() if part is not None}


def gather(run: Run, frame: Frame, task: Task, last: LatestOutcome) -> LatestOutcome:
    """Return ``last`` with the gathered value as its result.

    Raises TaskError when this result does not fit those before.
    """
    rule = task.gather
    if rule is None or not last.ok:
        return last
    state = run.state
    value = last.result
    if is_ref(value) and run.around.hydrate is not None:
        value = run.around.hydrate(value)
    part = plain_loop(select(value, rule.path) if rule.path else value)
    before = state.gathered.get(task.label)
    gathered = _added(task, rule, before, part, first=task.label not in state.gathered)
    gathered = state.gathered[task.label] = _put_aside(run, task, rule, part, gathered)
    parts = state.parts.get(task.label)
    whole = growing(parts, gathered) if parts else gathered
    result = placed(task, value, rule.merge_path, whole) if rule.merge_path else whole
    remember(run, frame, task, result)
    return msgspec.structs.replace(last, result=result)


def _put_aside(run: Run, task: Task, rule: Gather, part: Any, gathered: Any) -> Any:
    """What stays in memory: nothing, when it is large enough to be a part in the result store."""
    state, label = run.state, task.label
    if rule.strategy == "replace" or run.around.part is None:
        return gathered
    weight = state.weights[label] = state.weights.get(label, 0) + len(codec.encode(part))
    if weight < PART_BYTES:
        return gathered
    state.parts.setdefault(label, []).append(run.around.part(gathered, task.result))
    state.weights[label] = 0
    return {} if rule.strategy == "merge" else []


def _added(task: Task, rule: Gather, before: Any, part: Any, *, first: bool) -> Any:
    if rule.strategy == "replace":
        return part
    if rule.strategy == "append":
        return [part] if first else [*before, part]
    wanted = list if rule.strategy == "concat" else dict
    if not isinstance(part, wanted):
        raise _misfit(task, rule, part)
    if rule.strategy == "concat":
        return [*(before or ()), *part]
    return deep_merge({} if first else before, part)


def _misfit(task: Task, rule: Gather, part: Any) -> TaskError:
    wanted = "a list" if rule.strategy == "concat" else "a mapping"
    what = f"{rule.path} of its result" if rule.path else "its result"
    return TaskError(
        f"{task.label} accumulates by {rule.strategy}, and {what} is not {wanted}",
        kind="schema",
        code="accumulate_type",
        hint="name the part with `path`, or use strategy: append",
    )


def placed(task: Task, value: Any, path: str, gathered: Any) -> Any:
    """Return a copy of ``value`` with ``gathered`` at ``path`` (names only).

    Missing mappings are made.
    """
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


def settled(run: Run, outcome: Outcome, keep: Callable[[Any, ResultSpec | None], Any]) -> Outcome:
    """Return ``outcome`` with each list that grew at a ``merge_path`` stored as one value.

    ``keep``: stores a value and returns its reference.
    """
    result, labels = outcome.result, dict(outcome.labels)
    for task in run.pipeline.tasks:
        path = task.gather.merge_path if task.gather is not None else ""
        if not path or task.label not in run.state.parts:
            continue
        for name in {task.label, task.alias} & labels.keys():
            labels[name] = _settled_at(task, labels[name], path, keep)
        result = _settled_at(task, result, path, keep)
    return msgspec.structs.replace(outcome, result=result, labels=labels)


def _settled_at(task: Task, value: Any, path: str, keep: Callable[[Any, ResultSpec | None], Any]) -> Any:
    found = select(value, path)
    return placed(task, value, path, keep(found, task.result)) if is_manifest(found) else value


def set_value(run: Run, action: SetAction) -> None:
    """Write one name of a scope, for ``set``, ``set_ctx`` and ``set_iter``."""
    value = run.render(action.value)
    try:
        _write(run, action, value)
    except NoetlError as error:
        raise located(error, action.pos) from error.__cause__


def _write(run: Run, action: SetAction, value: Any) -> None:
    if action.scope == "iter":
        patch = Patch("step", action.name, value, action.op)  # type: ignore[arg-type]
        run.state.iter[action.name] = apply_patch(run.state.iter.get(action.name, MISSING), patch)
    else:
        run.write(Patch(action.scope, action.name, value, action.op))  # type: ignore[arg-type]
