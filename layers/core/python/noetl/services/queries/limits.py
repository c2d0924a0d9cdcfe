"""Limits by key for operators: values, holders, waiters, and why an execution waits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec

from noetl.domain.errors import InvalidInputError, NotFoundError
from noetl.domain.limits import EXECUTIONS, Numbers
from noetl.domain.sizes.gate import check_text
from noetl.domain.sizes.table import LIMIT_KEY
from noetl.domain.text.number_text import number_text
from noetl.domain.text.timestamps import Timestamp, maybe_timestamp
from noetl.ports.limit_store import KeyState, KeyUse, LimitStore, Wait

_HIGHEST = 2**31 - 1


class LimitRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request to set the numbers of a limit.

    ``concurrent``: how many at once (0: nothing begins). ``rate``: how many begin every ``per`` seconds, ``burst`` at the same moment. An
    omitted number sets no limit.
    """

    concurrent: int | None = None
    rate: float | None = None
    per: float = 1.0
    burst: int = 1


class UseView(msgspec.Struct, frozen=True):
    """A holder of a slot, or a waiter for one.

    ``step`` empty: the execution itself, until it has ended. ``alive`` false: its worker
    sends no heartbeats; the next attempt keeps the slot.
    """

    execution_id: str
    step: str
    run: int
    priority: int
    since: Timestamp
    alive: bool
    lease_until: Timestamp | None


class LimitView(msgspec.Struct, frozen=True):
    """A limit with its holders and waiters.

    ``source``: whether the numbers come from a playbook or an operator. ``holders`` (the oldest first) lists some of ``in_use``, and
    ``first`` (the next first) some of ``waiting``. ``next_at``: when the rate admits again; null: now, or there is no rate.
    """

    key: str
    concurrent: int | None
    rate: float | None
    per: float
    burst: int
    source: Literal["operator", "playbook"]
    principal: str
    in_use: int
    waiting: int
    oldest_wait: float | None
    next_at: Timestamp | None
    holders: list[UseView]
    first: list[UseView]


class WaitView(msgspec.Struct, frozen=True):
    """The reason why a part of an execution waits, as a text and as fields.

    ``step`` empty: the execution itself has not begun.
    """

    key: str
    step: str
    run: int
    reason: str
    since: Timestamp
    position: int | None = None
    in_use: int | None = None
    limit: int | None = None
    holders: list[str] = []
    next_at: Timestamp | None = None


def list_limits(store: LimitStore, *, limit: int, after: str = "") -> list[LimitView]:
    return [view(one) for one in store.limit_keys(after=after, limit=limit)]


def find_limit(store: LimitStore, key: str) -> LimitView:
    """Return a limit. Raises NotFoundError."""
    found = store.limit_keys(key=_key(key), limit=1)
    if not found:
        raise _unknown(key)
    return view(found[0])


def set_limit(store: LimitStore, key: str, request: LimitRequest, principal: str) -> LimitView:
    """Set a limit.

    Raises InvalidInputError for an invalid key or limit. A limit that a playbook names may have any key; it is listed, and can be removed.
    """
    if not _key(key).isprintable():
        raise InvalidInputError(
            f"{key[:40]!r} has characters that are not printed",
            code="invalid_limit",
            hint="a key that people set has letters, digits, signs and spaces",
        )
    if request.concurrent is None and request.rate is None:
        hint = "give concurrent (how many at once), or rate (how many every `per` seconds), or both"
        raise InvalidInputError("the limit bounds nothing", code="invalid_limit", hint=hint)
    _between("concurrent", request.concurrent, 0, _HIGHEST)
    _between("rate", request.rate, 1e-6, 1e9)
    _between("per", request.per, 1e-3, 366 * 86_400)
    _between("burst", request.burst, 1, _HIGHEST)
    store.set_limit(key, Numbers(request.concurrent, request.rate, request.per, request.burst), principal)
    return find_limit(store, key)


def _between(name: str, value: float | None, lowest: float, highest: float) -> None:
    if value is not None and not lowest <= value <= highest:
        raise InvalidInputError(
            f"{name} is {number_text(value)}",
            code="invalid_limit",
            hint=f"from {lowest:g} to {highest:g}",
        )


def remove_limit(store: LimitStore, key: str) -> None:
    """Remove an operator's limit. Raises NotFoundError when no operator has set ``key``."""
    if not store.remove_limit(_key(key)):
        raise _unknown(key)


def _unknown(key: str) -> NotFoundError:
    return NotFoundError(
        f"there is no limit for {key[:80]!r}",
        code="limit_not_found",
        hint="`noetl limit list` shows the keys there are; those of executions begin with execution:",
    )


def _key(key: str) -> str:
    check_text(LIMIT_KEY, key.removeprefix(EXECUTIONS), "the key of a limit", code="invalid_limit")
    if not key or "\0" in key or any("\ud800" <= char <= "\udfff" for char in key):
        raise InvalidInputError(
            f"{key[:40]!r} cannot be a key",
            code="invalid_limit",
            hint=f"text of 1 to {LIMIT_KEY.value} characters",
        )
    return key


def view(state: KeyState) -> LimitView:
    numbers = state.numbers
    return LimitView(
        state.key,
        numbers.concurrent,
        numbers.rate,
        numbers.per,
        numbers.burst,
        state.source,
        state.principal,
        state.in_use,
        state.waiting,
        min((one.since for one in state.first), default=None),
        maybe_timestamp(state.next_at),
        [_use(one) for one in state.holders],
        [_use(one) for one in state.first],
    )


def _use(use: KeyUse) -> UseView:
    return UseView(
        str(use.execution_id),
        use.step,
        use.run,
        use.priority,
        Timestamp(use.since),
        use.alive,
        maybe_timestamp(use.lease_until),
    )


def waits(store: LimitStore, execution_id: int) -> list[WaitView]:
    """Why an execution, or what is under way in it, waits for keys; the slots first."""
    return [_wait(one) for one in store.waits_of(execution_id)]


def _wait(wait: Wait) -> WaitView:
    if wait.at is not None:
        at = datetime.fromtimestamp(wait.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        reason = f"waits for its moment: the rate of key {wait.key!r}; next at {at}"
        return WaitView(
            wait.key, wait.step, wait.run, reason, Timestamp(wait.since), next_at=Timestamp(wait.at)
        )
    holders = [str(one) for one in wait.holders]
    return WaitView(
        wait.key,
        wait.step,
        wait.run,
        f"waits for key {wait.key!r}: {wait.in_use} of {wait.most} in use{_by(holders)}, position {wait.position}",
        Timestamp(wait.since),
        wait.position,
        wait.in_use,
        wait.most,
        holders,
    )


def _by(holders: Sequence[str]) -> str:
    return f" by {', '.join(holders)}" if holders else ""
