"""Failed items of a loop that a redrive runs again are no longer reported."""

from __future__ import annotations

from noetl.services.history.failed_items import failed_items
from noetl.services.history.progress import Progress


class NoRows:
    def failed_items(self, execution_id, run, limit):
        return []


def facts(run):
    return [
        {"name": "step.enter", "run": run, "step": "load"},
        {"name": "loop.started", "run": run, "step": "load", "total": 3, "round": 1},
        {"name": "loop.done", "run": run, "step": "load", "done": 2, "failed": 1},
        {"name": "step.exit", "run": run, "step": "load"},
    ]


def test_a_redrive_of_the_step_replaces_its_earlier_loops():
    progress = Progress()
    progress.add_facts(facts(1), 1.0)
    assert list(failed_items(NoRows(), 7, list(progress.runs.values()))) == [1]
    other = {"name": "execution.redriven", "arrivals": [{"run": 2, "step": "another"}]}
    progress.add_facts([other], 2.0)
    assert list(failed_items(NoRows(), 7, list(progress.runs.values()))) == [1]
    again = {"name": "execution.redriven", "arrivals": [{"run": 3, "step": "load"}]}
    progress.add_facts([again, *facts(3)], 3.0)
    assert list(failed_items(NoRows(), 7, list(progress.runs.values()))) == [3]
