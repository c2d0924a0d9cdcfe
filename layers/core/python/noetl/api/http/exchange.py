"""Requests and answers, independent of their carrier: API Gateway, or the local server."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from noetl.domain import codec, ids
from noetl.system_calls.short_calls import random_bytes

JSON = "application/json"
PROBLEM = "application/problem+json"
BYTES = "application/octet-stream"
_BYTES_OF_BITS = -(-ids.RANDOM_BITS // 8)


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of a request.

    ``name`` is recorded with every change; ``account`` owns idempotency keys (the same for every session of a role).
    ``kind``: iam, jwt or local. ``token``: which one of all the tokens that ever had this account's name; empty where there are none.
    """

    name: str
    kind: str
    account: str
    scopes: frozenset[str]
    token: str = ""


ANYBODY = Principal("", "", "", frozenset())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _random_bits() -> int:
    # They stand beside a millisecond; the store refuses an id that is taken, and the next one is tried.
    return int.from_bytes(random_bytes(_BYTES_OF_BITS)) >> (8 * _BYTES_OF_BITS - ids.RANDOM_BITS)


def drawn_name() -> str:
    """Return a name that no other request has."""
    return random_bytes(8).hex()


def _unknown_user() -> None:
    """Return None: nothing is known of who sends the request."""


def _still_there() -> bool:
    """Return False: nothing is known of the client's connection."""
    return False


@dataclass(frozen=True, slots=True)
class Request:
    """A request, whichever server received it.

    ``headers``: by name in lower case. ``base``: what stands before the path at a gateway (its stage). ``params``: parts of the path, as
    they stand in it. ``now_ms``, ``bits``, ``origin`` and ``again``: ids are made from the request, so that doing it again after a lost
    connection makes the same ones. ``user``: looks up which user of this machine sends it; None: that is not known. ``gone``: whether the
    client has closed its connection, as far as this process knows.
    """

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    principal: Principal = ANYBODY
    request_id: str = ""
    base: str = ""
    now_ms: int = field(default_factory=_now_ms)
    bits: int = field(default_factory=_random_bits)
    origin: str = field(default_factory=drawn_name)
    again: bool = False
    user: Callable[[], int | None] = _unknown_user
    gone: Callable[[], bool] = _still_there


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request.

    ``value``: anything that is JSON (structs too); ``text`` instead, when it is encoded already. Only the server of one machine
    sends ``content``, bytes of any length (a tuple: all of them at once), and ``events``, parts that arrive over time.
    """

    status: int
    value: Any = None
    text: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = JSON
    content: Iterable[bytes] | None = None
    events: AsyncGenerator[bytes, None] | None = None

    def body(self) -> str:
        return codec.encode(self.value).decode() if self.text is None else self.text
