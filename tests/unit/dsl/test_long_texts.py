"""Long texts in every place that the compiler searches: each takes a time that grows with the text, and not with its square."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable

import pytest

from noetl.dsl.compiler import compile_playbook
from noetl.dsl.diagnostics import InvalidPlaybookError
from noetl.kinds.registry import default_registry
from noetl.services.catalog.migrate_playbook import migrate_playbook

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: long, path: demo/long }\n"
STEP = "workflow:\n  - step: start\n"
KINDS = default_registry()
LONG = 60_000


def tool(kind: str, key: str) -> Callable[[str], str]:
    return lambda text: f"{HEAD}{STEP}    tool: {{ kind: {kind}, {key}: {json.dumps(text)} }}\n"


def of(place: str) -> Callable[[str], str]:
    """A playbook with the text in place of ``TEXT``."""
    return lambda text: HEAD + place.replace("TEXT", json.dumps(text))


CODE = tool("python", "code")
SQL = tool("postgres", "auth: x, command")
ARGUMENT = of(f"{STEP}    args: {{ a: TEXT }}\n    tool: {{ kind: noop }}\n")
GUARD = of(
    f"{STEP}    tool: {{ kind: noop }}\n    next: {{ arcs: [ {{ step: other, when: TEXT }} ] }}\n  - step: other\n"
)
REQUIREMENT = of(
    f"executor: {{ spec: {{ requirements: [ TEXT ] }} }}\n{STEP}    tool: {{ kind: python, code: 'result = 1' }}\n"
)
PATTERN = of(f"input: {{ properties: {{ x: {{ pattern: TEXT }} }} }}\n{STEP}    tool: {{ kind: noop }}\n")
TIMEOUT = of(f"{STEP}    spec: {{ timeout: TEXT }}\n    tool: {{ kind: noop }}\n")
TEXTS: dict[str, tuple[Callable[[str], str], str]] = {
    "spaces in a template of code": (CODE, "x = {{ workload." + " " * LONG),
    "spaces behind a name in code": (CODE, "x = {{ workload" + " " * LONG + "!"),
    "braces in code": (CODE, "x = '" + "{{ a. " * (LONG // 6) + "'"),
    "spaces in a requirement": (REQUIREMENT, "a" + " " * LONG + "!"),
    "tabs in a requirement": (REQUIREMENT, "a" + "\t" * LONG + "["),
    "extras of a requirement": (REQUIREMENT, "a[a" + " , a" * (LONG // 4) + "!"),
    "clauses of a requirement": (REQUIREMENT, "a==1" + " , ==1" * (LONG // 6) + "!"),
    "lists of SQL": (SQL, "SELECT " + "IN ( " * (LONG // 5) + "{{ workload.x }}"),
    "spaces of SQL": (SQL, "SELECT IN" + " " * LONG + "({{ workload.x }}" + " " * LONG),
    "comments of SQL": (SQL, "SELECT " + "/*" * (LONG // 2) + " {{ workload.x }}"),
    "quotes of SQL": (SQL, "SELECT " + "'" * (LONG + 1) + " {{ workload.x }}"),
    "dollars of SQL": (SQL, "SELECT " + "$a" * (LONG // 2) + " {{ workload.x }}"),
    "spaces of a guard": (GUARD, "{{ workload.x" + " " * LONG + "!"),
    "spaces around a template": (ARGUMENT, " " * LONG + "{{ workload.x }}" + " " * LONG + "!"),
    "templates that do not end": (ARGUMENT, "{{ workload.x " * (LONG // 14)),
    "filters that replace": (ARGUMENT, "{{ workload.x | replace(" + " " * LONG),
    "spaces of a duration": (TIMEOUT, "1w" + " " * LONG + "!"),
    "words of a first line": (tool("shell", "command"), "#!" + "/usr/bin/env -a " * (LONG // 16)),
    "braces of a command": (tool("shell", "command"), "echo " + "{{" * (LONG // 2)),
    "braces of statements in a command": (tool("shell", "command"), "echo " + "{%" * (LONG // 2) + "}}"),
    "a computed path": (tool("playbook", "path"), "a" + "{{ workload.x }}a" * (LONG // 17)),
    "colons of an address": (tool("http", "url"), "http://" + "a:" * (LONG // 2) + "@x"),
    "slashes of an image": (tool("container", "image"), "a/" * (LONG // 2) + "!"),
    "escapes of a pattern": (PATTERN, "\\u" * (LONG // 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_the_time_grows_with_the_text(name):
    """A search that tries every split of its spaces holds the interpreter, and with it a server: here for minutes."""
    make, text = TEXTS[name]
    began = time.process_time()
    try:
        compile_playbook(make(text), kinds=KINDS)
    except InvalidPlaybookError as refused:
        codes = {found.code for found in refused.diagnostics}
        assert not codes & {"unknown-key", "syntax", "unknown-kind"}, refused
    assert time.process_time() - began < 5.0


@pytest.mark.parametrize(
    "guard",
    ["{{ a" + " " * LONG + "! }}", "{{ a" + " and " * (LONG // 15) + " }}", "{{ steps.a " * (LONG // 11), "{% " * (LONG // 3)],
    ids=["spaces", "words", "templates", "statements"],
)  # fmt: skip
def test_so_does_the_time_of_a_migration(guard):
    began = time.process_time()
    with contextlib.suppress(InvalidPlaybookError):
        migrate_playbook(GUARD(guard).replace("noetl.io/v2", "noetl.io/v1"), source_name="long.yaml")
    assert time.process_time() - began < 5.0
