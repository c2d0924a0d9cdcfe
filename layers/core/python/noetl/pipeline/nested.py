"""A loop inside one run: the kind ``iterator`` as a task.

Its tasks run for one element after the other, as a sequence of their own above the frame of the iterator's task. What belongs to one
iteration (``set_iter``, labels, gathered results) is put aside while the iterations inside it run. The list that comes of it is bound like
the answer of a call, so the task's own rules, retries and labels are those of any task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.domain.errors import NoetlError, TaskError
from noetl.domain.outcomes.outcomes import ErrorInfo
from noetl.domain.results.paged_list import PartedList
from noetl.domain.results.references import is_ref, plain_loop
from noetl.dsl.program import Nested, Task
from noetl.pipeline import call_result, scope, tracing
from noetl.pipeline.errors import error_of
from noetl.pipeline.requests import TaskOutcome
from noetl.pipeline.state import EACH, Frame, Level, Local, State
from noetl.pipeline.surroundings import Item

if TYPE_CHECKING:
    from noetl.pipeline.run import Run

_LOCAL = Local.__struct_fields__


def begin(run: Run, frame: Frame, task: Task) -> None:
    """Begin a nested loop, in the place of a call.

    A failure before the first iteration is the task's error.
    """
    nested = _nested(task)
    frame.input = None
    tracing.release(run.state)
    run.state.trace.append(tracing.loop_fact(run, frame, task, "task.started", "in_progress"))
    try:
        if task.input is not None:
            frame.input = call_result.rendered_input(run, task, task.input)
        given = run.render(nested.collection)
        elements = _elements(run, task, given)
        _check_limit(run, task, nested)
    except NoetlError as error:
        call_result.bind(run, TaskOutcome(error=error_of(error, run.around.source_name)))
        return
    if not elements:
        call_result.bind(run, TaskOutcome(loop_value([], 0)))
        return
    frame.phase = "wait"
    state = run.state
    state.levels.append(Level(given if is_ref(given) else elements, outer=_take_local(state)))
    run.levels.elements.append(elements)
    _iterate(run, nested)


def loop_value(results: list[Any], failed: int) -> dict[str, Any]:
    """Return a loop's result: a list by index, with ``.count``, ``.failed`` and ``.results``."""
    return {"kind": "loop_result", "results": results, "count": len(results), "failed": failed}


def over(run: Run) -> None:
    """Keep the result of an iteration whose tasks are done, and begin the next one."""
    level = run.state.levels[-1]
    level.results.append(run.around.keep(plain_loop(run.state.result)))
    _next(run, level)


def skip(run: Run) -> bool:
    """End the current iteration without a result. Return False when no nested loop is open."""
    if _unwound(run) is None:
        return False
    state = run.state
    if not state.pinned:
        state.result = None
    state.message = None
    over(run)
    return True


def clear(run: Run) -> None:
    """Close every loop: the run's tasks are over."""
    while run.state.levels:
        _close(run)


def catch(run: Run, error: ErrorInfo) -> bool:
    """Fail the current iteration instead of the run; False when no nested loop is open."""
    level = _unwound(run)
    if level is None:
        return False
    frame = run.state.frames[-1]
    task = run.sequences[-1][frame.pc]
    level.failed += 1
    if _nested(task).failure == "best_effort":
        level.results.append({"error": msgspec.structs.asdict(error)})
        _next(run, level)
        return True
    where = [level.index, *error.details.get("iteration", ())]
    _close(run)
    call_result.bind(
        run,
        TaskOutcome(error=msgspec.structs.replace(error, details={**error.details, "iteration": where})),
    )
    return True


def _unwound(run: Run) -> Level | None:
    """Leave the current iteration with its frames; return its level, None outside a loop."""
    state = run.state
    place = next((n for n in reversed(range(len(state.frames))) if state.frames[n].address == EACH), None)
    if place is None:
        return None
    del state.frames[place:], run.sequences[place:]
    return state.levels[-1]


