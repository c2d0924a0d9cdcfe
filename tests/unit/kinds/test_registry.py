"""What every kind owes, and what the registry does with kinds that are wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest

from noetl.domain.errors import InfrastructureError, PlaybookError, TaskError
from noetl.domain.kinds import HOLE, KindSpec, TaskContext, TaskResult, TaskSettings
from noetl.dsl.lowering.tasks import TASK_KEYS
from noetl.kinds import python
from noetl.kinds.registry import BUILT_IN, ENTRY_POINT_GROUP, Registry, default_registry
from noetl.kinds.support.base import KindParams
from tests.parts import over

DOCS = Path(__file__).parents[3] / "docs" / "kinds"
RESULTS = DOCS.parent / "dsl" / "results.md"


def make_context(**changes) -> TaskContext:
    facts = {
        "execution_id": 1,
        "step": "s",
        "task": "t",
        "attempt": 1,
        "idempotency_key": "1/s/0/t",
        "timeout": 5.0,
        "settings": TaskSettings(),
        "credential": lambda name: pytest.fail(f"nobody needs the credential {name}"),
    }
    return TaskContext(**(facts | changes))


def make_kind(**changes) -> SimpleNamespace:
    class Params(KindParams):
        size: int = 1

    facts = {
        "SPEC": KindSpec(name="echo", summary="Gives back its size.", pool="io"),
        "Params": Params,
        "run": lambda params, context: TaskResult(params.size),
    }
    return SimpleNamespace(**(facts | changes))


EVERY_KIND = over("name", default_registry().names())


@EVERY_KIND
def test_is_described(name):
    spec = default_registry().spec(name)
    assert spec.name == name
    assert spec.summary.endswith(".")
    assert spec.default_timeout > 0


@EVERY_KIND
def test_example_fits_check_and_schema(name):
    registry = default_registry()
    example = dict(registry.example(name))
    assert registry.check(name, example) == []
    schema = registry.schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(example, schema)


@EVERY_KIND
def test_refuses_what_it_does_not_know(name):
    registry = default_registry()
    params = {**registry.example(name), "no_such_parameter": 1}
    problems = registry.check(name, params)
    assert [problem.path for problem in problems] == [("no_such_parameter",)]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(params, registry.schema(name))


@EVERY_KIND
def test_templates_fit_every_parameter(name):
    registry = default_registry()
    raw = registry.spec(name).raw_fields
    params = {field: value if field in raw else HOLE for field, value in registry.example(name).items()}
    assert registry.check(name, params) == []
    written = {field: "{{ x }}" if value is HOLE else value for field, value in params.items()}
    jsonschema.validate(written, registry.schema(name))


@EVERY_KIND
def test_aliases_lead_to_parameters(name):
    spec = default_registry().spec(name)
    properties = default_registry().schema(name)["properties"]
    assert set(spec.aliases) | set(spec.aliases.values()) <= set(properties)
    assert {*spec.raw_fields, *(field.partition(".")[0] for field in spec.sql_fields)} <= set(properties)


@EVERY_KIND
def test_the_fields_of_its_result_are_in_the_docs(name):
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    text = page + (DOCS / "postgres.md").read_text(encoding="utf-8") if "as for `postgres`" in page else page
    text += (DOCS / "script.md").read_text(encoding="utf-8") if "as for `script`" in page else ""
    words = set(re.findall(r"\w+", text + RESULTS.read_text(encoding="utf-8")))
    named = {part for field in default_registry().spec(name).result_fields for part in field.split(".")}
    assert named <= words


@EVERY_KIND
def test_no_parameter_is_a_key_of_tasks(name):
    """``args`` is both on purpose: a mapping is the task's input, anything else the kind's. What the engine runs, the compiler knows."""
    if default_registry().spec(name).pool == "control":
        return
    properties = default_registry().schema(name)["properties"]
    assert set(properties) & TASK_KEYS <= {"args"}


@EVERY_KIND
def test_has_its_page_in_the_docs(name):
    page = (DOCS / f"{name}.md").read_text()
    assert page.startswith(f"# `{name}`\n")
    fields = default_registry().schema(name)["properties"]
    assert [field for field in fields if f"`{field}`" not in page] == []
    assert f"(kinds/{name}.md)" in (DOCS.parent / "kinds.md").read_text()


def printed(code: str) -> str:
    """Run code in a process of its own, which has loaded nothing yet."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_nothing_is_imported_until_it_is_used():
    code = (
        "import sys; from noetl.kinds.registry import default_registry; "
        "default_registry().names(); "
        "print([m for m in sys.modules if m.startswith(('pydantic', 'noetl.kinds.'))])"
    )
    assert printed(code) == "['noetl.kinds.registry']"


class Text(str):
    """A text that only the model looks at."""


