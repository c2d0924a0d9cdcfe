"""Moments as people and programs outside read them: RFC 3339, in UTC, with a Z."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec

_LAST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
"""Calendars end there; a moment that lies further ahead is shown as this one."""

TimeText = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
"""A moment that is text already."""


class Timestamp(float):
    """A moment of an answer: epoch seconds here, RFC 3339 in JSON (``domain/codec.py``)."""


def rfc3339(at: float) -> str:
    """Return epoch seconds as RFC 3339 with microseconds."""
    moment = datetime.fromtimestamp(min(max(at, 0.0), _LAST), UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def read_timestamp(value: object) -> Timestamp:
    """Read a timestamp of JSON; a server of an earlier version answers epoch seconds.

    Raises ValueError.
    """
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise ValueError("a time without an offset")
        return Timestamp(moment.timestamp())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Timestamp(value)
    raise ValueError("no time")


def maybe_timestamp(at: float | None) -> Timestamp | None:
    """Return a moment that may be missing."""
    return None if at is None else Timestamp(at)
