"""Commands whose work is in another system: asked again later, or sooner than planned.

What a row holds is read and written over; the attempt, which goes up, keeps two writers apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from noetl.adapters.loops import stripped
from noetl.adapters.postgres.connection import Database
from noetl.adapters.postgres.executions.command_rows import payload
from noetl.adapters.postgres.executions.permits import integers, whole_command
from noetl.adapters.postgres.executions.unreadable_rows import RowReader
from noetl.adapters.postgres.literals import numbers, text, texts
from noetl.domain.commands import Command
from noetl.ports.executions.execution_store import Poll

Key = tuple[int, str]
"""(execution, command)."""


def ask_again(database: Database, polls: Sequence[Poll], owner: str | None) -> list[Command]:
    # A batch may tell of one command twice: of an attempt that was given up, and of the one that counts.
    latest = sorted(polls, key=lambda poll: (poll.turn, poll.attempt))
    by_key: dict[Key, Poll] = {(poll.execution_id, poll.command_id): poll for poll in latest}
    if not by_key:
        return []
    wanted = list(by_key.values())
    rows = database.run("read_open_commands", _fences(wanted))
    commands: dict[Key, Command] = {}
    unread = RowReader()
    for execution, identity, counts, body, child, loop in rows:
        key = (int(execution or b""), (identity or b"").decode())
        whole = unread.command(*key, partial(whole_command, key[0], integers(counts), body, child, loop))
        if whole is not None:
            commands[key] = msgspec.structs.replace(whole, machine=by_key[key].machine, child=None)
    unread.set_aside(database, owner or "")
    kept = [poll for poll in wanted if (poll.execution_id, poll.command_id) in commands]
    if not kept:
        return []
    bodies = [payload(stripped(commands[poll.execution_id, poll.command_id])).decode() for poll in kept]
    values = {
        **_fences(kept),
        "delays": numbers([poll.delay for poll in kept]),
        "payloads": texts(bodies),
        "owner": text(owner or ""),
    }
    found = []
    for execution, identity, attempt in database.run("ask_again", values):
        key = (int(execution or b""), (identity or b"").decode())
        delay = by_key[key].delay
        found.append(msgspec.structs.replace(commands[key], attempt=int(attempt or b""), delay=delay))
    return found


def wake_early(database: Database, commands: Sequence[Key], owner: str | None) -> list[Command]:
    if not commands:
        return []
    values = {
        "executions": numbers([execution_id for execution_id, _ in commands]),
        "commands": texts([command_id for _, command_id in commands]),
        "owner": text(owner or ""),
    }
    found = []
    unread = RowReader()
    for execution, identity, counts, body, child, loop in database.run("wake_early", values):
        key = (int(execution or b""), (identity or b"").decode())
        found.append(
            unread.command(*key, partial(whole_command, key[0], integers(counts), body, child, loop))
        )
    unread.set_aside(database, owner or "")
    return [command for command in found if command is not None]


def _fences(polls: Sequence[Poll]) -> dict[str, bytes | None]:
    return {
        "executions": numbers([poll.execution_id for poll in polls]),
        "commands": texts([poll.command_id for poll in polls]),
        "attempts": numbers([poll.attempt for poll in polls]),
        "turns": numbers([poll.turn for poll in polls]),
    }
