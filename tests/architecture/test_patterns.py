"""A pattern of the package takes a time that grows with the text, not with its square or worse.

Python's ``re`` holds the interpreter while it searches: a pattern that tries every split of a long text stops a server, with ``/health``
and SIGTERM. Each pattern is tried with texts that repeat one piece, or one piece after another, behind beginnings that lead to its parts.
"""

from __future__ import annotations

import ast
import functools
import importlib
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.architecture.source import PACKAGE, modules, name, nodes, tree
from tests.parts import repeated

PIECES = (
    " ", "\t", "\n", "\r\n", "a", "Z", "0", "_", "-", ".", "/", ":", ",", ";", "=", "#", "%", "$", "*", "+", "\\", "'", '"', "(", ")", "[",
    "]", "{", "}", "|", "&", "?", "@", "<", ">", "`", "~", "!", "ä", "\x1b", "{{", "}}", "{%", "a ", " a", "a.", "a,", "a=", "a-", "a:", "a/",
    "--\n", "--", "/**/", "/*", "*/", "\\'", "''", "a b ", "1.", "1,", "$$", "${", "\n ", "{{ a }}", "{% a %}",
)  # fmt: skip
BLANKS = (" ", "\n", "a")
"""Second pieces: most patterns with two ambiguous parts have blanks or names in one of them."""
PREFIXES = ("", "x", "X:", "{{ x", "SELECT ", "#!", "a: ", "${", "'", "/")
"""Beginnings that lead a pattern to the part that repeats."""
COUNTS = ((18, 0.002), (120, 0.003), (1_000, 0.003))
"""How often a text has its piece, with the most processor time: the first finds a time that doubles, then its cube, then its square."""
STRIDE = repeated(gate=3, full=1)
"""Of beginnings and second pieces, every piece goes with each third of them in ``make test``."""
END = "\x01\n\x01"
"""The last characters of each text: hardly a pattern ends in them, so that a match of the whole fails there."""
COMPUTED = {
    "dsl/editors/quick_fixes.py": "one word, escaped, between two looks of one character",
    "dsl/expressions.py": "one name, escaped, between two looks of one character",
    "kinds/rows/writing.py": "one class of characters, or one character at an end",
    "migration/rules/reading/loop_results.py": "one of several names, then fixed words",
}
"""Modules whose functions compile patterns at each call: no test can try those, so each says why it takes linear time."""
SEARCHES = ("search", "sub", "subn", "split", "findall", "finditer")
METHODS = ("match", "fullmatch", "search")


class Use(NamedTuple):
    """One pattern and how it is called."""

    where: str
    pattern: re.Pattern[Any]
    method: str


def method_of(name: str) -> str:
    return "search" if name in SEARCHES else name if name in METHODS else ""


def uses() -> Iterator[Use]:
    """Every pattern that a module holds by a name or writes into a call, once for each way in which it is called."""
    everywhere = {path: calls(path) for path in modules()}
    for path, here in everywhere.items():
        for key, pattern in held_by(path):
            private = key.startswith("_")
            found = {
                method
                for called in ([here] if private else everywhere.values())
                for name_, method in called
                if name_ == key
            }
            for method in sorted(found) or METHODS:
                yield Use(f"{name(path)}: {key}", pattern, method)
        yield from inline(path)


def calls(path: Path) -> set[tuple[str, str]]:
    """Names of variables on which this module calls a method of a pattern, with the method."""
    return {
        (last_name(node.value), method_of(node.attr))
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and method_of(node.attr)
    }


