"""The parts of a template: its one expression, the names it touches, the names it guards.

Pure analysis over Jinja's syntax tree, without running it; evaluation lives in ``noetl.templating``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from jinja2 import Environment, TemplateSyntaxError, nodes

from noetl.dsl.template_rules import (
    GLOBAL_FUNCTIONS,
    MAX_BRACKETS,
    MAX_SOURCE,
    TemplateProblem,
    check_brackets,
    check_tree,
)

OPENERS = ("{{", "{%", "{#")
SCOPES = frozenset({"ctx", "vars", "workload", "keychain"})
"""Scopes that are read one entry at a time."""

GLOBALS = GLOBAL_FUNCTIONS | {"true", "false", "none", "null", "True", "False", "None"}
FUNCTIONS = frozenset({"now"})
BUILT_INS = frozenset(
    {
        *(
            "loop",
            "iter",
            "ctx",
            "vars",
            "workload",
            "keychain",
            "args",
            "input",
            "step",
            "execution_id",
            "job",
            "attempt",
        ),
        *(
            "event",
            "response",
            "error",
            "result",
            "this",
            "outcome",
            "output",
            "_prev",
            "_task",
            "_attempt",
            "results",
        ),
        *(
            "_results",
            "_index",
            "loop_index",
            "max_attempts",
            "status_code",
            "success",
            "data",
            "input_data",
            "body",
        ),
    }
)
"""Names that stand for something wherever they are written."""

_LOCAL = (BUILT_INS | GLOBALS | FUNCTIONS) - SCOPES
_ENVIRONMENT = Environment(autoescape=False)


@dataclass(frozen=True, slots=True)
class Analysis:
    """The analysis of one template.

    ``expression`` is the text between the braces when the string is exactly one; ``root`` is then its syntax tree.
    """

    source: str
    expression: str | None
    root: nodes.Expr | None
    names: frozenset[str]
    """Free names, built-ins included."""
    entries: frozenset[tuple[str, str]]
    """(name, first attribute) pairs: ``ctx.total`` yields ``("ctx", "total")``."""
    whole: frozenset[str]
    """Scopes that were used as a value or indexed with something computed."""
    guarded: frozenset[str]
    """Names under ``| default``, ``is defined`` or ``is undefined``, and scopes that are asked with ``.get``."""
    filters: frozenset[str]
    chooses: bool = False
    """It has an inline ``if`` whose test is a bare name."""

    def reads(self, ambiguous: frozenset[str] = frozenset()) -> tuple[str, ...]:
        """Return the names the engine must provide, as ``program.Reads`` lists them.

        ``ambiguous`` are built-in names that this playbook also assigns to something it stores (a ctx key ``data``).
        """
        found = {f"{scope}.{entry}" for scope, entry in self.entries if scope in SCOPES}
        found |= {f"{scope}.*" for scope in self.whole}
        found |= {
            name for name in self.names if name not in SCOPES and (name not in _LOCAL or name in ambiguous)
        }
        return tuple(sorted(found))


def has_template(text: str) -> bool:
    return any(opener in text for opener in OPENERS)


def split_expression(source: str) -> str | None:
    """Return the expression of a string that is exactly one ``{{ … }}``, else None.

    Space around it is ignored. Raises TemplateProblem when the string cannot be read as a template at all.
    """
    text = source.strip()
    if not (text.startswith("{{") and text.endswith("}}")):
        return None
    if text.count("{") == 2 and text.count("}") == 2:
        return text[2:-2].removeprefix("-").removesuffix("-").strip()
    try:
        tokens = [kind for _, kind, _ in _ENVIRONMENT.lex(text)]
    except TemplateSyntaxError as problem:
        raise _located(source, problem) from None
    if (
        tokens.count("variable_begin") != 1
        or "data" in tokens
        or "block_begin" in tokens
        or "comment_begin" in tokens
    ):
        return None
    return text[2:-2].removeprefix("-").removesuffix("-").strip()


@lru_cache(maxsize=4096)
def analyse(source: str) -> Analysis:
    """Analyse a template. Raises TemplateProblem."""
    if len(source) > MAX_SOURCE:
        message = f"a template of {len(source)} characters; at most {MAX_SOURCE} are read"
        raise TemplateProblem(message, code="template-limit", hint="keep long texts in files or tables")
    try:
        if sum(map(source.count, "([{")) > MAX_BRACKETS:
            check_brackets(_ENVIRONMENT.lex(source))
        tree = _ENVIRONMENT.parse(source)
        check_tree(tree, source)
        return _analyse(source, split_expression(source), tree)
    except TemplateSyntaxError as problem:
        raise _located(source, problem) from None
    except RecursionError:
        raise TemplateProblem("the expression is nested too deep", code="template-limit") from None


def _analyse(source: str, expression: str | None, tree: nodes.Template) -> Analysis:
    walk = _Walk()
    walk.visit(tree, _declared(tree))
    root = _single_expression(tree) if expression is not None else None
    return Analysis(
        source,
        expression,
        root,
        frozenset(walk.names),
        frozenset(walk.entries),
        frozenset(walk.whole),
        frozenset(walk.guarded),
        frozenset(node.name for node in tree.find_all(nodes.Filter)),
        any(is_choice(node) for node in tree.find_all(nodes.CondExpr)),
    )


def is_choice(node: nodes.CondExpr) -> bool:
    """Report whether an inline ``if`` tests a bare name, or ``not`` and one."""
    test = node.test.node if isinstance(node.test, nodes.Not) else node.test
    return isinstance(test, nodes.Name)


def _single_expression(tree: nodes.Template) -> nodes.Expr | None:
    for output in tree.find_all(nodes.Output):
        found = [node for node in output.nodes if not isinstance(node, nodes.TemplateData)]
        return found[0] if len(found) == 1 else None
    return None


def _declared(tree: nodes.Template) -> frozenset[str]:
    """Return the names the template assigns itself: ``for`` targets and ``set``."""
    names = {node.name for node in tree.find_all(nodes.Name) if node.ctx in ("store", "param")}
    if any(True for _ in tree.find_all(nodes.For)):
        names.add("loop")
    return frozenset(names)


class _Walk:
    """Collects names, scope entries and guards below a node."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.entries: set[tuple[str, str]] = set()
        self.whole: set[str] = set()
        self.guarded: set[str] = set()

    def visit(self, node: nodes.Node, declared: frozenset[str]) -> None:
        if isinstance(node, nodes.Name):
            self._name(node, declared)
            return
        if isinstance(node, nodes.Call) and self._method_of_scope(node, declared):
            return
        entry = _entry(node)
        if entry is not None and entry[0] not in declared:
            self.names.add(entry[0])
            self.entries.add(entry)
            return
        if isinstance(node, (nodes.Filter, nodes.Test)) and _is_guard(node) and node.node is not None:
            self.guarded |= {name.name for name in _with_self(node.node) if isinstance(name, nodes.Name)}
        for child in node.iter_child_nodes():
            self.visit(child, declared)

    def _name(self, node: nodes.Name, declared: frozenset[str]) -> None:
        if node.ctx != "load" or node.name in declared:
            return
        self.names.add(node.name)
        if node.name in SCOPES:
            self.whole.add(node.name)

    def _method_of_scope(self, node: nodes.Call, declared: frozenset[str]) -> bool:
        """Record that ``ctx.get('x')`` reads ``ctx.x``; other methods read the whole scope."""
        entry = _entry(node.node)
        if entry is None or entry[0] not in SCOPES or entry[0] in declared:
            return False
        scope, method = entry
        self.names.add(scope)
        first = node.args[0] if node.args else None
        if method == "get" and isinstance(first, nodes.Const) and isinstance(first.value, str):
            self.entries.add((scope, first.value))
            if scope != "keychain":  # it never fails: what is missing is none, or its second argument
                self.guarded.add(scope)
        else:
            self.whole.add(scope)
        for child in (*node.args, *node.kwargs):
            self.visit(child, declared)
        return True


