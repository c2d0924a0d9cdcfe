"""``libs`` of a ``python`` tool: modules that the code finds imported."""

from __future__ import annotations

import ast
import keyword
import re

from noetl.formatting.nodes import Entry, List, Map, Text, plain, text_of
from noetl.migration.page import Page, kind_of, remove
from noetl.migration.rule import Rule

_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]", re.MULTILINE)
_PACKAGE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*\Z")


def apply(page: Page) -> None:
    """Import them at the top of the code."""
    for tool in page.tools():
        libs = tool.entry("libs")
        if libs is None or kind_of(tool) != "python":
            continue
        code = tool.entry("code")
        lines = _imports(
            libs, imports=_IMPORT.search(text_of(code.value) or "") is not None if code else False
        )
        if lines is None or (lines and (code is None or text_of(code.value) is None)):
            page.refuse(libs, "`libs` does not say what to import", "import the modules in `code`")
            continue
        if lines and code is not None:
            text = text_of(code.value) or ""
            code.value = Text(with_imports(text, lines), style="|")
        if isinstance(libs.value, List) and libs.value.entries:
            page.note(libs, "packages of `libs` have to be installed where workers run", safe=True)
        remove(tool, libs)


def _imports(libs: Entry, *, imports: bool) -> list[str] | None:
    """Return the lines that import them.

    ``imports``: the code imports modules itself; then a package whose name is no module's needs no line.
    """
    value = libs.value
    if isinstance(value, Map):
        made = [_import(str(entry.key), plain(entry.value)) for entry in value.entries]
        return None if any(line is None for line in made) else [line for line in made if line]
    if isinstance(value, List):
        names = [
            str(plain(item)).split("=")[0].split(">")[0].split("<")[0].strip() for item in value.values()
        ]
        known = [name for name in names if _is_module(name)]
        packages = all(name in known or (imports and _PACKAGE.match(name)) for name in names)
        return [f"import {name}" for name in known] if packages else None
    return [] if isinstance(value, Text) and value.value is None else None


def _import(name: str, given: object) -> str | None:
    if isinstance(given, dict) and given.get("from") and given.get("import"):
        module, what = str(given["from"]), str(given["import"])
        good = _is_module(module) and _is_name(what) and _is_name(name)
        return (f"from {module} import {what}" + ("" if what == name else f" as {name}")) if good else None
    module = name if given is None else str(given)
    if not _is_module(module) or not _is_name(name):
        return None
    return f"import {module}" if module == name else f"import {module} as {name}"


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _is_module(text: str) -> bool:
    return bool(text) and all(_is_name(part) for part in text.split("."))


def with_imports(code: str, lines: list[str]) -> str:
    """Return code with imports below its docstring and its ``from __future__`` lines.

    What it imports itself is left out.
    """
    own = {line.strip() for line in code.splitlines()}
    wanted = [line for line in lines if line not in own]
    if not wanted:
        return code
    place = _head(code)
    rows = code.splitlines()
    gap = [""] if rows[place:] and rows[place].startswith(("def ", "class ", "async ", "@")) else []
    body = [*rows[:place], *wanted, *gap, *rows[place:]]
    return "\n".join(body) + "\n"


def _head(code: str) -> int:
    """Return how many lines of code stand before its first import."""
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError):
        return 0
    place = 0
    for node in body:
        text = (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        )
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not (text or future):
            break
        place = node.end_lineno or place
    return place


RULE = Rule("python-libs", "Code imports its modules itself.", apply)
