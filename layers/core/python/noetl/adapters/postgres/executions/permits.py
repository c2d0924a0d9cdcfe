"""Parameters and answers of commits about shared keys.

They show which commands wait, and which have a slot.

See sql/functions/50_limits.sql.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import msgspec

from noetl.adapters.loops import OUTCOME, chunk_command, completed
from noetl.adapters.postgres.connection import Row
from noetl.adapters.postgres.executions.unreadable_rows import RowReader
from noetl.adapters.postgres.literals import EMPTY, name, numbers, records
from noetl.domain import codec
from noetl.domain.commands import Command
from noetl.domain.events import Event
from noetl.domain.limits import Admitted
from noetl.ports.executions.execution_store import Change, ItemBatch, LoopRow

COMMAND = codec.decoder(Command)
LOOP = codec.decoder(LoopRow)
Key = tuple[int, str]
"""(execution, command)."""


def integers(array: bytes | None) -> list[int]:
    """A Postgres array of whole numbers."""
    inner = (array or b"{}")[1:-1]
    return [int(part) for part in inner.split(b",")] if inner else []


def limit_parts(changes: Sequence[Change]) -> dict[str, bytes | None]:
    """Return further parameters of a commit about shared keys.

    They are executions that may share keys, commands that ask for some, and priorities.
    """
    limited = [change.execution_id for change in changes if change.limited]
    wanted: list[dict[str, Any]] = [
        {
            "execution": change.execution_id,
            "id": command.command_id,
            "step": name(command.step),
            "priority": command.priority,
            "limits": msgspec.to_builtins(command.limits),
        }
        for change in changes
        if not change.end
        for command in change.issue
        if command.limits and command.turn == 0
    ]
    priorities: list[dict[str, Any]] = [
        {"execution": change.execution_id, "priority": change.priority}
        for change in changes
        if change.priority and not change.end
    ]
    return {
        "limited": numbers(limited) if limited else EMPTY,
        "wanted": records(wanted),
        "priorities": records(priorities),
    }


def result_parts(writes: Sequence[Change | ItemBatch]) -> bytes | None:
    """What a commit says of results (sql/functions/60_results.sql)."""
    found: list[dict[str, Any]] = []
    for write in writes:
        execution = write.execution_id if isinstance(write, Change) else write.event.execution_id
        found += [
            {
                "execution": execution,
                "ref": name(one.ref),
                "store": name(one.store),
                "step": name(one.step),
                "size": one.size,
                "scope": one.scope,
                "ttl": one.ttl,
            }
            for one in write.kept
        ]
        found += [{"execution": execution, "held": held} for held in write.reaches]
    return records(found)


def moved_parts(batches: Sequence[ItemBatch]) -> dict[str, bytes | None]:
    """Return further parameters of a commit of items.

    An item that continues alone has the slots of the command it left.
    """
    concerned = [batch for batch in batches if batch.limited]
    moved: list[dict[str, Any]] = [
        {"execution": one.execution_id, "id": batch.event.command_id, "heir": one.command_id}
        for batch in concerned
        for one in (*batch.resumed, *batch.waiting)
        if one.command_id != batch.event.command_id
    ]
    return {
        "limited": numbers(sorted({batch.event.execution_id for batch in concerned})),
        "moved": records(moved),
    }


def admitted(answers: Sequence[Row], owner: str | None, unread: RowReader) -> tuple[Admitted, list[Event]]:
    """Read the answer of ``noetl.admit_execution``.

    ``unread``: collects rows that cannot be read.
    """
    word, most, holders = "held", 0, list[int]()
    events: list[Event] = []
    for kind, execution, identity, counts, body, _, _ in answers:
        if kind == b"status":
            word, (most, *holders) = (identity or b"").decode(), integers(counts)
        elif kind == b"event" and owner is not None:
            event = unread.event(int(execution or b""), (identity or b"").decode(), body or b"")
            events += [] if event is None else [event]
    return Admitted(cast(Any, word), most, tuple(holders)), events


class Slots:
    """Collects the input of a commit. ``unread``: the part of it that cannot be read."""

    def __init__(self, unread: RowReader) -> None:
        self.unread = unread
        self.waits: set[Key] = set()
        self.delays: dict[Key, float] = {}
        self.given: list[Command] = []

    def read(self, answer: Row) -> bool:
        """False when ``answer`` is about something else."""
        kind, execution, identity, counts, body, child, loop = answer
        if kind not in (b"waits", b"delayed", b"given"):
            return False
        key = (int(execution or b""), (identity or b"").decode())
        if kind == b"waits":
            self.waits.add(key)
        elif kind == b"delayed":
            self.delays[key] = integers(counts)[0] / 1e6
        else:
            whole = partial(whole_command, key[0], integers(counts), body, child, loop)
            command = self.unread.command(*key, whole)
            self.given += [] if command is None else [command]
        return True

    def given_out(self, issued: list[Command]) -> list[Command]:
        """Return the commands that are given out now.

        They are ``issued`` without those that wait, and those that waited until now. One whose moment is later is delayed.
        """
        if not (self.waits or self.delays or self.given):
            return issued
        found = []
        for command in issued:
            key = (command.execution_id, command.command_id)
            if key in self.waits:
                continue
            delay = self.delays.get(key)
            found.append(command if delay is None else msgspec.structs.replace(command, delay=delay))
        return found + self.given


class Loops:
    """The loops of an answer.

    The answer brings each loop once, for any number of its commands.
    """

    def __init__(self) -> None:
        self._loops: dict[tuple[int, int, int], LoopRow] = {}

    def read(self, execution_id: int, counts: Sequence[int], loop: bytes | None) -> None:
        """Keep the loop of a command's row, if that brings it."""
        if loop is not None:
            self._loops[execution_id, counts[0], counts[1]] = codec.decode_as(LOOP, loop)

    def of(self, execution_id: int, counts: Sequence[int]) -> LoopRow:
        """Return the loop of a command's row. Raises KeyError when the answer did not bring it."""
        return self._loops[execution_id, counts[0], counts[1]]


def whole_command(
    execution_id: int,
    counts: Sequence[int],
    body: bytes | None,
    child: bytes | None,
    loop: bytes | LoopRow | None,
) -> Command:
    """A command from its row.

    ``counts``: run, round, attempt, first, past, and perhaps the microseconds of its delay and how many owners died while they ran it.
    """
    _, round_, attempt, first, past, *more = counts
    delay, lost = (*more, 0, 0)[:2]
    if round_ < 0 or loop is None:
        command = codec.decode_as(COMMAND, body or b"")
    else:
        row = codec.decode_as(LOOP, loop) if isinstance(loop, bytes) else loop
        if body is None:
            command = chunk_command(execution_id, row, first, past)
        else:
            command = completed(codec.decode_as(COMMAND, body), row, first, past)
    command = msgspec.structs.replace(command, attempt=attempt, delay=delay / 1e6, lost=lost)
    return (
        command if child is None else msgspec.structs.replace(command, child=codec.decode_as(OUTCOME, child))
    )
