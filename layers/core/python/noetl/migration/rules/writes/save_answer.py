"""``save`` of an HTTP call of generation 1, which reads the whole answer as ``result``."""

from __future__ import annotations

import re

from noetl.formatting.nodes import Entry, Map, Text, inside, text_of
from noetl.formatting.spelling import rewrite
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule

_FIRST = "noetl.io/v1"
_WRAPPED = re.compile(r"(?<![\w.'\"])(?:result|this)\.data\.data\b")
_ANSWER = re.compile(r"(?<![\w.'\"])result\.data\b")


def apply(page: Page) -> None:
    """Read the answer as ``response``: beside a ``save`` the result is the body alone."""
    if text_of(page.root.get("apiVersion")) != _FIRST:
        return
    for owner in page.maps():
        if _calls_http(owner):
            for name in ("save", "sink"):
                block = owner.get(name)
                for entry in inside(block) if isinstance(block, Map) else ():
                    _read_answer(page, entry)


def _calls_http(owner: Map) -> bool:
    tool = owner.get("tool", "type")
    return (kind_of(tool) if isinstance(tool, Map) else text_of(tool)) == "http"


def _read_answer(page: Page, entry: Entry) -> None:
    value = entry.value
    if not isinstance(value, Text) or not isinstance(value.value, str):
        return
    start, *templates = value.value.split("{{")
    expressions = [template.partition("}}") for template in templates]
    if any(_WRAPPED.search(expression) for expression, _, _ in expressions):
        page.note(
            entry, "`data.data` of the answer is read as the body, of a body with a key `data` as that key"
        )
    rewrite(value, "{{".join([start, *(_renamed(one) + end + rest for one, end, rest in expressions)]))


def _renamed(expression: str) -> str:
    return _ANSWER.sub("response.data", _WRAPPED.sub("response.data", expression))


RULE = Rule("save-answer", "What is saved of an HTTP call is read from its answer, `response`.", apply)
