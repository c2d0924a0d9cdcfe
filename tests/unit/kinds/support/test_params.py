"""Checking parameters before templates are rendered."""

from __future__ import annotations

import pytest
from pydantic import model_validator

from noetl.domain.kinds import HOLE, KindSpec
from noetl.kinds.registry import default_registry
from noetl.kinds.support.base import KindParams
from noetl.kinds.support.params import ParamsChecker
from tests.parts import over


def problems(name, params):
    return [
        (problem.path, problem.message, problem.hint) for problem in default_registry().check(name, params)
    ]


@over(
    ("name", "params", "path", "words"),
    [
        ("transfer", {"source": {"kind": "mysql"}}, ("source",), "its kind is 'mysql', which is none of postgres, duckdb,"),
        ("transfer", {"target": {"table": "t"}}, ("target",), "it needs a `kind`"),
        ("http", {"save": "csv"}, ("save",), "input should be a mapping"),
        ("http", {"multipart": {"f": {"ref": HOLE, "fliename": "x"}}}, ("multipart", "f", "fliename"), "no key 'fliename'"),
        ("http", {"multipart": {"f": [HOLE, {"ref": HOLE, "content": "x"}]}}, ("multipart", "f", 1), "has one of file, content and ref"),
        ("http", {"paginate": {"by": "cursor", "items": HOLE}}, ("paginate",), "by: cursor needs 'next'"),
        ("duckdb", {"sources": {"a-b": {"ref": HOLE}}}, ("sources", "a-b"), "no name of a source"),
        ("duckdb", {"sources": {"a": {"ref": HOLE}, "b": {"file": "b.csv", "query": "x"}}}, ("sources", "b"), "`query` belongs to"),
        ("duckdb", {"sources": {"a": {"ref": HOLE, "format": "xls"}}}, ("sources", "a", "format"), "'csv', 'jsonl', 'json' or 'parquet'"),
        ("postgres", {"copy": {"table": "t", "from": HOLE, "mode": "upsert"}}, ("copy",), "an upsert needs a `key`"),
        ("postgres", {"query": "SELECT $1", "params": [HOLE]}, ("params",), "values have names here"),
        *(
            (kind, {"query": "SELECT $1", "params": [HOLE]}, ("params",), "values have names here")
            for kind in ("duckdb", "snowflake")
        ),
        ("postgres", {"copy": {"table": "t", "form": HOLE}}, ("copy", "form"), "no key 'form'"),
    ],
)  # fmt: skip
def test_what_stands_beside_a_template_is_checked_as_well(name, params, path, words):
    given = {
        "http": {"url": "http://x"},
        "duckdb": {"query": "SELECT 1"},
        "snowflake": {"auth": "warehouse"},
        "transfer": {"source": HOLE, "target": HOLE},
    }
    found = problems(name, {**given.get(name, {}), **params})
    assert any(at == path and words in message for at, message, _ in found), found


