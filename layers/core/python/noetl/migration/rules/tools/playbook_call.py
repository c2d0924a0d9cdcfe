"""Keys of ``kind: playbook`` that other releases ignored or called otherwise."""

from __future__ import annotations

from noetl.formatting.nodes import List, Map, Text, map_of, plain, text_of
from noetl.migration.page import Page, kind_of, remove
from noetl.migration.rule import Rule

_GONE = ("task", "entry_step", "framework")
_PAYLOAD = ("payload", "args", "input", "with")


def apply(page: Page) -> None:
    """Call what is handed over ``payload``; leave out the label of the call."""
    _leave_out_drafts(page)
    _call_agents(page)
    for tool in page.tools():
        if kind_of(tool) != "playbook":
            continue
        for name in ("workload", "data"):
            if isinstance(tool.get(name), Map) and not any(tool.has(one) for one in _PAYLOAD):
                tool.rename(name, "payload")
        for name in _GONE:
            entry = tool.entry(name)
            if entry is not None:
                remove(tool, entry)
                page.note(
                    entry, f"`{name}` is left out: a playbook is called as a whole", safe=name == "task"
                )
        if tool.has("playbook") and not tool.has("path"):
            tool.rename("playbook", "path")
        if tool.has("result_step") and not tool.has("return_step"):
            tool.rename("result_step", "return_step")
        waits = tool.entry("return_result")
        if waits is not None and plain(waits.value) is True:
            remove(tool, waits)
        elif waits is not None and plain(waits.value) is False and not tool.has("wait"):
            tool.rename("return_result", "wait")


def _call_agents(page: Page) -> None:
    """Call a playbook that was called as an agent of the framework ``noetl``."""
    for tool in page.tools():
        kind, framework = tool.entry("kind"), tool.entry("framework")
        called = kind_of(tool) == "agent" and text_of(tool.get("framework")) == "noetl"
        if called and kind is not None and framework is not None and tool.has("entrypoint"):
            kind.value = Text("playbook")
            tool.rename("entrypoint", "path")
            remove(tool, framework)


def _leave_out_drafts(page: Page) -> None:
    """Leave out tasks of the workbook that name no playbook, where nothing calls them."""
    tasks = page.root.entry("workbook")
    called = {
        text_of(tool.get("name", "task", "call")) for tool in page.tools() if kind_of(tool) == "workbook"
    }
    for entry in list(tasks.value.entries) if tasks is not None and isinstance(tasks.value, List) else ():
        task = map_of(entry.value)
        tool = task.get("tool")
        call = tool if isinstance(tool, Map) else task
        named = call.has("path") or call.has("playbook") or text_of(task.get("name", "task")) in called
        if kind_of(call) == "playbook" and not named and tasks is not None and isinstance(tasks.value, List):
            page.note(entry, "a task that names no playbook, and that nothing calls, is left out", safe=True)
            remove(tasks.value, entry)
            if not tasks.value.entries:
                remove(page.root, tasks)


RULE = Rule("playbook-call", "A call of a playbook has `path`, `payload` and `return_step`.", apply)
