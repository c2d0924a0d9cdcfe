"""Hints of changes by topic: the topics, and which of them changed since a cursor.

A cursor holds a digest for each topic, so it needs no memory of the server: a client can continue at another process, or after a restart.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

import msgspec

from noetl.api.http.problems import BadRequestError
from noetl.domain import codec
from noetl.ports.executions.execution_store import NEWEST, LoopPulse, Pulse

MOST_TOPICS = 64
"""Topics that one request may watch."""
LIST = "executions"
_ONE = re.compile(r"execution:([1-9]\d{0,18})", re.ASCII)
_CURSOR = re.compile(r"(?:[0-9a-f]{12}(?:\.[0-9a-f]{12}){0,63})?", re.ASCII)


class LoopChange(msgspec.Struct, frozen=True):
    """How far a loop is."""

    run: int
    round: int
    step: str
    done: int
    failed: int
    total: int


class Change(msgspec.Struct, frozen=True):
    """A hint: read the topic again.

    ``status``: ``gone`` when the execution is not there; empty of the list. ``version`` of the list is another number
    after each change.
    """

    topic: str
    version: int
    seq: int
    status: str
    loops: list[LoopChange]


def read_topics(text: str) -> dict[str, int]:
    """Return topics with the ids they are about. Raises BadRequestError."""
    words = list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not words or len(words) > MOST_TOPICS:
        raise _bad(f"topics names {len(words)} topics", f"name 1 to {MOST_TOPICS}, with commas")
    return {word: _id(word) for word in words}


def read_cursor(text: str) -> frozenset[str]:
    """Return the digests of a cursor. Raises BadRequestError."""
    if not _CURSOR.fullmatch(text):
        raise BadRequestError(
            f"{text[:40]!r} is not a cursor",
            code="invalid_cursor",
            hint="pass on `next`, or the id of the last event, unchanged",
        )
    return frozenset(text.split("."))


def changed(
    topics: Mapping[str, int], pulses: Mapping[int, Pulse], known: frozenset[str]
) -> tuple[list[Change], frozenset[str]]:
    """Compare topics with the digests that a client has.

    Return the changes, and the digests that it has after them.
    """
    now = {topic: change_of(topic, pulses.get(about)) for topic, about in topics.items()}
    digests = {topic: _digest(change) for topic, change in now.items()}
    return [now[topic] for topic, one in digests.items() if one not in known], frozenset(digests.values())


def cursor(digests: frozenset[str]) -> str:
    """Return digests as a cursor."""
    return ".".join(sorted(digests))


def change_of(topic: str, found: Pulse | None) -> Change:
    """Return a topic as it is now."""
    if topic == LIST:
        return Change(topic, found.version if found else 0, 0, "", [])
    if found is None:
        return Change(topic, 0, 0, "gone", [])
    return Change(topic, found.version, found.seq, found.status, [_loop(one) for one in found.loops])


def events(changes: Sequence[Change], after: str) -> bytes:
    """Return changes as server-sent events; the last one carries the cursor."""
    parts = [b"event: change\ndata: " + codec.encode(one) + b"\n" for one in changes]
    return b"\n".join(parts) + b"id: " + after.encode() + b"\n\n" if parts else b""


def _loop(one: LoopPulse) -> LoopChange:
    return LoopChange(one.run, one.round, one.step, one.done, one.failed, one.total)


def _digest(change: Change) -> str:
    return hashlib.sha256(codec.encode(change)).hexdigest()[:12]


def _id(topic: str) -> int:
    if topic == LIST:
        return NEWEST
    found = _ONE.fullmatch(topic)
    if found is None or int(found[1]) >= 2**63:
        raise _bad(f"{topic[:60]!r} is not a topic", "topics are `executions` and `execution:ID`")
    return int(found[1])


def _bad(detail: str, hint: str) -> BadRequestError:
    return BadRequestError(detail, code="invalid_parameter", hint=hint)
