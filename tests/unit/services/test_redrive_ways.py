"""A redrive with another version of a playbook: tokens that wait at a join have come over ways of the version they ran with."""

from __future__ import annotations

from typing import Any, cast

import pytest

from noetl.domain.errors import ConflictError
from noetl.domain.state import ExecutionState, Token, encode_state
from noetl.dsl.compiler import compile_playbook
from noetl.dsl.program import Program, ways_of
from noetl.kinds.registry import default_registry
from noetl.ports.executions.execution_store import ExecutionInfo, ExecutionStore
from noetl.services.executions import redrive_execution
from noetl.services.executions.change_execution import ChangeRequest
from noetl.services.executions.redrive_execution import plan
from noetl.services.history.last_step_runs import LastLoop, LastRuns

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: t }\nworkflow:\n"
BEFORE = """
  - { step: start, next: [a, b] }
  - { step: a, tool: { kind: noop }, case: [{ when: "{{ event.name == 'step.exit' }}", then: { next: [end, end] } }] }
  - { step: b, tool: { kind: http, url: "http://api.test" }, next: end }
  - { step: end, spec: { join: all }, tool: { kind: noop } }
"""
AFTER = """
  - { step: start, next: [new, a, b] }
  - { step: new, tool: { kind: noop }, next: end }
  - { step: a, tool: { kind: noop }, next: end, case: [{ when: "{{ event.name == 'step.exit' }}", then: { next: [end, end] } }] }
  - { step: b, tool: { kind: http, url: "http://api.test" }, next: end }
  - { step: end, spec: { join: all }, tool: { kind: noop } }
"""


def compiled(workflow: str) -> Program:
    return compile_playbook(HEAD + workflow, source_name="t.yaml", kinds=default_registry()).program


LOOP = """
  - { step: a, loop: { in: [], iterator: item }, tool: { kind: noop }, next: b }
  - { step: b, tool: { kind: http, url: "http://api.test" }, next: end }
  - { step: end }
"""


def planned(old: Program, new: Program, step: str = "") -> Any:
    waiting = ways_of(old.step("a")).get("end", ())
    left = [Token(run, "end", arc=arc) for run, arc in enumerate(waiting, start=4)]
    state = ExecutionState(program=old.hash, status="failed", left=[Token(3, "b", "failed"), *left])
    info = ExecutionInfo(
        execution_id=7,
        path="t",
        name="t",
        status="failed",
        program=old.hash,
        version=5,
        started_at=0.0,
        ended_at=1.0,
        parent_execution_id=None,
        state=encode_state(state),
    )
    programs = {old.hash: old, new.hash: new}
    store = cast(ExecutionStore, None)
    return plan(
        store,
        programs.__getitem__,
        7,
        ChangeRequest("me", "once", "me"),
        step=step,
        program=new.hash,
        info=info,
    )


def test_routes_of_cases_are_found_again_in_another_version_even_as_arcs():
    old, new = compiled(BEFORE), compiled(AFTER)
    found = planned(old, new).arcs
    assert [found.get(arc, arc) for arc in ways_of(old.step("a"))["end"]] == list(
        ways_of(new.step("a"))["end"]
    )


def test_a_route_that_is_gone_is_told_with_the_step_to_go_on_from():
    with pytest.raises(ConflictError) as caught:
        planned(compiled(BEFORE), compiled(AFTER.replace("[end, end]", "[end]")))
    assert (caught.value.code, caught.value.details) == ("not_redrivable", {"candidates": ["a"]})


def test_items_of_a_loop_that_had_none_are_refused_with_the_step_to_go_on_from(monkeypatch):
    runs = LastRuns(args={"a": {}}, loops={"a": LastLoop(2, 1, 0)})
    monkeypatch.setattr(redrive_execution, "last_runs", lambda *_: runs)
    with pytest.raises(ConflictError, match="the loop of step a had no items") as caught:
        planned(compiled(LOOP), compiled(LOOP), step="a[failed]")
    assert caught.value.details == {"candidates": ["a"]}