@over(
    ("params", "is_plain"),
    [
        ({"code": "result = 1"}, True),
        ({"code": "x" * python.CODE_CHARACTERS}, True),
        ({"code": "x" * (python.CODE_CHARACTERS + 1)}, False),
        ({"code": ""}, False),
        ({"code": b"'\\ud800'".decode("unicode_escape")}, False),
        ({"code": 1}, False),
        ({"code": Text("result = 1")}, False),
        ({"code": "result = 1", "libs": []}, False),
        ({}, False),
    ],
)
def test_plain_parameters_of_python_are_what_its_model_makes_of_them(params, is_plain):
    plain = python.plain(params)
    assert (plain is not None) == is_plain
    if plain is not None:
        assert plain.code == python.Params(**params).code


def test_python_runs_without_its_model():
    code = (
        "import sys; from noetl.kinds.registry import default_registry; "
        "kind = default_registry()._load('python'); kind.parse({'code': 'result = 1'}); "
        "print('pydantic' in sys.modules, end=' '); kind.params; print('pydantic' in sys.modules)"
    )
    assert printed(code) == "False True"


def test_run_applies_aliases_and_calls_the_kind():
    registry = Registry({})
    registry.add(make_kind(SPEC=KindSpec(name="echo", summary="x", pool="io", aliases={"n": "size"})))
    assert registry.run("echo", {"n": "7"}, make_context()) == TaskResult(7)
    assert registry.run("echo", {}, make_context()) == TaskResult(1)


@pytest.mark.parametrize(
    ("params", "field", "words"),
    [
        ({"size": "seven"}, "size", "'seven'"),
        ({"n": [1, 2]}, "n", "a list of 2"),
        ({"siez": 1}, "siez", "did you mean 'size'?"),
        ({"size": 1, "n": 2}, "n", "'n' and 'size' mean the same parameter"),
        ({"secret_size": 3}, "secret_size", "size is public"),
        ({"headers": "Bearer hush"}, "headers", "a mapping"),
    ],
)
def test_run_names_the_field_and_the_value(params, field, words):
    class Params(KindParams):
        size: int = 1
        headers: dict[str, str] | None = None
        refused = {"secret_size": "size is public"}  # noqa: RUF012

    registry = Registry({})
    spec = KindSpec(name="echo", summary="x", pool="io", aliases={"n": "size"})
    registry.add(make_kind(Params=Params, SPEC=spec))
    with pytest.raises(TaskError) as caught:
        registry.run("echo", params, make_context())
    error = caught.value
    assert (error.kind, error.code, error.details["field"]) == ("schema", "kind_params", field)
    assert words in str(error)
    assert "hush" not in str(error), "a header's value is repeated"


def test_unknown_and_uncallable_kinds():
    registry = default_registry()
    with pytest.raises(KeyError):
        registry.spec("pyhton")
    with pytest.raises(TaskError, match="did you mean 'python'") as caught:
        registry.run("pyhton", {}, make_context())
    assert caught.value.code == "unknown_kind"
    with pytest.raises(TaskError) as caught:
        registry.run("workbook", {"name": "x"}, make_context())
    assert caught.value.code == "kind_not_callable"


def test_a_defective_kind_fails_its_task_only():
    registry = Registry({})

    def broken(params, context):
        raise ZeroDivisionError("half of nothing")

    registry.add(make_kind(run=broken))
    with pytest.raises(TaskError, match="half of nothing") as caught:
        registry.run("echo", {}, make_context())
    assert caught.value.code == "ZeroDivisionError"

    def ours(params, context):
        raise InfrastructureError("disk away")

    registry.add(make_kind(run=ours))
    with pytest.raises(InfrastructureError, match="disk away"):
        registry.run("echo", {}, make_context())


def test_entry_points(monkeypatch, tmp_path):
    (tmp_path / "third_party_echo.py").write_text(
        "from noetl.domain.kinds import KindSpec, TaskResult\n"
        "from noetl.kinds.support.base import KindParams\n"
        "SPEC = KindSpec(name='third_party_echo', summary='x', pool='cpu')\n"
        "class Params(KindParams):\n    size: int\n"
        "def run(params, context):\n    return TaskResult(params.size)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    points = [
        metadata.EntryPoint("third_party_echo", "third_party_echo", ENTRY_POINT_GROUP),
        metadata.EntryPoint("misnamed", "third_party_echo", ENTRY_POINT_GROUP),
        metadata.EntryPoint("absent", "no_such_module_anywhere", ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr(metadata, "entry_points", lambda group: points)
    registry = Registry()
    assert {"third_party_echo", "misnamed", "absent", *BUILT_IN} == set(registry.names())
    assert registry.run("third_party_echo", {"size": 4}, make_context()) == TaskResult(4)
    for name, words in (
        ("misnamed", "calls itself 'third_party_echo'"),
        ("absent", "no_such_module_anywhere"),
    ):
        with pytest.raises(PlaybookError, match=words) as caught:
            registry.spec(name)
        assert caught.value.code == "kind_unavailable"

    monkeypatch.setattr(
        metadata, "entry_points", lambda group: [metadata.EntryPoint("noop", "evil", ENTRY_POINT_GROUP)]
    )
    with pytest.warns(RuntimeWarning, match="'noop' of evil is ignored"):
        registry = Registry()
    assert registry.spec("noop").pool == "control"
