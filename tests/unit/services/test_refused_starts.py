"""The Start of a sub-execution that is refused because another execution has its id."""

from __future__ import annotations

from noetl.domain.events import ChildDone, Parent, Start
from noetl.services.orchestrator.engine_deps import BatchEffects
from noetl.services.orchestrator.handle_events import handle_events
from tests.unit.services.engine_bench import Bench


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
