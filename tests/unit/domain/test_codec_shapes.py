"""Every shape with a decoder is read back as it was written, with any text and numbers in it."""

from __future__ import annotations

import importlib
import math
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import inspect

import noetl
from noetl.api.http.exchange import JSON
from noetl.api.table import ROUTES
from noetl.domain import codec
from noetl.domain.callbacks import digest_of
from noetl.domain.commands import Command
from noetl.domain.events import Event, Redrive, Start, decode_event, encode_event
from noetl.domain.facts.facts import Fact
from noetl.domain.messages import Message
from noetl.domain.outcomes.outcomes import ErrorInfo, Outcome
from noetl.domain.state import ExecutionState, Token, decode_state, encode_state
from noetl.dsl.program import Program
from noetl.ports.executions.execution_store import LoopRow
from noetl.services.orchestrator.summarize_loop import Brief
from tests.parts import over, repeated

ROOT = Path(noetl.__file__).parent
HOSTILE = (
    "\0",
    "\ud800",
    "a\udfffb",
    "\udc00\ud800",
    "\u202egnp",
    "😀",
    '"\\u0000',
    "\\ud800",
    "\x7f\u2028",
    "",
)
BIG = 10**3999 + 7


def _sources() -> list[str]:
    """Modules that make a decoder when they are imported."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        if re.search(r"^\w+.*= codec\.decoder\(", path.read_text(), re.MULTILINE):
            found.append(".".join(("noetl", *path.relative_to(ROOT).with_suffix("").parts)))
    return found


for _module in _sources():
    importlib.import_module(_module)
for _route in ROUTES:
    if "{" in _route.path and _route.takes == JSON and not (_route.any_body or _route.bodiless):
        codec.decoder(_route.body)  # as the document of the API does
SHAPES = dict(sorted((str(shape), shape) for shape in codec._decoders))


def _whole(text: str) -> str:
    """JSON cannot tell two halves of a pair that stand side by side from the character they make."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


TEXTS = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(codec=None, exclude_categories=()), max_size=6).map(_whole),
)
INTEGERS = st.one_of(
    st.integers(-3, 10), st.integers(), st.sampled_from((BIG, -BIG, 2**63, 2**64, -(2**63) - 1))
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), INTEGERS, FLOATS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)


PLAIN: dict[type, st.SearchStrategy[Any]] = {
    inspect.AnyType: VALUES,
    inspect.StrType: TEXTS,
    inspect.BoolType: st.booleans(),
    inspect.IntType: INTEGERS,
    inspect.FloatType: FLOATS,
    inspect.NoneType: st.none(),
    inspect.BytesType: st.binary(max_size=8),
    inspect.RawType: VALUES.map(codec.encode).map(msgspec.Raw),
}


