"""Code that reads ``ctx``, which is called ``context`` there."""

from __future__ import annotations

from noetl.dsl.shapes_in_code import free_names, renamed
from noetl.formatting.nodes import Map, Text, map_of, text_of
from noetl.formatting.spelling import rewrite
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule
from noetl.migration.rules.reading.rows_list import given_to, tasks_of


def apply(page: Page) -> None:
    """Write ``context``, where the code has no ``ctx`` of its own."""
    for step in page.steps():
        for _, task in tasks_of(step.get("tool")):
            if kind_of(task) == "python":
                _rename(step, task)
    for task in page.workbook():
        tool = map_of(task.get("tool")) if isinstance(task.get("tool"), Map) else task
        if kind_of(tool) == "python":
            _rename(task, tool)


def _rename(owner: Map, task: Map) -> None:
    code = task.get("code")
    text = text_of(code)
    if not isinstance(code, Text) or text is None or "ctx" not in text:
        return
    if any(one.key in ("ctx", "context") for one in [*given_to(owner), *given_to(task)]):
        return
    if free_names(text, "ctx"):
        rewrite(code, renamed(text, "ctx", "context"))


RULE = Rule("context-name", "Code reads names of the playbook from `context`.", apply, repairs=True)
