"""Code that reads ``ctx``, which is called ``context`` there."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.dsl.shapes_in_code import entries_of_scope, free_names, renamed, renamed_parameter
from noetl.formatting.nodes import Map, Text, inside, items_of, map_of, text_of
from noetl.formatting.spelling import rewrite
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule
from noetl.migration.rules.reading.rows_list import given_to, tasks_of


def apply(page: Page) -> None:
    """Write ``context`` for a ``ctx`` that is no name, or of which the workload is read."""
    workload = {str(one.key) for one in map_of(page.root.get("workload")).entries} - set(set_in(page.root))
    for step in page.steps():
        for _, task in tasks_of(step.get("tool")):
            if kind_of(task) == "python":
                _rename(step, task, workload)
    for task in page.workbook():
        tool = map_of(task.get("tool")) if isinstance(task.get("tool"), Map) else task
        if kind_of(tool) == "python":
            _rename(task, tool, workload)


def set_in(block: Map) -> Iterator[str]:
    """Yield the names that something may set in ``ctx``, in any of the spellings."""
    for entry in inside(block):
        key = entry.key or ""
        if key in ("set", "set_ctx", "ctx"):
            for one in [entry.value, *items_of(entry.value)]:
                yield from (_bare(str(inner.key)) for inner in map_of(one).entries)
                yield _bare(text_of(map_of(one).get("name")) or "")
        elif key == "into":
            yield _bare(text_of(entry.value) or "")
        elif key.startswith("ctx."):
            yield _bare(key)


def _bare(name: str) -> str:
    """Return a name that is set, without its scope."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[0] in ("ctx", "vars", "iter") else parts[0]


def _rename(owner: Map, task: Map, workload: set[str]) -> None:
    code = task.get("code")
    text = text_of(code)
    if not isinstance(code, Text) or text is None or "ctx" not in text:
        return
    if any(one.key in ("ctx", "context") for one in [*given_to(owner), *given_to(task)]):
        return
    if free_names(text, "ctx"):
        rewrite(code, renamed(text, "ctx", "context"))
    elif entries_of_scope(text, "ctx", workload):
        rewrite(code, renamed_parameter(text, "ctx", "context"))


RULE = Rule("context-name", "Code reads names of the playbook from `context`.", apply, repairs=True)
