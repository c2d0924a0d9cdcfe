"""Starts that are refused: another execution has their id, or what their slot depends on cannot be read."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from noetl.domain.errors import InfrastructureError
from noetl.domain.events import ChildDone, Parent, Start
from noetl.domain.results.references import make_ref, ref_uri
from noetl.services.orchestrator.engine_deps import BatchEffects
from noetl.services.orchestrator.handle_events import handle_events
from noetl.services.results.stored_bytes import store_calls
from tests.unit.services.engine_bench import STEP, Bench

LIMITED = STEP.replace(
    "workflow:",
    'executor: { spec: { concurrency: { limit: 1, key: "{{ workload.order.shop.key }}" } } }\nworkflow:',
)


def test_a_parent_is_told_at_once_that_the_id_of_its_child_is_taken() -> None:
    """What is posted belongs to a process that lives: others never deliver it, so that process has to handle it."""
    bench = Bench()
    engine = bench.deps.engine
    parent, other = bench.start(), bench.start()
    handle_events([parent, other], engine)
    start = Start(
        other.execution_id, "start:another", bench.program.hash, parent=Parent(parent.execution_id, "1", 1, 1)
    )
    handled = handle_events([start], engine, BatchEffects())
    assert [type(event) for event in handled.events] == [ChildDone]
    (told,) = handled.events
    assert told.execution_id == parent.execution_id and told.outcome.error.code == "execution_id_taken"
    assert handle_events([start], engine, BatchEffects()).events == [], "it is on its way already"


def a_start_with_a_large_value(bench: Bench) -> Start:
    start = bench.start()
    uri = ref_uri(start.execution_id, "load", "value:1")
    order = make_ref(uri, store="memory", size=40_000, sha256="0" * 64, value={"shop": {"key": "a"}})
    return msgspec.structs.replace(start, payload={"order": order})


def test_a_start_waits_while_the_value_that_names_its_slot_cannot_be_reached() -> None:
    bench = Bench(LIMITED)

    def away(ref):
        with store_calls():
            raise InfrastructureError("the result store is away")

    start = a_start_with_a_large_value(bench)
    with pytest.raises(InfrastructureError):
        handle_events([start], replace(bench.deps.engine, hydrate=away))
    handle_events([start], replace(bench.deps.engine, hydrate=lambda ref: {"shop": {"key": "a"}}))
    assert bench.store.info(start.execution_id).status == "running"
    assert [one.key for one in bench.store.limit_keys(limit=9)] == ["execution:a"]


def test_a_start_fails_where_the_value_that_names_its_slot_is_gone() -> None:
    bench = Bench(LIMITED)
    start = a_start_with_a_large_value(bench)
    handle_events([start], bench.deps.engine)
    assert bench.store.info(start.execution_id).status == "failed"
