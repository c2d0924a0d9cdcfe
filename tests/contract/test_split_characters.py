"""Two halves of a character that meet are that character: in what callers send, in texts that templates join, and in results."""

from __future__ import annotations

from noetl.services.history.replay import replay
from noetl.services.queries import read_execution
from tests.contract.test_families import HEAD, Family

HIGH, LOW, WHOLE = "\ud800", "\udfff", "\U000103ff"
JOINING = (
    HEAD + "metadata: { name: joining, path: fam/joining }\nworkflow:\n"
    "  - step: start\n"
    '    tool: { kind: noop, args: { v: "{{ workload.high ~ workload.low }}" } }\n'
    '    set: { ctx.joined: "{{ workload.high ~ workload.low }}" }\n'
    "    next: { arcs: [{ step: far }] }\n"
    "  - step: far\n"
    '    tool: { kind: playbook, path: fam/echo, payload: { v: "{{ workload.high ~ workload.low }}" } }\n',
    HEAD + "metadata: { name: echo, path: fam/echo }\nworkflow:\n"
    '  - { step: start, tool: { kind: noop, args: { v: "{{ workload.v }}" } } }\n',
)


def test_halves_that_meet_are_stored_as_history_tells_them(harness):
    """The engine that decides has the texts in memory; every later one reads them from JSON, which cannot tell the two apart."""
    pair = HIGH + LOW
    payload = {"high": HIGH, "low": LOW, pair: pair, "k" + LOW + HIGH: [LOW + HIGH]}
    family = Family(harness, JOINING, payload)
    family.driver.settle()
    store = family.store
    for info in store.executions(limit=10):
        assert info.status == "completed"
        report = replay(store, info.execution_id)
        assert report.agrees, report.differences
    slots = store.slots(family.root)
    workload = {name: value for (scope, name), value in slots.items() if scope == "workload"}
    assert workload == {"high": HIGH, "low": LOW, WHOLE: WHOLE, "k" + LOW + HIGH: [LOW + HIGH]}
    assert slots["ctx", "joined"] == WHOLE
    assert slots["step", "start"]["data"] == {"v": WHOLE}
    assert read_execution.result(store, harness.results, family.root) == {"v": WHOLE}
