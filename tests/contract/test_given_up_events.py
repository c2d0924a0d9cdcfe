"""Events on which the engine fails three times: what becomes of their execution."""

from __future__ import annotations

from noetl.domain.events import ContextPatched
from noetl.domain.facts import CallDone, decode_facts
from noetl.domain.state import decode_state
from noetl.services.engine_deps import Handled
from noetl.services.failed_events import TRIES, after_failure
from tests.contract.test_families import HEAD, Family

UNDOING = (
    HEAD + "metadata: { name: undoing, path: fam/undoing }\nworkflow:\n"
    "  - step: start\n    tool: { kind: noop }\n"
    '    spec: { compensate: { kind: http, url: "http://api.test/x" } }\n'
    "    next: { arcs: [{ step: breaks }] }\n"
    '  - { step: breaks, tool: { kind: http, url: "http://api.test/x", params: { fail: auth } } }\n',
)


def test_a_request_that_breaks_the_engine_leaves_an_execution_to_compensate(harness):
    """It fails in any case, with the error it had, and not before it has undone what was done."""
    family = Family(harness, UNDOING)
    store, driver = family.store, family.driver
    while not (info := store.info(family.root)).version or not decode_state(info.state).undoing:
        driver.tick()
    event = ContextPatched(family.root, "ext:1", family.program.hash, [], principal="user:eve")
    handled = Handled()
    assert after_failure(event, ValueError("broken"), TRIES, driver.deps, handled) is None
    driver.follow(handled)
    assert store.info(family.root).status == "running"
    driver.settle()
    error = decode_state(store.info(family.root).state).error
    assert (store.info(family.root).status, error.kind) == ("failed", "auth")
    facts = [one for row in store.events(family.root, after=0, limit=100) for one in decode_facts(row.facts)]
    undone = [one.run for one in facts if isinstance(one, CallDone) and one.stage == "compensate"]
    assert undone == [1]
