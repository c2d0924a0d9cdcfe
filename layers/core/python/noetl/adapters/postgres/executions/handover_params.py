"""What passes from one owner to another, as parameters."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.adapters.postgres.literals import flag, number, numbers, text, texts
from noetl.domain.workers.lost_owners import ALONE_SECONDS, MOST, WAIT_SECONDS
from noetl.ports.executions.answers import Offer, Published


def heirs(owner: str, *parts: tuple[Published, str]) -> dict[str, bytes | None]:
    """Return the parameters of what ``owner`` hands over, each part to its heir."""
    commands = [(one.execution_id, one.command_id, heir) for part, heir in parts for one in part.commands]
    events = [(one.execution_id, one.event_id, heir) for part, heir in parts for one in part.events]
    timers = [(*one, heir) for part, heir in parts for one in part.timers]
    values: dict[str, bytes | None] = {"owner": text(owner)}
    for name, rows in (("command", commands), ("event", events), ("timer", timers)):
        values[f"{name}_executions"] = numbers([row[0] for row in rows])
        values[f"{name}s"] = texts([row[1] for row in rows])
        values[f"{name}_heirs"] = texts([row[2] for row in rows])
    return values


def offer(wanted: Offer | None) -> dict[str, bytes | None]:
    """Return the parameters of a claim; empty texts ask for rows without an owner."""
    execution_id, command_id = (wanted and wanted.only) or (0, "")
    return {
        "pool": text(wanted.pool if wanted else ""),
        "execution_id": number(execution_id),
        "command_id": text(command_id),
    }


def lost(commands: Sequence[tuple[int, str, int]]) -> dict[str, bytes | None]:
    """Turns (execution, command, turn) that a process died of."""
    return {
        "executions": numbers([execution_id for execution_id, _, _ in commands]),
        "commands": texts([command_id for _, command_id, _ in commands]),
        "turns": numbers([turn for _, _, turn in commands]),
        "seconds": number(WAIT_SECONDS),
    }


def trust(lost: bool) -> dict[str, bytes | None]:
    """Whether commands that a process died of are claimed, and how."""
    return {"lost": flag(lost), "most": number(MOST), "alone": number(ALONE_SECONDS)}
