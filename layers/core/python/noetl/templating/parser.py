"""Source text to Jinja's syntax tree, with its size and depth bounded."""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.parser import Parser

from noetl.domain.errors import TemplateError
from noetl.templating.limits import MAX_BRACKETS, MAX_CODE, MAX_SOURCE, MAX_TAGS, MAX_TREE_DEPTH, over_limit

_ENVIRONMENT = Environment(
    keep_trailing_newline=True, autoescape=False, cache_size=0
)  # only its lexer and parser are used


def parse_expression(source: str) -> nodes.Expr:
    """Parse one expression (without braces).

    Raises TemplateError (``template_syntax``, ``template_limit``).
    """
    if len(source) > MAX_CODE:
        raise over_limit(f"the expression has {len(source)} characters; at most {MAX_CODE} are allowed")
    _check_brackets("{{" + source + "}}")
    try:
        parser = Parser(_ENVIRONMENT, source, state="variable")
        tree = parser.parse_expression()
        if not parser.stream.eos:
            raise _syntax(
                f"unexpected {parser.stream.current.value!r} after the expression",
                parser.stream.current.lineno,
            )
        tree.set_environment(_ENVIRONMENT)
    except TemplateSyntaxError as error:
        raise _syntax(error.message or "invalid expression", error.lineno) from None
    except RecursionError:
        raise over_limit("the expression is nested too deeply") from None
    _check_depth(tree)
    return tree


def parse_template(source: str) -> nodes.Template:
    """Parse a text with templates in it.

    Raises TemplateError (``template_syntax``, ``template_limit``).
    """
    _check_size(source)
    _check_brackets(source)
    try:
        tree = _ENVIRONMENT.parse(source)
    except TemplateSyntaxError as error:
        raise _syntax(error.message or "invalid template", error.lineno) from None
    except RecursionError:
        raise over_limit("the template is nested too deeply") from None
    _check_depth(tree)
    return tree


def _syntax(message: str, line: int) -> TemplateError:
    return TemplateError(message, code="template_syntax", details={"source_line": line})


def _check_size(source: str) -> None:
    """Refuse what would take long to parse. Text outside braces is cheap."""
    if len(source) > MAX_SOURCE:
        raise over_limit(f"the template has {len(source)} characters; at most {MAX_SOURCE} are allowed")
    tags = source.count("{{") + source.count("{%") + source.count("{#")
    if tags > MAX_TAGS:
        raise over_limit(f"the template has {tags} expressions and tags; at most {MAX_TAGS} are allowed")
    code = sum(min(_end(part), len(part)) for part in source.replace("{%", "{{").split("{{")[1:])
    if code > MAX_CODE:
        raise over_limit(f"the template has {code} characters inside braces; at most {MAX_CODE} are allowed")


def _end(part: str) -> int:
    ends = [at for at in (part.find("}}"), part.find("%}")) if at >= 0]
    return min(ends, default=len(part))


def _check_brackets(source: str) -> None:
    if sum(map(source.count, "([{")) <= MAX_BRACKETS:
        return
    depth = 0
    for line, kind, value in _tokens(source):
        if kind == "operator" and value in ("(", "[", "{"):
            depth += 1
            if depth > MAX_BRACKETS:
                raise TemplateError(
                    f"more than {MAX_BRACKETS} brackets are open at once",
                    code="template_limit",
                    details={"source_line": line},
                )
        elif kind == "operator" and value in (")", "]", "}"):
            depth -= 1


def token_places(source: str) -> Iterator[tuple[str, str, int]]:
    """Yield the tokens of a template: kind, text, place in ``source``.

    Raises TemplateError(code="template_syntax").
    """
    at = 0
    for _, kind, value in _tokens(source):
        at = source.find(value, at)  # the lexer drops space before ``{%-``
        if at < 0:
            return
        yield kind, value, at
        at += len(value)


def expression_words(source: str) -> Iterator[list[tuple[str, str, int]]]:
    """Yield the tokens of each expression, its braces first and last, without white space.

    Raises TemplateError(code="template_syntax").
    """
    words: list[tuple[str, str, int]] = []
    for token in token_places(source):
        if token[0] == "variable_begin":
            words = [token]
        elif words and token[0] != "whitespace":
            words.append(token)
            if token[0] == "variable_end":
                yield words
                words = []


def _tokens(source: str) -> Iterator[tuple[int, str, str]]:
    try:
        yield from _ENVIRONMENT.lexer.tokeniter(source, None)
    except TemplateSyntaxError as error:
        raise _syntax(error.message or "invalid template", error.lineno) from None


def _check_depth(tree: nodes.Node) -> None:
    level: list[nodes.Node] = [tree]
    for _ in range(MAX_TREE_DEPTH):
        level = [child for node in level for child in node.iter_child_nodes()]
        if not level:
            return
    raise over_limit(f"the template nests more than {MAX_TREE_DEPTH} operators, filters and blocks")
