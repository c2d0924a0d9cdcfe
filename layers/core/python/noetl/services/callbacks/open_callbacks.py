"""The callbacks that an execution waits for, for people and clients.

They show since when and until when; to those who may answer a callback, they also show its token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

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
from noetl.domain.capability_tokens import KeyRing
from noetl.domain.errors import ConflictError
from noetl.domain.state import TERMINAL, ExecutionState
from noetl.domain.text.timestamps import Timestamp, maybe_timestamp
from noetl.ports.executions.answers import ExecutionFilter
from noetl.ports.executions.execution_store import ExecutionInfo, ExecutionStore, LoadRequest
from noetl.services.history.execution_state import demand_state, read_state


class AwaitedCallback(msgspec.Struct, frozen=True):
    """A callback that an execution waits for.

    ``index``: of the item of a loop. ``until`` None: without a limit.
    """

    step: str
    run: int
    task: str
    index: int | None
    since: Timestamp
    until: Timestamp | None
    message: str
    approve: bool


class OpenCallback(msgspec.Struct, frozen=True):
    """A callback with what answers it: ``url`` for others, ``token`` for `noetl callback`."""

    callback: AwaitedCallback
    token: str
    url: str


SHOWN = 100
"""Callbacks of a loop's items that are shown at once: there may be as many as items."""
ALL = 2**31 - 1


def awaited(store: ExecutionStore, execution_id: int, state: ExecutionState) -> list[AwaitedCallback]:
    """Return the callbacks that an execution waits for, by step run and item.

    At most ``SHOWN`` of each loop. This costs one more read when there are any.
    """
    return [_view(place, found, state) for place, found in _standing(store, execution_id, state, SHOWN)]


def count_awaited(state: ExecutionState) -> int:
    """Count the callbacks that are awaited now, shown or not."""
    return sum(token.awaits for token in state.tokens.values())


def awaited_by_command(
    store: ExecutionStore, execution_id: int, state: ExecutionState, commands: Sequence[str]
) -> dict[str, Awaited]:
    """Return command → the callback that it waits for, of ``commands``.

    The place of a callback is the command that waits for it.
    """
    if not commands or not count_awaited(state):
        return {}
    loaded = store.load([LoadRequest(execution_id, tuple(commands))]).executions.get(execution_id)
    found = {place: slot for (scope, place), slot in loaded.slots.items() if scope == SCOPE} if loaded else {}
    awaits = {place: awaited_in(slot) for place, slot in found.items() if holder(state, place) is not None}
    return {place: one for place, one in awaits.items() if one is not None}


def open_callbacks(
    store: ExecutionStore, info: ExecutionInfo, keys: Callable[[bool], KeyRing], base: str
) -> list[OpenCallback]:
    """Return the open callbacks with their tokens. ``base``: the address that takes answers."""
    if info.status in TERMINAL or not info.version:
        return []
    state = demand_state(info)
    ring, execution_id = keys(False), info.execution_id
    return [
        _answerable(place, found, execution_id, state, ring, base)
        for place, found in _standing(store, execution_id, state, ALL)
    ]


class AskingPage(msgspec.Struct, frozen=True):
    """Open callbacks of some executions.

    ``last``: the last of these executions, if there may be more. ``left_out``: callbacks of loop items that are not shown, of these executions.
    """

    found: list[tuple[ExecutionInfo, OpenCallback]]
    left_out: int
    last: int | None


def open_callbacks_of_all(
    store: ExecutionStore, keys: Callable[[bool], KeyRing], base: str, *, after: int, limit: int
) -> AskingPage:
    """Return open callbacks of the next executions that wait for one.

    They come after ``after``, in three round trips.     At most ``limit`` executions, and ``SHOWN`` callbacks of each.
    """
    asking = store.asking(after, limit)
    if not asking:
        return AskingPage([], 0, None)
    infos = store.executions(limit=len(asking), wanted=ExecutionFilter(ids=tuple(asking)))
    slots = store.callbacks_of_many(asking, SHOWN)
    ring = keys(False)
    found: list[tuple[ExecutionInfo, OpenCallback]] = []
    left_out = 0
    for info in reversed(infos):
        state = read_state(info)[0]
        shown = [
            _answerable(place, one, info.execution_id, state, ring, base)
            for place, one in _awaited_in(slots.get(info.execution_id, {}), state)
        ]
        found += [(info, one) for one in shown]
        left_out += max(0, count_awaited(state) - len(shown)) if shown else 0
    return AskingPage(found, left_out, asking[-1] if len(asking) == limit else None)


def _answerable(
    place: str, found: Awaited, execution_id: int, state: ExecutionState, ring: KeyRing, base: str
) -> OpenCallback:
    """Make the token and the address that answer a callback."""
    name = CallbackId(execution_id, place, found.serial)
    token = make_token(run_key(execution_id, name.run, ring), name)
    return OpenCallback(_view(place, found, state), token, f"{base.rstrip('/')}{PATH}{token}")


def only_one(found: list[OpenCallback], execution_id: int) -> OpenCallback:
    """Return the only callback that an execution waits for.

    Raises ConflictError when there are none, or several.
    """
    if len(found) == 1:
        return found[0]
    if not found:
        raise ConflictError(
            f"execution {execution_id} waits for no callback",
            code="callback_not_awaited",
            hint=f"`noetl status {execution_id}` shows what it does",
        )
    steps = ", ".join(dict.fromkeys(one.callback.step for one in found[:10]))
    raise ConflictError(
        f"execution {execution_id} waits for {len(found)} callbacks",
        code="callback_ambiguous",
        hint=f"`noetl callback {execution_id}` shows the tokens of {steps}: name one of them",
    )


def _standing(
    store: ExecutionStore, execution_id: int, state: ExecutionState, limit: int
) -> Iterator[tuple[str, Awaited]]:
    runs = [run for run, token in state.tokens.items() if token.awaits]
    if not runs:
        return
    yield from _awaited_in(store.callback_slots(execution_id, runs, limit), state)


def _awaited_in(slots: Mapping[str, Any], state: ExecutionState) -> Iterator[tuple[str, Awaited]]:
    for place in sorted(slots, key=_order):
        found = awaited_in(slots[place])
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
        Timestamp(found.since),
        maybe_timestamp(found.until),
        found.message,
        found.approve,
    )
