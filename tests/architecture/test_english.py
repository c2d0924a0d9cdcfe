"""The words of the code: first docstring lines and messages use none of the words that CONTRIBUTING.md bans."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from source import PACKAGE, ROOT, modules, name, tree

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


def docstrings(module: ast.Module) -> Iterator[ast.Constant]:
    for node in ast.walk(module):
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
    module = tree(path)
    documents = {id(docstring): docstring for docstring in docstrings(module)}
    messages = [
        (node.lineno, node.value)
        for node in ast.walk(module)
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


@pytest.mark.parametrize("package", PACKAGES)
def test_messages_use_no_banned_word(package: str) -> None:
    found = [
        place(path, line) for path in modules(package) for line in texts(path)[1] if BANNED.search(line[1])
    ]
    assert not found, "CONTRIBUTING.md says what to write instead"


@pytest.mark.parametrize("package", PACKAGES)
def test_first_docstring_lines_are_short(package: str) -> None:
    long = [
        place(path, line)
        for path in modules(package)
        for line in texts(path)[0]
        if len(line[1]) > MOST_COLUMNS
    ]
    assert not long, f"a first line has at most {MOST_COLUMNS} columns"
