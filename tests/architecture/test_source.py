"""What the shape of the sources promises: small files, SQL in its own files, nothing unfinished, nothing of one machine."""

import ast
import re

import pytest
from source import PACKAGE, ROOT, modules, name, tree

MOST_LINES = 700


def test_files_stay_small():
    sizes = {name(path): len(path.read_text("utf-8").splitlines()) for path in modules()}
    assert not {path: lines for path, lines in sizes.items() if lines > MOST_LINES}


SQL = re.compile(
    r"^\s*(?:--[^\n]*\n\s*)*(?:(?:insert\s+into|delete\s+from|select\s.+\sfrom|update\s+\S+\s+set|create\s+(?:table|index|schema))\b)",
    re.IGNORECASE | re.DOTALL,
)


def test_sql_of_the_store_stands_in_sql_files():
    """Catalog look-ups that no schema of ours is part of may stand in code; statements about our tables may not.

    Except the journal of migrations, which has to be there before any file can be applied.
    """
    found = []
    for path in modules("adapters/postgres"):
        if path.name == "migrations.py":
            continue
        for node in ast.walk(tree(path)):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if SQL.match(text) and ("noetl." in text or "{" in text):
                found.append(f"{name(path)}:{node.lineno}: {text.split()[:6]}")
    assert not found, found


def test_the_scan_for_sql_knows_sql():
    assert SQL.match("SELECT a FROM noetl.execution")
    assert SQL.match("\n  update noetl.command set attempt = 1")
    assert not SQL.match("Selected from the list; update the rest.")


def test_every_query_file_is_read_and_every_query_has_a_name():
    queries = sorted((PACKAGE / "adapters" / "postgres" / "sql" / "queries").glob("*.sql"))
    assert queries
    for path in queries:
        names = re.findall(r"^--\s*name:\s*(\S+)", path.read_text("utf-8"), re.MULTILINE)
        assert names, f"{path.name} names no query"
        assert len(names) == len(set(names)), f"{path.name} names a query twice"


@pytest.mark.parametrize(
    ("what", "pattern"),
    [
        ("unfinished work", re.compile(r"\b(?:TODO|FIXME|XXX|raise NotImplementedError)\b")),
        ("a path of one machine", re.compile(r"(?<![\w.])/(?:home|root|Users|work)/[\w.-]+")),
        ("print() outside the command line", re.compile(r"^\s*print\(", re.MULTILINE)),
    ],
)
def test_sources_hold_no(what, pattern):
    found = []
    for path in modules():
        text = path.read_text("utf-8")
        if what.startswith("print") and (name(path).startswith("cli/") or "noetl_guest" in name(path)):
            continue
        found += [f"{name(path)}: {match.group().strip()}" for match in pattern.finditer(text)]
    assert not found, found


def test_public_modules_say_what_they_are_for():
    silent = [
        name(path)
        for path in modules()
        if path.name not in ("__init__.py", "__main__.py")
        and not ast.get_docstring(tree(path))
        and path.stat().st_size > 400
    ]
    assert not silent, silent


def test_the_package_is_typed():
    assert (PACKAGE / "py.typed").is_file()
    assert (ROOT / "LICENSE").read_text("utf-8").count("Apache License") >= 1


def test_decoders_are_made_in_one_place():
    """msgspec crashes when two threads use a type for the first time at once (``codec.decoder`` says more)."""
    made = re.compile(r"msgspec\.(?:convert\(|json\.Decoder\([^)]|json\.decode\(.*type=)")
    found = [name(path) for path in modules() if made.search(path.read_text("utf-8"))]
    assert found == ["domain/codec.py"]


OTHERS = re.compile(r"\bFROM pg_stat_activity\b", re.IGNORECASE)
OWN_SERVER = {"integration/store/test_embedded.py"}


def test_tests_leave_the_sessions_of_others_alone():
    """Processes of one test run share a server: who does not name a database ends, or counts, what another test does."""
    tests = ROOT / "tests"
    found = [
        f"{path.relative_to(tests).as_posix()}:{node.lineno}"
        for path in sorted(tests.rglob("*.py"))
        if path.relative_to(tests).as_posix() not in OWN_SERVER
        and "pg_stat_activity" in path.read_text("utf-8").lower()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if OTHERS.search(node.value) and "datname" not in node.value
    ]
    assert not found, f"add `datname = current_database()`: {found}"
