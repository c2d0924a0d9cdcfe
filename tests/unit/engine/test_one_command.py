"""Which decisions do no more than issue one command."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.domain.commands import Command, LoopSlice
from noetl.domain.facts.facts import Paused
from noetl.domain.limits import Limit
from noetl.domain.state import ExecutionState
from noetl.engine.decision import Decision, does_one_command
from tests.parts import over

COMMAND = Command(1, "1", 1, "start", "p", "python")
PLAIN = {"state", "facts", "slots", "issue", "close", "abandoned"}
"""What such a decision may have. ``abandoned`` counts events of the outbox."""


def decision(command: Command = COMMAND, **given: Any) -> Decision:
    state = ExecutionState(status=given.pop("status", "running"))
    return Decision(**{"state": state, "facts": [], "slots": {}, "issue": [command]} | given)


def test_state_values_and_the_end_of_another_command_may_change() -> None:
    assert does_one_command(decision(close=[("0", 1, 0)], slots={("step", "a"): 1}, facts=[Paused()]))


@over("name", sorted(set(Decision.__struct_fields__) - PLAIN))
def test_nothing_else_may(name: str) -> None:
    """A field that is added to decisions is refused, or listed above."""
    kept = next(field for field in msgspec.structs.fields(Decision) if field.name == name)
    something = [object()] if kept.default_factory is list else True
    assert not does_one_command(decision(**{name: something}))


@over(
    "given",
    [
        {"delay": 1.0},
        {"stage": "collection"},
        {"loop": LoopSlice(1, 0, 1, 1, "x", "parallel")},
        {"machine": {}},
        {"remote": True},
        {"limits": (Limit("x", "x", 1),)},
    ],
    ids=lambda given: next(iter(given)),
)
def test_the_command_may_run_at_once(given: dict[str, Any]) -> None:
    assert not does_one_command(decision(msgspec.structs.replace(COMMAND, **given)))


def test_there_is_one_and_its_execution_runs() -> None:
    assert not does_one_command(decision(issue=[]))
    assert not does_one_command(decision(issue=[COMMAND, COMMAND]))
    assert not does_one_command(decision(status="paused"))
