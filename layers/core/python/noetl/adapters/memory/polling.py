"""Commands whose work is in another system: asked again later, or sooner than planned."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.adapters.loops import stripped
from noetl.adapters.memory.tables import CommandEntry, Tables
from noetl.domain import codec
from noetl.domain.commands import Command
from noetl.ports.executions.execution_store import Poll


def ask_again(tables: Tables, polls: Sequence[Poll], owner: str | None) -> list[Command]:
    found = []
    for poll in polls:
        entry = tables.work[poll.execution_id].commands.get(poll.command_id)
        if entry is None or (entry.attempt, entry.turn) != (poll.attempt, poll.turn) or entry.waiting:
            continue
        command = msgspec.structs.replace(tables.command(entry), machine=poll.machine)
        entry.payload = codec.encode(stripped(command))
        found.append(_given_out(tables, entry, command, owner, poll.delay))
    return found


def wake_early(tables: Tables, commands: Sequence[tuple[int, str]], owner: str | None) -> list[Command]:
    found = []
    for execution_id, command_id in commands:
        entry = tables.work[execution_id].commands.get(command_id)
        if entry is None or entry.payload is None or entry.waiting or entry.not_before <= tables.clock():
            continue
        if entry.losses > 1:
            continue
        command = tables.command(entry)
        if command.remote:
            found.append(_given_out(tables, entry, command, owner, 0.0))
    return found


def _given_out(
    tables: Tables, entry: CommandEntry, command: Command, owner: str | None, delay: float
) -> Command:
    entry.attempt += 1
    entry.lost = 0
    entry.owner = owner
    entry.not_before = tables.clock() + delay
    return msgspec.structs.replace(command, attempt=entry.attempt, delay=delay)
