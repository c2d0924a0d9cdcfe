"""No test asserts how many seconds something took: a busy machine, or a large process that collects, would fail it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from source import ROOT, tree

CLOCKS = {
    f"{clock}{unit}"
    for clock in ("time", "monotonic", "perf_counter", "process_time", "thread_time")
    for unit in ("", "_ns")
} | {"processor_seconds"}
OF_NUMBERS = {"min", "max", "abs", "round", "float", "int", "sum", "sorted"}
IN_C = "the work is inside one call of C, which nothing in Python counts; the bound is processor time, many times what it takes"
ALLOWED = {
    "fuzz/test_fuzz.py": "the input is random, and what it may cost is stated in seconds of processor",
    "integration/kinds/test_sql_streams.py": IN_C,
    "integration/store/test_scale.py": "processor time of the database for two sizes, compared: what it does in memory reads no blocks",
    "unit/api/http/test_request_head.py": IN_C,
    "unit/domain/text/test_wildcards.py": IN_C,
    "unit/dsl/test_long_texts.py": IN_C,
    "unit/kinds/test_long_texts.py": IN_C,
    "unit/services/redaction/test_redaction.py": IN_C,
    "unit/services/redaction/test_search_spellings.py": IN_C,
    "unit/services/redaction/test_redacting_stream.py": IN_C,
}
"""Files of tests that may, and why."""


def timed_asserts(module: ast.Module) -> list[int]:
    """Lines of asserts that compare a difference of two readings of a clock, or what was made from one."""
    timed: set[str] = set()
    while True:
        more = {name for node in ast.walk(module) for name in _made_from(node, timed)} - timed
        if not more:
            break
        timed |= more
    return [
        node.lineno
        for node in ast.walk(module)
        if isinstance(node, ast.Assert)
        and any(isinstance(part, ast.Compare) and _is_timed(part, timed) for part in ast.walk(node.test))
    ]


def _made_from(node: ast.AST, timed: set[str]) -> Iterator[str]:
    """Names that ``node`` gives to a duration: variables, and functions that return one."""
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and node.value is not None:
        if _is_timed(node.value, timed):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name))
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        returned = [
            one.value for one in ast.walk(node) if isinstance(one, ast.Return) and one.value is not None
        ]
        if any(_is_timed(value, timed) for value in returned):
            yield node.name


def _is_timed(node: ast.AST, timed: set[str]) -> bool:
    """What is passed to a function is no duration any more, but for functions of numbers."""
    if isinstance(node, ast.Name):
        return node.id in timed
    if isinstance(node, ast.Call):
        parts = node.args if _called(node) in OF_NUMBERS else [node.func]
        return any(_is_timed(part, timed) for part in parts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        sides = (node.left, node.right)
        if any(isinstance(side, ast.Call) and _called(side) in CLOCKS for side in sides):
            return True
    return any(_is_timed(part, timed) for part in ast.iter_child_nodes(node))


def _called(call: ast.Call) -> str:
    called = call.func
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


def _timed_files() -> dict[str, list[int]]:
    tests = ROOT / "tests"
    paths: list[Path] = [
        path for path in sorted(tests.rglob("*.py")) if "bench" not in path.relative_to(tests).parts
    ]
    read = [path for path in paths if any(f"{clock}(" in path.read_text("utf-8") for clock in CLOCKS)]
    found = {path.relative_to(tests).as_posix(): timed_asserts(tree(path)) for path in read}
    return {name: lines for name, lines in found.items() if lines}


def test_no_test_asserts_how_long_something_took():
    found = _timed_files()
    assert not {name: lines for name, lines in found.items() if name not in ALLOWED}, (
        "count work instead (tests/work.py), order by signals, or play it in virtual time (tests/virtual_time.py)"
    )
    assert found.keys() == ALLOWED.keys(), "what is allowed and does not need it"


def test_the_scan_knows_a_duration():
    for text in (
        "began = time.monotonic()\nassert time.monotonic() - began < 2",
        "from time import process_time\nassert 0 < process_time() - began",
        "took = perf_counter() - began\nbest = min(best, took)\nassert ok and best < 1",
        "def seconds(size):\n    began = thread_time()\n    return thread_time() - began\nassert seconds(8) < 2 * seconds(1)",
    ):
        assert timed_asserts(ast.parse(text)), text
    for text in (
        "until = time.monotonic() + 60\nwhile time.monotonic() < until:\n    pass",
        "began = time.time()\nassert row.at >= began",
        "assert len(rows) - len(old) < 2",
    ):
        assert not timed_asserts(ast.parse(text)), text
