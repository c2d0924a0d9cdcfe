"""What is fuzzed: for each surface what to draw, and what to do with it. Refusals of this library are answers; any other error is a defect."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core import NotSet

from noetl.domain.automations.schedules import Timing, check_cron, check_rate, next_fires
from noetl.domain.errors import NoetlError
from noetl.domain.patches.json_patch import check_operations, merge_patch, patch_document
from noetl.dsl.json_schema.check import misfits, schema_problem
from noetl.dsl.program import Expr, Text
from noetl.templating import MappingScope, render
from tests.unit.api.ground import GATED, HELLO, Ground

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.json"
RENEWED = 500
"""Requests after which a ground is made again, so that what they leave behind stays small."""
_TEXTS = st.text(max_size=20) | st.sampled_from(
    ["", "\0", "\ud800", "\u202e", "{{ x }}", "-0", "1e999", "__class__", "a" * 300]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=10,
)


@dataclass(frozen=True)
class Surface:
    """``share``: of all inputs. ``feed``: handles one input; what it raises besides NoetlError is a defect."""

    share: float
    inputs: st.SearchStrategy[Any]
    feed: Callable[[Any], object]


def spliced(whole: str, parts: list[str]) -> st.SearchStrategy[str]:
    """Draw a text in which some pieces are replaced, cut or repeated."""
    edit = st.tuples(st.integers(0, len(whole)), st.integers(0, 12), _TEXTS | st.sampled_from(parts))

    def applied(edits: list[tuple[int, int, str]]) -> str:
        text = whole
        for place, length, new in edits:
            text = text[:place] + new + text[place + length :]
        return text

    return st.lists(edit, min_size=1, max_size=4).map(applied)


@dataclass
class Routes:
    """Requests made from the document, valid and broken, to the API in this process."""

    ground: Ground | None = None
    known: dict[str, list[str]] = field(default_factory=dict)
    asked: int = 0

    def inputs(self) -> st.SearchStrategy[Any]:
        schema = schemathesis.openapi.from_dict(json.loads(DOCUMENT.read_text()))
        operations = [one.ok() for one in schema.get_all_operations()]
        modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)

        def cases(operation: Any) -> st.SearchStrategy[Any]:
            return st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in modes))

        return st.tuples(st.sampled_from(operations).flatmap(cases), st.booleans())

    def renew(self) -> None:
        self.ground = Ground()
        self.known = {"execution_id": [self.ground.run(GATED)], "path": ["demo/gated"]}

    def feed(self, drawn: Any) -> None:
        case, about_known = drawn
        if self.asked % RENEWED == 0:
            self.renew()
        self.asked += 1
        assert self.ground is not None
        if about_known:
            for name in self.known.keys() & (case.path_parameters or {}).keys():
                case.path_parameters[name] = self.known[name][0]
        body: Any = None if isinstance(case.body, NotSet) else case.body
        if body is not None and not isinstance(body, str):
            body = body.decode("latin-1") if isinstance(body, bytes) else json.dumps(body)
        headers = {str(name).lower(): str(value) for name, value in (case.headers or {}).items()}
        headers.setdefault("content-type", case.media_type or "application/json")
        query = {str(name): str(value) for name, value in (case.query or {}).items()}
        reply = self.ground.ask(case.method, case.formatted_path, body, query=query, headers=headers)
        assert reply.status < 500, (
            case.method,
            case.formatted_path,
            query,
            headers,
            body,
            reply,
            self.ground.logs[-1:],
        )


def compile_text(text: str) -> None:
    _compiler().compile(text, "fuzz.yaml")


def _compiler() -> Any:
    return _GROUND.database.programs.cache


_GROUND = Ground()
_SCOPE = {"x": {"a": [1, "two", None], "b": 1.5}, "l": list(range(20)), "s": "text"}
_TEMPLATES = [
    "{{",
    "}}",
    "{%",
    "x.a",
    "| tojson",
    "| default(",
    "* 9",
    "** 9 ** 9",
    "range(99999)",
    "for i in l",
    "[::-1]",
    "'%99999d'",
    "loop",
]
_SCHEMAS = st.recursive(
    st.booleans()
    | st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "string", "integer", "null", "nothing"]) | _JSON,
            "minimum": st.integers() | st.floats() | _TEXTS,
            "maxLength": st.integers(-1, 50),
            "required": st.lists(_TEXTS, max_size=3) | _JSON,
            "enum": st.lists(_JSON, max_size=3) | _JSON,
            "$ref": st.sampled_from(
                ["#", "#/properties/a", "#/$defs/a", "http://example.invalid/x", "#/%25", "", 7]
            ),
            "multipleOf": st.sampled_from([0, 1, 0.1, 1e-300, -1, "x"]),
            "format": st.sampled_from(["date-time", "email", "regex", "uri", 5]),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from(["a", "b", "$ref"]), inner, max_size=2),
            "items": inner,
            "anyOf": st.lists(inner, max_size=3),
            "not": inner,
            "$defs": st.dictionaries(st.just("a"), inner, max_size=1),
        },
    ),
    max_leaves=8,
)
_CRON = st.text("0123456789*/,-LWA? monjan", max_size=12)
_POINTERS = (
    st.sampled_from(
        ["", "/a", "/a/0", "/a/-", "/b/~0", "/b/~2", "a", "/", "/a/01", "/a/99999999999999999999"]
    )
    | _TEXTS
)
_OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": _POINTERS},
        optional={"value": _JSON, "from": _POINTERS},
    ),
    max_size=6,
)


def _expression(source: str) -> None:
    for node in (Text(source), Expr(source)):
        try:
            render(node, MappingScope(_SCOPE))
        except NoetlError:
            continue


def _schema(drawn: tuple[Any, Any]) -> None:
    schema, payload = drawn
    if isinstance(schema, dict):
        schema_problem(schema)
        misfits(schema, payload)


def _cron(drawn: tuple[str, str, str]) -> None:
    cron, rate, zone = drawn
    try:
        check_rate(rate)
        next_fires(Timing(rate=rate), 0.0, 3)
    except NoetlError:
        pass
    next_fires(Timing(cron=check_cron(cron), timezone=zone), 1_700_000_000.0, 3)


def _patch(drawn: tuple[Any, Any]) -> None:
    operations, other = drawn
    document = {"a": [1, {"b": None}], "b": {"~": 1}}
    merge_patch(document, other)
    check_operations(operations)
    patch_document(document, operations)


SURFACES: dict[str, Surface] = {
    "yaml": Surface(
        0.12,
        spliced(
            HELLO,
            [
                "&a",
                "*a",
                "<<: *a",
                "!!python/object",
                "---",
                "? ",
                "|2",
                ">-",
                "\t",
                "{{ x",
                "- step: start",
                "[[[[",
            ],
        )
        | spliced(GATED, ["next:", "loop:", "arcs: []", "spec:", "kind: python", "retry:", "null", "{}"]),
        compile_text,
    ),
    "templates": Surface(
        0.22,
        spliced("{{ x.a | map(attribute='b') | list }} {% if s %}{{ l[0] + 1 }}{% endif %}", _TEMPLATES)
        | _TEXTS,
        _expression,
    ),
    "schemas": Surface(0.12, st.tuples(_SCHEMAS, _JSON), _schema),
    "cron": Surface(
        0.12,
        st.tuples(
            st.lists(
                _CRON | st.sampled_from(["*", "*/5", "1-5", "jan", "31", "2"]), min_size=4, max_size=6
            ).map(" ".join),
            st.sampled_from(["5 minutes", "1 day", "0 hours"]) | _TEXTS,
            st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns"]),
        ),
        _cron,
    ),
    "json_patch": Surface(0.12, st.tuples(_OPERATIONS, _JSON), _patch),
}
_ROUTES = Routes()
ROUTES = Surface(0.3, st.deferred(lambda: _ROUTES.inputs()), _ROUTES.feed)
