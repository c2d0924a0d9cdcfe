"""Code that takes what a command of duckdb gave for the list of its rows.

Another release returned that list.
"""

from __future__ import annotations

from noetl.dsl.rows_as_list import whole_result
from noetl.dsl.shapes_in_code import rows_of_a_command
from noetl.formatting.nodes import Map, Text, map_of, text_of
from noetl.formatting.spelling import rewrite
from noetl.migration.numbered_rows import taken_rows
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule
from noetl.migration.rules.reading.rows_list import alone, code_with_names, given_to, gives_rows, last_tasks


def apply(page: Page) -> None:
    """Read ``rows`` of it, as lists where the code reads columns by number."""
    workload = {str(entry.key) for entry in map_of(page.root.get("workload")).entries}
    for step, task, names in code_with_names(page, last_tasks(page), _gives_lists):
        _read_rows(step, task, names - workload)


def _gives_lists(task: Map) -> bool:
    return kind_of(task) == "duckdb" and gives_rows(task)


def _read_rows(step: Map, task: Map, lists: set[str]) -> None:
    code = task.get("code")
    text = text_of(code)
    if not isinstance(code, Text) or text is None:
        return
    read = {str(one.key): whole_result(alone(one.value)) for one in [*given_to(step), *given_to(task)]}
    given = {name: found[0] for name, found in read.items() if found is not None and found[0] in lists}
    lists -= read.keys()
    taken, numbered = taken_rows(text, given, lists)
    for one in reversed(rows_of_a_command(text, given, lists, taken=taken)):
        if one.end:
            reading = text[one.start : one.end]
            if reading.startswith(".get("):
                reading = f"{reading[: reading.index(',')] if ',' in reading else reading[:-1]}, {{}}).get('rows', [])"
            else:
                reading += "['rows']"
            start = numbered.get(one.start, one.start)
            reading = text[start : one.start] + reading
            if one.start in numbered:
                reading = f"[[*row.values()] for row in {reading}]"
            text = text[:start] + reading + text[one.end :]
    rewrite(code, text)


RULE = Rule(
    "command-rows",
    "Code reads `rows` of what a command of duckdb gave, which is no list.",
    apply,
    repairs=True,
)
