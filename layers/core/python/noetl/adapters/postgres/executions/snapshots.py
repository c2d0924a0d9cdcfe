"""The read of the main lane: any number of requests in one statement.

It also has the parameters of events that are held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from noetl.adapters.postgres.connection import Row
from noetl.adapters.postgres.literals import documents, name, number, numbers, texts, unname
from noetl.domain import codec
from noetl.domain.events import CommandDone, Held, ItemsDone, Start, encode_event
from noetl.domain.state import Status
from noetl.ports.executions.execution_store import Fence, Loaded, LoadRequest, Snapshot


def parameters(requests: Sequence[LoadRequest]) -> dict[str, bytes | None]:
    names = [(request.execution_id, name(slot)) for request in requests for slot in request.names]
    scopes = [(request.execution_id, name(scope)) for request in requests for scope in request.scopes]
    commands = [(request.execution_id, command) for request in requests for command in request.commands]
    events = [(request.execution_id, event) for request in requests for event in request.events]
    return {
        "ids": numbers([request.execution_id for request in requests]),
        "name_ids": numbers([pair[0] for pair in names]),
        "names": texts([pair[1] for pair in names]),
        "scope_ids": numbers([pair[0] for pair in scopes]),
        "scopes": texts([pair[1] for pair in scopes]),
        "command_ids": numbers([pair[0] for pair in commands]),
        "commands": texts([pair[1] for pair in commands]),
        "event_ids": numbers([pair[0] for pair in events]),
        "events": texts([pair[1] for pair in events]),
        "least_id": number(min((pair[0] for pair in events), default=0)),
        "most_id": number(max((pair[0] for pair in events), default=0)),
    }


def loaded(rows: list[Row]) -> Loaded:
    now, fetched = 0.0, ""
    heads: list[tuple[int, str, str, int, bytes]] = []
    slots: dict[int, dict[tuple[str, str], Any]] = {}
    fences: dict[int, dict[str, Fence]] = {}
    applied: dict[int, list[str]] = {}
    sizes: dict[int, int] = {}
    for kind, execution, one, two, three, four, five in rows:
        key = int(execution or b"")
        first = (one or b"").decode()
        sizes[key] = sizes.get(key, 0) + len(five or b"")
        if kind == b"slot":
            place = (unname(first), unname((two or b"").decode()))
            slots.setdefault(key, {})[place] = codec.decode(five or b"")
        elif kind == b"execution":
            heads.append((key, first, (two or b"").decode(), int(three or b""), five or b""))
        elif kind == b"fence":
            fences.setdefault(key, {})[first] = Fence(int(three or b""), int(four or b""))
        elif kind == b"applied":
            applied.setdefault(key, []).append(first)
        else:
            now, fetched = float(five or b""), first
    return Loaded(
        now,
        {
            key: Snapshot(
                execution_id=key,
                version=version,
                program=program,
                status=cast(Status, status),
                state=state,
                slots=slots.get(key, {}),
                fences=fences.get(key, {}),
                applied=frozenset(applied.get(key, ())),
            )
            for key, program, status, version, state in heads
        },
        frozenset(fetched.split(",")) if fetched else frozenset(),
        sizes,
    )


def holding(held: Sequence[Held | Start]) -> dict[str, bytes | None]:
    """Parameters of ``hold_events``; a command is named where the event ends its turn."""
    closed: list[tuple[str, int, int]] = []
    inner = [one.event if isinstance(one, Held) else one for one in held]
    for event in inner:
        if isinstance(event, CommandDone) or (isinstance(event, ItemsDone) and event.last):
            closed.append((event.command_id, event.attempt, event.turn))
        else:
            closed.append(("", 0, 0))
    return {
        "execution_ids": numbers([one.execution_id for one in held]),
        "ids": texts([one.event_id for one in held]),
        "event_ids": texts([event.event_id for event in inner]),
        "payloads": documents([encode_event(one) for one in held]),
        "commands": texts([command for command, _, _ in closed]),
        "attempts": numbers([attempt for _, attempt, _ in closed]),
        "turns": numbers([turn for _, _, turn in closed]),
    }
