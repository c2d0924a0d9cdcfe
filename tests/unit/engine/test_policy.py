"""Small pure decisions: chunk sizes, boundary names, the table of phases."""

from noetl.domain.state import LEGAL_PHASE, LEGAL_STATUS, TERMINAL
from noetl.engine.scopes.scope import BoundaryName
from noetl.services.orchestrator.handle_items import next_chunk
from tests.parts import over


@over(
    ("items", "elapsed", "window", "workers", "chunk"),
    [
        (1, 0.0001, 1000, 2, 4),
        (64, 0.01, 1000, 2, 250),
        (4, 2.0, 1000, 2, 2),
        (1, 5.0, 1000, 2, 1),
        (8, 0.01, 20, 16, 1),
        (0, 0.0, 1000, 2, 1),
    ],
)
def test_chunks_grow_towards_a_second_of_work(items, elapsed, window, workers, chunk):
    assert next_chunk(items, elapsed, window, workers) == chunk


@over("alias", ["step.done", "step.exit", "call.done", "loop.done"])
def test_a_boundary_equals_all_its_aliases(alias):
    name = BoundaryName("step.done", "done")
    assert name == alias and alias == name and not (name != alias) and alias in [name]  # noqa: SIM202 - both operators are under test
    assert name != "step.failed" and name not in ["call.error"]
    assert str(name) == "step.done"


def test_every_phase_and_status_has_its_row_and_the_terminal_ones_lead_only_into_another_round():
    assert {after for row in LEGAL_PHASE.values() for after in row} <= set(LEGAL_PHASE)
    assert {status for status, row in LEGAL_STATUS.items() if row == {"running"}} == set(TERMINAL)
