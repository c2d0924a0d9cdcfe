"""The callbacks that an execution waits for, for people and clients: since when, until when, and (for who may answer them) by which token."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from noetl.domain.callbacks import (
    PATH,
    SCOPE,
    Awaited,
    CallbackId,
    awaited_in,
    holder,
    item_of,
    make_token,
    run_key,
)
from noetl.domain.errors import ConflictError
from noetl.domain.state import TERMINAL, ExecutionState
from noetl.domain.tokens import KeyRing
from noetl.ports.execution_store import ExecutionInfo, ExecutionStore
from noetl.services.execution_state import demand_state


class AwaitedCallback(msgspec.Struct, frozen=True):
    """``index``: of the item of a loop. ``since``, ``until``: epoch seconds; ``until`` None: however long it takes."""

    step: str
    run: int
    task: str
    index: int | None
    since: float
    until: float | None
    message: str
    approve: bool


class OpenCallback(msgspec.Struct, frozen=True):
    """A callback with what answers it: ``url`` for others, ``token`` for `noetl callback`."""

    callback: AwaitedCallback
    token: str
    url: str


def awaited(store: ExecutionStore, execution_id: int, state: ExecutionState) -> list[AwaitedCallback]:
    """What is awaited now, by step run and item. One more read, when something is."""
    return [_view(place, found, state) for place, found in _standing(store, execution_id, state)]


def awaited_by_command(store: ExecutionStore, execution_id: int, state: ExecutionState) -> dict[str, Awaited]:
    """Command → what it waits for."""
    return {found.command: found for _, found in _standing(store, execution_id, state)}


def open_callbacks(
    store: ExecutionStore, info: ExecutionInfo, keys: Callable[[bool], KeyRing], base: str
) -> list[OpenCallback]:
    """With their tokens. ``base``: where they are answered."""
    if info.status in TERMINAL or not info.version:
        return []
    state = demand_state(info)
    ring, execution_id = keys(False), info.execution_id
    made = []
    for place, found in _standing(store, execution_id, state):
        name = CallbackId(execution_id, place, found.serial)
        token = make_token(run_key(execution_id, name.run, ring), name)
        made.append(OpenCallback(_view(place, found, state), token, f"{base.rstrip('/')}{PATH}{token}"))
    return made


def only_one(found: list[OpenCallback], execution_id: int) -> OpenCallback:
    """The callback that is meant when an execution is named. Raises ConflictError when there are none, or several."""
    if len(found) == 1:
        return found[0]
    if not found:
        raise ConflictError(
            f"execution {execution_id} waits for no callback",
            code="callback_not_awaited",
            hint=f"`noetl status {execution_id}` shows what it does",
        )
    listed = "; ".join(f"{one.callback.step}: {one.token}" for one in found[:10])
    raise ConflictError(
        f"execution {execution_id} waits for {len(found)} callbacks",
        code="callback_ambiguous",
        hint=f"name one by its token: {listed}",
    )


def _standing(
    store: ExecutionStore, execution_id: int, state: ExecutionState
) -> Iterator[tuple[str, Awaited]]:
    if not any(token.awaits for token in state.tokens.values()):
        return
    slots = store.slots(execution_id)
    for scope, place in sorted(slots, key=lambda key: (key[0], _order(key[1]))):
        found = awaited_in(slots[scope, place]) if scope == SCOPE else None
        if found is not None and holder(state, place) is not None:
            yield place, found


def _order(place: str) -> list[tuple[bool, int, str]]:
    parts = (part.lstrip("ri") for part in place.split("."))
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


def _view(place: str, found: Awaited, state: ExecutionState) -> AwaitedCallback:
    item, token = item_of(place), holder(state, place)
    assert token is not None
    return AwaitedCallback(
        found.step,
        token.run,
        found.task,
        None if item is None else item[1],
        found.since,
        found.until,
        found.message,
        found.approve,
    )
