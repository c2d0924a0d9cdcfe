"""History as it is told: every event of every case fits the envelope, in every vocabulary, and docs/events.md says what the code does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import jsonschema
import msgspec
import pytest

from noetl.domain.event_names import (
    CANONICAL,
    NAMES,
    VOCABULARIES,
    EntityType,
    EventStatus,
    Source,
    Vocabulary,
    names_in,
)
from noetl.services.history.history_pages import history
from noetl.services.history.read_history import HistoryEvent
from tests.conformance.memory import CASES, in_memory
from tests.event_order import EXECUTION, ITEM, STEP_RUN, Order
from tests.parts import parted, sampled

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = json.loads((DOCS / "event.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
PAGE = (DOCS / "events.md").read_text()


@pytest.mark.parametrize("name", parted(CASES, sampled(CASES)))
def test_every_event_fits_the_envelope(name: str) -> None:
    backend, seen = in_memory(name)
    for execution_id in seen.events:
        for vocabulary in VOCABULARIES:
            told = [msgspec.to_builtins(event) for event in history(backend.store, execution_id, vocabulary)]
            assert len({event["event_id"] for event in told}) == len(told)
            for event in told:
                assert event["event_type"] in SCHEMA["$defs"][vocabulary]["enum"]
                check_envelope(event)


PATTERNS = {
    name: re.compile(told["pattern"]) for name, told in SCHEMA["properties"].items() if "pattern" in told
}
fitting: set[str] = set()
"""Events that fit, without what the schema says nothing else about."""


def check_envelope(event: dict[str, Any]) -> None:
    """Against the schema; thousands of events differ in ids, times, numbers and payloads alone, and are looked at once."""
    alike = json.dumps(
        {
            name: bool(PATTERNS[name].search(value)) if name in PATTERNS else type(value).__name__
            for name, value in event.items()
        }
        | {name: event[name] for name in ("event_type", "source", "entity_type", "status")}
        | {"meta": {key: alike_number(value) for key, value in event["meta"].items()}},
        default=str,
    )
    if alike not in fitting:
        problem = next(VALIDATOR.iter_errors(event), None)
        assert problem is None, (problem.message, event)
        fitting.add(alike)


def alike_number(value: Any) -> Any:
    """The schema bounds numbers by 0 or 1."""
    return min(value, 1) if type(value) in (int, float) else type(value).__name__


def every_name(vocabulary: Vocabulary) -> set[str]:
    return {
        told
        for name in NAMES
        for status in get_args(EventStatus)
        for told, _ in names_in(vocabulary, name, status)
    }


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_the_schema_lists_every_name(vocabulary: Vocabulary) -> None:
    assert SCHEMA["$defs"][vocabulary]["enum"] == sorted(every_name(vocabulary))


def test_the_schema_is_the_envelope_of_the_code() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    properties = SCHEMA["properties"]
    assert list(properties) == [field.name for field in msgspec.structs.fields(HistoryEvent)]
    assert SCHEMA["required"] == list(properties)
    assert properties["source"]["enum"] == list(get_args(Source))
    assert properties["entity_type"]["enum"] == list(get_args(EntityType))
    assert properties["status"]["enum"] == list(get_args(EventStatus))


def test_the_page_shows_every_name_in_every_vocabulary() -> None:
    section = PAGE.split("## Names\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `([\w.]+)` \| ([^|]*) \| ([^|]*) \| (\w+) \| (\w+) \|", section, re.MULTILINE)
    shown = {name: (_names(formal), _names(canonical), *rest) for name, formal, canonical, *rest in rows}
    assert shown == {
        name: (
            _other("formal", name),
            _other("canonical", name),
            known.entity,
            known.source,
        )
        for name, known in NAMES.items()
    }


def _names(cell: str) -> list[str]:
    return re.findall(r"`([\w.]+)`", cell)


def _other(vocabulary: Vocabulary, name: str) -> list[str]:
    """Names other than the stored one; of a failure, too, where it has its own."""
    told: dict[str, None] = {}
    for status in ("success", "error"):
        told |= dict.fromkeys(other for other, _ in names_in(vocabulary, name, status))
    return [] if list(told) == [name] else list(told)


def test_canonical_names_are_of_stored_events() -> None:
    assert CANONICAL.keys() <= NAMES.keys()


MACHINES = {"An execution": EXECUTION, "A step run": STEP_RUN, "An item of a loop": ITEM}


@pytest.mark.parametrize("title", MACHINES)
def test_the_diagrams_draw_the_order_of_the_code(title: str) -> None:
    order = MACHINES[title]
    section = PAGE.split(f"### {title}\n", 1)[1].split("\n##", 1)[0]
    drawn: dict[tuple[str, str], set[str]] = {}
    for start, end, names in re.findall(r"^\s+(\w+) --> (\w+): (.+)$", section, re.MULTILINE):
        drawn[start, end] = set(names.split(", "))
    assert drawn == dict(moves(order))
    assert set(re.findall(r"^\s+\[\*\] --> (\w+)$", section, re.MULTILINE)) == {order.start}
    assert set(re.findall(r"^\s+(\w+) --> \[\*\]$", section, re.MULTILINE)) == set(order.ends)


def moves(order: Order) -> Iterator[tuple[tuple[str, str], set[str]]]:
    for state, afters in order.moves.items():
        for end in dict.fromkeys(afters.values()):
            yield (state, end), {name for name, after in afters.items() if after == end}


@pytest.mark.parametrize("order", MACHINES.values(), ids=list(MACHINES))
def test_every_move_is_made_by_a_stored_event_and_leads_somewhere(order: Order) -> None:
    assert {name for afters in order.moves.values() for name in afters} <= NAMES.keys()
    states = {order.start} | {after for afters in order.moves.values() for after in afters.values()}
    assert states == order.moves.keys()
    assert order.ends <= states
