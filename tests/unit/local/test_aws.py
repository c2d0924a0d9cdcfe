"""Names of functions, answers, and following logs."""

from __future__ import annotations

import io
import itertools
import json
from typing import Any

import pytest

from noetl.domain.errors import NotFoundError
from noetl.local import aws
from tests.parts import over

DEPLOYED = ["noetl-local-api", "noetl-local-worker-io", "unrelated"]


@over(
    ("name", "expected"),
    [
        ("api", "noetl-local-api"),
        ("worker-io", "noetl-local-worker-io"),
        ("noetl-local-api", "noetl-local-api"),
        ("unrelated", "unrelated"),
    ],
)
def test_a_function_is_found_by_its_short_and_its_full_name(name: str, expected: str) -> None:
    assert aws.resolve(name, DEPLOYED, "local") == expected


def test_an_unknown_function_is_told_with_those_there_are() -> None:
    with pytest.raises(NotFoundError, match="'pai'") as caught:
        aws.resolve("pai", DEPLOYED, "local")
    assert caught.value.hint == "there are: api, worker-io"
    with pytest.raises(NotFoundError) as caught:
        aws.resolve("api", [], "local")
    assert "noetl local up" in str(caught.value.hint)


class _Lambda:
    def __init__(self, payload: bytes, error: str | None = None) -> None:
        self._answer = {"Payload": io.BytesIO(payload)} | ({"FunctionError": error} if error else {})
        self.sent: Any = None

    def invoke(self, **call: Any) -> dict[str, Any]:
        self.sent = call
        return self._answer


@over(
    ("payload", "error", "expected"),
    [
        (b'{"a": 1}', None, ({"a": 1}, None)),
        (b"null", None, (None, None)),
        (b"", None, (None, None)),
        (
            b'{"errorType": "ValueError", "errorMessage": "no", "stackTrace": ["x"]}',
            "Unhandled",
            (None, {"type": "ValueError", "message": "no"}),
        ),
        (b'"odd"', "Unhandled", (None, {"type": "Unhandled", "message": "odd"})),
    ],
)
def test_an_error_is_its_type_and_message(payload: bytes, error: str | None, expected: Any) -> None:
    lambdas = _Lambda(payload, error)
    assert aws.invoke(lambdas, "f", {"k": "ü"}) == expected
    assert json.loads(lambdas.sent["Payload"]) == {"k": "ü"}


class _Logs:
    """Log groups that grow between two questions."""

    class exceptions:  # noqa: N801
        class ResourceNotFoundException(Exception):  # noqa: N818
            pass

    def __init__(self, *growth: list[tuple[int, str]]) -> None:
        self._growth = list(itertools.accumulate(growth))
        self.asked: list[int] = []

    def get_paginator(self, name: str) -> _Logs:
        return self

    def paginate(self, logGroupName: str, startTime: int) -> Any:  # noqa: N803
        if logGroupName == "missing":
            raise self.exceptions.ResourceNotFoundException
        self.asked.append(startTime)
        known = self._growth.pop(0) if len(self._growth) > 1 else self._growth[0]
        yield {"events": [{"timestamp": at, "message": text} for at, text in known if at >= startTime]}


def test_lines_come_once_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aws, "FOLLOW_SECONDS", 0)
    logs = _Logs([(5, "a"), (5, "a"), (3, "first\n")], [(5, "late"), (5, "a")], [], [(9, "b")])
    followed = aws.log_lines(logs, {"f": "group"}, 0.001, follow=True)
    lines = [entry["line"] for entry in itertools.islice(followed, 6)]
    assert lines == ["first", "a", "a", "a", "late", "b"]
    assert logs.asked[0] == 1 and logs.asked[-1] == 5


def test_a_function_that_never_ran_has_no_lines() -> None:
    assert list(aws.log_lines(_Logs([]), {"f": "missing"}, 0, follow=False)) == []
