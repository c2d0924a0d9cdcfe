"""Sums of a loop's items that have too many digits: only what they are added to says whether the sum is too large."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from noetl.adapters.loops import resume
from noetl.domain import codec, ids
from noetl.domain.commands import Command, FrozenScope, ItemOutcome, LoopSlice
from noetl.domain.events import Cancel, CommandDone, ItemsDone
from noetl.domain.outcomes.outcomes import Outcome, Patch
from noetl.domain.patches.scope_patches import FOLD_ABOVE, PatchBuffer
from noetl.domain.sizes.table import INTEGER_DIGITS
from noetl.domain.state import decode_state
from noetl.services.executions.change_execution import ChangeRequest
from noetl.services.executions.redrive_execution import plan
from tests.contract.test_left_loops import LOOP, ME, START, Engine
from tests.unit.services.worker.test_run_command import LOOP as ADDING
from tests.unit.services.worker.test_run_command import Worker

MOST = 10**INTEGER_DIGITS.value - 1
ADD = Patch("ctx", "sum", MOST, "add")


def begun(harness, mode: str, base: int) -> tuple[Engine, list[Command]]:
    """An execution whose loop runs, and whose ``ctx.sum`` is ``base``."""
    engine = Engine(harness, START + LOOP.replace("MODE", mode))
    outcome = Outcome("ok", {"v": 1}, patches=[Patch("ctx", "sum", base)])
    return engine, engine.handle(CommandDone.of(engine.first, outcome))


def answered(command: Command, indexes: list[int], values: list[int], **more: Any) -> ItemsDone:
    """What a worker says of items that add ``values``."""
    items = [
        ItemOutcome(index, Outcome("ok", patches=[Patch("ctx", "sum", value, "add")]))
        for index, value in zip(indexes, values, strict=True)
    ]
    event_id = ids.items_event(command.command_id, command.attempt, command.turn, 1)
    assert command.loop is not None
    return ItemsDone.of(command, event_id, command.loop.round, items, **more)


def all_answered(engine: Engine, commands: list[Command], values: list[int]) -> None:
    while commands:
        command = commands.pop(0)
        assert command.loop is not None
        indexes = list(range(command.loop.start, command.loop.stop))
        event = answered(command, indexes, [values[index] for index in indexes], undone=0)
        commands += engine.handle(event)


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
@pytest.mark.parametrize("over", [-1, 0, 1])
def test_a_loop_ends_with_the_sum_that_its_values_have(harness, mode: str, over: int) -> None:
    engine, commands = begun(harness, mode, -MOST)
    all_answered(engine, commands, [MOST, MOST, over])
    if over <= 0:
        assert engine.status() == "completed"
        assert engine.store.slots(engine.id)[("ctx", "sum")] == MOST + over
        return
    assert engine.status() == "failed"
    error = decode_state(engine.store.info(engine.id).state).error
    assert (error.code, error.details["limit"]) == ("size_limit", INTEGER_DIGITS.name)
    assert error.position.startswith("t.yaml:") and "ctx.sum" in error.message
    assert engine.store.slots(engine.id)[("ctx", "sum")] == -MOST, "no write of the loop counts"


@pytest.mark.parametrize("base", [-MOST, 0], ids=["fits", "exceeds"])
def test_a_loop_that_was_cancelled_goes_on_with_sums_of_too_many_digits(harness, base: int) -> None:
    engine, (command,) = begun(harness, "sequential", base)
    engine.handle(answered(command, [0, 1], [MOST, MOST], closed=False, undone=1))
    engine.handle(Cancel(engine.id, "stop", engine.program.hash))
    assert engine.status() == "cancelled"
    again = plan(engine.store, engine.deps.programs, engine.id, ChangeRequest("user:ada", "again", ME))
    (command,) = engine.handle(again)
    assert command.overlay == [ADD, ADD] and command.loop.stop == 1
    all_answered(engine, [command], [0])
    assert engine.status() == ("completed" if base else "failed")


def test_a_chunk_is_handed_back_with_sums_of_too_many_digits() -> None:
    left = [14.0]

    def tool(params: dict[str, Any], context: Any) -> Any:
        left[0] -= 5
        return None

    worker = Worker(ADDING, tool, deadline=lambda: left[0])
    command = worker.chunk([MOST, MOST, 1, 2], scope=FrozenScope(ctx={"total": -MOST}))
    (event,) = worker.items(command)
    assert [item.outcome.status for item in event.items] == ["ok", "ok"]
    total = msgspec.structs.replace(ADD, name="total")
    assert event.rest is not None and event.rest.overlay == [total, total]


def test_a_chunk_is_given_out_again_with_sums_of_too_many_digits() -> None:
    loop = LoopSlice(1, 0, 3, 3, "x", "sequential")
    done = [(index, codec.encode(Outcome("ok", patches=[ADD]))) for index in (0, 1)]
    again = resume(Command(7, "1", 1, "s", "p", "io", loop=loop), done)
    assert again.overlay == [ADD, ADD] and again.loop is not None and again.loop.skip == (0, 1)


def test_patches_that_never_become_one_are_not_compared_over_and_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from noetl.domain.patches import scope_patches

    combined: list[int] = []
    real = scope_patches.combine

    def counted(given: Any) -> list[Patch]:
        found = list(given)
        combined.append(len(found))
        return real(found)

    monkeypatch.setattr(scope_patches, "combine", counted)
    buffer = PatchBuffer()
    for _ in range(4 * FOLD_ABOVE):
        buffer.add([ADD])
    assert len(buffer.combined()) == 4 * FOLD_ABOVE
    assert sum(combined) < 12 * FOLD_ABOVE
