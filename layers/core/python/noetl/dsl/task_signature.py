"""The arguments that a task of the workbook takes, as a JSON Schema for a model."""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Collection, Iterator
from typing import Any

from noetl.dsl.expressions import has_template
from noetl.dsl.model.types import RESERVED
from noetl.dsl.python_source import parse_python
from noetl.dsl.yaml_text.tree import Mapping, Scalar, Tree, text_of

Schema = dict[str, Any]

_TYPES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
}
_SCOPES = RESERVED | {"context", "input", "execution_id", "logger", "noetl"}


def signature_of(task: Mapping, known: Collection[str] = ()) -> Schema:
    """Return the JSON Schema of the arguments that a caller may give to a task.

    They are the entries of its ``input`` with plain values, which are defaults, and what its Python code reads and nothing
    else gives. ``known``: names that the playbook has, which parameters of ``main`` get without a caller.
    """
    own = task.get("input", "args", "with")
    inputs = own if isinstance(own, Mapping) else Mapping({}, task.pos)
    properties: Schema = {
        key.text: {**_type_of(value), "default": value.plain()}
        for key, value in inputs.items()
        if not _computed(value)
    }
    taken = {*inputs.entries, *_SCOPES}
    required: list[str] = []
    for name, schema, needed in (
        _of_code(text_of(task.get("code")), known) if text_of(task.get("kind")) == "python" else ()
    ):
        if name not in taken:
            properties[name] = schema
            required += [name] if needed else []
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _computed(value: Tree) -> bool:
    if isinstance(value, Scalar):
        return isinstance(value.value, str) and has_template(value.value)
    inner = [one for _, one in value.items()] if isinstance(value, Mapping) else value.items
    return any(map(_computed, inner))


def _type_of(value: Tree) -> Schema:
    return _named(type(value.plain()).__name__)


def _named(name: str) -> Schema:
    return {"type": _TYPES[name]} if name in _TYPES else {}


def _of_code(code: str | None, known: Collection[str]) -> Iterator[tuple[str, Schema, bool]]:
    """Yield (name, schema, required) of each argument.

    They are the parameters of ``main``, or the names that code reads and nothing binds.
    """
    try:
        tree = parse_python(code or "")
        table = symtable.symtable(code or "", "<task>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == "main":
            yield from (one for one in _parameters(node.args) if one[0] not in known)
            return
    for name in dict.fromkeys(_unbound(table)):
        yield name, {}, True


def _parameters(given: ast.arguments) -> Iterator[tuple[str, Schema, bool]]:
    places = (*given.posonlyargs, *given.args)
    first = len(places) - len(given.defaults)
    for index, one in enumerate(places):
        yield one.arg, _annotated(one.annotation), index < first
    for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield one.arg, _annotated(one.annotation), default is None


def _annotated(annotation: ast.expr | None) -> Schema:
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    return _named(annotation.id) if isinstance(annotation, ast.Name) else {}


def _unbound(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield names that are read, and neither bound at the top nor built in."""
    top = {one.get_name() for one in table.get_symbols() if one.is_assigned() or one.is_imported()}
    waiting = [table]
    while waiting:
        inner = waiting.pop()
        for symbol in inner.get_symbols():
            name = symbol.get_name()
            reads = symbol.is_referenced() and (inner is table or symbol.is_global())
            if reads and name not in top and not hasattr(builtins, name):
                yield name
        waiting += inner.get_children()
