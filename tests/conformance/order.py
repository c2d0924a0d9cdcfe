"""A history read with the machines of ``tests.event_order``."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.domain.event_names import TERMINAL_EVENTS
from noetl.services.history.read_history import HistoryEvent
from noetl.testing.play_case import per_step_run
from tests.event_order import EXECUTION, ITEM, STEP_RUN


def check_order(events: Sequence[HistoryEvent], status: str) -> None:
    """Every step run and item has come where it may be (items of a loop that was dropped anywhere), and tasks end that have begun."""
    if not events:
        return
    names = [event.event_type for event in events]
    assert names[:2] == ["playbook.initialized", "workflow.initialized"]
    if status in ("completed", "failed", "cancelled"):
        assert names[-2] == "workflow.completed" and names[-1] in TERMINAL_EVENTS
    words = per_step_run(list(events))
    last = max((place for place, name in enumerate(names) if name == "execution.redriven"), default=-1)
    earlier = per_step_run([event for event in events[: last + 1] if event.meta.get("run")])
    loops = {key for key, told in words.items() if "loop.done" in told}
    for key, told in words.items():
        order = EXECUTION if key == "execution" else ITEM if "[" in key else STEP_RUN
        try:
            state = order.follow(told)
        except ValueError as error:
            raise AssertionError(f"{key}: {error}: {told}") from error
        if (
            status == "completed"
            and key not in earlier
            and (order is not ITEM or key.partition("[")[0] in loops)
        ):
            assert state in order.ends, f"{key} ends as {state}: {told}"
        check_tasks(key, told)


def check_tasks(key: str, told: Sequence[str]) -> None:
    """Tasks nest; of a step run that is over, all have ended."""
    open_tasks = 0
    for name in told:
        open_tasks += (name == "task.started") - (name == "task.done")
        assert open_tasks >= 0, f"{key}: a task ends that has not begun: {told}"
    if told[-1] in ("next.evaluated", "loop.item"):
        assert open_tasks == 0, f"{key}: a task has begun and not ended: {told}"
