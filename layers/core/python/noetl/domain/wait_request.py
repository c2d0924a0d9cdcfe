"""The request of a ``wait`` task, read from its rendered parameters.

The worker and the engine read it in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from noetl.domain import codec
from noetl.domain.callbacks import MAX_MESSAGE, MAX_SCHEMA
from noetl.domain.durations import HINT, seconds_of
from noetl.domain.errors import TaskError
from noetl.domain.outcomes.outcomes import CallbackRequest, WaitRequest
from noetl.domain.sizes.gate import find_too_deep
from noetl.domain.sizes.table import SCHEMA_DEPTH, WAIT_SECONDS

MAX_SECONDS = WAIT_SECONDS.value
"""The longest wait."""
WAYS = ("seconds", "until", "callback", "approve")
_KNOWN = frozenset({*WAYS, "timeout", "message", "schema"})
_OF_CALLBACKS = ("timeout", "message", "schema")


def wait_request(given: Mapping[str, Any]) -> WaitRequest:
    """Raises TaskError(kind="schema", code="kind_params") naming the parameter."""
    fields = {name: value for name, value in given.items() if value is not None and value is not False}
    if unknown := sorted(fields.keys() - _KNOWN):
        raise _refused(unknown[0], f"wait has no parameter {unknown[0][:40]!r}")
    callback = _flag(fields, "callback") | _flag(fields, "approve")
    if ("seconds" in fields) + ("until" in fields) + callback != 1:
        raise _refused("seconds", "give one of `seconds`, `until` and `callback: true`")
    if not callback:
        for name in _OF_CALLBACKS:
            if name in fields:
                raise _refused(name, f"{name!r} belongs to a callback; a wait for time has none")
        seconds = _seconds(fields["seconds"], "seconds") if "seconds" in fields else None
        return WaitRequest(seconds, moment_of(fields["until"]) if "until" in fields else None)
    timeout = _seconds(fields["timeout"], "timeout") if "timeout" in fields else None
    if timeout == 0:
        raise _refused("timeout", "'timeout' is 0: give the seconds that an answer may take")
    return WaitRequest(
        callback=True,
        timeout=timeout,
        message=str(fields.get("message", ""))[:MAX_MESSAGE],
        approve=_flag(fields, "approve"),
        schema=_schema(fields.get("schema")),
    )


def within(wait: WaitRequest, timeout: float | None) -> WaitRequest:
    """Limit a callback to ``spec.timeout`` of its task, unless it has its own time."""
    if not wait.callback or not timeout or wait.timeout is not None:
        return wait
    return msgspec.structs.replace(wait, timeout=min(timeout, float(MAX_SECONDS)))


def callback_request(wait: WaitRequest, serial: int, task: str) -> CallbackRequest:
    """``wait`` as the ``serial``-th callback of its pipeline."""
    return CallbackRequest(serial, task, wait.timeout, wait.message, wait.approve, wait.schema)


def moment_of(text: Any) -> float:
    """Epoch seconds of an ISO time with its offset.

    Raises TaskError(kind="schema", code="kind_params").
    """
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
        if found is not None and found.tzinfo is not None:
            return found.timestamp()
    except (ValueError, OverflowError):
        pass
    raise _refused(
        "until",
        f"'until' is {str(text)[:60]!r}, which is no moment",
        "an ISO time with its offset, such as 2026-11-21T10:00:00Z or 2026-11-21T11:00:00+01:00",
    )


def iso(at: float) -> str:
    """Epoch seconds → ``2026-11-21T10:00:00Z``."""
    found = datetime.fromtimestamp(at, UTC)
    kind = "milliseconds" if found.microsecond else "seconds"
    return found.isoformat(timespec=kind).replace("+00:00", "Z")


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise _refused(name, f"{name!r} must be true or false, not {str(value)[:40]!r}")
    return value


def _seconds(value: Any, name: str) -> float:
    found = seconds_of(value)
    if found is None or not 0 <= found <= MAX_SECONDS:
        raise _refused(
            name, f"{name!r} must be from 0 to {MAX_SECONDS} seconds, not {str(value)[:40]!r}", HINT
        )
    return found


def _schema(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        what = "is no mapping"
    elif len(codec.encode(value)) > MAX_SCHEMA:
        what = f"is larger than {MAX_SCHEMA} bytes"
    elif find_too_deep(value, SCHEMA_DEPTH) is not None:
        what = f"has more than {SCHEMA_DEPTH.value} levels of lists and mappings"
    else:
        return value
    raise _refused("schema", f"'schema' {what}", "a JSON Schema of what a callback may say")


def _refused(field: str, message: str, hint: str | None = None) -> TaskError:
    return TaskError(
        f"wait: {message}",
        kind="schema",
        code="kind_params",
        hint=hint or "see the parameters of the kind wait",
        details={"field": field},
    )
