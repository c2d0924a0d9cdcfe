"""Templates in the code of a ``python`` tool, outside of its texts."""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import re
import tokenize

from noetl.dsl.shapes_in_code import bound_names, tree_of
from noetl.formatting.nodes import Entry, Map, Text, plain, text_of
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule

_TEMPLATE = re.compile(r"\{\{[ \t]*([A-Za-z_][\w.]*)[ \t]*\}\}")
_INPUT = ("input", "args", "with")
_STANDS = "template_in_the_code_"
"""How a name begins that is in the code where a template is."""
_HIDDEN = frozenset({"exec", "eval", "globals", "locals", "vars", "setattr"})
"""Functions that bind names by texts."""
_BUILT_IN = frozenset(dir(builtins))
_WORD = re.compile(r"[A-Za-z_]\w*")


def apply(page: Page) -> None:
    """Hand values over to code by name, because code is no template.

    ``{{ x }}`` is a set in a set, which Python cannot make.
    """
    for tool in page.tools():
        code = tool.entry("code")
        text = text_of(code.value) if code is not None else None
        if kind_of(tool) != "python" or code is None or text is None or not _TEMPLATE.search(text):
            continue
        given = next((tool.entry(name) for name in _INPUT if tool.has(name)), None)
        if given is not None and not isinstance(given.value, Map):
            continue
        values = given.value if given is not None and isinstance(given.value, Map) else Map([])
        made = _with_names(text, values)
        if made is None or made == text:
            continue
        if made == "":
            page.refuse(
                code,
                "a template in code is no value there, but a part of it, such as a name",
                "write its value there; a mapping takes a value as a name: {key: 1}",
            )
            continue
        code.value = Text(made, style="|")
        page.note(code, "values reach the code as they are: a text is a text, and no name or expression")
        if given is None:
            tool.entries.insert(tool.entries.index(code), Entry("input", values, "input", line=code.line))


def _with_names(text: str, values: Map) -> str | None:
    """Return code that reads names where it has templates.

    None: it is no Python. An empty text: a template is a part of the code itself.
    """
    quoted = _quoted(text)
    if quoted is None:
        return None
    found = [
        one
        for one in _TEMPLATE.finditer(text)
        if not any(start <= one.start() < end for start, end in quoted)
    ]
    names = [f"{_STANDS}{at}" for at in range(len(found))]
    bound = _bound(_put(text, found, names), set(names))
    if bound is None:
        return ""
    return _put(text, found, [_name(one[1], values, bound) for one in found])


def _put(text: str, templates: list[re.Match[str]], names: list[str]) -> str:
    out, at = [], 0
    for one, name in zip(templates, names, strict=True):
        out += [text[at : one.start()], name]
        at = one.end()
    return "".join([*out, text[at:]])


def _bound(text: str, names: set[str]) -> set[str] | None:
    """Return the names that mean something else in the code.

    None: one of ``names`` is there for something else than a value.
    """
    tree = tree_of(text, "")
    if tree is None:
        return set()
    read = [one.id for one in tree.names if isinstance(one.ctx, ast.Load)]
    if names - set(read):
        return None
    bound = bound_names(text) | (_BUILT_IN & set(read))
    if not _HIDDEN.isdisjoint(read):
        texts = (one.value for one in tree.nodes if isinstance(one, ast.Constant))
        bound |= {word for one in texts if isinstance(one, str) for word in _WORD.findall(one)}
    return bound


def _name(expression: str, values: Map, bound: set[str]) -> str:
    """Return the name of a value in the input, which is none that the code binds."""
    template = f"{{{{ {expression} }}}}"
    for entry in values.entries:
        if plain(entry.value) == template and entry.key not in bound:
            return str(entry.key)
    base = expression.replace(".", "_")
    found = base = f"{base}_" if keyword.iskeyword(base) else base
    count = 1
    while values.has(found) or found in bound:
        count += 1
        found = f"{base}_{count}"
    values.entries.append(Entry(found, Text(template, style='"'), found))
    return found


def _quoted(text: str) -> list[tuple[int, int]] | None:
    """Return where texts and comments of the code begin and end.

    None: the code is no Python.
    """
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: list[tuple[int, int]] = []
    opened: list[int] = []
    begins = {getattr(tokenize, "FSTRING_START", None), getattr(tokenize, "TSTRING_START", None)} - {None}
    ends = {getattr(tokenize, "FSTRING_END", None), getattr(tokenize, "TSTRING_END", None)} - {None}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            start = starts[token.start[0] - 1] + token.start[1]
            end = starts[token.end[0] - 1] + token.end[1]
            if token.type in begins:
                opened.append(start)
            elif token.type in ends and opened:
                found.append((opened.pop(), end))
            elif token.type in (tokenize.STRING, tokenize.COMMENT):
                found.append((start, end))
    except (tokenize.TokenError, SyntaxError, IndexError):
        return None
    return found


RULE = Rule("code-templates", "Code reads values by the names of its input.", apply, repairs=True)
