"""A filtered read of history is a filter over the whole of it: in both orders, with pages of any size."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from noetl.api.history import event_pages
from noetl.api.http.exchange import Request
from noetl.domain.event_names import VOCABULARIES, known_types, may_be_of_item
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.services.history.event_filter import EventFilter, make_filter, step_of
from noetl.services.history.history_pages import history
from noetl.services.history.newest_events import newest_events
from noetl.services.history.read_history import HistoryEvent
from tests.conformance.memory import CASES, in_memory
from tests.parts import parted

LOOPS = [name for name in sorted(CASES) if name.startswith("loops/")]
SAMPLE = sorted({*sorted(CASES)[::40], *LOOPS[::8], "loops/large-results-are-references"})
SIZES = (1, 2, 7, 1000)


def every_filter(whole: list[HistoryEvent], vocabulary: Any) -> Iterator[EventFilter]:
    """Each type and each step that is there, some that are not, and some of both."""
    types = sorted({event.event_type for event in whole})
    steps = sorted({step_of(event) for event in whole} - {""})
    yield from (make_filter(vocabulary, [name]) for name in types)
    yield from (make_filter(vocabulary, (), step) for step in [*steps, "no_such_step"])
    yield make_filter(
        vocabulary, ["call.error", "playbook.processed" if vocabulary != "stored" else "step.failed"]
    )
    drawn = random.Random(len(whole))
    for _ in range(3 if steps else 0):
        yield make_filter(vocabulary, drawn.sample(types, min(3, len(types))), drawn.choice(steps))


def plainly(event: HistoryEvent, wanted: EventFilter) -> bool:
    return (not wanted.types or event.event_type in wanted.types) and wanted.step in ("", step_of(event))


@pytest.mark.parametrize("name", SAMPLE)
def test_a_filtered_read_is_a_filter_of_the_whole(name: str) -> None:
    backend, seen = in_memory(name)
    for execution_id in seen.events:
        for vocabulary in VOCABULARIES:
            whole = list(history(backend.store, execution_id, vocabulary))
            main = [event for event in whole if event.meta["lane"] == 0]
            for event in whole:
                stored = known_types(vocabulary)[event.event_type]
                assert event.meta["lane"] == 0 or any(may_be_of_item(one) for one in stored)
            for wanted in every_filter(whole, vocabulary):
                assert list(history(backend.store, execution_id, vocabulary, wanted)) == [
                    event for event in whole if plainly(event, wanted)
                ]
                latest = newest_events(backend.store, execution_id, vocabulary, 5, wanted)
                assert latest == [event for event in main if plainly(event, wanted)][-5:]


ROWS = (1, 3, 5000)
PAGED = [(name, rows) for name in SAMPLE for rows in ROWS]
GATE = {(name, ROWS[place % len(ROWS)]) for place, name in enumerate(SAMPLE)}
IDS = [name if (name, rows) in GATE else f"{name}-{rows}" for name, rows in PAGED]
"""One of each case is called like it, so that it shares how the case is played."""


@pytest.mark.parametrize(("name", "rows"), parted(PAGED, GATE, ids=IDS))
def test_pages_of_a_filter_are_a_filter_of_the_whole(name: str, rows: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(event_pages, "ROWS", rows)
    monkeypatch.setattr(event_pages, "SECONDS", 3600.0)
    backend, seen = in_memory(name)
    drawn = random.Random(name)
    for execution_id in seen.events:
        whole = list(history(backend.store, execution_id))
        filters = list(every_filter(whole, "stored"))
        for order in ("oldest", "newest"):
            shown = whole if order == "oldest" else [one for one in whole if one.meta["lane"] == 0][::-1]
            for size in SIZES:
                wanted = drawn.choice(filters)
                pages = list(read_pages(backend.store, execution_id, wanted, order, size))
                found = [event for page in pages for event in page["events"]]
                assert found == msgspec.to_builtins([one for one in shown if plainly(one, wanted)])
                assert max(len(page["events"]) for page in pages) <= size
                assert sum(page["scanned"] for page in pages) <= len(shown)
                assert [page["more"] for page in pages] == [*[True] * (len(pages) - 1), False]


def read_pages(
    store: ExecutionStore, execution_id: int, wanted: EventFilter, order: str, size: int
) -> Iterator[Mapping[str, Any]]:
    deps: Any = SimpleNamespace(store=store, max_answer=6_000_000)
    query = {"order": order, "limit": str(size), "types": ",".join(wanted.types), "step": wanted.step}
    while True:
        request = Request("GET", "/", {"execution_id": str(execution_id)}, query)
        page = json.loads(event_pages.get_events(deps, request).text or "")
        yield page
        if not page["more"]:
            return
        query["after"] = page["next"]
