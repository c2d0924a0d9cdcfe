"""An execution that was redriven no longer fails for what ended the round before."""

from __future__ import annotations

from noetl.services.history.progress import Progress

FAILED = [
    {"name": "step.enter", "run": 1, "step": "load"},
    {"name": "step.failed", "run": 1, "step": "load", "error": {"message": "boom"}},
    {"name": "playbook.failed", "step": "load", "error": {"message": "boom"}, "reason": "load failed"},
]


def test_a_redrive_takes_the_failure_of_the_round_before_away():
    progress = Progress()
    progress.add_facts(FAILED, 1.0)
    assert (progress.error, progress.error_step, progress.reason) == (
        {"message": "boom"},
        "load",
        "load failed",
    )
    progress.add_facts([{"name": "execution.redriven", "arrivals": [{"run": 2, "step": "load"}]}], 2.0)
    assert (progress.error, progress.error_step, progress.reason) == (None, "", "")
    assert progress.runs[1].error == {"message": "boom"}


def test_the_failure_of_the_next_round_is_its_own():
    progress = Progress()
    again = {"name": "execution.redriven", "arrivals": [{"run": 2, "step": "load"}]}
    late = {"name": "playbook.failed", "step": "save", "error": {"message": "full"}}
    progress.add_facts([*FAILED, again, late], 2.0)
    assert (progress.error, progress.error_step) == ({"message": "full"}, "save")
