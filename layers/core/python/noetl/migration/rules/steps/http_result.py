"""Steps of generation 1 that call an API.

Their result is the whole answer, with its status and headers.
"""

from __future__ import annotations

from noetl.formatting.nodes import Entry, List, Map, Text, made, map_of, text_of
from noetl.migration.page import Page
from noetl.migration.rule import Rule

_FIRST = "noetl.io/v1"
_EVENT = frozenset({"case", "retry", "sink", "save", "vars", "when"})
"""Keys of a step that keep it in the event form."""


def apply(page: Page) -> None:
    """Write arcs: in a step of the canonical form, the whole answer is the result."""
    if text_of(page.root.get("apiVersion")) != _FIRST:
        return
    tasks = {
        name for task in page.workbook() if _is_http(task) and (name := text_of(task.get("name", "task")))
    }
    for step in page.steps():
        following = step.entry("next")
        if (
            (_calls_http(step) or _task_of(step) in tasks)
            and not _EVENT & set(step.keys())
            and following is not None
        ):
            arcs = _arcs(following)
            if arcs is not None:
                following.value = arcs


def _calls_http(step: Map) -> bool:
    for owner in (step, map_of(step.get("task"))):
        if _EVENT & set(owner.keys()) or isinstance(map_of(owner.get("loop")).get("pagination"), Map):
            return False
        if _is_http(owner):
            return True
    return False


def _is_http(owner: Map) -> bool:
    return _kind(owner) == "http" and not _EVENT & set(owner.keys())


def _kind(owner: Map) -> str | None:
    tool = owner.get("tool", "type")
    return text_of(map_of(tool).get("kind") if isinstance(tool, Map) else tool)


def _task_of(step: Map) -> str | None:
    """Return the task of the workbook that a step calls."""
    if _kind(step) not in ("workbook", "task"):
        return None
    tool = map_of(step.get("tool"))
    return text_of(tool.get("name", "task") or step.get("task", "name", "call"))


def _arcs(following: Entry) -> Map | None:
    """Return the arcs of a plain ``next``; None for one with conditions.

    Another rule makes arcs of those.
    """
    value = following.value
    items = value.entries if isinstance(value, List) else [Entry(None, value, line=following.line)]
    for item in items:
        if isinstance(item.value, Map):
            if not item.value.has("step") or {"when", "then", "else"} & set(item.value.keys()):
                return None
        elif text_of(item.value) is None:
            return None
        else:
            item.value = Map([Entry("step", Text(text_of(item.value)), "step", line=item.line)])
    block = made({"arcs": None}, flow=False)
    assert isinstance(block, Map)
    block.put("arcs", List(list(items)))
    if len(items) > 1:
        block.entries.insert(0, Entry("spec", made({"mode": "inclusive"}), "spec"))
    return block


RULE = Rule(
    "http-result", "The result of an HTTP call is its whole answer; keys of its body are read there.", apply
)
