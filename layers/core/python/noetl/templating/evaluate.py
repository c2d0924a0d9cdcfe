"""Nodes of a Program to values: ``render`` and ``is_true``.

What reads templates is loaded with the first one: many processes meet none, and loading it takes a tenth of a short command.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from noetl.domain.errors import TemplateError
from noetl.dsl.program import Expr, LiteralNode, Map, Node, Seq, Sql, Text
from noetl.templating.contract import Scope
from noetl.templating.limits import DEFAULT_LIMITS, Allowance
from noetl.templating.plain import to_text, unwrap
from noetl.templating.positions import fail
from noetl.templating.run import Run
from noetl.templating.sql import compiled_sql, render_sql
from noetl.templating.undefined import Undefined
from noetl.templating.views import View, content

if TYPE_CHECKING:
    from noetl.templating.expressions import Evaluate
    from noetl.templating.statements import Out, Statement

CACHE_SIZE = 4096
"""Compiled templates kept, by source."""
_TRUE = frozenset(("true", "1", "yes"))
_FALSE = frozenset(("false", "0", "no", "none", ""))


@lru_cache(CACHE_SIZE)
def compiled_expression(source: str) -> Evaluate:
    """Compile an expression to a function.

    Raises TemplateError (``template_syntax``, ``template_limit``).
    """
    from noetl.templating.expressions import compile_node
    from noetl.templating.parser import parse_expression

    return compile_node(parse_expression(source))


@lru_cache(CACHE_SIZE)
def compiled_text(source: str) -> Statement:
    """Compile a text with templates to a function.

    Raises TemplateError (``template_syntax``, ``template_limit``).
    """
    from noetl.templating.parser import parse_template
    from noetl.templating.statements import Blocks, emit_text

    return Blocks(emit_text).compile(list(parse_template(source).body))


def render(node: Node, scope: Scope, limits: Allowance = DEFAULT_LIMITS) -> Any:
    """Render a node to plain JSON (``Sql`` to ``RenderedSql``).

    ``limits`` hold for each template in it; a ``Meter`` counts them together.

    ``Expr`` keeps the type of its value; a value that is exactly a large result stays its reference. Stored values are
    returned as they are, not copied: do not change them. Raises TemplateError with ``template``, ``line`` and ``column`` in
    ``details``.
    """
    return _RENDER[type(node)](node, scope, limits)


def _render_lit(node: LiteralNode, scope: Scope, limits: Allowance) -> Any:
    return node.value


def _render_expr(node: Expr, scope: Scope, limits: Allowance) -> Any:
    run = Run(scope, limits, chooses=node.chooses)
    try:
        return unwrap(compiled_expression(node.source)(run))
    except Exception as error:
        fail(error, node, run.line)


def _render_text(node: Text, scope: Scope, limits: Allowance) -> str:
    run = Run(scope, limits, lenient=node.lenient, chooses=node.chooses)
    out: Out = []
    try:
        compiled_text(node.source)(run, out)
        return "".join(out)
    except Exception as error:
        fail(error, node, run.line)


def _render_map(node: Map, scope: Scope, limits: Allowance) -> dict[str, Any]:
    return {key: render(entry, scope, limits) for key, entry in node.entries}


def _render_seq(node: Seq, scope: Scope, limits: Allowance) -> list[Any]:
    return [render(entry, scope, limits) for entry in node.items]


_RENDER: dict[type[Node], Callable[[Any, Scope, Allowance], Any]] = {
    LiteralNode: _render_lit,
    Expr: _render_expr,
    Text: _render_text,
    Sql: lambda node, scope, limits: render_sql(node, scope, limits=limits),
    Map: _render_map,
    Seq: _render_seq,
}


def check(node: Node) -> None:
    """Find what is wrong with a node's templates without evaluating them.

    It finds syntax errors, unknown filters and tests, blocks that do not exist, and deep nesting. Raises TemplateError with its place.
    """
    if isinstance(node, Map):
        for _, entry in node.entries:
            check(entry)
    elif isinstance(node, Seq):
        for entry in node.items:
            check(entry)
    elif not isinstance(node, LiteralNode):
        compiled: Callable[[str], Any] = _COMPILE[type(node)]
        try:
            compiled(node.source)
        except Exception as error:
            fail(error, node, 1)


_COMPILE: dict[type[Node], Callable[[str], Any]] = {
    Expr: compiled_expression,
    Text: compiled_text,
    Sql: compiled_sql,
}


def is_true(node: Node, scope: Scope, limits: Allowance = DEFAULT_LIMITS) -> bool:
    """Evaluate a guard: true, 1 and yes against false, 0, no, none and nothing.

    Texts count in any case.

    A lenient node is false where it needs a value that is missing. Raises TemplateError(code="template_type") for anything else.
    """
    try:
        return _holds(node, scope, limits)
    except TemplateError as error:
        if error.code == "undefined" and isinstance(node, (Expr, Text)) and node.lenient:
            return False
        raise


def _holds(node: Node, scope: Scope, limits: Allowance) -> bool:
    if not isinstance(node, Expr):
        value = render(node, scope, limits)
        try:
            return _verdict(value)
        except TemplateError as error:
            if isinstance(node, Text):
                fail(error, node, 1)
            raise
    run = Run(scope, limits, lenient=node.lenient, chooses=node.chooses)
    try:
        value = compiled_expression(node.source)(run)
        return False if node.lenient and isinstance(value, Undefined) else _verdict(content(value))
    except Exception as error:
        fail(error, node, run.line)


def _verdict(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value is None:
        return False
    if isinstance(value, (int, float)) and value in (0, 1):
        return value == 1
    if isinstance(value, str):
        word = value.strip().lower()
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
    shown = to_text(value) if isinstance(value, View) else to_text(unwrap(value))
    hint = "compare it, with == or >" if isinstance(value, (str, int, float)) else "write … | length > 0"
    raise TemplateError(
        f"a condition must be true or false, not {shown[:60]!r}",
        code="template_type",
        hint=hint,
        details={"value": shown[:200]},
    )
