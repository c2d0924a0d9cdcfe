"""Code that takes a mapping for a list, or a list for a mapping.

It tests the result of SQL for a list (refused since meaning 4), or reads ``results`` and ``stats`` of a loop's list (since meaning 7).
Such code takes its other branch without an error, so the playbook would complete with wrong values.
"""

from __future__ import annotations

from collections.abc import Callable

from noetl.dsl.lowering.context import Lowering
from noetl.dsl.nodes import Expr, LiteralNode, Map, Node
from noetl.dsl.program import Pipeline, Program, Step, Task
from noetl.dsl.rows_as_list import (
    NO_ROWS,
    SQL_KINDS,
    loop_summary,
    takes_for_list,
    takes_for_summary,
    whole_result,
)
from noetl.dsl.work import ResultAction


def check_rows(lowering: Lowering, program: Program) -> None:
    """Report each input whose shape is not the one that the code takes it for."""
    if lowering.semantics < 4:
        return
    steps = {step.name: task for step in program.steps if (task := _last_task(step)) is not None}
    loops = {step.name for step in program.steps if _is_list(step)} if lowering.semantics > 6 else set()
    for step in program.steps:
        if not isinstance(step.body, Pipeline):
            continue
        sources = dict(steps)
        for task in step.body.tasks:
            if task.kind == "python":
                _check_code(lowering, step, task, sources)
                _check_loops(lowering, step, task, loops - {one.label for one in step.body.tasks})
            sources[task.label] = task


def _last_task(step: Step) -> Task | None:
    """Return the task whose result is the step's; None of a loop, whose result is a list."""
    if step.loop is not None or not isinstance(step.body, Pipeline) or not step.body.tasks:
        return None
    return step.body.tasks[-1]


def _is_list(step: Step) -> bool:
    """Return whether the step's result is that of its loop."""
    replaced = any(isinstance(action, ResultAction) for rule in step.cases for action in rule.actions)
    return step.loop is not None and not replaced


Given = dict[str, tuple[Expr, str, str]]
"""Entry of an input → its expression, the step or task whose result that is, and the expression that the code wants."""


def _check_code(lowering: Lowering, step: Step, task: Task, sources: dict[str, Task]) -> None:
    given = _results(step, task, whole_result, lambda name: _gives_rows(sources.get(name)))
    for name in sorted(takes_for_list(_code(task), set(given)) if given else ()):
        node, source, rows = given[name]
        lowering.diagnostics.error(
            "rows-as-list",
            f"the code tests {name!r} for a list, and the result of {source!r} is a mapping that has `rows`",
            node.pos,
            hint=f"write {{{{ {rows} }}}}, or let the code read {name}['rows']",
        )


def _check_loops(lowering: Lowering, step: Step, task: Task, loops: set[str]) -> None:
    given = _results(step, task, loop_summary, loops.__contains__)
    for name in sorted(takes_for_summary(_code(task), set(given)) if given else ()):
        node, source, summary = given[name]
        lowering.diagnostics.error(
            "loop-as-mapping",
            f"the code reads `results` or `stats` of {name!r}, and the result of the loop {source!r} is a list",
            node.pos,
            hint=f"write {{{{ {summary} }}}}, or let the code read the list",
        )


def _results(
    step: Step,
    task: Task,
    read: Callable[[str], tuple[str, str] | None],
    fits: Callable[[str], bool],
) -> Given:
    """Return the entries of the input that are whole results.

    ``read``: takes one from an expression, with what to write instead; ``fits``: whether it is one of that name.
    """
    return {
        name: (node, *found)
        for name, node in _given(step, task).items()
        if (found := read(node.source)) is not None and fits(found[0])
    }


def _given(step: Step, task: Task) -> dict[str, Expr]:
    """Return the entries of the task's input that are one expression.

    One that passes an entry of the step's ``args`` on is that entry.
    """
    found = {}
    for name, node in _entries(task.input).items():
        if isinstance(node, Expr) and node.source.strip() in (f"args.{name}", f"args[{name!r}]"):
            node = _entries(step.args).get(name, node)
        if isinstance(node, Expr):
            found[name] = node
    return found


def _code(task: Task) -> str:
    code = _entries(task.params).get("code")
    return code.value if isinstance(code, LiteralNode) and isinstance(code.value, str) else ""


def _gives_rows(task: Task | None) -> bool:
    if task is None or task.kind not in SQL_KINDS or task.part:
        return False
    return not any(name in _entries(task.params) for name in NO_ROWS)


def _entries(node: Node | None) -> dict[str, Node]:
    if isinstance(node, Map):
        return dict(node.entries)
    if isinstance(node, LiteralNode) and isinstance(node.value, dict):
        return {str(key): LiteralNode(value) for key, value in node.value.items()}
    return {}
