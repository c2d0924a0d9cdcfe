"""Requests by which a worker hands outcomes to the engine without a queue.

The worker is answered with the next commands of its own queue, leased to it. What fails is sent through the queues instead: an outcome
that was decided already is known by its event id, and a leased command without an answer is free when its lease is over.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from noetl.domain import codec
from noetl.domain.errors import InvalidInputError
from noetl.domain.sizes.table import DIRECT_BYTES

VERSION = 1
LEASE_SECONDS = 60.0
"""How long a command that was handed over in an answer stays its worker's without a sign of life."""
MOST_MESSAGES = 10
"""Messages of a kind in one request: as many as an invocation gets from a queue."""
MOST_BYTES = DIRECT_BYTES.value
"""Bytes of all messages of a request, and of all commands of its answer. Lambda takes 6 MB with everything around them."""
POOL = "direct"
"""The pool of these leases: a name that no worker has (infra/workers.py)."""


class DecideRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A worker's request with its outcomes.

    ``outcomes``, ``held``, ``back``: texts of messages as queues carry them. ``outcomes`` are decided. ``held`` and ``back`` are
    heartbeats of commands: of those that still run, and of those that the worker cannot end. ``most``: how many commands it takes in the
    answer. ``lease``: a name, drawn by the worker, of the lease of these commands. Outcomes that it sends through the queue because it
    was not answered carry the name, so that the engine frees what was leased in vain.
    """

    v: int
    outcomes: list[str] = []
    most: int = 0
    lease: str = ""
    held: list[str] = []
    back: list[str] = []


class DecideAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The engine's answer to outcomes.

    ``left``: places of the outcomes that were not decided; they have to go through the queue. ``commands``: texts of messages.
    """

    v: int
    left: list[int] = []
    commands: list[str] = []


_ANSWER: msgspec.json.Decoder[DecideAnswer] = codec.decoder(DecideAnswer)


def read_request(event: Any) -> DecideRequest:
    """Read what a function was invoked with. Raises InvalidInputError(code="request_invalid")."""
    try:
        found = codec.convert(event, DecideRequest)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidInputError(f"not a request: {error}", code="request_invalid") from error
    if found.v > VERSION:
        raise InvalidInputError(f"a request of version {found.v}; this is {VERSION}", code="request_invalid")
    if found.outcomes and not is_lease(found.lease):
        raise InvalidInputError("a lease is named by 16 to 64 hexadecimal digits", code="request_invalid")
    if max(len(found.outcomes), len(found.held), len(found.back)) > MOST_MESSAGES:
        raise InvalidInputError(
            f"a request has at most {MOST_MESSAGES} messages of a kind", code="request_invalid"
        )
    return found


def is_lease(name: str) -> bool:
    """Return whether ``name`` may name a lease.

    It is too long to be guessed: a process draws the first 24 digits, and counts in the last eight.
    """
    return re.fullmatch(r"[0-9a-f]{16,64}", name, re.ASCII) is not None


def read_answer(data: bytes) -> DecideAnswer:
    """Read what a function answered. Raises InvalidInputError(code="answer_invalid")."""
    try:
        return codec.decode_as(_ANSWER, data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidInputError(f"not an answer of the engine: {error}", code="answer_invalid") from error


def fitting(texts: Sequence[str], most: int) -> int:
    """Return how many of ``texts``, from the first on, a request or an answer takes."""
    size = 0
    for count, text in enumerate(texts[:most]):
        size += len(codec.encode(text))
        if size > MOST_BYTES:
            return count
    return min(len(texts), most)
