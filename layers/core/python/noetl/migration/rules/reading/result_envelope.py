"""Code that returns ``status`` and ``data``, of which the result is the ``data``."""

from __future__ import annotations

import ast
import re

from noetl.dsl.python_source import parse_python
from noetl.formatting.nodes import Map, Text, inside, map_of, text_of
from noetl.formatting.spelling import rewrite
from noetl.formatting.templates import in_templates
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule

_ENVELOPE = frozenset({"status", "data", "error", "meta"})
_READ = re.compile(r"(?<![\w.'\"])result(?=\.(?:data|status)\b)")
_AFTER = ("save", "sink", "vars", "next", "case")


def apply(page: Page) -> None:
    """Read what the code returned as ``this``, where it always returns both."""
    for owner in page.maps():
        if not _returns_envelope(owner):
            continue
        for name in _AFTER:
            block = owner.get(name)
            for entry in inside(block) if block is not None else ():
                if isinstance(entry.value, Text) and isinstance(entry.value.value, str):
                    changed = in_templates(entry.value.value, lambda template: _READ.sub("this", template))
                    rewrite(entry.value, changed)


def _returns_envelope(owner: Map) -> bool:
    """Return whether each result of the code has ``status: success`` and ``data``."""
    if owner.has("loop"):
        return False
    tool = owner.get("tool", "type")
    kind = kind_of(tool) if isinstance(tool, Map) else text_of(tool)
    code = map_of(tool).get("code") or owner.get("code")
    try:
        tree = parse_python(text_of(code) or "") if kind == "python" else ast.Module([], [])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    results = _results(tree)
    return bool(results) and all(map(_is_envelope, results))


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


def _is_envelope(value: ast.expr | None) -> bool:
    keys = _keys(value)
    if keys is None or not {"status", "data"} <= keys.keys() <= _ENVELOPE:
        return False
    status, data = keys["status"], _keys(keys["data"])
    succeeded = isinstance(status, ast.Constant) and status.value == "success"
    return succeeded and data is not None and not {"data", "status"} & data.keys()


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
