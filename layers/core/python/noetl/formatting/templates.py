"""Rewriting of templates: names are replaced in place, guards simplified for one boundary."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from jinja2 import Environment, TemplateSyntaxError, nodes

from noetl.dsl.boundaries import truth
from noetl.dsl.expressions import Analysis, analyse, has_template
from noetl.dsl.template_rules import TemplateProblem
from noetl.formatting.unparse import UnsayableError, unparse

_ENVIRONMENT = Environment(autoescape=False, keep_trailing_newline=True)
_BRACES = re.compile(r"\{[{%].*?(?:[%}]\}|\Z)", re.DOTALL)
"""Templates, and at the end of a text what no brace ends: nothing behind it is searched again."""
_LITERAL = re.compile(r"""(['"])(?P<name>[A-Za-z_]\w*)\1\Z""")


class NoSpellingError(Exception):
    """The canonical form has no words for this; the text says why."""


Replace = Callable[[str, str | None], tuple[str, bool] | None]
"""(name, first attribute) → (text that takes its place, whether the attribute is part of it); None: leave it."""
NEXT = "\0"
"""In such a text: the place of the attribute that follows, which is then a part of it, too."""


def substitute(text: str, change: Replace) -> str:
    """Replace names in a template text.

    Raises NoSpellingError when ``change`` does, or when the template binds names itself.
    """
    if not has_template(text):
        return text
    try:
        tokens = [(kind, value) for _, kind, value in _ENVIRONMENT.lex(text)]
    except TemplateSyntaxError:
        return text
    out: list[str] = []
    place = 0
    while place < len(tokens):
        kind, value = tokens[place]
        if kind != "name" or _is_part(tokens, place):
            out.append(value)
            place += 1
            continue
        attribute, after = _attribute(tokens, place + 1)
        made = change(value, attribute)
        if made is None:
            out.append(value)
            place += 1
            continue
        if _is_bound(tokens, place):
            raise NoSpellingError(f"a template assigns the name {value!r} a meaning of its own")
        place = after if made[1] else place + 1
        following, after = _attribute(tokens, place)
        if NEXT not in made[0] or following is None or _neighbour(tokens, after - 1, 1) == "(":
            following, after = None, place
        out.append(made[0].replace(NEXT, f".{following}" if following else ""))
        place = after
    return "".join(out)


def in_templates(text: str, change: Callable[[str], str]) -> str:
    """Change each template of a text, with its braces; what is around them stays."""
    return _BRACES.sub(lambda part: change(part[0]) if part[0].endswith(("}}", "%}")) else part[0], text)


def _is_part(tokens: list[tuple[str, str]], place: int) -> bool:
    """Report whether a token is an attribute, or a filter's, test's or argument's name."""
    before = _neighbour(tokens, place, -1)
    after = _neighbour(tokens, place, 1)
    if before in (".", "|", "is"):
        return True
    return after == "=" and before in ("(", ",")


def _is_bound(tokens: list[tuple[str, str]], place: int) -> bool:
    return _neighbour(tokens, place, -1) in ("for", "set")


def _neighbour(tokens: list[tuple[str, str]], place: int, step: int) -> str:
    place += step
    while 0 <= place < len(tokens) and tokens[place][0] == "whitespace":
        place += step
    return tokens[place][1] if 0 <= place < len(tokens) else ""


def _attribute(tokens: list[tuple[str, str]], place: int) -> tuple[str | None, int]:
    """Return the attribute after a name (``.x``, ``['x']``), and the token after it."""
    values = [value for _, value in tokens[place : place + 3]]
    if len(values) >= 2 and values[0] == "." and tokens[place + 1][0] == "name":
        return values[1], place + 2
    if len(values) == 3 and values[0] == "[" and values[2] == "]" and (found := _LITERAL.match(values[1])):
        return found["name"], place + 3
    return None, place


# --- guards ---


@dataclass(frozen=True, slots=True)
class Moment:
    """A boundary that looks at a guard: every name of its event, and the defined names."""

    events: frozenset[str]
    defined: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()


def simplified(guard: object, moment: Moment) -> bool | str:
    """Simplify a guard at a boundary to True, False, or an expression.

    Raises NoSpellingError for text around a template.
    """
    if (
        guard is None
        or guard is True
        or (isinstance(guard, str) and guard.strip().lower() in ("true", "1", "yes"))
    ):
        return True
    if not isinstance(guard, str) or not has_template(guard):
        return str(guard).strip().lower() in ("1", "yes")
    try:
        analysis = analyse(guard)
    except TemplateProblem as problem:
        raise NoSpellingError("a guard cannot be read") from problem
    if analysis.root is None:
        raise NoSpellingError("a guard is more than one expression")
    left = _folded(analysis.root, analysis, moment)
    if isinstance(left, bool):
        return left
    try:
        return unparse(left)
    except UnsayableError as kind:
        raise NoSpellingError(f"a guard has an expression that is not written back ({kind})") from None


def _folded(node: nodes.Expr, analysis: Analysis, moment: Moment) -> bool | nodes.Expr:
    known = truth(replace(analysis, root=node), moment.events)
    if known is not None:
        return known
    if isinstance(node, nodes.Test) and isinstance(node.node, nodes.Name):
        wanted = {"defined": True, "undefined": False}.get(node.name)
        if wanted is not None and node.node.name in moment.defined | moment.absent:
            return (node.node.name in moment.defined) is wanted
    if isinstance(node, nodes.Not):
        inner = _folded(node.node, analysis, moment)
        return not inner if isinstance(inner, bool) else nodes.Not(inner)
    if isinstance(node, (nodes.And, nodes.Or)):
        return _joined(node, analysis, moment)
    return node


def _joined(node: nodes.And | nodes.Or, analysis: Analysis, moment: Moment) -> bool | nodes.Expr:
    """Fold ``and``/``or`` without the side that is known."""
    ends = isinstance(node, nodes.Or)
    left = _folded(node.left, analysis, moment)
    right = _folded(node.right, analysis, moment)
    if left is ends or right is ends:
        return ends
    if isinstance(left, bool):
        return right
    if isinstance(right, bool):
        return left
    return type(node)(left, right)


def names_in(text: object) -> frozenset[str]:
    """Free names of a template text; empty for anything else."""
    if not isinstance(text, str) or not has_template(text):
        return frozenset()
    try:
        return analyse(text).names
    except TemplateProblem:
        return frozenset()


def expression_of(text: str) -> str | None:
    """Return the expression of a text that is exactly one."""
    try:
        return analyse(text).expression
    except TemplateProblem:
        return None