def _strategy(kind: inspect.Type, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values of a type. Raises AssertionError for a kind of type that no stored shape had so far."""
    if type(kind) in PLAIN:
        return PLAIN[type(kind)]
    few = 2 if depth < 4 else 0
    inner = depth + 1
    match kind:
        case inspect.Metadata():
            return _strategy(kind.type, depth)
        case inspect.LiteralType():
            return st.sampled_from(kind.values)
        case inspect.UnionType():
            return st.one_of([_strategy(one, depth) for one in kind.types])
        case inspect.ListType():
            return st.lists(_strategy(kind.item_type, inner), max_size=few)
        case inspect.VarTupleType():
            return st.lists(_strategy(kind.item_type, inner), max_size=few).map(tuple)
        case inspect.TupleType():
            return st.tuples(*(_strategy(one, inner) for one in kind.item_types))
        case inspect.DictType():
            return st.dictionaries(
                _strategy(kind.key_type, inner), _strategy(kind.value_type, inner), max_size=few
            )
        case inspect.StructType() | inspect.DataclassType() | inspect.NamedTupleType():
            return st.deferred(lambda: _structs(kind, inner))
    raise AssertionError(f"teach this test about {kind}")


_MADE: dict[tuple[type, int], st.SearchStrategy[Any]] = {}


def _structs(
    kind: inspect.StructType | inspect.DataclassType | inspect.NamedTupleType, depth: int
) -> st.SearchStrategy[Any]:
    key = kind.cls, min(depth, 6)
    if key not in _MADE:
        fields = {}
        for field in kind.fields:
            if depth >= 5 and not field.required:
                continue
            fields[field.name] = _strategy(field.type, depth)
        _MADE[key] = st.builds(kind.cls, **fields)
    return _MADE[key]


def _same(left: Any, right: Any) -> bool:
    """Whether the two are equal; raw documents are compared by what they say."""
    if isinstance(left, msgspec.Raw) and isinstance(right, msgspec.Raw):
        return bool(codec.decode(bytes(left)) == codec.decode(bytes(right)))
    if isinstance(left, msgspec.Struct) and type(left) is type(right):
        return all(_same(getattr(left, name), getattr(right, name)) for name in left.__struct_fields__)
    return bool(left == right)


@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=repeated(gate=3, full=25), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_written_is_read_back_equal(name, data):
    shape = SHAPES[name]
    value = data.draw(_strategy(inspect.type_info(shape)))
    again = codec.decode_as(codec.decoder(shape), codec.encode(value))
    assert _same(again, value)
    assert type(again) is type(value)


def test_every_stored_and_sent_shape_is_among_them():
    known = set(SHAPES.values())
    wanted = {ExecutionState, Event, list[Fact], Command, Outcome, LoopRow, Message, Program, Brief}
    assert wanted <= known


def test_states_with_half_of_a_surrogate_pair_keep_their_tokens():
    state = ExecutionState(tokens={7: Token(7, "book", lock="seat \ud800")}, timers={"step:7": 1})
    assert decode_state(encode_state(state)) == state


def test_redrives_with_half_of_a_surrogate_pair_keep_their_arcs():
    event = Redrive(1, "redrive", "program", "book", args={"seat": "\ud800"}, arcs={1: 2})
    assert decode_event(encode_event(event)) == event


def test_a_number_that_json_cannot_hold_is_null_beside_any_text():
    assert codec.decode(codec.encode({"a": [math.nan, -math.inf], "b": "\ud800"})) == {
        "a": [None, None],
        "b": "\ud800",
    }


def test_equal_values_are_written_the_same_in_order():
    left, right = {"b": "\ud800", "a": 1}, {"a": 1, "b": "\ud800"}
    assert codec.encode_sorted(left) == codec.encode_sorted(right)
    assert digest_of(left) == digest_of(right)


@pytest.mark.parametrize("text", ["[" * 5000 + "]" * 5000, '["\\ud800",' + "[" * 5000 + "]" * 5001])
def test_what_is_nested_too_deeply_is_a_value_error(text):
    with pytest.raises(ValueError, match="nested too deeply"):
        codec.decode(text)
    with pytest.raises(ValueError, match="nested too deeply"):
        codec.decode_as(codec.decoder(list[Any]), text)


def test_an_integer_that_python_cannot_write_is_found_with_its_place():
    assert codec.find_unstorable({"a": 10**codec.MAX_DIGITS - 1}) is None
    found = codec.find_unstorable({"a": -(10**codec.MAX_DIGITS)})
    assert found is not None and found.describe("$") == "$.a is a whole number of more than 4000 digits"


@over("field", ["details", "status", "retryable", "\ud800"])
def test_a_lone_surrogate_where_no_text_fits_is_a_validation_error(field: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        codec.convert({"message": "m", field: "x\ud800y", "code": 1}, ErrorInfo)


def test_halves_of_a_pair_that_stand_side_by_side_settle_as_one_character():
    start = Start(1, "start", "p", "x", payload={"\ud800\udfff": ["\udfff\ud800", BIG]})
    assert codec.settled(start).payload == {"\U000103ff": ["\udfff\ud800", BIG]}
    assert codec.settled(codec.settled(start)) == decode_event(encode_event(start))
