"""The document of a test file: its allowed entries, and its JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, PlainValidator, Tag, WithJsonSchema, model_validator

from noetl.domain.durations import HINT, PATTERN, parse_duration
from noetl.dsl.model.types import Strict, problem

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Status = Literal["completed", "failed", "cancelled", "waiting", "running"]
Names = dict[str, Any]


def _seconds(value: Any) -> Any:
    found = parse_duration(value) if isinstance(value, str) else value
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 <= found < 1e10:
        raise problem("wrong-type", f"a duration cannot be {value!r}", HINT)
    return value


Seconds = Annotated[
    Any,
    PlainValidator(_seconds),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "exclusiveMaximum": 1e10},
                {"type": "string", "pattern": PATTERN},
            ]
        }
    ),
]


class ErrorReply(Strict):
    """A failure of the tool; ``kind`` as in the language's list of error kinds."""

    kind: str = "unknown"
    code: str | None = None
    message: str = "a failure of this test"
    status: int | None = None
    retryable: bool = False
    hint: str | None = None
    details: dict[str, Any] = Field(default_factory=dict)


def epoch(value: Any) -> float:
    """Return ``now`` as epoch seconds. Raises ValueError.

    It is a number, or ISO 8601 text (UTC unless it says otherwise).
    """
    if isinstance(value, str):
        at = datetime.fromisoformat(value)
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(value)
    return float(value)


def _start(value: Any) -> Any:
    try:
        found = epoch(value)
    except (ValueError, OverflowError):
        found = -1.0
    if not 0 <= found < 1e11:
        raise problem(
            "wrong-value", f"{value!r} is no moment", 'write now: "2027-01-31T09:00:00Z", or epoch seconds'
        )
    return value


Start = Annotated[Any, PlainValidator(_start), WithJsonSchema({"type": ["string", "number"]})]

FORMS: Mapping[str, frozenset[str]] = {
    "http": frozenset({"status", "body", "headers"}),
    "rows": frozenset({"rows", "columns"}),
    "affected": frozenset({"affected_rows"}),
    "result": frozenset({"result", "meta"}),
    "error": frozenset({"error"}),
}
"""What a reply is made of: keys of exactly one of these."""


class Reply(Strict):
    """One answer of a tool, in the form of its kind, or ``result`` and ``error`` for any kind."""

    status: Annotated[int, Field(ge=100, le=599)] = 200
    body: Any = None
    headers: dict[str, str] = Field(default_factory=dict)
    rows: list[dict[str, Any]] = Field(default_factory=list)
    columns: list[str] | None = None
    affected_rows: Annotated[int, Field(ge=0)] = 0
    result: Any = None
    meta: dict[str, Any] = Field(default_factory=dict)
    error: ErrorReply = ErrorReply()
    delay: Seconds = 0

    @model_validator(mode="after")
    def _one_form(self) -> Reply:
        check_form(self.model_fields_set)
        return self


def check_form(keys: Iterable[str]) -> str:
    """Which form a reply with these keys has. Raises a problem when it is none, or two."""
    written = set(keys) - {"delay", "when"}
    found = [form for form, names in FORMS.items() if names & written]
    if len(found) == 1:
        return found[0]
    if found:
        raise problem(
            "reply-form",
            f"a reply has one form, not {' and '.join(sorted(written))}",
            "write status/body for http, rows for SQL, or result, or error",
        )
    raise problem(
        "reply-form", "a reply says nothing", "write body: …, rows: [...], result: … or error: {kind: …}"
    )


class Choice(Reply):
    """A reply to some calls.

    It answers calls whose parameters are these (``when``), or all others (``default``); ``replies`` answer one call after the other.
    """

    when: dict[str, Any] = Field(default_factory=dict)
    default: Reply | None = None
    replies: list[Reply] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_form(self) -> Choice:
        written = self.model_fields_set
        if "default" in written:
            if written != {"default"}:
                raise problem(
                    "reply-form", "`default` is the only key of its reply", "write - default: {body: …}"
                )
        elif "replies" in written:
            if written != {"when", "replies"} or not self.replies:
                raise problem(
                    "reply-form",
                    "`replies` is a list that answers the calls of a `when`",
                    "write - {when: {…}, replies: [...]}",
                )
        else:
            check_form(written)
        return self


def _shape_of(value: Any) -> str:
    return "<list>" if isinstance(value, list) else "<one>"


Script = Annotated[
    Annotated[Reply, Tag("<one>")] | Annotated[list[Choice], Tag("<list>"), Field(min_length=1)],
    Discriminator(_shape_of),
]
"""What answers the calls of a step or task."""


def is_choice(replies: list[Any]) -> bool:
    """Whether a list picks its reply by the call (``when``, ``default``), not by its number."""
    return any(isinstance(one, Mapping) and one.keys() & {"when", "default"} for one in replies)


class TokenBlock(Strict):
    step: str
    args: dict[str, Any] = Field(default_factory=dict)


def _moment(value: Any) -> Any:
    calls = value.get("calls") if isinstance(value, dict) and value.keys() == {"calls"} else None
    if value == "idle" or (isinstance(calls, int) and calls > 0 and calls is not True):
        return value
    raise problem("wrong-value", f"{value!r} is no moment", "write at: 30s, when: idle or when: {calls: 2}")


