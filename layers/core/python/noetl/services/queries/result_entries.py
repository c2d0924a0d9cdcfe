"""Names of the entries of an execution's results, as templates reach them: for completion in editors. No value is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from noetl.domain.results.manifests import is_manifest
from noetl.domain.results.references import canonical, is_ref
from noetl.engine.folds.run_results import STEP
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.services.queries.read_execution import find

ELEMENT = "[]"
"""An element of a list, in a path of names: ``rows[].id``."""
MOST_STEPS = 500
MOST_OF_STEP = 200
MOST = 5_000
"""Entries of one answer."""
LONGEST_NAME = 80
_DEPTH = 5
_ELEMENTS = 3
"""Elements of a list that are looked at: others are mostly like them."""


class StepEntries(msgspec.Struct, frozen=True):
    """``fields``: ``rows``, ``rows[].id``; ``[]`` stands for a number between brackets."""

    step: str
    fields: list[str]


class ResultEntries(msgspec.Struct, frozen=True):
    """The entries of an execution's results, by step. ``left_out``: there are more than this answer has."""

    execution_id: str
    steps: list[StepEntries]
    left_out: bool


def read_entries(store: ExecutionStore, execution_id: int) -> ResultEntries:
    """List the entries of the latest result of each step. Large results are not loaded: what their references know is listed.

    Raises NotFoundError.
    """
    slots = store.slots(execution_id) if find(store, execution_id).version else {}
    results = sorted((name, value) for (scope, name), value in slots.items() if scope == STEP)
    steps: list[StepEntries] = []
    room = MOST
    left_out = len(results) > MOST_STEPS
    for name, value in results[:MOST_STEPS]:
        found = list(islice(_distinct(_of_step(value)), min(MOST_OF_STEP, room) + 1))
        left_out = left_out or len(found) > min(MOST_OF_STEP, room)
        del found[min(MOST_OF_STEP, room) :]
        room -= len(found)
        if found:
            steps.append(StepEntries(name, found))
    return ResultEntries(str(execution_id), steps, left_out)


def _distinct(names: Iterator[str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        if name not in seen:
            seen.add(name)
            yield name


def _of_step(state: Any) -> Iterator[str]:
    """Yield what may follow the name of a step: entries of its result, then the labels of its tasks."""
    if not isinstance(state, Mapping):
        return
    data = state.get("data")
    yield from _below(data, "", _DEPTH)
    if isinstance(data, Mapping) and not is_ref(data) and "status" in data and "data" in data:
        yield from _below(data["data"], "", _DEPTH)
    labels = state.get("labels")
    if isinstance(labels, Mapping):
        yield from _mapping(labels, "", _DEPTH)


def _below(value: Any, prefix: str, depth: int) -> Iterator[str]:
    """Yield the names below a value: first those directly below it, then what is below them."""
    if depth == 0:
        return
    if isinstance(value, Mapping):
        for fits, names in _FACES:
            if fits(value):
                yield from names(value, prefix, depth)
                return
        yield from _mapping(value, prefix, depth)
    elif isinstance(value, (list, tuple)):
        for element in value[:_ELEMENTS]:
            yield from _below(element, f"{prefix}{ELEMENT}.", depth - 1)


def _mapping(value: Mapping[str, Any], prefix: str, depth: int) -> Iterator[str]:
    named = [(name, entry) for name, entry in value.items() if _is_name(name)]
    yield from (f"{prefix}{name}" for name, _ in named)
    for name, entry in named:
        below = f"{prefix}{name}"
        if isinstance(entry, (list, tuple)):
            for element in entry[:_ELEMENTS]:
                yield from _below(element, f"{below}{ELEMENT}.", depth - 1)
        else:
            yield from _below(entry, f"{below}.", depth - 1)


def _is_name(name: Any) -> bool:
    """Whether a template can write it behind a dot."""
    return isinstance(name, str) and name.isidentifier() and len(name) <= LONGEST_NAME and name[0] != "_"


def _of_reference(value: Mapping[str, Any], prefix: str, depth: int) -> Iterator[str]:
    known = canonical(value)
    extracted = known.get("extracted") or {}
    yield from (f"{prefix}{name}" for name in (*(known.get("keys") or ()), *extracted) if _is_name(name))


def _of_manifest(value: Mapping[str, Any], prefix: str, depth: int) -> Iterator[str]:
    yield f"{prefix}count"


def _of_http(value: Mapping[str, Any], prefix: str, depth: int) -> Iterator[str]:
    """The entries of the body stand beside those of the answer."""
    yield from _below(value["data"], prefix, depth)
    yield from _mapping({**value, "body": value["data"]}, prefix, depth)


def _of_rows(value: Mapping[str, Any], prefix: str, depth: int) -> Iterator[str]:
    yield from _mapping(value, prefix, depth)
    yield from _below(value["rows"], prefix, depth)


def _of_loop(value: Mapping[str, Any], prefix: str, depth: int) -> Iterator[str]:
    yield from _below(value["results"], prefix, depth)
    whole = {"results": value["results"], **dict.fromkeys(("count", "failed"))}
    yield from _mapping(whole, prefix, depth)


_FACES: tuple[
    tuple[Callable[[Mapping[str, Any]], bool], Callable[[Mapping[str, Any], str, int], Iterator[str]]], ...
] = (
    (is_ref, _of_reference),
    (is_manifest, _of_manifest),
    (lambda value: value.get("kind") == "loop_result" and "results" in value, _of_loop),
    (lambda value: "columns" in value and isinstance(value.get("rows"), list), _of_rows),
    (lambda value: {"status_code", "headers", "data"} <= value.keys(), _of_http),
)
"""Results that have more names than keys, as templates see them."""
