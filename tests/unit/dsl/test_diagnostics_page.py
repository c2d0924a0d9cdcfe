"""docs/diagnostics.md lists every code the compiler has, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from noetl.dsl.compiler import compile_playbook
from noetl.dsl.diagnostics import HELP, InvalidPlaybookError, help_for

ROOT = Path(__file__).parents[3]
COMPILER = ROOT / "layers" / "core" / "python" / "noetl" / "dsl"
NEEDS = COMPILER.parent / "services" / "catalog" / "playbook_needs.py"
DEPLOYED = COMPILER.parent / "runtime" / "deployed_catalog.py"
NOTES = COMPILER.parent / "kinds" / "python.py"
OLDER = COMPILER.parent / "migration" / "older.py"
CODE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+")
NO_CODES = frozenset(
    {"detail-type", "utf-8", "rule-sink", "step-sink", "x-place", "x-refers", "x-docs", "x-templates"}
)
"""Words with hyphens in the compiler that are not codes."""
ROW = re.compile(r'^\| <a id="([a-z0-9-]+)"></a>`([a-z0-9-]+)` \| (\w+) \|(.*)\|$', re.MULTILINE)
PAGE = (ROOT / HELP).read_text()


def told() -> set[str]:
    """Codes in the compiler's source, and those that refused playbooks show (some come from elsewhere)."""
    found = {
        node.value
        for file in (*COMPILER.rglob("*.py"), NEEDS, NOTES, OLDER, DEPLOYED)
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value)
    }
    for file in (ROOT / "playbooks" / "invalid").rglob("*.yaml"):
        found.update(re.findall(r"^# expect: (\S+)", file.read_text(), re.MULTILINE))
    return found - NO_CODES


def test_every_code_is_explained_once():
    rows = ROW.findall(PAGE)
    codes = [code for _, code, _, _ in rows]
    assert len(codes) == len(set(codes))
    assert set(codes) == told()
    for anchor, code, severity, rest in rows:
        assert anchor == code
        assert severity in ("error", "warning", "note", "either", "strict")
        assert all(len(cell.strip()) > 5 for cell in rest.split(" | ")), f"{code}: an empty cell"
        assert help_for(code) == f"{HELP}#{anchor}"


def test_severities_are_those_of_the_page(kinds):
    severities = {code: severity for _, code, severity, _ in ROW.findall(PAGE)}
    for file in (ROOT / "playbooks" / "invalid").rglob("*.yaml"):
        try:
            found = compile_playbook(file.read_text(), kinds=kinds).diagnostics
        except InvalidPlaybookError as refused:
            found = refused.diagnostics
        for problem in found:
            assert severities[problem.code] in (problem.severity, "either"), f"{file.name}: {problem}"