def restore(run: Run) -> None:
    """Restore the nested loops of a resumed run: their lists and current iterations.

    Raises LookupError when they do not fit the run's frames.
    """
    state = run.state
    owners = [n - 1 for n, frame in enumerate(state.frames) if frame.address == EACH]
    if len(owners) != len(state.levels) or -1 in owners:
        raise LookupError("levels")
    for level, owner in zip(state.levels, owners, strict=True):
        nested = _nested(run.sequences[owner][state.frames[owner].pc])
        run.levels.elements.append(_loaded(run, level.items))
        run.levels.items.append(_item(run, nested, level))


def key(run: Run, task: Task) -> str:
    """Return the task's part of the idempotency key.

    ``books[2]/fetch#2`` is the second visit of ``fetch`` in iteration 2 of ``books``.
    """
    state, parts = run.state, []
    owners = [n - 1 for n, frame in enumerate(state.frames) if frame.address == EACH] if state.levels else []
    for level, owner in zip(state.levels, owners, strict=True):
        label = run.sequences[owner][state.frames[owner].pc].label
        parts.append(f"{_visited(label, level.outer.visits)}[{level.index}]")
    return "/".join([*parts, _visited(task.label, state.visits)])


def _visited(label: str, visits: dict[str, int]) -> str:
    visit = visits.get(label, 1)
    return label if visit == 1 else f"{label}#{visit}"


# --- iterations ---


def _iterate(run: Run, nested: Nested) -> None:
    """Begin the iteration at the level's index, with nothing of the one before."""
    _put_local(run.state, Local())
    level = run.state.levels[-1]
    del run.levels.items[len(run.state.levels) - 1 :]
    run.levels.items.append(_item(run, nested, level))
    run.push(list(EACH))


def _item(run: Run, nested: Nested, level: Level) -> Item:
    elements = run.levels.elements[len(run.levels.items)]
    parent = scope.iteration(run.here, level.outer.iter)
    return Item(level.index, elements[level.index], nested.iterator, len(elements), parent)


def _next(run: Run, level: Level) -> None:
    level.index += 1
    frame = run.state.frames[-1]
    if level.index < len(run.levels.elements[-1]):
        _iterate(run, _nested(run.sequences[-1][frame.pc]))
        return
    value = loop_value(level.results, level.failed)
    _close(run)
    call_result.bind(run, TaskOutcome(value))


def _close(run: Run) -> None:
    level = run.state.levels.pop()
    run.levels.elements.pop()
    run.levels.items.pop()
    _put_local(run.state, level.outer)


def _take_local(state: State) -> Local:
    return Local(**{name: getattr(state, name) for name in _LOCAL})


def _put_local(state: State, local: Local) -> None:
    for name in _LOCAL:
        setattr(state, name, getattr(local, name))


def _nested(task: Task) -> Nested:
    if task.nested is None:
        raise LookupError(task.label)
    return task.nested


# --- the list ---


def _elements(run: Run, task: Task, given: Any) -> Sequence[Any]:
    """Return the list to iterate over.

    Raises TaskError for anything else; a text is never one silent iteration.
    """
    found = _loaded(run, given)
    if isinstance(found, (list, PartedList)):
        return found
    shown = repr(found)
    raise TaskError(
        f"the collection of {task.label} is not a list: {shown if len(shown) <= 80 else shown[:79] + '…'}",
        kind="schema",
        code="template_type",
        hint="give a list; a mapping needs `| list` or `.items()`",
    )


def _loaded(run: Run, given: Any) -> Any:
    """Return a value's list: a large result read, a row set's rows, a loop result's list."""
    found = given
    if is_ref(given) and run.around.hydrate is not None:
        found = getattr(run.around.hydrate, "lazily", run.around.hydrate)(given)
    if isinstance(found, dict) and isinstance(found.get("rows"), list) and "row_count" in found:
        return found["rows"]
    return plain_loop(found)


def _check_limit(run: Run, task: Task, nested: Nested) -> None:
    if nested.max_in_flight is None:
        return
    wanted = run.render(nested.max_in_flight)
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1:
        raise TaskError(
            f"max_in_flight of {task.label} must be a whole number of at least 1, not {wanted!r}",
            kind="schema",
            code="template_type",
        )
