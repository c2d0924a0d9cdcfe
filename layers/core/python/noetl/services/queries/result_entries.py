"""Names of the entries of an execution's results, for completion in editors.

They are those that templates reach. No value is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from noetl.domain.errors import NoetlError
from noetl.domain.results.manifests import is_manifest
from noetl.domain.results.references import canonical, is_ref, size_of
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
LARGEST_LOADED = 1024 * 1024
"""Bytes of a large result that is loaded to see its entries."""
MOST_LOADED = 4 * LARGEST_LOADED
"""Bytes of all large results that one request loads."""
_DEPTH = 5
_ELEMENTS = 3
"""Elements of a list that are looked at: others are mostly like them."""


class StepEntries(msgspec.Struct, frozen=True):
    """The entries of one step's result.

    ``fields``: ``rows``, ``rows[].id``; ``[]`` is a number between brackets.
    """

    step: str
    fields: list[str]


class ResultEntries(msgspec.Struct, frozen=True):
    """The entries of an execution's results, by step.

    ``left_out``: there are more than this answer has.
    """

    execution_id: str
    steps: list[StepEntries]
    left_out: bool


def read_entries(
    store: ExecutionStore, load: Callable[[Mapping[str, Any]], Any], execution_id: int
) -> ResultEntries:
    """List the entries of the latest result of each step.

    ``load``: reads a large result by its reference. Of one that is too large, or is gone, what its reference knows is listed.
    Raises NotFoundError.
    """
    slots = store.slots(execution_id) if find(store, execution_id).version else {}
    results = sorted((name, value) for (scope, name), value in slots.items() if scope == STEP)
    looking = _Looking(load)
    steps: list[StepEntries] = []
    room = MOST
    left_out = len(results) > MOST_STEPS
    for name, value in results[:MOST_STEPS]:
        most = min(MOST_OF_STEP, room)
        found = list(islice(_distinct(looking.of_step(value)), most + 1))
        left_out = left_out or len(found) > most
        del found[most:]
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


def _is_name(name: Any) -> bool:
    """Whether a template can write it behind a dot."""
    return isinstance(name, str) and name.isidentifier() and len(name) <= LONGEST_NAME and name[0] != "_"


class _Looking:
    """A look at values by the rules of templates (``templating.views``).

    It loads large ones as long as there is room.
    """

    def __init__(self, load: Callable[[Mapping[str, Any]], Any]) -> None:
        self.load = load
        self.room = MOST_LOADED

    def of_step(self, state: Any) -> Iterator[str]:
        """Yield the entries of a step's result, then the labels of its tasks."""
        if not isinstance(state, Mapping):
            return
        data = state.get("data")
        yield from self.below(data, "", _DEPTH)
        if isinstance(data, Mapping) and not is_ref(data) and "status" in data and "data" in data:
            yield from self.below(data["data"], "", _DEPTH)
        labels = state.get("labels")
        if isinstance(labels, Mapping):
            yield from self.mapping(labels, "", _DEPTH)

    def below(self, value: Any, prefix: str, depth: int) -> Iterator[str]:
        """Yield the names below a value: first those directly below it, then what is below them."""
        if depth == 0:
            return
        if isinstance(value, (list, tuple)):
            for element in value[:_ELEMENTS]:
                yield from self.below(element, f"{prefix}{ELEMENT}.", depth - 1)
        elif not isinstance(value, Mapping):
            return
        elif is_ref(value):
            yield from self.reference(value, prefix, depth)
        elif is_manifest(value):
            yield f"{prefix}count"
        elif value.get("kind") == "loop_result" and "results" in value:
            yield from self.below(value["results"], prefix, depth)
            yield from self.mapping({"results": value["results"], "count": 0, "failed": 0}, prefix, depth)
        elif "columns" in value and isinstance(value.get("rows"), list):
            yield from self.mapping(value, prefix, depth)
            yield from self.below(value["rows"], prefix, depth)
        elif {"status_code", "headers", "data"} <= value.keys():
            # The entries of the body stand beside those of the answer.
            yield from self.below(value["data"], prefix, depth)
            yield from self.mapping({**value, "body": value["data"]}, prefix, depth)
        else:
            yield from self.mapping(value, prefix, depth)

    def mapping(self, value: Mapping[str, Any], prefix: str, depth: int) -> Iterator[str]:
        named = [(name, entry) for name, entry in value.items() if _is_name(name)]
        yield from (f"{prefix}{name}" for name, _ in named)
        for name, entry in named:
            is_list = isinstance(entry, (list, tuple))
            for one in entry[:_ELEMENTS] if is_list else (entry,):
                yield from self.below(one, f"{prefix}{name}{ELEMENT if is_list else ''}.", depth - 1)

    def reference(self, value: Mapping[str, Any], prefix: str, depth: int) -> Iterator[str]:
        known = canonical(value)
        size = size_of(known) or LARGEST_LOADED
        if size <= min(LARGEST_LOADED, self.room):
            self.room -= size
            try:
                loaded = self.load(value)
            except NoetlError:
                pass  # completion does without it; whoever reads the result is told
            else:
                yield from self.below(loaded, prefix, depth)
        names = (*(known.get("keys") or ()), *(known.get("extracted") or ()))
        yield from (f"{prefix}{name}" for name in names if _is_name(name))
