"""Steps of generation 1 that call an API.

Their result is the whole answer, with its status and headers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from noetl.dsl.rows_as_list import whole_result
from noetl.dsl.shapes_in_code import entries_of_whole, read_alone, whole_answers
from noetl.formatting.nodes import Entry, List, Map, Text, made, map_of, text_of
from noetl.formatting.spelling import rewrite
from noetl.formatting.templates import in_templates
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule
from noetl.migration.rules.reading.rows_list import alone, given_to, tasks_of

_FIRST = "noetl.io/v1"
_STATUS = re.compile(r"(?<![\w.'\"])(\w+)\.status_code\b")
_DATA = re.compile(r"(?<![\w.'\"])(\w+)\.data\b")
_EVENT = frozenset({"case", "retry", "sink", "save", "vars", "when"})
"""Keys of a step that keep it in the event form."""
_SEVERAL = frozenset({"loop", "retry", "when"})
"""Keys with which its result may be another one than the body."""


def apply(page: Page) -> None:
    """Write arcs: in a step of the canonical form, the whole answer is the result."""
    first = text_of(page.root.get("apiVersion")) == _FIRST
    read = set() if first else read_as_answers(page)
    tasks = {
        name for task in page.workbook() if _is_http(task) and (name := text_of(task.get("name", "task")))
    }
    for step in page.steps():
        following = step.entry("next")
        if not first and text_of(step.get("step")) not in read:
            continue
        if (
            (_calls_http(step) or _task_of(step) in tasks)
            and not _EVENT & set(step.keys())
            and following is not None
        ):
            arcs = _arcs(following)
            if arcs is not None:
                following.value = arcs
    bodies = {text_of(step.get("step")) for step in page.steps() if _gives_body(step)} if first else set()
    for text in page.texts() if bodies else ():
        rewrite(text, in_templates(text.value, lambda template: _of_body(template, bodies)))
    for step in page.steps() if bodies else ():
        for owner in (step, map_of(step.get("tool"))):
            _hand_over(step, owner, bodies)


def _hand_over(step: Map, owner: Map, bodies: Collection[str | None]) -> None:
    """Give code that reads ``data`` of a result, and nothing else, a mapping that has it."""
    code = text_of(owner.get("code")) or ""
    entries = {str(one.key): one for one in [*given_to(step), *given_to(owner)]}
    names = {key: whole_result(alone(one.value)) for key, one in entries.items()}
    given = {key: found[0] for key, found in names.items() if found is not None and found[0] in bodies}
    read = read_alone(code, {key: key for key in given}, "data") if _kind(step) == "python" else set()
    for key in given.keys() & read:
        value = entries[key].value
        if isinstance(value, Text):
            rewrite(value, f"{{{{ {{'data': {given[key]}}} }}}}")


def _gives_body(step: Map) -> bool:
    """Return whether a step calls an API once, and stays in the event form."""
    keys = set(step.keys())
    return _kind(step) == "http" and bool(keys & _EVENT) and not keys & _SEVERAL


def _of_body(template: str, bodies: Collection[str | None]) -> str:
    """Read ``data`` of a result that is the body as that result.

    A body may have a key ``data`` itself.
    """
    return _DATA.sub(lambda found: found[1] if found[1] in bodies else found[0], template)


def read_as_answers(page: Page) -> set[str]:
    """Return the steps of whose result something reads parts of a whole answer.

    Where code reads one step so, code that reads ``data`` of another one means the same.
    """
    steps = page.step_names()
    loops = {name for step in page.steps() if step.has("loop") and (name := text_of(step.get("step")))}
    found: set[str] = set()
    data: set[str] = set()
    for code, given, named in _code_given(page, steps):
        if "status_code" in code:
            found |= {one.source for one in whole_answers(code, given, named, loops)}
        data |= {one.source for one in entries_of_whole(code, given, named, ("data",))}
    found |= data - loops if found else set()
    for text in page.texts():
        found |= {one[1] for one in _STATUS.finditer(text.value) if one[1] in steps - loops}
    return found


def _code_given(page: Page, steps: set[str]) -> Iterator[tuple[str, dict[str, str], set[str]]]:
    """Yield each code, what it is given as a whole, and the steps that it can name."""
    for step in page.steps():
        for _, task in tasks_of(step.get("tool")):
            code = text_of(task.get("code")) or ""
            if kind_of(task) == "python" and "data" in code:
                read = {
                    str(one.key): whole_result(alone(one.value)) for one in [*given_to(step), *given_to(task)]
                }
                given = {name: one[0] for name, one in read.items() if one is not None and one[0] in steps}
                yield code, given, steps - read.keys()


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