Moment = Annotated[
    Any,
    PlainValidator(_moment),
    WithJsonSchema(
        {
            "anyOf": [
                {"const": "idle"},
                {
                    "type": "object",
                    "properties": {"calls": {"type": "integer", "minimum": 1}},
                    "required": ["calls"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


class RedriveBlock(Strict):
    """A redrive.

    ``step`` empty: from its failure. ``args``: of the step; without them those of its last run. ``output``: what the step leaves with,
    instead of being run.
    """

    step: str = ""
    args: dict[str, Any] | None = None
    output: Any = None


class CallbackBlock(Strict):
    """An answer to a callback.

    ``step``: what it waits for (``index``: its item; ``serial``: which callback of its pipeline). ``refused``: the code of the error that
    the answer gets.
    """

    step: str
    body: Any = None
    index: Annotated[int, Field(ge=0)] | None = None
    serial: Annotated[int, Field(ge=0)] | None = None
    refused: str | None = None


class OutsideEvent(Strict):
    """An event from outside, at a moment.

    It is a context patch, a token, a callback, a pause, a resume, a redrive or a cancel.
    """

    at: Seconds | None = None
    when: Moment = None
    patch: dict[str, Any] | None = None
    token: TokenBlock | None = None
    callback: CallbackBlock | None = None
    cancel: str | None = None
    pause: str | None = None
    resume: str | None = None
    redrive: RedriveBlock | None = None
    cascade: bool = True
    principal: str = ""
    reason: str = ""

    @model_validator(mode="after")
    def _complete(self) -> OutsideEvent:
        written = self.model_fields_set
        if len(written & {"at", "when"}) != 1:
            raise problem(
                "happening", "a happening has one moment", "write at: 30s, when: idle or when: {calls: 2}"
            )
        if len(written & {"patch", "token", "callback", "cancel", "pause", "resume", "redrive"}) != 1:
            raise problem(
                "happening",
                "a happening is one thing",
                "write patch: {name: value}, token or callback: {step: name}, redrive: {}, or pause, resume or cancel: why",
            )
        return self


class ExpectedError(Strict):
    """The expected error.

    What is written is compared: ``message`` and ``position`` as a part of the text, the rest as it is.
    """

    kind: str | None = None
    code: str | None = None
    message: str | None = None
    status: int | None = None
    step: str | None = None
    position: str | None = None
    retryable: bool | None = None
    hint: str | None = None
    details: dict[str, Any] | None = None


def _path(value: Any) -> Any:
    names = value if isinstance(value, list) else [value]
    if names and all(isinstance(name, str) for name in names):
        return value
    raise problem(
        "wrong-type",
        f"a path is made of step names, not {value!r}",
        "write a step's name, or a list of steps in any order",
    )


PathEntry = Annotated[
    Any,
    PlainValidator(_path),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
    ),
]


def _calls(value: Any) -> Any:
    counted = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if counted or (isinstance(value, list) and all(isinstance(one, dict) for one in value)):
        return value
    raise problem(
        "wrong-type",
        "calls are counted or listed",
        "write a number, or a list with the parameters of each call: [{url: …}]",
    )


ExpectedCalls = Annotated[
    Any,
    PlainValidator(_calls),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "array", "items": {"type": "object"}}]}
    ),
]


class Expectation(Strict):
    """The expected outcome of the case.

    What is not written is not checked, except ``status``: completed, and no error.
    """

    status: Status = "completed"
    result: Any = None
    result_has: Any = None
    error: ExpectedError | None = None
    path: list[PathEntry] = Field(default_factory=list)
    runs: dict[str, int] = Field(default_factory=dict)
    never: list[str] = Field(default_factory=list)
    calls: dict[str, ExpectedCalls] = Field(default_factory=dict)
    ctx: Names = Field(default_factory=dict)
    vars: Names = Field(default_factory=dict)
    elapsed: Seconds = 0
    events: list[str] = Field(default_factory=list)
    executions: dict[str, list[Status]] = Field(default_factory=dict)


class Shared(Strict):
    """What a case says, and ``defaults`` for all cases."""

    payload: Names = Field(default_factory=dict)
    now: Start = None
    tools: dict[str, Script] = Field(default_factory=dict)
    happenings: list[OutsideEvent] = Field(default_factory=list)
    order: Literal["forward", "reversed"] = "forward"
    credentials: dict[str, dict[str, Any]] = Field(default_factory=dict)
    unused_tools: bool = False
    expect: Expectation = Expectation()


class Case(Shared):
    """One run of the playbook."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    description: str = ""


class TestDocument(Strict):
    """A test file."""

    __test__ = False  # pytest

    playbook: str | None = None
    playbooks: list[str] = Field(default_factory=list)
    defaults: Shared = Shared()
    cases: list[Case] = Field(min_length=1)


def test_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of test files."""
    schema = TestDocument.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
    return {"$schema": DIALECT, **schema, "title": "Tests of a NoETL playbook"}


test_schema.__test__ = False  # type: ignore[attr-defined]
