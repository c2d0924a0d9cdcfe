"""Code that takes a result for one of another shape.

It tests the result of SQL for a list (refused since meaning 4), reads ``results`` and ``stats`` of a loop's list (since meaning 7), or
``data`` of SQL and ``status`` of an HTTP answer, which neither has (since meaning 9), or counts the result of SQL and reads rows of it without
``rows``, or takes the result of a shell command for a text (both since meaning 10).
Such code takes its other branch without an error, so the playbook would complete with wrong values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from noetl.dsl.expressions import name_offset
from noetl.dsl.lowering.context import Lowering
from noetl.dsl.nodes import Expr, LiteralNode, Map, Node, Pos
from noetl.dsl.program import Pipeline, Program, Step, Task
from noetl.dsl.rows_as_list import (
    NO_ROWS,
    RESULTS,
    SQL_KINDS,
    loop_summary,
    takes_for_list,
    takes_for_summary,
    whole_result,
)
from noetl.dsl.shapes_in_code import (
    Reading,
    data_of_sql,
    entries_of_scope,
    free_names,
    rows_of_a_command,
    rows_of_sql,
    status_words,
    text_of_shell,
    whole_answers,
)
from noetl.dsl.work import ResultAction, Rule, SetAction

_RESULTS = re.compile(r"(\w+)\.results?")
"""The result of a loop by its other names."""


def check_rows(lowering: Lowering, program: Program) -> None:
    """Report each input whose shape is not the one that the code takes it for."""
    if lowering.semantics < 4:
        return
    steps = {step.name: task for step in program.steps if (task := _last_task(step)) is not None}
    loops = {step.name for step in program.steps if _is_list(step)} if lowering.semantics > 6 else set()
    answers = {step.name for step in program.steps if _is_list(step) and _is_answer(_single(step))}
    bodies = {step.name for step in program.steps if _is_list(step) and _gives_body(_single(step))}
    if lowering.semantics > 9:
        steps |= _variables(program)
        _check_status(lowering, {name for name, task in steps.items() if _gives_body(task)})
    for step in program.steps:
        if not isinstance(step.body, Pipeline):
            continue
        sources = dict(steps)
        for task in step.body.tasks:
            if task.kind == "python" and lowering.semantics > 8:
                _check_envelopes(lowering, step, task, sources, answers)
            if task.kind == "python" and lowering.semantics > 9:
                _check_rows_read(lowering, step, task, sources)
                _check_text_read(lowering, step, task, sources)
                _check_ctx(lowering, step, task)
                _check_answers(lowering, step, task, sources, bodies)
            if task.kind == "python":
                _check_code(lowering, step, task, sources)
                _check_loops(lowering, step, task, loops - {one.label for one in step.body.tasks})
            sources[task.label] = task


def _variables(program: Program) -> dict[str, Task]:
    """Return the variables that are set once, to a whole result, with its task."""
    found: dict[str, list[Task | None]] = {}
    for step in program.steps:
        for name, value, task in _writes(step):
            found.setdefault(name, []).append(task if _is_result(value) else None)
    return {name: tasks[0] for name, tasks in found.items() if len(tasks) == 1 and tasks[0] is not None}


def _writes(step: Step) -> Iterator[tuple[str, Node, Task | None]]:
    """Yield what a step sets, to what, and the task whose result could be that.

    It is None of a loop.
    """
    if isinstance(step.body, Pipeline):
        own = [*step.body.vars_before, *step.body.vars, *step.body.vars_after]
        for name, value in own:
            yield f"vars.{name}", value, _last_task(step)
    tasks = step.body.tasks if isinstance(step.body, Pipeline) else ()
    for task in tasks:
        for one in (*task.sets, *_sets_of(task.rules)):
            yield (
                f"{one.scope}.{one.name}",
                one.value,
                task if step.loop is None and one.op == "set" else None,
            )
    for one in (*_sets_of(step.cases), *(one for arc in step.arcs for one in arc.sets)):
        yield f"{one.scope}.{one.name}", one.value, None


def _sets_of(rules: tuple[Rule, ...]) -> list[SetAction]:
    return [one for rule in rules for one in rule.actions if isinstance(one, SetAction)]


def _is_result(node: Node) -> bool:
    return isinstance(node, Expr) and node.source.strip() in RESULTS


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
    for name in sorted(takes_for_list(code_of(task), set(given)) if given else ()):
        node, source, rows = given[name]
        lowering.diagnostics.error(
            "rows-as-list",
            f"the code tests {name!r} for a list, and the result of {source!r} is a mapping that has `rows`",
            node.pos,
            hint=f"write {{{{ {rows} }}}}, or let the code read {name}['rows']",
        )


def _check_loops(lowering: Lowering, step: Step, task: Task, loops: set[str]) -> None:
    given = _results(step, task, loop_summary, loops.__contains__)
    for name in sorted(takes_for_summary(code_of(task), set(given)) if given else ()):
        node, source, summary = given[name]
        lowering.diagnostics.error(
            "loop-as-mapping",
            f"the code reads `results` or `stats` of {name!r}, and the result of the loop {source!r} is a list",
            node.pos,
            hint=f"write {{{{ {summary} }}}}, or let the code read the list",
        )


def _check_rows_read(lowering: Lowering, step: Step, task: Task, sources: dict[str, Task]) -> None:
    """Report code that reads rows where it was given what has them as ``rows``."""
    rows = {name for name, source in sources.items() if _gives_rows(source)}
    own = entries_of(task.input).keys() | lowering.names.workload
    given = _sources_given(step, task)
    tested = takes_for_list(code_of(task), set(given)) if given else set()
    given = {name: source for name, source in _only(given, rows).items() if name not in tested}
    named = {name for name in rows if "." not in name} - own
    for one in rows_of_a_command(code_of(task), given, named):
        lowering.diagnostics.error(
            "rows-as-list",
            f"the code takes what a command of {one.source!r} gave for the list of its rows",
            place_in_code(task, one),
            hint="it is a mapping: read its `rows`; `noetl migrate` writes that for duckdb",
        )
    for one in rows_of_sql(code_of(task), given, named):
        lowering.diagnostics.error(
            "rows-as-list",
            f"the code takes the result of SQL in {one.source!r} for the list of its rows",
            place_in_code(task, one),
            hint=f"it is a mapping: hand over {{{{ {one.source}.rows }}}}, or read its `rows` in the code",
        )


def _check_text_read(lowering: Lowering, step: Step, task: Task, sources: dict[str, Task]) -> None:
    """Report code that reads a text where it was given what has it as ``stdout``."""
    shells = {name for name, source in sources.items() if source.kind == "shell" and not source.part}
    own = entries_of(task.input).keys() | lowering.names.workload
    given = _sources_given(step, task)
    named = {name for name in shells if "." not in name} - own
    for one in text_of_shell(code_of(task), _only(given, shells), named):
        lowering.diagnostics.error(
            "shell-as-text",
            f"the code takes the result of the shell command in {one.source!r} for a text",
            place_in_code(task, one),
            hint=f"it is a mapping: hand over {{{{ {one.source}.stdout }}}}, or read its `stdout` in the code",
        )


def _check_status(lowering: Lowering, bodies: set[str]) -> None:
    """Report templates that read ``status_code`` of a step whose result is a body."""
    names = lowering.names
    own = names.workload | names.ctx | names.vars
    for use in lowering.uses:
        hidden = own | names.arguments(use.frame.step) | use.frame.names if use.frame.step else own
        for scope, entry in sorted(use.analysis.entries):
            if entry == "status_code" and scope in bodies - hidden - {use.frame.step}:
                lowering.diagnostics.error(
                    "answer-as-body",
                    f"the result of {scope!r} is the body of the answer, and has no `status_code`",
                    use.scalar.locate(name_offset(use.scalar.value, scope)),
                    hint=f"with `next: {{ arcs: … }}`, the result of {scope!r} is the whole answer",
                )


def _check_answers(
    lowering: Lowering, step: Step, task: Task, sources: dict[str, Task], loops: set[str]
) -> None:
    """Report code that reads a whole answer of a step whose result is the body.

    ``loops``: those whose result is a list of bodies.
    """
    bodies = {name for name, source in sources.items() if _gives_body(source)} | loops
    own = entries_of(task.input).keys() | lowering.names.workload
    given = _sources_given(step, task)
    for one in whole_answers(code_of(task), _only(given, bodies), bodies - own, loops):
        lowering.diagnostics.error(
            "answer-as-body",
            f"the code reads `status_code` and `data` of {one.source!r}, whose result is the body of the answer",
            place_in_code(task, one),
            hint=f"with `next: {{ arcs: … }}`, the result of {one.source!r} is the whole answer; else read the body",
        )


def _check_ctx(lowering: Lowering, step: Step, task: Task) -> None:
    """Report code that reads ``ctx``, or of it what only the workload has."""
    if "ctx" in entries_of(task.input) or "ctx" in entries_of(step.args):
        return
    for one in free_names(code_of(task), "ctx")[:1]:
        lowering.diagnostics.error(
            "ctx-in-code",
            "the code has no name `ctx`: that is one of templates",
            place_in_code(task, one),
            hint="read `context`, which has what `ctx`, the workload and results have by that name",
        )
    if lowering.semantics < 11:
        return
    workload_alone = lowering.names.workload - lowering.names.ctx
    for one in entries_of_scope(code_of(task), "ctx", workload_alone)[:1]:
        lowering.diagnostics.error(
            "ctx-in-code",
            "the code reads an entry of `ctx` that nothing sets, and the workload has one of that name",
            place_in_code(task, one),
            hint="read `context` instead of `ctx`, or `workload`",
        )


def _check_envelopes(
    lowering: Lowering, step: Step, task: Task, sources: dict[str, Task], answers: set[str]
) -> None:
    """Report entries of envelopes of other releases.

    ``answers``: loops whose result is a list of HTTP answers.
    """
    code, own = code_of(task), entries_of(task.input).keys() | lowering.names.workload
    given = _sources_given(step, task)
    rows = {name for name, source in sources.items() if _gives_rows(source)}
    for one in data_of_sql(code, _only(given, rows), rows - own):
        lowering.diagnostics.error(
            "data-of-sql",
            f"the code reads `data` of the result of {one.source!r}, which has `rows` and no `data`",
            place_in_code(task, one),
            hint="leave `data` out: `rows` and `command_0` are entries of the result itself",
        )
    calls = answers | {name for name, source in sources.items() if _is_answer(source)}
    for one in status_words(code, _only(given, calls), calls - own, answers):
        lowering.diagnostics.error(
            "unknown-status",
            f"an HTTP answer of {one.source!r} has no `status`, so no word is equal to it",
            place_in_code(task, one),
            hint="compare its `status_code` with a number; a call that failed has no answer",
        )


def _sources_given(step: Step, task: Task) -> dict[str, str]:
    """Return the entries of the input that are whole results, with the step or task of each."""
    return {name: found for name, node in _given(step, task).items() if (found := _source_of(node.source))}


def _source_of(expression: str) -> str:
    """Return the step or task whose result an expression is."""
    found = whole_result(expression)
    return found[0] if found else _of_loop(expression)


def _of_loop(expression: str) -> str:
    found = _RESULTS.fullmatch(expression.strip())
    return found[1] if found else ""


def _only(given: dict[str, str], sources: set[str]) -> dict[str, str]:
    return {name: source for name, source in given.items() if source in sources}


def place_in_code(task: Task, at: Reading) -> Pos:
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
    for name, node in entries_of(task.input).items():
        if isinstance(node, Expr) and node.source.strip() in (f"args.{name}", f"args[{name!r}]"):
            node = entries_of(step.args).get(name, node)
        if isinstance(node, Expr):
            found[name] = node
    return found


def code_of(task: Task) -> str:
    code = entries_of(task.params).get("code")
    return code.value if isinstance(code, LiteralNode) and isinstance(code.value, str) else ""


def _gives_rows(task: Task | None) -> bool:
    if task is None or task.kind not in SQL_KINDS or task.part:
        return False
    return not any(name in entries_of(task.params) for name in NO_ROWS)


def _is_answer(task: Task | None) -> bool:
    """Return whether the result of a task is a whole HTTP answer."""
    if task is None or task.kind != "http" or task.form != "canonical" or task.part:
        return False
    return not any(name in entries_of(task.params) for name in ("stream", "save"))


def _gives_body(task: Task | None) -> bool:
    return task is not None and task.kind == "http" and task.form == "event"


def _single(step: Step) -> Task | None:
    """Return the last task of a step."""
    return step.body.tasks[-1] if isinstance(step.body, Pipeline) and step.body.tasks else None


def entries_of(node: Node | None) -> dict[str, Node]:
    if isinstance(node, Map):
        return dict(node.entries)
    if isinstance(node, LiteralNode) and isinstance(node.value, dict):
        return {str(key): LiteralNode(value) for key, value in node.value.items()}
    return {}
