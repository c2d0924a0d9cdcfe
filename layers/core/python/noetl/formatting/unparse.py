"""A Jinja expression as text again, after a part of it was removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2 import nodes

_COMPARE = {
    "eq": "==", "ne": "!=", "lt": "<", "lteq": "<=", "gt": ">", "gteq": ">=", "in": "in", "notin": "not in",
}  # fmt: skip
_BINARY = {
    nodes.Add: ("+", 6), nodes.Sub: ("-", 6), nodes.Mul: ("*", 8), nodes.Div: ("/", 8), nodes.FloorDiv: ("//", 8),
    nodes.Mod: ("%", 8), nodes.Pow: ("**", 10), nodes.And: ("and", 3), nodes.Or: ("or", 2),
}  # fmt: skip
_ATOM = 12


class UnsayableError(Exception):
    """An expression of a kind that is not written back."""


def unparse(node: nodes.Node) -> str:
    """Write the text of an expression, with brackets where they are needed."""
    return _text(node)[0]


def _text(node: Any) -> tuple[str, int]:
    """(text, how tightly it holds together)."""
    kind = type(node)
    if kind in _BINARY:
        sign, strength = _BINARY[kind]
        return f"{_held(node.left, strength)} {sign} {_held(node.right, strength + 1)}", strength
    made = _OTHERS.get(kind)
    if made is None:
        raise UnsayableError(kind.__name__)
    return made(node)


def _held(node: Any, strength: int) -> str:
    text, own = _text(node)
    return text if own >= strength else f"({text})"


def _const(node: nodes.Const) -> tuple[str, int]:
    value = node.value
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value], _ATOM
    if isinstance(value, str):
        return quote(value), _ATOM
    return repr(value), _ATOM


def quote(value: str) -> str:
    """Write a text as a Jinja literal in single quotes."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def _compare(node: nodes.Compare) -> tuple[str, int]:
    parts = [_held(node.expr, 6)]
    for operand in node.ops:
        parts += [_COMPARE[operand.op], _held(operand.expr, 6)]
    return " ".join(parts), 5


def _arguments(node: nodes.Call | nodes.Filter | nodes.Test) -> str:
    parts = [_text(argument)[0] for argument in node.args]
    parts += [f"{pair.key}={_text(pair.value)[0]}" for pair in node.kwargs]
    if node.dyn_args is not None:
        parts.append(f"*{_text(node.dyn_args)[0]}")
    if node.dyn_kwargs is not None:
        parts.append(f"**{_text(node.dyn_kwargs)[0]}")
    return ", ".join(parts)


def _call(node: nodes.Call) -> tuple[str, int]:
    return f"{_held(node.node, _ATOM)}({_arguments(node)})", _ATOM


def _filter(node: nodes.Filter) -> tuple[str, int]:
    given = _arguments(node)
    chain = isinstance(node.node, nodes.Filter)
    inner = "" if node.node is None else _text(node.node)[0] if chain else _held(node.node, 11)
    return f"{inner} | {node.name}{f'({given})' if given else ''}", 5


def _test(node: nodes.Test) -> tuple[str, int]:
    given = _arguments(node)
    return f"{_held(node.node, 6)} is {node.name}{f'({given})' if given else ''}", 5


def _not(node: nodes.Not) -> tuple[str, int]:
    if isinstance(node.node, nodes.Test):
        text, _ = _test(node.node)
        head, _, tail = text.rpartition(" is ")
        return f"{head} is not {tail}", 5
    return f"not {_held(node.node, 4)}", 4


def _getattr(node: nodes.Getattr) -> tuple[str, int]:
    return f"{_held(node.node, _ATOM)}.{node.attr}", _ATOM


def _getitem(node: nodes.Getitem) -> tuple[str, int]:
    return f"{_held(node.node, _ATOM)}[{_text(node.arg)[0]}]", _ATOM


def _slice(node: nodes.Slice) -> tuple[str, int]:
    parts = [_text(part)[0] if part is not None else "" for part in (node.start, node.stop)]
    step = f":{_text(node.step)[0]}" if node.step is not None else ""
    return f"{parts[0]}:{parts[1]}{step}", 0


def _dict(node: nodes.Dict) -> tuple[str, int]:
    return "{" + ", ".join(f"{_text(p.key)[0]}: {_text(p.value)[0]}" for p in node.items) + "}", _ATOM


def _tuple(node: nodes.Tuple) -> tuple[str, int]:
    inner = ", ".join(_text(item)[0] for item in node.items)
    return f"({inner}{',' if len(node.items) == 1 else ''})", _ATOM


def _choice(node: nodes.CondExpr) -> tuple[str, int]:
    other = f" else {_held(node.expr2, 1)}" if node.expr2 is not None else ""
    return f"{_held(node.expr1, 2)} if {_held(node.test, 2)}{other}", 1


_OTHERS: dict[type, Callable[[Any], tuple[str, int]]] = {
    nodes.Name: lambda node: (node.name, _ATOM),
    nodes.Const: _const,
    nodes.TemplateData: lambda node: (quote(node.data), _ATOM),
    nodes.Compare: _compare,
    nodes.Call: _call,
    nodes.Filter: _filter,
    nodes.Test: _test,
    nodes.Not: _not,
    nodes.Neg: lambda node: (f"-{_held(node.node, 9)}", 9),
    nodes.Pos: lambda node: (f"+{_held(node.node, 9)}", 9),
    nodes.Getattr: _getattr,
    nodes.Getitem: _getitem,
    nodes.Slice: _slice,
    nodes.List: lambda node: (f"[{', '.join(_text(item)[0] for item in node.items)}]", _ATOM),
    nodes.Tuple: _tuple,
    nodes.Dict: _dict,
    nodes.CondExpr: _choice,
    nodes.Concat: lambda node: (" ~ ".join(_held(item, 8) for item in node.nodes), 7),
}
