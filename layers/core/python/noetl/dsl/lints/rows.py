"""Code that would see a mapping where it tests for a list of rows.

Such code takes its other branch without an error, so the playbook would complete with wrong values. Since meaning 4 it is refused.
"""

from __future__ import annotations

from noetl.dsl.lowering.context import Lowering
from noetl.dsl.nodes import Expr, LiteralNode, Map, Node
from noetl.dsl.program import Pipeline, Program, Step, Task
from noetl.dsl.rows_as_list import NO_ROWS, SQL_KINDS, takes_for_list, whole_result


def check_rows(lowering: Lowering, program: Program) -> None:
    """Report each input that the code takes for a list, and that is the whole result of SQL."""
    if lowering.semantics < 4:
        return
    steps = {step.name: task for step in program.steps if (task := _last_task(step)) is not None}
    for step in program.steps:
        if not isinstance(step.body, Pipeline):
            continue
        sources = dict(steps)
        for task in step.body.tasks:
            if task.kind == "python":
                _check_code(lowering, step, task, sources)
            sources[task.label] = task


def _last_task(step: Step) -> Task | None:
    """Return the task whose result is the step's; None of a loop, whose result is a list."""
    if step.loop is not None or not isinstance(step.body, Pipeline) or not step.body.tasks:
        return None
    return step.body.tasks[-1]


def _check_code(lowering: Lowering, step: Step, task: Task, sources: dict[str, Task]) -> None:
    code = _entries(task.params).get("code")
    given: dict[str, tuple[Expr, str, str]] = {}
    for name, node in _entries(task.input).items():
        if isinstance(node, Expr) and node.source.strip() in (f"args.{name}", f"args[{name!r}]"):
            node = _entries(step.args).get(name, node)
        found = whole_result(node.source) if isinstance(node, Expr) else None
        if found is not None and isinstance(node, Expr) and _gives_rows(sources.get(found[0])):
            given[name] = (node, *found)
    if not given or not isinstance(code, LiteralNode) or not isinstance(code.value, str):
        return
    for name in sorted(takes_for_list(code.value, set(given))):
        node, source, rows = given[name]
        lowering.diagnostics.error(
            "rows-as-list",
            f"the code tests {name!r} for a list, and the result of {source!r} is a mapping that has `rows`",
            node.pos,
            hint=f"write {{{{ {rows} }}}}, or let the code read {name}['rows']",
        )


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
