"""Values that differ between any two executions, such as the time of a call.

They say nothing about where two executions part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from noetl.services.history.differences import differences
from noetl.services.queries.read_moment import ChangeView, change

_CALL_TIME = "the time that the call took"
_MOMENT = "the moment of the answer"
_NAME_OF_CALL = "a name that each call has"
_EXECUTION = "the id of an execution"

OF_ANSWERS: Mapping[str, str] = {"elapsed": _CALL_TIME}
"""Entries of an HTTP answer, and why they differ in every call."""

OF_HEADERS: Mapping[str, str] = {
    "age": _MOMENT,
    "date": _MOMENT,
    "expires": _MOMENT,
    "x-timer": _MOMENT,
    "server-timing": _CALL_TIME,
    "x-response-time": _CALL_TIME,
    "x-runtime": _CALL_TIME,
    "cf-ray": _NAME_OF_CALL,
    "request-id": _NAME_OF_CALL,
    "traceparent": _NAME_OF_CALL,
    "x-amz-cf-id": _NAME_OF_CALL,
    "x-amz-id-2": _NAME_OF_CALL,
    "x-amz-request-id": _NAME_OF_CALL,
    "x-amzn-requestid": _NAME_OF_CALL,
    "x-amzn-trace-id": _NAME_OF_CALL,
    "x-cloud-trace-context": _NAME_OF_CALL,
    "x-correlation-id": _NAME_OF_CALL,
    "x-github-request-id": _NAME_OF_CALL,
    "x-ms-request-id": _NAME_OF_CALL,
    "x-request-id": _NAME_OF_CALL,
    "x-trace-id": _NAME_OF_CALL,
}
"""Headers of an HTTP answer in lower case, and why they differ in every call."""

OF_MAPPINGS: Mapping[str, str] = {
    "execution_id": _EXECUTION,
    "child_execution_id": _EXECUTION,
    "parent_execution_id": _EXECUTION,
}
"""Entries of any mapping; only where the value has the form of an id."""

_ID = re.compile(r"\d{15,19}")


class ComparedChange(ChangeView, frozen=True):
    """One place that differs.

    ``by_nature``: why it differs between any two executions; such a place does not make a step run differ. Null: it does.
    """

    by_nature: str | None = None


@dataclass
class Essence:
    """What is left of a value of an execution without what differs by nature.

    ``reasons``: the places that were left out, with why.
    """

    own_id: str
    reasons: dict[str, str] = field(default_factory=dict)

    def of(self, value: Any, path: str = "", *, headers: bool = False) -> Any:
        """Return the essence of a value and note the places that are not in it.

        ``headers``: the value is those of an answer.
        """
        if isinstance(value, Mapping):
            answer = isinstance(value.get("headers"), Mapping) and "url" in value
            kept = {}
            for key, item in value.items():
                below = f"{path}.{key}" if path else str(key)
                why = _reason(str(key), item, answer=answer, headers=headers)
                if why is None:
                    kept[key] = self.of(item, below, headers=answer and key == "headers")
                else:
                    self.reasons[below] = why
            return kept
        if isinstance(value, list):
            return [self.of(item, f"{path}[{index}]") for index, item in enumerate(value)]
        if isinstance(value, str) and self.own_id in value:
            self.reasons[path] = _EXECUTION
            return value.replace(self.own_id, "")
        return value


def compared_changes(a: Any, b: Any, ids: tuple[str, str]) -> Iterator[ComparedChange]:
    """Yield the differences between values of two executions.

    Those by nature come last.
    """
    left, right = Essence(ids[0]), Essence(ids[1])
    parting = {path for path, _, _ in differences("", left.of(a), right.of(b))}
    reasons = {**left.reasons, **right.reasons}
    by_nature = []
    for path, one, other in differences("", a, b):
        if path in reasons and path not in parting:
            by_nature.append(_compared(path, one, other, reasons[path]))
        else:
            yield _compared(path, one, other, None)
    yield from by_nature


def _reason(key: str, value: Any, *, answer: bool, headers: bool) -> str | None:
    if headers:
        return OF_HEADERS.get(key.lower())
    if answer and key in OF_ANSWERS:
        return OF_ANSWERS[key]
    return OF_MAPPINGS[key] if key in OF_MAPPINGS and _ID.fullmatch(str(value)) else None


def _compared(path: str, left: Any, right: Any, why: str | None) -> ComparedChange:
    shown = change(path, left, right)
    return ComparedChange(shown.path, shown.kind, shown.before, shown.after, shown.omitted, why)
