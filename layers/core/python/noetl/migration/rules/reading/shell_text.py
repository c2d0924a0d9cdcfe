"""Code that takes the result of a shell command for its text."""

from __future__ import annotations

from noetl.dsl.rows_as_list import whole_result
from noetl.dsl.shapes_in_code import text_of_shell
from noetl.formatting.nodes import Map, Text, Value, text_of
from noetl.formatting.spelling import rewrite
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule
from noetl.migration.rules.reading.rows_list import alone, code_with_sources, given_to, last_tasks, variables


def apply(page: Page) -> None:
    """Hand the text to the code."""
    ends = last_tasks(page) | variables(page)
    for step, task, sources in code_with_sources(page, ends):
        given = [*given_to(task), *given_to(step)]
        texts = {str(one.key): found for one in given if (found := _text(one.value, sources))}
        taken = text_of_shell(text_of(task.get("code")) or "", {name: name for name in texts})
        for one in given:
            if one.key in {reading.source for reading in taken} and isinstance(one.value, Text):
                rewrite(one.value, texts[str(one.key)])


def _text(value: Value | None, sources: dict[str, Map]) -> str | None:
    """Return the template for what a command printed; None where ``value`` is no such result."""
    found = whole_result(alone(value))
    if found is None or kind_of(sources.get(found[0], Map([]))) != "shell":
        return None
    return f"{{{{ {found[1].replace('.rows', '.stdout', 1)} }}}}"


RULE = Rule(
    "shell-text",
    "Code that wants the text of a shell command gets `stdout` of the result.",
    apply,
    repairs=True,
)
