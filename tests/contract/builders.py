"""Builders of changes, commands, loops and item batches: the defaults are legal, a test names only what it is about."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from noetl.domain import ids
from noetl.domain.commands import Command, FrozenScope, ItemOutcome
from noetl.domain.events import ItemsDone, Start
from noetl.domain.outcomes.outcomes import ErrorInfo, Outcome
from noetl.ports.executions.execution_store import Change, CreatedExecution, EventRow, ItemBatch, LoopRow

EID = ids.execution_id(ids.EPOCH_MS + 86_400_000, 7)


@dataclass
class Make:
    """Builders whose defaults make a legal row; a test names only what it is about."""

    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def created(self, **over: Any) -> CreatedExecution:
        return CreatedExecution(**{"path": "demo/hello", "name": "hello", **over})

    def start(self, execution_id: int = EID, **over: Any) -> Start:
        return Start(execution_id=execution_id, event_id="start", program="prog", **over)

    def row(self, event_id: str = "", **over: Any) -> EventRow:
        number = next(self.numbers)
        values = {
            "event_id": event_id or f"cmd:{number}:0",
            "seq": number,
            "type": "step.enter",
            "facts": b"[]",
        }
        return EventRow(**{**values, **over})

    def change(self, expected: int = 0, execution_id: int = EID, **over: Any) -> Change:
        values: dict[str, Any] = {
            "status": "running",
            "state": b'{"v":1,"seq":1}',
            "program": "prog",
            "events": (self.row(),),
            "created": self.created() if expected == 0 else None,
        }
        return Change(execution_id=execution_id, expected=expected, **{**values, **over})

    def command(self, command_id: str = "1", execution_id: int = EID, **over: Any) -> Command:
        values = {"run": int(command_id.split(".")[0]), "step": "fetch", "program": "prog", "pool": "io"}
        return Command(execution_id=execution_id, command_id=command_id, **{**values, **over})

    def loop(self, total: int, window: int, **over: Any) -> LoopRow:
        values: dict[str, Any] = {
            "run": 1,
            "round": 0,
            "step": "each",
            "pool": "io",
            "program": "prog",
            "mode": "parallel",
            "iterator": "item",
            "fail_fast": True,
            "iterator_vars": False,
            "scope": FrozenScope(ctx={"factor": 3}),
            "items": [{"n": index} for index in range(total)],
        }
        return LoopRow(total=total, window=window, **{**values, **over})

    def items(self, command: Command, *indexes: int, chunk: int = 1, **over: Any) -> ItemBatch:
        """A batch for ``command``; failed items are named by ``failed=(…)`` (a tuple of indexes)."""
        failed = over.pop("failed", ())
        outcomes = over.pop("outcomes", {})
        event_over = {key: over.pop(key) for key in ("closed", "rest", "undone") if key in over}
        assert command.loop is not None
        done = [ItemOutcome(index, outcomes.get(index) or _outcome(index, failed)) for index in indexes]
        event = ItemsDone(
            execution_id=command.execution_id,
            event_id=ids.outcome_event(command.command_id, command.turn),
            program=command.program,
            command_id=command.command_id,
            attempt=command.attempt,
            turn=command.turn,
            run=command.run,
            step=command.step,
            round=command.loop.round,
            items=done,
            **event_over,
        )
        values = {
            "rows": tuple(
                self.item_row(command, item) for item in done if item.outcome.status != "suspended"
            ),
            "size": 10 * len(done),
            "failed": len(failed),
            "patched": sum(1 for item in done if item.outcome.patches),
        }
        return ItemBatch(event=event, chunk=chunk, **{**values, **over})

    def item_row(self, command: Command, item: ItemOutcome) -> EventRow:
        assert command.loop is not None
        return EventRow(
            event_id=ids.item_event(command.run, command.loop.round, item.index),
            seq=item.index,
            type="call.error" if item.outcome.status == "error" else "call.done",
            facts=msgspec.json.encode(item.outcome),
            lane=command.run,
        )


def _outcome(index: int, failed: tuple[int, ...]) -> Outcome:
    if index in failed:
        return Outcome("error", error=ErrorInfo("no"))
    return Outcome("ok", result=index * index)
