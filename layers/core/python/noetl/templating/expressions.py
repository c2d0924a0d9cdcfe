"""Syntax tree to Python closures: expressions.

Templates are never turned into Python code. Every node becomes a small function of the ``Run``; what has no function here
does not exist in the language.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from jinja2 import nodes

from noetl.domain.errors import TemplateError
from noetl.templating.access import METHOD_NAMES, attribute, describe, item, missing_key, slice_of
from noetl.templating.filters import FILTERS, default
from noetl.templating.limits import Meter
from noetl.templating.operators import BINARY, COMPARE, concat, operand
from noetl.templating.predicates import TESTS
from noetl.templating.run import Namespace, Run, callee
from noetl.templating.sequences import mapped, selected
from noetl.templating.undefined import Undefined, closest
from noetl.templating.views import BLANK, MISSING, SCALARS, MapView, View, is_simple, wrap

Evaluate = Callable[[Run], Any]

_CALLABLE = (partial, FunctionType, BuiltinFunctionType, MethodType)


def compile_node(node: nodes.Node) -> Evaluate:
    """Compile an expression node to the function that evaluates it.

    Raises TemplateError(code="template_syntax").
    """
    maker = _MAKERS.get(type(node))
    if maker is None:
        word = type(node).__name__
        raise TemplateError(
            f"{word} is not available in templates",
            code="template_syntax",
            details={"source_line": node.lineno},
        )
    return maker(node)


def constant(node: nodes.Node) -> Any:
    """Return the value of a literal, ``MISSING`` for anything else."""
    return node.value if isinstance(node, nodes.Const) else MISSING


def _const(node: nodes.Const) -> Evaluate:
    value = node.value
    return lambda run: value


def path_of(node: nodes.Node) -> tuple[str, tuple[str, ...]] | None:
    """Return ``a.b['c']`` as root and keys, ``None`` for anything else."""
    keys: list[str] = []
    while isinstance(node, (nodes.Getattr, nodes.Getitem)):
        key = node.attr if isinstance(node, nodes.Getattr) else constant(node.arg)
        if not isinstance(key, str):
            return None
        keys.append(key)
        node = node.node
    return (node.name, tuple(reversed(keys))) if isinstance(node, nodes.Name) else None


def _name(node: nodes.Name) -> Evaluate:
    name = node.name
    return lambda run: run.load(name)


def _path(root: str, keys: tuple[str, ...]) -> Evaluate:
    """Compile a path.

    It is the hot path: plain mappings are walked without making a view of each.
    """

    def walk(run: Run) -> Any:
        value = run.load(root)
        for place, key in enumerate(keys):
            if not isinstance(value, View):
                return _walk_on(run, value, keys[place:])
            if type(value) is not MapView or type(value.raw) is not dict:
                found = value.attribute(key)
                if found is MISSING:
                    return _walk_on(run, value, keys[place:])
                value = found
                continue
            found = value.raw.get(key, MISSING)
            if found is MISSING:
                return _walk_on(run, value, keys[place:])
            if type(found) in SCALARS:
                value = found
            elif type(found) is dict and is_simple(found):
                value = MapView(found, value.hydrate)
            else:
                value = wrap(found, value.hydrate)
        return value

    return walk


def _walk_on(run: Run, value: Any, keys: tuple[str, ...]) -> Any:
    if isinstance(value, MapView) and keys[0] not in METHOD_NAMES:
        return missing_key(value, keys[0])
    for key in keys:
        value = attribute(run.meter, value, key)
    return value


def _getattr(node: nodes.Getattr) -> Evaluate:
    path = path_of(node)
    if path is not None:
        return _path(*path)
    inner, name = compile_node(node.node), node.attr
    return lambda run: attribute(run.meter, inner(run), name)


def _getitem(node: nodes.Getitem) -> Evaluate:
    path = path_of(node)
    if path is not None:
        return _path(*path)
    inner = compile_node(node.node)
    if isinstance(node.arg, nodes.Slice):
        bounds = [
            compile_node(part) if part else (lambda run: None)
            for part in (node.arg.start, node.arg.stop, node.arg.step)
        ]
        return lambda run: slice_of(run.meter, inner(run), *(bound(run) for bound in bounds))
    key = compile_node(node.arg)
    return lambda run: item(run.meter, inner(run), key(run))


def _many(items: list[Any]) -> Callable[[Run], list[Any]]:
    parts = [compile_node(part) for part in items]
    return lambda run: [part(run) for part in parts]


def _list(node: nodes.List) -> Evaluate:
    return _many(node.items)


def _tuple(node: nodes.Tuple) -> Evaluate:
    parts = _many(node.items)
    return lambda run: tuple(parts(run))


def _dict(node: nodes.Dict) -> Evaluate:
    entries = [(compile_node(pair.key), compile_node(pair.value)) for pair in node.items]
    return lambda run: {operand(key(run)): value(run) for key, value in entries}


def _seen(run: Run, value: Any) -> Any:
    """Return ``value``; False for a missing one in a lenient run."""
    return False if run.lenient and isinstance(value, Undefined) else value


def _and(node: nodes.And) -> Evaluate:
    left, right = compile_node(node.left), compile_node(node.right)
    return lambda run: _seen(run, left(run)) and right(run)


def _or(node: nodes.Or) -> Evaluate:
    left, right = compile_node(node.left), compile_node(node.right)
    return lambda run: _seen(run, left(run)) or right(run)


def _not(node: nodes.Not) -> Evaluate:
    inner = compile_node(node.node)
    return lambda run: not _seen(run, inner(run))


def _negative(node: nodes.Neg) -> Evaluate:
    inner, subtract = compile_node(node.node), BINARY["Sub"]
    return lambda run: subtract(run.meter, 0, inner(run))


def _positive(node: nodes.Pos) -> Evaluate:
    inner, subtract = compile_node(node.node), BINARY["Sub"]
    return lambda run: subtract(run.meter, inner(run), 0)


def _binary(node: nodes.BinExpr) -> Evaluate:
    left, right = compile_node(node.left), compile_node(node.right)
    apply = BINARY[type(node).__name__]
    return lambda run: apply(run.meter, left(run), right(run))


def _concat(node: nodes.Concat) -> Evaluate:
    parts = _many(node.nodes)
    return lambda run: concat(run.meter, parts(run))


def _compare(node: nodes.Compare) -> Evaluate:
    first = compile_node(node.expr)
    rest = [(COMPARE[operand.op], operand.op, compile_node(operand.expr)) for operand in node.ops]
    if len(rest) == 1:
        apply, symbol, second = rest[0]
        if symbol in ("eq", "ne"):
            return _equality(first, second, apply, symbol == "eq")
        return lambda run: _compared(run, symbol, apply, first(run), second(run))

    def chain(run: Run) -> Any:
        left = first(run)
        for apply, symbol, second in rest:
            right = second(run)
            if not _compared(run, symbol, apply, left, right):
                return False
            left = right
        return True

    return chain


def _equality(first: Evaluate, second: Evaluate, apply: Callable[..., Any], wanted: bool) -> Evaluate:
    def compare(run: Run) -> Any:
        left, right = first(run), second(run)
        if type(left) in SCALARS and type(right) in SCALARS:
            return (left == right) is wanted
        return _compared(run, "eq" if wanted else "ne", apply, left, right)

    return compare


def _compared(run: Run, symbol: str, apply: Callable[..., Any], left: Any, right: Any) -> Any:
    """Compare two values; in a lenient run a missing one equals nothing, and is in nothing."""
    if run.lenient and (isinstance(left, Undefined) or isinstance(right, Undefined)):
        return symbol in ("ne", "notin")
    return apply(run.meter, left, right)


def _condition(node: nodes.CondExpr) -> Evaluate:
    test, yes = _choice(node), compile_node(node.expr1)
    if node.expr2 is None:
        return lambda run: yes(run) if test(run) else BLANK
    no = compile_node(node.expr2)
    return lambda run: yes(run) if test(run) else no(run)


def _choice(node: nodes.CondExpr) -> Evaluate:
    """Compile the test of an inline ``if``.

    A bare name without a value is false where the run says so.
    """
    negated = isinstance(node.test, nodes.Not)
    name = node.test.node if isinstance(node.test, nodes.Not) else node.test
    if not isinstance(name, nodes.Name):
        whole = compile_node(node.test)
        return lambda run: _seen(run, whole(run))
    value = compile_node(name)

    def holds(run: Run) -> Any:
        found = value(run)
        if run.chooses and isinstance(found, Undefined):
            return negated
        seen = _seen(run, found)
        return not seen if negated else seen

    return holds


def _known(kind: str, name: str, table: dict[str, Any], line: int) -> None:
    if name not in table:
        nearest = closest(name, table)
        raise TemplateError(
            f"there is no {kind} {name!r}",
            code="template_syntax",
            hint=f"did you mean {nearest!r}?" if nearest else None,
            details={"source_line": line, "near": name},
        )


def _arguments(
    node: nodes.Call | nodes.Filter | nodes.Test,
) -> Callable[[Run], tuple[list[Any], dict[str, Any]]]:
    if node.dyn_args is not None or node.dyn_kwargs is not None:
        raise TemplateError(
            "* and ** in a call are not available in templates",
            code="template_syntax",
            details={"source_line": node.lineno},
        )
    args = _many(node.args)
    named = [
        (str(keyword.key), compile_node(keyword.value))
        for keyword in node.kwargs
        if isinstance(keyword, nodes.Keyword)
    ]

    def evaluate(run: Run) -> tuple[list[Any], dict[str, Any]]:
        return _defined(args(run)), {key: _defined([value(run)])[0] for key, value in named}

    return evaluate


def _defined(values: list[Any]) -> list[Any]:
    for value in values:
        if isinstance(value, Undefined):
            raise value.error()
    return values


def make_filter(node: nodes.Filter, inner: Evaluate) -> Evaluate:
    """Make a filter over the value of ``inner``."""
    name = node.name
    _known("filter", name, ALL_FILTERS, node.lineno)
    if name in ("default", "d"):
        return _default(node, inner)
    apply = ALL_FILTERS[name]
    arguments = _arguments(node) if node.args or node.kwargs or node.dyn_args or node.dyn_kwargs else None

    def evaluate(run: Run) -> Any:
        value = inner(run)
        if isinstance(value, Undefined):
            if run.lenient:
                return _of_nothing(run, value, apply, arguments)
            raise value.error()
        meter = run.meter
        meter.tick(4)
        if arguments is None:
            return apply(meter, value)
        args, named = arguments(run)
        return apply(meter, value, *args, **named)

    return evaluate


def _of_nothing(run: Run, missing: Undefined, apply: Callable[..., Any], arguments: Any) -> Any:
    """Apply a filter to a missing value as to an empty text.

    A filter that cannot be applied to it leaves it missing.
    """
    args, named = arguments(run) if arguments is not None else ((), {})
    try:
        return apply(run.meter, "", *args, **named)
    except TemplateError as error:
        if error.code == "template_limit":
            raise
        return missing


def _default(node: nodes.Filter, inner: Evaluate) -> Evaluate:
    """Compile ``| default``: its fallback is evaluated only when it is needed.

    One that is missing itself leaves the value missing, for a ``default`` behind it; in a guard it is an error, so that the guard is false.
    """
    arguments = _arguments(node)
    alone = compile_node(node.args[0]) if len(node.args) == 1 and not node.kwargs else None

    def evaluate(run: Run) -> Any:
        value = inner(run)
        if value is not BLANK and not isinstance(value, Undefined) and not node.kwargs and len(node.args) < 2:
            return value
        if alone is not None and not run.lenient:
            return alone(run)
        args, named = arguments(run)
        return default(run.meter, value, *args, **named)

    return evaluate


def _filter(node: nodes.Filter) -> Evaluate:
    if node.node is None:
        raise TemplateError(
            "a filter needs a value", code="template_syntax", details={"source_line": node.lineno}
        )
    return make_filter(node, compile_node(node.node))


def _test(node: nodes.Test) -> Evaluate:
    name = node.name
    _known("test", name, TESTS, node.lineno)
    inner, apply, takes_undefined = compile_node(node.node), TESTS[name], name in ("defined", "undefined")
    arguments = _arguments(node)

    def evaluate(run: Run) -> Any:
        value = inner(run)
        if isinstance(value, Undefined) and not takes_undefined:
            if run.lenient:
                return False
            raise value.error()
        args, named = arguments(run)
        return apply(run.meter, value, *args, **named)

    return evaluate


def _call(node: nodes.Call) -> Evaluate:
    name = node.node.name if isinstance(node.node, nodes.Name) else ""
    target, arguments = callee(name) or compile_node(node.node), _arguments(node)

    def evaluate(run: Run) -> Any:
        function = target(run)
        if isinstance(function, Undefined):
            raise function.error()
        if not isinstance(function, _CALLABLE) and function is not Namespace:
            raise TemplateError(f"{describe(function)} cannot be called", hint="leave out the ()")
        args, named = arguments(run)
        run.meter.tick(4)
        found = function(*args, **named)
        return found if isinstance(function, partial) else wrap(found)

    return evaluate


_MAKERS: dict[type[nodes.Node], Callable[[Any], Evaluate]] = {
    nodes.Const: _const,
    nodes.Name: _name,
    nodes.Getattr: _getattr,
    nodes.Getitem: _getitem,
    nodes.List: _list,
    nodes.Tuple: _tuple,
    nodes.Dict: _dict,
    nodes.And: _and,
    nodes.Or: _or,
    nodes.Not: _not,
    nodes.Neg: _negative,
    nodes.Pos: _positive,
    nodes.Concat: _concat,
    nodes.Compare: _compare,
    nodes.CondExpr: _condition,
    nodes.Filter: _filter,
    nodes.Test: _test,
    nodes.Call: _call,
    **dict.fromkeys(
        (nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow), _binary
    ),
}


def _apply_filter(meter: Meter, name: str, value: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    _known("filter", name, ALL_FILTERS, 0)
    meter.tick(4)
    if isinstance(value, Undefined) and name not in ("default", "d"):
        raise value.error()
    return ALL_FILTERS[name](meter, value, *args, **named)


def _apply_test(meter: Meter, name: str, value: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    _known("test", name, TESTS, 0)
    meter.tick(4)
    if isinstance(value, Undefined) and name not in ("defined", "undefined"):
        raise value.error()
    return TESTS[name](meter, value, *args, **named)


def _selecting(wanted: bool, by_attribute: bool) -> Callable[..., Any]:
    return lambda meter, value, *args, **named: selected(
        meter, _apply_test, wanted, by_attribute, value, *args, **named
    )


ALL_FILTERS: dict[str, Callable[..., Any]] = {
    **FILTERS,
    "map": lambda meter, value, *args, **named: mapped(meter, _apply_filter, value, *args, **named),
    "select": _selecting(True, False),
    "reject": _selecting(False, False),
    "selectattr": _selecting(True, True),
    "rejectattr": _selecting(False, True),
}
__all__ = ["ALL_FILTERS", "Evaluate", "compile_node", "make_filter", "missing_key", "path_of"]
