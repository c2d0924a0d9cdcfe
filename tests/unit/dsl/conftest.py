"""A small registry of kinds, so that the compiler is tested without the real tools."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from noetl.domain.kinds import JoinedList, KindSpec, ParamProblem, SqlEscape
from noetl.dsl.compiler import Compiled, compile_playbook
from noetl.dsl.program import Program
from noetl.kinds.registry import default_registry

SQL = {"query": "command", "commands": "command"}
SPECS = {
    spec.name: spec
    for spec in (
        KindSpec(
            "http",
            "Calls a URL.",
            "io",
            aliases={"endpoint": "url", "payload": "json", "body": "json", "data": "json"},
        ),
        KindSpec("python", "Runs Python.", "python", raw_fields=("code",)),
        KindSpec("postgres", "Runs SQL.", "io", aliases=SQL, sql_fields=("command",)),
        KindSpec("duckdb", "Runs SQL.", "cpu", aliases=SQL, sql_fields=("command",)),
        KindSpec("noop", "Does nothing.", "control"),
        KindSpec("script", "Runs a file.", "python", aliases={"path": "uri"}),
        KindSpec("shell", "Runs a command.", "python"),
        KindSpec("playbook", "Runs a playbook.", "control", aliases={"args": "payload", "input": "payload"}),
        KindSpec("workbook", "Runs a named task.", "control", lowered=True),
        KindSpec("iterator", "Loops.", "control", aliases={"in": "collection"}, lowered=True),
    )
}
PARAMS: dict[str, tuple[str, ...]] = {
    "http": ("url", "method", "params", "headers", "json", "auth"),
    "python": ("code",),
    "postgres": ("command", "params", "auth", "table", "args"),
    "duckdb": ("command", "params", "table", "args"),
    "noop": (),
    "script": ("uri", "args"),
    "shell": ("command",),
    "playbook": ("path", "version", "payload", "return_step"),
    "workbook": ("name",),
    "iterator": ("collection", "element", "mode", "task"),
}
REAL = ("agent", "wait")
"""The compiler itself knows what these kinds are for; their parameters are checked by the real ones."""
REQUIRED = {"http": "url", "python": "code", "playbook": "path", "script": "uri"}


class FakeKinds:
    """Knows parameter names only."""

    def names(self) -> tuple[str, ...]:
        return tuple(sorted((*SPECS, *REAL)))

    def spec(self, name: str) -> KindSpec:
        return default_registry().spec(name) if name in REAL else SPECS[name]

    def check(self, name: str, params: Mapping[str, Any]) -> list[ParamProblem]:
        if name in REAL:
            return default_registry().check(name, params)
        spec, known = SPECS[name], PARAMS[name]
        given = {spec.aliases.get(param, param) for param in params}
        problems = []
        for param in params:
            if spec.aliases.get(param, param) not in known:
                near = difflib.get_close_matches(param, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known)}"
                problems.append(ParamProblem((param,), f"{name} does not know {param!r}", hint))
        required = REQUIRED.get(name)
        if required and required not in given:
            problems.append(ParamProblem((), f"{name} needs {required!r}", f"add `{required}: …`"))
        return problems

    def sql_problem(self, text: str) -> tuple[str, str | None, int] | None:
        return default_registry().sql_problem(text)

    def sql_escapes(self, text: str) -> tuple[SqlEscape, ...]:
        return default_registry().sql_escapes(text)

    def sql_lists(self, text: str) -> tuple[JoinedList, ...]:
        return default_registry().sql_lists(text)

    def schema(self, name: str) -> dict[str, Any]:
        if name in REAL:
            return default_registry().schema(name)
        names = (*PARAMS[name], *SPECS[name].aliases)
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {param: {} for param in names},
            "additionalProperties": False,
        }
        if name == "http":
            schema["properties"]["method"] = {"$ref": "#/$defs/Method"}
            schema["$defs"] = {"Method": {"enum": ["GET", "POST"]}}
        return schema


@pytest.fixture(scope="session")
def kinds() -> FakeKinds:
    return FakeKinds()


HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: t }\n"


@pytest.fixture(scope="session")
def compiled(kinds: FakeKinds) -> Callable[[str], Compiled]:
    """Compiles a document given without its first three lines."""
    return lambda body: compile_playbook(HEAD + body, source_name="t.yaml", kinds=kinds)


@pytest.fixture(scope="session")
def program(compiled: Callable[[str], Compiled]) -> Callable[[str], Program]:
    return lambda body: compiled(body).program