def _with_self(node: nodes.Node) -> Iterator[nodes.Node]:
    yield node
    yield from node.find_all(nodes.Name)


def _entry(node: nodes.Node) -> tuple[str, str] | None:
    """Split ``name.attribute`` or ``name['attribute']``; None for anything else."""
    if isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name):
        return node.node.name, node.attr
    if (
        isinstance(node, nodes.Getitem)
        and isinstance(node.node, nodes.Name)
        and isinstance(node.arg, nodes.Const)
    ):
        return (node.node.name, node.arg.value) if isinstance(node.arg.value, str) else None
    return None


def _is_guard(node: nodes.Filter | nodes.Test) -> bool:
    if isinstance(node, nodes.Filter):
        return node.name in ("default", "d")
    return node.name in ("defined", "undefined")


def _located(source: str, problem: TemplateSyntaxError) -> TemplateProblem:
    """Find the first broken template of ``source`` by halving.

    A text is broken once one of its templates is.
    """
    message = (problem.message or "syntax error").rstrip(".")
    starts = [found.start() for found in re.finditer(r"\{\{|\{%", source)]
    if not starts:
        return TemplateProblem(message, 0)
    if "{%" in source:
        line_end = _line_end(source, problem.lineno)
        return TemplateProblem(message, max((s for s in starts if s < line_end), default=starts[0]))
    good, bad = 0, len(starts)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if _parses(source[: starts[middle]]) else (good, middle)
    return TemplateProblem(message, starts[good])


def _parses(source: str) -> bool:
    try:
        _ENVIRONMENT.parse(source)
    except (TemplateSyntaxError, RecursionError):
        return False
    return True


def _line_end(source: str, line: int) -> int:
    at = 0
    for _ in range(line):
        found = source.find("\n", at)
        if found < 0:
            return len(source)
        at = found + 1
    return at


def name_offset(source: str, name: str) -> int:
    """Return the offset of ``name`` in a template of ``source``.

    The first use counts; it is the first template's offset when the name is not found literally.
    """
    first = min((at for at in (source.find(opener) for opener in OPENERS) if at >= 0), default=0)
    found = re.compile(rf"(?<![\w.'\"]){re.escape(name)}(?!\w)").search(source, first)
    return found.start() if found else first
