"""Code that takes a result for one of another shape.

It tests the result of SQL for a list (refused since meaning 4), reads ``results`` and ``stats`` of a loop's list (since meaning 7), or
``data`` of SQL and ``status`` of an HTTP answer, which neither has (since meaning 9).
Such code takes its other branch without an error, so the playbook would complete with wrong values.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from noetl.dsl.lowering.context import Lowering
from noetl.dsl.nodes import Expr, LiteralNode, Map, Node, Pos
from noetl.dsl.program import Pipeline, Program, Step, Task
from noetl.dsl.rows_as_list import (
    NO_ROWS,
    SQL_KINDS,
    loop_summary,
    takes_for_list,
    takes_for_summary,
    whole_result,
)
from noetl.dsl.shapes_in_code import Reading, data_of_sql, status_words
from noetl.dsl.work import ResultAction

_RESULTS = re.compile(r"(\w+)\.results?")
"""The result of a loop by its other names."""


def check_rows(lowering: Lowering, program: Program) -> None:
    """Report each input whose shape is not the one that the code takes it for."""
    if lowering.semantics < 4:
        return
    steps = {step.name: task for step in program.steps if (task := _last_task(step)) is not None}
    loops = {step.name for step in program.steps if _is_list(step)} if lowering.semantics > 6 else set()
    answers = {step.name for step in program.steps if _is_list(step) and _is_answer(_single(step))}
    for step in program.steps:
        if not isinstance(step.body, Pipeline):
            continue
        sources = dict(steps)
        for task in step.body.tasks:
            if task.kind == "python" and lowering.semantics > 8:
                _check_envelopes(lowering, step, task, sources, answers)
            if task.kind == "python":
                _check_code(lowering, step, task, sources)
                _check_loops(lowering, step, task, loops - {one.label for one in step.body.tasks})
            sources[task.label] = task


def _last_task(step: Step) -> Task | None:
    """Return the task whose result is the step's; None of a loop, whose result is a list."""
    return None if step.loop is not None else _single(step)


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


def _check_envelopes(
    lowering: Lowering, step: Step, task: Task, sources: dict[str, Task], answers: set[str]
) -> None:
    """Report entries of envelopes of other releases.

    ``answers``: loops whose result is a list of HTTP answers.
    """
    code, own = _code(task), _entries(task.input).keys() | lowering.names.workload
    given = {name: found for name, node in _given(step, task).items() if (found := _source_of(node.source))}
    rows = {name for name, source in sources.items() if _gives_rows(source)}
    for one in data_of_sql(code, _only(given, rows), rows - own):
        lowering.diagnostics.error(
            "data-of-sql",
            f"the code reads `data` of the result of {one.source!r}, which has `rows` and no `data`",
            _place(task, one),
            hint="leave `data` out: `rows` and `command_0` are entries of the result itself",
        )
    calls = answers | {name for name, source in sources.items() if _is_answer(source)}
    for one in status_words(code, _only(given, calls), calls - own, answers):
        lowering.diagnostics.error(
            "unknown-status",
            f"an HTTP answer of {one.source!r} has no `status`, so no word is equal to it",
            _place(task, one),
            hint="compare its `status_code` with a number; a call that failed has no answer",
        )


def _source_of(expression: str) -> str:
    """Return the step or task whose result an expression is."""
    found = whole_result(expression)
    return found[0] if found else _of_loop(expression)


def _of_loop(expression: str) -> str:
    found = _RESULTS.fullmatch(expression.strip())
    return found[1] if found else ""


def _only(given: dict[str, str], sources: set[str]) -> dict[str, str]:
    return {name: source for name, source in given.items() if source in sources}


def _place(task: Task, at: Reading) -> Pos:
    """Return the place in the playbook of a place in code."""
    start = task.code_pos
    if not start.line or not task.code_lines:
        return start if start.line else task.pos
    return Pos(start.line + at.line - 1, start.column + at.column - 1)


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


def _is_answer(task: Task | None) -> bool:
    """Return whether the result of a task is a whole HTTP answer."""
    if task is None or task.kind != "http" or task.form != "canonical" or task.part:
        return False
    return not any(name in _entries(task.params) for name in ("stream", "save"))


def _single(step: Step) -> Task | None:
    """Return the last task of a step."""
    return step.body.tasks[-1] if isinstance(step.body, Pipeline) and step.body.tasks else None


def _entries(node: Node | None) -> dict[str, Node]:
    if isinstance(node, Map):
        return dict(node.entries)
    if isinstance(node, LiteralNode) and isinstance(node.value, dict):
        return {str(key): LiteralNode(value) for key, value in node.value.items()}
    return {}
