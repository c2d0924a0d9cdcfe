"""A ``transfer`` from http with a ``mapping`` of names."""

from __future__ import annotations

import json

from noetl.formatting.nodes import Entry, List, Map, Text, comments, inside, made, map_of, plain, text_of
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule

_READ = frozenset({"kind", "source", "target", "mode", "key"})
_PIECES = frozenset({"chunk_rows", "chunk_size"})
"""How many rows are written at once: an answer is read as a whole."""
_APPENDS = frozenset({"append", "insert"})
_EVENT = ("case", "retry", "vars", "sink")


def apply(page: Page) -> None:
    """Write three tasks: call, choose the columns, insert."""
    for step in page.steps():
        entry = step.entry("tool")
        tool = map_of(entry.value) if entry is not None else Map([])
        if entry is None or kind_of(tool) != "transfer" or kind_of(map_of(tool.get("source"))) != "http":
            continue
        target = map_of(tool.get("target"))
        table = text_of(target.get("table"))
        mapping = plain(target.get("mapping"))
        if kind_of(target) != "postgres" or table is None or not isinstance(mapping, dict):
            page.refuse(
                entry,
                "a transfer from http needs a postgres table and a `mapping`",
                "write the tasks one by one",
            )
            continue
        if any(step.has(name) for name in _EVENT) or step.has("loop"):
            page.refuse(
                entry,
                "a transfer from http beside `case`, `retry`, `vars`, `sink` or `loop`",
                "write the tasks one by one",
            )
            continue
        mode = plain(tool.get("mode") or target.get("mode"))
        others = sorted({str(one.key) for one in tool.entries} - _READ - _PIECES)
        if mode not in (None, *_APPENDS) or others:
            what = f"`{others[0]}`" if others else f"`mode: {mode}`"
            page.refuse(entry, f"a transfer from http with {what}", "write the tasks one by one")
            continue
        for one in tool.entries:
            if one.key in _PIECES:
                page.note(
                    one, f"`{one.key}` is left out: the rows of an answer are written at once", safe=True
                )
        page.note(entry, "the rows are the body of the answer if that is a list, else its `data`")
        entry.value = _tasks(entry, tool, target, mapping)
        _arcs(step)


def _tasks(entry: Entry, tool: Map, target: Map, mapping: dict[str, object]) -> List:
    source = map_of(tool.get("source"))
    read = Map([Entry("name", Text("read"), "name", line=entry.line), *source.entries])
    names = ", ".join(
        f"{json.dumps(column)}: row.get({json.dumps(str(field))})" for column, field in mapping.items()
    )
    code = (
        'rows = body if isinstance(body, list) else body.get("data", [body])\n'
        f"result = [{{{names}}} for row in rows]\n"
    )
    body = "{{ read.data }}"
    choose = made(
        {"name": "choose", "kind": "python", "args": {"body": body}, "code": Text(code, style="|")},
        flow=False,
    )
    keep = [one for one in target.entries if one.key not in ("mapping", "mode", "key")]
    rows = Entry("args", Text("{{ choose }}", style='"'), "args")
    write = Map([Entry("name", Text("write"), "name"), *keep, rows])
    made_of = [tool.entry("source"), target.entry("mapping"), tool.entry("target")]
    tasks = []
    for one, kept in zip((read, choose, write), made_of, strict=True):
        tasks.append(Entry(None, one, lead=_comments(kept), line=entry.line))
    left_out = [one for one in tool.entries if one not in made_of and one.key != "kind"]
    left_out += [one for one in target.entries if one.key in ("mode", "key")]
    tasks[-1].lead += [comment for one in left_out for comment in _comments(one)]
    return List(tasks)


def _comments(entry: Entry | None) -> list[str]:
    """Return the comments of an entry, and of a mapping of names those below it, too."""
    if entry is None:
        return []
    below = inside(entry.value) if entry.key == "mapping" and isinstance(entry.value, Map) else ()
    return [comment for one in (entry, *below) for comment in comments(one) if comment]


def _arcs(step: Map) -> None:
    """Write the plain ways out of a step as arcs: a list of tasks belongs to that form."""
    found = step.entry("next")
    if found is None or (isinstance(found.value, Map) and found.value.has("arcs")):
        return
    items = (
        found.value.entries if isinstance(found.value, List) else [Entry(None, found.value, line=found.line)]
    )
    arcs = [
        Entry(
            None,
            Map([Entry("step", one.value, "step")], flow=True),
            lead=one.lead,
            trail=one.trail,
            line=one.line,
        )
        if isinstance(one.value, Text)
        else one
        for one in items
    ]
    block = Map([Entry("arcs", List(arcs), "arcs", line=found.line)])
    if len(arcs) > 1:
        block.entries.insert(0, Entry("spec", made({"mode": "inclusive"}), "spec"))
    found.value = block


RULE = Rule("transfer-http", "Rows from an API are read, chosen and inserted by tasks.", apply)
