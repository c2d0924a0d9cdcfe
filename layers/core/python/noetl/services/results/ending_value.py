"""The value of a completed execution, built from the stored results of its last steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noetl.domain import codec
from noetl.ports.executions.execution_store import Ending


def ending_value(ending: Ending) -> Any:
    """Join the results of the last steps: one step's value, a mapping by name of several.

    None when there are none.
    """
    return joined_value(completed_steps(ending.facts), ending.slots)


def joined_value(steps: Sequence[str], slots: Mapping[str, Any]) -> Any:
    """Join what these steps left: name → slot of a step."""
    if len(steps) == 1:
        return _step_value(slots, steps[0])
    return {name: _step_value(slots, name) for name in steps} or None


def completed_steps(facts: bytes) -> Sequence[str]:
    """Return the steps with which an execution completed.

    ``facts``: of the last row of its history.
    """
    for fact in codec.decode(facts):
        if fact.get("name") == "playbook.completed":
            return tuple(fact.get("steps") or ())
    return ()


def _step_value(slots: Mapping[str, Any], step: str) -> Any:
    slot = slots.get(step)
    data = slot.get("data") if isinstance(slot, Mapping) else None
    if isinstance(data, Mapping) and data.get("kind") == "loop_result":
        return data.get("results")
    return data
