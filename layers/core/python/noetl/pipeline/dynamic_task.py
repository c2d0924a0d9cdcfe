"""Workbook tasks whose name is computed: found at the call, and put in the call's place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noetl.domain.errors import TaskError
from noetl.dsl.program import Task
from noetl.pipeline.state import Frame

if TYPE_CHECKING:
    from noetl.pipeline.run import Run


def choose(run: Run, frame: Frame, task: Task) -> Task:
    """Choose the task to run.

    Raises TemplateError, or TaskError(code="unknown_task") that names the tasks there are.
    """
    if task.choose is None or frame.variant:
        return task
    name: Any = run.render(task.choose)
    names = [known for known, _ in task.choices]
    if name not in names:
        raise TaskError(
            f"the workbook has no task {name if isinstance(name, str) else repr(name)[:60]!r}"[:200],
            kind="schema",
            code="unknown_task",
            hint=f"tasks: {', '.join(names) or 'none'}"[:500],
        )
    frame.variant = name
    return put(run, frame)


def put(run: Run, frame: Frame) -> Task:
    """Put the chosen task into the sequence of the top frame.

    Raises LookupError when the program has no such task.
    """
    tasks = run.sequences[-1]
    chosen = dict(tasks[frame.pc].choices)[frame.variant]
    run.sequences[-1] = (*tasks[: frame.pc], chosen, *tasks[frame.pc + 1 :])
    return chosen


def leave(run: Run, frame: Frame) -> None:
    """Leave the chosen task: its place in the sequence is a call again."""
    if not frame.variant:
        return
    frame.variant = ""
    run.sequences.pop()
    run.state.frames.pop()
    run.push(frame.address)
    run.state.frames[-1] = frame