def inline(path: Path) -> Iterator[Use]:
    """Patterns that stand in a call: ``re.search(r"…", text)``."""
    for node in nodes(path):
        if (
            isinstance(node, ast.Call)
            and is_of_re(node.func, "")
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            assert isinstance(node.func, ast.Attribute)
            if method := method_of(node.func.attr):
                yield Use(
                    f"{name(path)}: line {node.lineno}",
                    re.compile(node.args[0].value, flags_of(node)),
                    method,
                )


def flags_of(call: ast.Call) -> int:
    """Flags of a call of ``re``: names of the module, joined by ``|``."""
    words = [ast.unparse(one) for one in (*call.args[1:], *(keyword.value for keyword in call.keywords))]
    return sum(getattr(re, flag) for word in words for flag in re.findall(r"\bre\.([A-Z]+)\b", word))


def last_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def is_of_re(node: ast.AST, method: str) -> bool:
    """Tell whether this is ``re.<method>``, or any method of ``re`` for ``""``."""
    match node:
        case ast.Attribute(value=ast.Name(id="re"), attr=attribute):
            return not method or attribute == method
    return False


def held_by(path: Path) -> list[tuple[str, re.Pattern[Any]]]:
    """Patterns that this module holds, each by the name of its variable."""
    targets = [last_name(target) for target, _ in compiled(path) if target]
    if not targets:
        return []
    module = importlib.import_module(
        ".".join(("noetl", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    )
    return [(target, pattern) for target in targets for pattern in patterns_in(getattr(module, target))]


def compiled(path: Path) -> Iterator[tuple[ast.expr | None, int]]:
    """Yield the variable of each statement of a module that compiles patterns, none where a function does so, and its line."""
    for statement in tree(path).body if "re.compile(" in path.read_text("utf-8") else ():
        if any(is_of_re(node, "compile") for node in ast.walk(statement)):
            match statement:
                case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
                    yield target, statement.lineno
                case _:
                    yield None, statement.lineno


def patterns_in(value: Any) -> list[re.Pattern[Any]]:
    """Find the patterns of a variable: itself, or those of a tuple, a list or a mapping."""
    several = (
        value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else [value]
    )
    return [
        found
        for one in several
        for found in (patterns_in(one) if isinstance(one, tuple | list) else [one])
        if isinstance(found, re.Pattern)
    ]


@functools.cache
def texts(method: str) -> list[tuple[str, str, float]]:
    """What each text consists of, the text, and the most seconds for it; of one sort of text the short one comes first.

    A search begins anywhere, so only the other methods need beginnings.
    """
    one = [
        (f"{count} times {piece!r} behind {prefix!r}", prefix + piece * count, most)
        for prefixes in [[""] if method == "search" else PREFIXES]
        for place, piece in enumerate(PIECES)
        for prefix in ("", *prefixes[1 + place % STRIDE :: STRIDE])
        for count, most in COUNTS
    ]
    two = [
        (f"{count} times {piece!r}, then {blank!r}", piece * count + blank * count, most)
        for place, piece in enumerate(PIECES)
        for blank in BLANKS[place % STRIDE :: STRIDE]
        for count, most in COUNTS
    ]
    return [(what, text + END, most) for what, text, most in one + two]


def took(call: Callable[[Any], Any], text: str | bytes, most: float) -> float:
    """Measure the processor time of one call: the least of three where the first is near ``most``."""
    least = 1.0
    for _ in range(3):
        began = time.thread_time()
        call(text)
        least = min(least, time.thread_time() - began)
        if least <= most or least > 10 * most:
            break
    return least


def slow(use: Use) -> str:
    """Name the first text that takes the pattern too long, or nothing."""
    in_bytes = isinstance(use.pattern.pattern, bytes)
    call = (
        functools.partial(use.pattern.sub, b"" if in_bytes else "")
        if use.method == "search"
        else getattr(use.pattern, use.method)
    )
    for what, text, most in texts(use.method):
        if (seconds := took(call, text.encode() if in_bytes else text, most)) > most:
            return f"{use.where}: {use.method} takes {seconds * 1000:.1f} ms with {what}"
    return ""


def test_a_pattern_takes_a_time_that_grows_with_the_text() -> None:
    found = [problem for use in uses() if (problem := slow(use))]
    assert not found, (
        "write it without neighbours that match the same characters, or with possessive repeats (`*+`)"
    )


def test_a_pattern_is_compiled_where_it_can_be_tried() -> None:
    found = {name(path) for path in modules() for target, _ in compiled(path) if target is None}
    assert found == set(COMPUTED), (
        "keep the pattern in a variable of its module; of a computed one, say why it is linear"
    )


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"(?s:\s|--[^\n]*\n|/\*.*?\*/)*x", "match"),
        (r"(a+)+$", "match"),
        (r"\s*(a)?\s*b", "match"),
        (r"([\w.]+)\s*(\[.*\])?\s*((==)\s*\S+)?\s*$", "match"),
        (r"X:[ \t]*(.*?)[ \t]*", "fullmatch"),
        (r"\{\{.*?\}\}", "search"),
        (r"\s+\Z", "search"),
        (rb"^#!\s*(\S*/)*\s*python", "match"),
    ],
)
def test_what_grows_faster_is_found(pattern: str, method: str) -> None:
    assert slow(Use("a pattern", re.compile(pattern), method))
