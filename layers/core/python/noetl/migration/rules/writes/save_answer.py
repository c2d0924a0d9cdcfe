"""``save``, ``vars`` and ``next`` of generation 1, which read a result by other names.

``result`` is the whole answer of an HTTP call; ``data`` in a ``save`` is the result of any task.
"""

from __future__ import annotations

import re

from noetl.formatting.nodes import Entry, Map, Text, inside, map_of, text_of
from noetl.formatting.spelling import rename, rewrite
from noetl.formatting.templates import Replace, in_templates
from noetl.migration.page import QUERIES, Page, kind_of
from noetl.migration.rule import Rule
from noetl.migration.rules.steps.http_result import read_as_answers

_FIRST = "noetl.io/v1"
_WRAPPED = re.compile(r"(?<![\w.'\"])(?:result|this)\.data\.data\b")
_ANSWER = re.compile(r"(?<![\w.'\"])result\.data\b")
_STATUS = re.compile(r"(?<![\w.'\"])result\.status(?=\s{0,9}(?:[=!<>]=|[<>]|in\b|not in\b)\s{0,9}[\d\[(])")
"""The status of an answer, where it is compared with numbers."""
_CODE = re.compile(r"\{\{\s{0,9}result\.status\s{0,9}\}\}")
"""The same as a whole value, where a guard of its step compares it."""
_WORD = re.compile(r"(?<![\w.'\"])result\.status\s{0,9}[=!]=\s{0,9}['\"](?:success|error)['\"]")
"""A status that is the envelope's or the body's own."""
_STATEMENTS = (*QUERIES, "statement")
"""Keys whose SQL reads what is written as ``data``."""
_WRITTEN = frozenset({"data", "args", "params"})
"""Keys of a ``save`` with what it writes: its SQL reads that as ``data``, and the result without them."""
_AROUND_IT = {"status_code": "status", "headers": "headers", "url": "url", "elapsed": "elapsed"}
_AROUND = re.compile(rf"(?<![\w.'\"])this\.data\.({'|'.join(_AROUND_IT)})\b")
_WHOLE = re.compile(r"(?<![\w.'\"])this\.data\b(?!\s*[.\[]|\s+is\s+(?:not\s+)?defined\b)")
"""The whole answer, where it is neither a part that is read nor a question whether it is there."""
_NOTE = "`this.data` is the whole answer, with its status and headers"
_ALL = (
    "({'status_code': outcome.http.status, 'headers': outcome.http.headers, 'url': outcome.http.url, "
    "'elapsed': outcome.http.elapsed, 'data': result})"
)


def apply(page: Page) -> None:
    """Read the answer as ``response``: beside a ``save`` the result is the body alone.

    ``data`` is the result.
    """
    if text_of(page.root.get("apiVersion")) != _FIRST:
        for owner in page.steps() if read_as_answers(page) else ():
            for entry in _after_call(owner) if _calls_http(owner) else ():
                _read_answer(page, entry, sure=False, around=False)
        return
    taken = _is_taken(page)
    for owner in page.maps():
        http = _calls_http(owner)
        for name in ("save", "sink"):
            block = owner.get(name)
            entries = list(inside(block)) if isinstance(block, Map) else []
            for entry in entries:
                if not taken and (entry.key not in _STATEMENTS or not _WRITTEN & set(map_of(block).keys())):
                    _read_data(page, owner, entry, _data_of_this if http else _data_of_result)
            sure = any(_AROUND.search(text_of(entry.value) or "") for entry in entries)
            for entry in entries if http else ():
                _read_answer(page, entry, sure=sure)
        later = _after_call(owner) if http else []
        number = any(_STATUS.search(text_of(entry.value) or "") for entry in later)
        for entry in later:
            if _WORD.search(text_of(entry.value) or ""):
                page.refuse(
                    entry,
                    "`result.status` of an HTTP call is compared with a word, and an answer has a number",
                    "write response.status_code == 200, or response.data.status for the body's own",
                )
            _read_answer(page, entry, sure=False, around=False)
            if number and isinstance(entry.value, Text) and _CODE.fullmatch(text_of(entry.value) or ""):
                rewrite(entry.value, "{{ response.status_code }}")


def _after_call(owner: Map) -> list[Entry]:
    """Return the values of ``vars`` and ``next`` of a step that calls an API once."""
    if owner.has("loop") or not owner.has("step"):
        return []
    return [
        entry
        for name in ("vars", "next")
        if (block := owner.get(name)) is not None
        for entry in inside(block)
    ]


def _is_taken(page: Page) -> bool:
    """Return whether ``data`` is a name of the playbook's own."""
    items = (text_of(one.get(name)) for one in page.maps() for name in ("element", "iterator"))
    return "data" in page.step_names() or map_of(page.root.get("workload")).has("data") or "data" in items


def _data_of_this(name: str, attribute: str | None) -> tuple[str, bool] | None:
    return ("this.data", False) if name == "data" else None


def _data_of_result(name: str, attribute: str | None) -> tuple[str, bool] | None:
    return ("result", False) if name == "data" else None


def _read_data(page: Page, owner: Map, entry: Entry, change: Replace) -> None:
    """Read ``data`` in one text as the result.

    In SQL, some releases read the input of the task by this name.
    """
    given, unclear = owner.get("args", "with", "input"), False

    def in_statement(name: str, attribute: str | None) -> tuple[str, bool] | None:
        nonlocal unclear
        made = change(name, attribute)
        if made is None or (isinstance(given, Map) and (attribute is None or given.has(attribute))):
            return None
        unclear = unclear or isinstance(given, Text)
        return made

    rename(entry.value, in_statement if entry.key in _STATEMENTS else change)
    if unclear:
        page.note(entry, "`data` in the SQL of a `save` is the result of the task, not its input")


def _calls_http(owner: Map) -> bool:
    tool = owner.get("tool", "type")
    return (kind_of(tool) if isinstance(tool, Map) else text_of(tool)) == "http"


def _read_answer(page: Page, entry: Entry, *, sure: bool, around: bool = True) -> None:
    """Rewrite one text. ``sure``: another one of the same block reads what is around the body.

    ``around``: it is a ``save``, whose ``this.data`` is the whole answer.
    """
    value = entry.value
    if not isinstance(value, Text) or not isinstance(value.value, str):
        return
    notes: set[str] = set()
    text = in_templates(value.value, lambda template: _renamed(template, notes, around=around))
    for note in sorted(notes):
        page.note(entry, note, safe=sure and note == _NOTE)
    rewrite(value, text)


def _renamed(template: str, notes: set[str], *, around: bool) -> str:
    if _WRAPPED.search(template):
        notes.add("`data.data` of the answer is read as the body, of a body with a key `data` as that key")
    template = _ANSWER.sub("response.data", _WRAPPED.sub("response.data", template))
    if not around:
        return _STATUS.sub("response.status_code", template)
    template = _AROUND.sub(lambda found: f"outcome.http.{_AROUND_IT[found[1]]}", template)
    if _WHOLE.search(template):
        notes.add(_NOTE)
    return _WHOLE.sub(_ALL, template)


RULE = Rule(
    "save-answer",
    "What is saved or asked is read from the result of the task, of an HTTP call from its answer.",
    apply,
)
