"""Code that takes the result of SQL for the list of its rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from noetl.dsl.rows_as_list import NO_ROWS, RESULTS, SQL_KINDS, takes_for_list, whole_result
from noetl.dsl.shapes_in_code import rows_of_sql
from noetl.formatting.nodes import Entry, List, Map, Text, Value, inside, map_of, text_of
from noetl.formatting.spelling import rewrite
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule

_INPUT = ("input", "args", "with")
_ALONE = re.compile(r"\{\{(.*)\}\}", re.DOTALL)


def apply(page: Page) -> None:
    """Hand the rows to the code."""
    ends = last_tasks(page) | variables(page)
    for step, task, sources in code_with_sources(page, ends):
        given = [*given_to(task), *given_to(step)]
        code = text_of(task.get("code")) or ""
        rows = {str(one.key): found for one in given if (found := _rows(one.value, sources))}
        wanted = takes_for_list(code, set(rows)) if rows else set()
        wanted |= {one.source for one in rows_of_sql(code, {name: name for name in rows})}
        for one in given:
            if one.key in wanted and isinstance(one.value, Text) and _rows(one.value, sources):
                rewrite(one.value, rows[str(one.key)])


def code_with_sources(page: Page, ends: dict[str, Map]) -> Iterator[tuple[Map, Map, dict[str, Map]]]:
    """Yield each task of Python with its step, and the tasks whose results it can name.

    ``ends``: those of other steps. The tasks before it in its step are added.
    """
    for step in page.steps():
        sources = dict(ends)
        for label, task in tasks_of(step.get("tool")):
            if kind_of(task) == "python":
                yield step, task, sources
            sources[label] = task


def code_with_names(
    page: Page, ends: dict[str, Map], is_wanted: Callable[[Map], bool]
) -> Iterator[tuple[Map, Map, set[str]]]:
    """Yield each task of Python with its step, and the wanted results that it can name."""
    known = {name for name, task in ends.items() if is_wanted(task)}
    for step in page.steps():
        own: dict[str, bool] = {}
        for label, task in tasks_of(step.get("tool")):
            if kind_of(task) == "python":
                yield step, task, (known - own.keys()) | {name for name, wanted in own.items() if wanted}
            own[label] = is_wanted(task)


def variables(page: Page) -> dict[str, Map]:
    """Return the variables that are set once, to a whole result, with its task."""
    found: dict[str, list[Map | None]] = {}
    for step in page.steps():
        tasks = [task for _, task in tasks_of(step.get("tool"))]
        last = tasks[-1] if tasks and not step.has("loop") else None
        owners = [(step, last), *((task, None if step.has("loop") else task) for task in tasks)]
        for owner, source in owners:
            for scope, entry in _assigned(owner):
                kept = source if alone(entry.value).strip() in RESULTS else None
                found.setdefault(f"{scope}{entry.key}", []).append(kept)
    return {name: tasks[0] for name, tasks in found.items() if len(tasks) == 1 and tasks[0] is not None}


def _assigned(owner: Map) -> list[tuple[str, Entry]]:
    """Return what an owner assigns, with its scope; a step, without what its tasks do."""
    found = [("vars.", one) for one in map_of(owner.get("vars")).entries]
    for entry in inside(Map([one for one in owner.entries if one.key != "tool"])):
        prefix = {"set": "", "set_ctx": "ctx."}.get(str(entry.key))
        if prefix is not None:
            found += [(prefix, one) for one in map_of(entry.value).entries]
    return found


def last_tasks(page: Page) -> dict[str, Map]:
    """Return the task whose result is that of a step, by the step's name; none of a loop."""
    return {
        name: tasks[-1][1]
        for step in page.steps()
        if (name := text_of(step.get("step")))
        and (tasks := tasks_of(step.get("tool")))
        and not step.has("loop")
    }


def tasks_of(tool: Value | None) -> list[tuple[str, Map]]:
    """Return the tasks of a step with their labels."""
    if isinstance(tool, Map):
        return [("", tool)] if tool.has("kind") else []
    found = []
    for item in tool.values() if isinstance(tool, List) else []:
        task = map_of(item)
        label = text_of(task.get("name"))
        if label is None and len(task.entries) == 1 and isinstance(task.entries[0].value, Map):
            label, task = str(task.entries[0].key), task.entries[0].value
        found.append((label or "", task))
    return found


def given_to(owner: Map) -> list[Entry]:
    """Return the entries of the input of a task or step."""
    return [one for name in _INPUT for one in map_of(owner.get(name)).entries]


def alone(value: Value | None) -> str:
    """Return the expression that ``value`` is as a whole; an empty text for another value."""
    found = _ALONE.fullmatch((text_of(value) or "").strip())
    return found[1] if found else ""


def _rows(value: Value | None, sources: dict[str, Map]) -> str | None:
    """Return the template for the rows of what ``value`` names; None for another one."""
    expression = alone(value)
    found = whole_result(expression) if expression else None
    task = sources.get(found[0]) if found else None
    if found is None or task is None or not gives_rows(task):
        return None
    return f"{{{{ {found[1]} }}}}"


def gives_rows(task: Map) -> bool:
    """Return whether the result of a task is that of SQL, with ``rows``."""
    if kind_of(task) not in SQL_KINDS or map_of(task.get("output")).has("path"):
        return False
    return not any(task.has(name) for name in NO_ROWS)


RULE = Rule("rows-list", "Code that wants a list of rows gets `rows` of the result.", apply)
