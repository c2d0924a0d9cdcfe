"""Code that returns ``status`` and ``data``, of which the result is the ``data``."""

from __future__ import annotations

import ast
import re

from noetl.dsl.python_source import parse_python
from noetl.formatting.nodes import Entry, Map, Text, inside, map_of, text_of
from noetl.formatting.spelling import rewrite
from noetl.formatting.templates import in_templates
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule

_ENVELOPE = frozenset({"status", "data", "error", "meta"})
_BOTH = frozenset({"data", "status"})
_READ = re.compile(r"(?<![\w.'\"])result(?=\.(data|status)\b)")
_TODAY = "noetl.io/v2"
_AFTER = ("save", "sink", "vars", "next", "case")


def apply(page: Page) -> None:
    """Read what the code returned as ``this``, where it always returns both."""
    older = text_of(page.root.get("apiVersion")) != _TODAY
    for owner in page.maps():
        inner = _keys_of_data(owner, older=older)
        if inner is None:
            continue
        for name in _AFTER:
            block = owner.get(name)
            for entry in inside(block) if block is not None else ():
                _read(page, entry, inner & _BOTH, older=older)


def _read(page: Page, entry: Entry, inner: set[str], *, older: bool) -> None:
    """Rewrite one text. ``inner``: names that both the envelope and its ``data`` have."""
    if not isinstance(entry.value, Text) or not isinstance(entry.value.value, str):
        return
    unclear: set[str] = set()

    def read(template: str) -> str:
        unclear.update(found[1] for found in _READ.finditer(template) if found[1] in inner)
        return _READ.sub(lambda found: found[0] if found[1] in inner else "this", template)

    changed = in_templates(entry.value.value, read)
    for name in sorted(unclear) if older else ():
        page.refuse(
            entry,
            f"`result.{name}` is read of code that returns `{name}` twice: beside `data`, and in it",
            f"write this.{name}, which is what the code returned, or this.data.{name}",
        )
    rewrite(entry.value, changed)


def _keys_of_data(owner: Map, *, older: bool) -> set[str] | None:
    """Return the keys of ``data``, where each result is ``status: success`` and ``data``.

    ``older``: of a release in which ``result`` was all that the code returned, so that other data than a mapping will do.
    """
    if owner.has("loop"):
        return None
    tool = owner.get("tool", "type")
    kind = kind_of(tool) if isinstance(tool, Map) else text_of(tool)
    code = map_of(tool).get("code") or owner.get("code")
    try:
        tree = parse_python(text_of(code) or "") if kind == "python" else ast.Module([], [])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = [_of_envelope(one, older=older) for one in _results(tree)]
    if not found or None in found:
        return None
    return set().union(*(one for one in found if one is not None))


def _results(tree: ast.Module) -> list[ast.expr | None]:
    """Return what the code returns: in ``main``, or as ``result``."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "main":
            inner = [one for one in ast.walk(node) if isinstance(one, ast.FunctionDef | ast.Lambda)]
            found = [one.value for one in ast.walk(node) if isinstance(one, ast.Return)]
            return found if len(inner) == 1 else []
    assigned = [one for one in ast.walk(tree) if isinstance(one, ast.Assign)]
    return [one.value for one in assigned if any(_is_result(target) for target in one.targets)]


def _is_result(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id == "result"


def _of_envelope(value: ast.expr | None, *, older: bool) -> set[str] | None:
    """Return the keys of the ``data`` of an envelope; None of any other value."""
    keys = _keys(value)
    if keys is None or not {"status", "data"} <= keys.keys() <= _ENVELOPE:
        return None
    status, data = keys["status"], _keys(keys["data"])
    if not isinstance(status, ast.Constant) or status.value != "success":
        return None
    return set(data) if data is not None else set() if older else None


def _keys(value: ast.expr | None) -> dict[str, ast.expr] | None:
    """Return the entries of a mapping that is written out; None of any other value."""
    if not isinstance(value, ast.Dict):
        return None
    found = {}
    for key, entry in zip(value.keys, value.values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            return None
        found[key.value] = entry
    return found


RULE = Rule(
    "result-envelope",
    "Of code that returns `status` and `data`, the result is the `data`.",
    apply,
    repairs=True,
)
