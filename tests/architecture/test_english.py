"""The words of the code: first docstring lines and messages use none of the words that CONTRIBUTING.md bans."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from source import PACKAGE, ROOT, modules, name, nodes

from tests.parts import over

MOST_COLUMNS = 88
PACKAGES = sorted(folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").is_file())


def banned() -> re.Pattern[str]:
    table = re.findall(
        r"<!-- banned -->\n(.*?)<!-- /banned -->", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.DOTALL
    )[0]
    rows = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)[1:]
    phrases = [phrase.strip().replace(" ", r"\s+") for row in rows for phrase in row.split(",")]
    return re.compile(r"\b(?:" + "|".join(phrases) + r")\b", re.IGNORECASE)


BANNED = banned()
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def docstrings(path: Path) -> Iterator[ast.Constant]:
    for node in nodes(path):
        if not isinstance(node, Documented) or not node.body:
            continue
        first = node.body[0]
        value = first.value if isinstance(first, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value


def first_line(docstring: ast.Constant) -> str:
    return str(docstring.value).strip().partition("\n")[0]


Line = tuple[int, str]
"""A text of a module, with the number of its line."""


@functools.cache
def texts(path: Path) -> tuple[list[Line], list[Line]]:
    """Read the first docstring lines and the other texts of a module; it is parsed once for all tests."""
    documents = {id(docstring): docstring for docstring in docstrings(path)}
    messages = [
        (node.lineno, node.value)
        for node in nodes(path)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in documents
        and " " in node.value
    ]
    return [(one.lineno, first_line(one)) for one in documents.values()], messages


def place(path: Path, line: Line) -> str:
    return f"{name(path)}:{line[0]}: {line[1][:120]}"


@pytest.mark.parametrize("package", PACKAGES)
def test_first_docstring_lines_use_no_banned_word(package: str) -> None:
    found = [
        place(path, line) for path in modules(package) for line in texts(path)[0] if BANNED.search(line[1])
    ]
    assert not found, "CONTRIBUTING.md says what to write instead"


@over("package", PACKAGES)
def test_messages_use_no_banned_word(package: str) -> None:
    found = [
        place(path, line) for path in modules(package) for line in texts(path)[1] if BANNED.search(line[1])
    ]
    assert not found, "CONTRIBUTING.md says what to write instead"


@over("package", PACKAGES)
def test_first_docstring_lines_are_short(package: str) -> None:
    long = [
        place(path, line)
        for path in modules(package)
        for line in texts(path)[0]
        if len(line[1]) > MOST_COLUMNS
    ]
    assert not long, f"a first line has at most {MOST_COLUMNS} columns"


REFUSED_NAMES = re.compile(
    r"_*(?:told|tells?|telling|asked|wish|wishes|wished|heard|said|says|ours|theirs|mine|things?|away|goes|meant)(?:_\w+)?",
    re.IGNORECASE,
)
STORED_NAMES = {"asked", "heard", "told", "tells_around"}
"""Fields of stored documents and of answers: their names are theirs for good."""


def names_of(node: ast.AST) -> list[str]:
    """Return the names that a node binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.arg):
        return [node.arg]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return [node.attr]
    return [node.name] if isinstance(node, ast.ExceptHandler) and node.name else []


@functools.cache
def stored_fields(path: Path) -> set[ast.AST]:
    """Return the declarations of stored fields in classes, and the assignments to them."""
    declared = {
        field.target
        for one in nodes(path)
        if isinstance(one, ast.ClassDef)
        for field in one.body
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and field.target.id in STORED_NAMES
    }
    written = {one for one in nodes(path) if isinstance(one, ast.Attribute) and one.attr in STORED_NAMES}
    return declared | written


@pytest.mark.parametrize("package", PACKAGES)
def test_names_say_what_a_value_is(package: str) -> None:
    found = [
        f"{name(path)}:{getattr(node, 'lineno', 0)}: {bound}"
        for path in modules(package)
        for node in nodes(path)
        for bound in names_of(node)
        if REFUSED_NAMES.fullmatch(bound) and node not in stored_fields(path)
    ]
    assert not found, "name the value (`message`, `request`, `outage`), not what happened to it"
