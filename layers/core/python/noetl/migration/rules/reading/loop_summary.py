"""Code that reads ``results`` and ``stats`` of what is the list of a loop's iterations."""

from __future__ import annotations

from noetl.dsl.rows_as_list import loop_summary, takes_for_summary
from noetl.formatting.nodes import Entry, Map, Text, text_of
from noetl.formatting.spelling import rewrite
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule
from noetl.migration.rules.reading.loop_results import replaced
from noetl.migration.rules.reading.rows_list import alone, given_to, tasks_of


def apply(page: Page) -> None:
    """Hand the code a mapping with both."""
    loops = {
        name
        for step in page.steps()
        if step.has("loop") and not replaced(step) and (name := text_of(step.get("step")))
    }
    for step in page.steps():
        tasks = tasks_of(step.get("tool"))
        labels = {label for label, _ in tasks}
        for _, task in tasks:
            if kind_of(task) == "python":
                _hand(task, [*given_to(task), *given_to(step)], loops - labels)


def _hand(task: Map, given: list[Entry], loops: set[str]) -> None:
    found = {str(one.key): (one.value, summary) for one in given if (summary := _summary(one, loops))}
    for name in takes_for_summary(text_of(task.get("code")) or "", set(found)) if found else ():
        value, summary = found[name]
        if isinstance(value, Text):
            rewrite(value, f"{{{{ {summary} }}}}")


def _summary(one: Entry, loops: set[str]) -> str:
    read = loop_summary(alone(one.value))
    return read[1] if read and read[0] in loops else ""


RULE = Rule(
    "loop-summary", "Code that reads `results` and `stats` of a loop gets a mapping with both.", apply
)
