"""Loops over a cursor: each iteration claims a row by SQL, until none is left."""

from __future__ import annotations

import re

from noetl.formatting.nodes import Entry, List, Map, Text, inside, made, map_of, plain, text_of
from noetl.formatting.order import tasks_of
from noetl.formatting.spelling import rename, rewrite
from noetl.migration.page import Page
from noetl.migration.rule import Rule

_FRAME = re.compile(r"\{\{\s*__frame_max_rows\b[^}]*\}\}")
_EVENT = ("case", "retry", "vars", "sink")
_SQL = frozenset({"postgres", "snowflake"})


def apply(page: Page) -> None:
    """Write a task that claims a row, the tasks of the loop, and a jump back."""
    for step in page.steps():
        entry = step.entry("loop")
        loop = map_of(entry.value) if entry is not None else Map([])
        cursor = loop.get("cursor")
        if entry is None or not isinstance(cursor, Map):
            continue
        reason = _reason(step, loop, cursor)
        if reason is not None:
            page.refuse(entry, reason, "claim rows in a task, and jump back to it while there are any")
            continue
        _rewrite(page, step, entry, loop, cursor)


def _reason(step: Map, loop: Map, cursor: Map) -> str | None:
    """Return why a loop cannot be rewritten."""
    if text_of(cursor.get("kind")) not in _SQL or text_of(cursor.get("claim")) is None:
        return "a cursor needs `kind: postgres` and `claim`"
    if text_of(loop.get("iterator")) is None or step.get("tool") is None:
        return "a cursor needs an `iterator` and a `tool`"
    if any(step.has(name) for name in _EVENT):
        return "a cursor beside `case`, `retry`, `vars` or `sink`"
    words = {plain(entry.value) for entry in inside(step) if entry.key == "do"}
    if "break" in words:
        return "`do: break` ends one iteration of a cursor, and all of them in a list of tasks"
    return None


def _rewrite(page: Page, step: Map, entry: Entry, loop: Map, cursor: Map) -> None:
    iterator = text_of(loop.get("iterator")) or ""
    _read_iteration(step, iterator)
    tool = step.entry("tool")
    assert tool is not None
    tasks = tool.value.entries if isinstance(tool.value, List) else [_named(step, tool)]
    taken = {text_of(task.get("name")) for task in tasks_of(tool.value)}
    claim = next(name for name in ("claim", "claim_row", "claim_next_row") if name not in taken)
    again = next(name for name in ("again", "next_row", "claim_again") if name not in taken)
    rows = "output.status == 'ok'"
    rules = [
        {"when": f"{{{{ {rows} and not output.data.rows }}}}", "then": {"do": "break"}},
        {
            "when": f"{{{{ {rows} }}}}",
            "then": {"do": "continue", "set": {f"iter.{iterator}": "{{ output.data.rows[0] }}"}},
        },
    ]
    sql = cursor.entry("claim")
    assert sql is not None
    text = _FRAME.sub("1", text_of(sql.value) or "")
    keys = [one for one in cursor.entries if one.key not in ("claim", "options")]
    query = Entry(
        "query", Text(text, style="|" if "\n" in text else '"'), "query", line=sql.line, column=sql.column
    )
    policy = Entry("spec", made({"policy": {"rules": rules}}, flow=False), "spec")
    first = Map(
        [Entry("name", Text(claim), "name", line=entry.line, column=entry.column), *keys, query, policy]
    )
    jump = {"policy": {"rules": [{"else": {"then": {"do": "jump", "to": claim}}}]}}
    last = made({"name": again, "kind": "noop", "spec": jump}, flow=False)
    tool.value = List([Entry(None, first, lead=entry.lead, line=entry.line), *tasks, Entry(None, last)])
    step.entries.remove(entry)
    _boundaries(step)
    page.note(entry, "rows are claimed and processed one after the other; when a task fails, the step does")


def _named(step: Map, tool: Entry) -> Entry:
    block = map_of(tool.value)
    name = Entry(
        "name", Text(f"{text_of(step.get('step'))}_task"), "name", line=tool.line, column=tool.column
    )
    return Entry(None, Map([name, *block.entries]), line=tool.line, column=tool.column)


def _read_iteration(step: Map, iterator: str) -> None:
    """Read the row by ``iter``, which a bare name stood for."""

    def change(name: str, attribute: str | None) -> tuple[str, bool] | None:
        return (f"iter.{iterator}", False) if name == iterator else None

    for entry in inside(step):
        rename(entry.value, change)


def _boundaries(step: Map) -> None:
    """Ask for the end of the step where guards asked for the end of the loop."""
    for entry in inside(step):
        value = entry.value
        if entry.key == "when" and isinstance(value, Text) and isinstance(value.value, str):
            rewrite(value, re.sub(r"""(["'])loop\.done\1""", r"\1step.done\1", value.value))


RULE = Rule("cursor-loop", "A task claims the next row, and a jump leads back to it.", apply)
