"""Patches from outside over a context that holds references to results, some of which are not available."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.domain.errors import TaskError
from noetl.domain.events import ContextPatched
from noetl.domain.facts.facts import Superseded
from noetl.domain.results.references import unavailable
from noetl.engine.handle_event import handle_event
from noetl.engine.scopes.slot_view import SCOPES, View
from tests.parts import over
from tests.unit.engine.stepping import EID, Stepping, compiled

WORKFLOW = """
  - { step: start, tool: { kind: http, url: "http://api.test" } }
"""
LOST = {"kind": "result_ref", "ref": "noetl://execution/1/result/load/9"}


def holding_a_lost_result() -> Stepping:
    one = Stepping(compiled(WORKFLOW))
    one.start()
    one.take(ContextPatched(EID, "ext:1", one.program.hash, [], merge={"p": LOST}))
    assert one.slots["ctx", "p"] == LOST
    return one


def patch(one: Stepping, merge: Any = None, operations: Any = ()) -> ContextPatched:
    return ContextPatched(
        EID, "ext:2", one.program.hash, [], "ann", "why", merge=merge or {}, operations=list(operations)
    )


@over(
    ("merge", "operations"),
    [
        ({"p": {"deep": 1}}, ()),
        ({}, [{"op": "add", "path": "/p/deep", "value": 1}]),
        ({}, [{"op": "test", "path": "/p", "value": 1}]),
        ({}, [{"op": "copy", "from": "/p", "path": "/q"}]),
    ],
)
def test_a_patch_that_reads_a_lost_result_changes_nothing_and_is_recorded(
    merge: Any, operations: Any
) -> None:
    one = holding_a_lost_result()
    before = dict(one.slots)
    decision = one.take(patch(one, merge, operations))
    (refused,) = [fact for fact in decision.facts if isinstance(fact, Superseded)]
    assert LOST["ref"] in refused.status and refused.principal == "ann"
    assert one.slots == before and one.state.status == "running"


@over(
    ("merge", "operations", "left"),
    [
        ({"p": 1}, (), 1),
        ({"p": None}, (), None),
        ({}, [{"op": "replace", "path": "/p", "value": 2}], 2),
        ({}, [{"op": "remove", "path": "/p"}], None),
    ],
)
def test_a_lost_result_can_be_replaced_and_removed(merge: Any, operations: Any, left: Any) -> None:
    one = holding_a_lost_result()
    one.take(patch(one, merge, operations))
    assert one.slots.get(("ctx", "p")) == left


def test_a_store_that_is_away_for_a_moment_is_asked_again() -> None:
    one = holding_a_lost_result()

    def away(ref: Any) -> Any:
        raise TaskError(unavailable(ref).message, kind="storage_access", retryable=True)

    view = View(dict(one.slots), scopes=SCOPES, hydrate=away)
    with pytest.raises(TaskError):
        handle_event(one.program, one.state, patch(one, {"p": {"deep": 1}}), 0.0, view)