@over(
    ("name", "params", "expected"),
    [
        ("playbook", {}, [((), "playbook needs 'path'", None)]),
        (
            "http",
            {
                "url": HOLE,
                "paginate": {"by": "page", "start": HOLE, "next": HOLE},
                "multipart": {"f": [HOLE]},
            },
            [],
        ),
        (
            "duckdb",
            {"query": "x", "sources": {"a": {"s3": HOLE, "auth": HOLE}, "b": HOLE, "c": {"ref": HOLE}}},
            [],
        ),
        ("playbook", {"path": HOLE}, []),
        ("shell", {"command": "docker ps --format '{{.ID}} {{range .Ports}}{{json .}}{{end}}'"}, []),
        (
            "shell",
            {"command": "echo {{.ID}} {{ range }}"},
            [
                (
                    ("command",),
                    "the command is taken as it is: {{ range }} would not be rendered",
                    'give the value a name under `env` (NAME: "{{ … }}") and write "$NAME" in the command',
                )
            ],
        ),
        ("playbook", {"path": "a", "args": {"x": HOLE}}, []),
        ("playbook", {"path": "a", "args": 5}, [(("args",), "'args' is 5: input should be a mapping", None)]),
        (
            "playbook",
            {"path": ""},
            [(("path",), "'path' is '': string should have at least 1 character", None)],
        ),
        (
            "playbook",
            {"path": "a", "with": {}, "input": {}},
            [(("input",), "'input' and 'with' mean the same parameter", "keep one of them")],
        ),
        (
            "playbook",
            {"paht": HOLE, "path": "a"},
            [(("paht",), "playbook has no parameter 'paht'", "did you mean 'path'?")],
        ),
        ("noop", {"zzz": 1}, [(("zzz",), "noop has no parameter 'zzz'", "it takes no parameters")]),
        (
            "python",
            {"code": "result = 1", "libs": ["x"]},
            [
                (
                    ("libs",),
                    "python does not take 'libs'",
                    "install libraries where workers run; code may import every library that is installed there",
                )
            ],
        ),
        (
            "script",
            {"source": {"type": "s3", "path": "a.py"}},
            [
                (
                    ("source",),
                    "'source' is a mapping of 2: s3 needs a 'bucket' beside the path, or a uri",
                    None,
                )
            ],
        ),
        ("script", {"source": {"type": "file", "path": HOLE}}, []),
        ("script", {"source": HOLE}, []),
        ("script", {}, [((), "name the script once: source or uri", None)]),
        (
            "script",
            {"path": "a.py", "source": {"path": "b.py"}},
            [((), "name the script once: source or uri", None)],
        ),
        (
            "script",
            {"path": "a.py", "env": {"LD_PRELOAD": "x.so"}},
            [(("env",), "'env': 'LD_PRELOAD' would change how programs are loaded and is not allowed", None)],
        ),
        (
            "script",
            {"path": "a.py", "args": ["a\0b"]},
            [(("args",), "'args' is a list of 1: an argument cannot hold a NUL character", None)],
        ),
        (
            "iterator",
            {"in": "not a list", "iterator": "x", "task": HOLE},
            [
                (
                    ("in",),
                    "'in' is 'not a list': input should be a valid list or input should be a mapping",
                    None,
                )
            ],
        ),
    ],
)
def test_check(name, params, expected):
    assert problems(name, params) == expected


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("x = 1\ny = (\n", "'(' was never closed (line 2: y = ()"),
        ("  a = 1\n b = 2\n", "unexpected indent (line 1: a = 1)"),
        ("-" * 100_000 + "1", "too deeply nested"),
        ("a" + ".b" * 100_000, "maximum recursion depth"),
        ("x = 1\0", "null bytes"),
    ],
)
def test_python_code_is_parsed_before_it_runs(code, words):
    ((path, message, _),) = problems("python", {"code": code})
    assert path == ("code",)
    assert words in message


@over("code", ["return 1", "  x = 1\n  return x", "def main():\n    return 1", '"\\d"'])
def test_python_code_in_every_spelling_is_fine(code):
    assert problems("python", {"code": code}) == []


def test_schema_offers_aliases_for_what_is_required():
    class Params(KindParams):
        url: str
        tries: int = 1

    spec = KindSpec(name="get", summary="Gets.", pool="io", aliases={"endpoint": "url"})
    schema = ParamsChecker(Params, spec).schema()
    assert schema["allOf"] == [{"anyOf": [{"required": ["url"]}, {"required": ["endpoint"]}]}]
    assert "required" not in schema
    assert schema["properties"]["tries"]["anyOf"][1] == {"type": "string", "pattern": r"\{[\{%]"}


def test_rules_over_several_fields_meet_holes():
    class Params(KindParams):
        low: int | None = None
        high: int | None = None

        @model_validator(mode="after")
        def _both(self):
            if (self.low is None) != (self.high is None):
                raise ValueError("give low and high together")
            return self

    checker = ParamsChecker(Params, KindSpec(name="range", summary="x", pool="io"))
    assert checker.check({"low": HOLE, "high": 3}) == []
    assert [problem.message for problem in checker.check({"low": HOLE})] == ["give low and high together"]
