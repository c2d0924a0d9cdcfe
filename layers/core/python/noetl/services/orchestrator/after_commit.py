"""Effects of a committed change outside the store: timers, ended executions, dropped work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.domain import ids
from noetl.domain.events import TimerFired
from noetl.domain.state import decode_state
from noetl.engine.folds.run_results import STEP
from noetl.ports.executions.execution_store import Change
from noetl.services.orchestrator.engine_deps import BatchEffects, DueTimer
from noetl.services.results.ending_value import completed_steps, joined_value

MARKED = 100
"""Most runs of an execution that was cut short whose work is called off; what others report is superseded all the same."""


def add_effects(
    change: Change, handled: BatchEffects, slots: Mapping[tuple[str, str], Any] | None = None
) -> None:
    """Add the timers of ``change`` to ``handled``, and what it ended, dropped or redrove.

    ``slots``: what is known of the execution's slots after the change, by scope and name.
    """
    handled.dropped += [(change.execution_id, run) for run in change.drop_runs]
    if change.end:
        handled.ended.append((change.execution_id, change.status))
        if change.status != "completed":
            # Run by run, for a redrive gives it other runs, whose work is wanted.
            left = decode_state(change.state).left[:MARKED]
            handled.dropped += [(change.execution_id, token.run) for token in left]
        elif slots is not None and handled.awaited(change.execution_id):
            steps = completed_steps(change.events[-1].facts)
            if steps and all((STEP, name) in slots for name in steps):
                value = joined_value(steps, {name: slots[STEP, name] for name in steps})
                handled.results[change.execution_id] = value
        return
    if change.redriven:
        handled.redriven.append(change.execution_id)
    for row in change.timers:
        if row.seconds is not None:
            event_id = ids.timer_event(row.timer, row.generation)
            fired = TimerFired(change.execution_id, event_id, change.program, row.timer, row.generation)
            handled.timers.append(DueTimer(fired, row.seconds))
