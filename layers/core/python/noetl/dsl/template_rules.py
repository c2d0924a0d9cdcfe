"""What a template may contain: filters, tests, statements, and its depth.

It is known without the evaluator.

``noetl.templating`` decides what happens when a template runs; a test keeps these lists equal to what it offers.
"""

from __future__ import annotations

from collections.abc import Iterable

from jinja2 import nodes

from noetl.domain.sizes.table import TEMPLATE_BRACKETS, TEMPLATE_SOURCE, TEMPLATE_TREE
from noetl.dsl.diagnostics import did_you_mean

FILTERS = frozenset(
    {
        *(
            "abs",
            "attr",
            "b64decode",
            "b64encode",
            "batch",
            "capitalize",
            "center",
            "count",
            "d",
            "default",
            "combine",
            "dictsort",
            "e",
        ),
        *(
            "epoch",
            "escape",
            "filesizeformat",
            "first",
            "float",
            "format",
            "fromjson",
            "groupby",
            "identifier",
            "indent",
        ),
        *(
            "int",
            "isoformat",
            "items",
            "join",
            "last",
            "length",
            "list",
            "lower",
            "map",
            "max",
            "md5",
            "min",
            "raw_sql",
        ),
        *(
            "reject",
            "rejectattr",
            "replace",
            "reverse",
            "round",
            "safe",
            "select",
            "selectattr",
            "sha256",
            "slice",
            "sort",
        ),
        *(
            "string",
            "sum",
            "title",
            "tojson",
            "trim",
            "truncate",
            "unique",
            "upper",
            "urlencode",
            "wordcount",
        ),
    }
)
TESTS = frozenset(
    {
        *(
            "!=",
            "<",
            "<=",
            "==",
            ">",
            ">=",
            "boolean",
            "defined",
            "divisibleby",
            "eq",
            "equalto",
            "even",
            "false",
            "float",
        ),
        *(
            "ge",
            "greaterthan",
            "gt",
            "gteq",
            "in",
            "integer",
            "iterable",
            "le",
            "lessthan",
            "lower",
            "lt",
            "lteq",
            "mapping",
        ),
        *(
            "ne",
            "none",
            "null",
            "number",
            "odd",
            "sameas",
            "sequence",
            "string",
            "true",
            "undefined",
            "upper",
        ),
    }
)
GLOBAL_FUNCTIONS = frozenset({"dict", "namespace", "range"})
STATEMENTS: tuple[type[nodes.Stmt], ...] = (
    *(nodes.Output, nodes.For, nodes.If, nodes.Assign, nodes.AssignBlock, nodes.With, nodes.FilterBlock),
)
MAX_SOURCE = TEMPLATE_SOURCE.value
"""Characters of one template."""
MAX_BRACKETS = TEMPLATE_BRACKETS.value
"""Brackets open at one place of an expression."""
MAX_DEPTH = TEMPLATE_TREE.value
"""Operators, filters and blocks nested in one template."""


class TemplateProblem(Exception):  # noqa: N818 - carried into a diagnostic at once
    """A template that cannot be used. ``offset`` is where the trouble begins in its text."""

    def __init__(
        self, message: str, offset: int = 0, *, code: str = "template-syntax", hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message, self.offset, self.code = message, offset, code
        self.hint = hint or "check its braces, quotes and brackets; it begins here"


def check_brackets(tokens: Iterable[tuple[int, str, str]]) -> None:
    """Raise TemplateProblem for brackets nested deeper than the evaluator allows.

    ``tokens`` are the lexer's.
    """
    depth = 0
    for _, kind, value in tokens:
        if kind == "operator" and value in ("(", "[", "{"):
            depth += 1
            if depth > MAX_BRACKETS:
                raise _too_deep(f"more than {MAX_BRACKETS} brackets are open at once")
        elif kind == "operator" and value in (")", "]", "}"):
            depth -= 1


def check_tree(tree: nodes.Template, source: str) -> None:
    """Raise TemplateProblem for unknown statements, filters or tests, and for deep trees."""
    level: list[nodes.Node] = list(tree.body)
    for _ in range(MAX_DEPTH):
        for node in level:
            _check_node(node, source)
        level = [child for node in level for child in node.iter_child_nodes()]
        if not level:
            return
    raise _too_deep(f"more than {MAX_DEPTH} operators, filters and blocks are nested")


def _too_deep(message: str) -> TemplateProblem:
    return TemplateProblem(message, code="template-limit", hint="compute a part of it in a step before")


def _check_node(node: nodes.Node, source: str) -> None:
    if isinstance(node, nodes.Filter) and node.name not in FILTERS:
        raise _unknown("filter", node.name, FILTERS, source)
    if isinstance(node, nodes.Test) and node.name not in TESTS:
        raise _unknown("test", node.name, TESTS, source)
    if isinstance(node, nodes.Stmt) and not isinstance(node, STATEMENTS):
        word = type(node).__name__.lower()
        raise TemplateProblem(
            f"{word} is not available in playbooks", hint="use for, if, set, with and filter blocks"
        )
    if isinstance(node, nodes.For) and node.recursive:
        raise TemplateProblem(
            "a recursive loop is not available in playbooks", hint="compute it in a python step"
        )
    if isinstance(node, nodes.Call) and (node.dyn_args is not None or node.dyn_kwargs is not None):
        raise TemplateProblem("* and ** in a call are not available", hint="write the arguments out")


def _unknown(what: str, name: str, known: frozenset[str], source: str) -> TemplateProblem:
    hint = did_you_mean(name, known, f"{what}s: {', '.join(sorted(known))}")
    offset = max(source.find(name), 0)
    return TemplateProblem(f"there is no {what} {name!r}", offset, code=f"unknown-{what}", hint=hint)
