"""The kind ``wait``: waits for a time or a callback, without holding a worker.

The time is a duration or a moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from noetl.domain import codec
from noetl.domain.callbacks import MAX_MESSAGE
from noetl.domain.errors import TaskError
from noetl.domain.kinds import KindSpec, ParamProblem, TaskContext
from noetl.domain.outcomes.outcomes import WaitRequest
from noetl.domain.sizes.table import CALLBACK_SCHEMA
from noetl.domain.wait_request import MAX_SECONDS, moment_of, wait_request
from noetl.dsl.json_schema.check import schema_problem
from noetl.kinds.support.base import READ_SECONDS, KindParams, seconds_schema

SPEC = KindSpec(
    name="wait",
    summary="Waits for a time or for a callback from outside, and holds no worker meanwhile.",
    pool="control",
    default_timeout=float(MAX_SECONDS),
    raw_fields=("schema",),
    aliases={"for": "seconds"},
    codes=("callback_timeout",),
)

EXAMPLE: dict[str, Any] = {
    "callback": True,
    "timeout": 86_400,
    "message": "Refund 40 EUR to {{ workload.customer }}?",
    "approve": True,
    "schema": {"type": "object", "required": ["approved"], "properties": {"approved": {"type": "boolean"}}},
}


_Wait = Annotated[float, Field(ge=0, le=MAX_SECONDS), READ_SECONDS, seconds_schema(0, MAX_SECONDS)]
_Answer = Annotated[float, Field(gt=0, le=MAX_SECONDS), READ_SECONDS, seconds_schema(0, MAX_SECONDS)]


class Params(KindParams):
    """One of ``seconds``, ``until`` and ``callback`` is required."""

    seconds: _Wait | None = Field(None, description="How long to wait: seconds, or 10m; also called `for`.")
    until: str | None = Field(
        None, description="ISO time with its offset; what has passed already is not waited for."
    )
    callback: bool = Field(
        False, description="Wait until a client calls `callback.url`; the body is the result."
    )
    timeout: _Answer | None = Field(
        None, description="How long a callback may take; then the task fails with `callback_timeout`."
    )
    message: str = Field("", description=f"What it is about, for people; {MAX_MESSAGE} characters are kept.")
    approve: bool = Field(
        False, description="A callback that people answer: `callback.url` is a page to approve or reject."
    )
    schema_: dict[str, Any] | None = Field(
        None, alias="schema", description="JSON Schema that the body of the callback has to fit."
    )

    @model_validator(mode="after")
    def _one_way(self) -> Params:
        callback = bool(self.callback or self.approve)
        if (self.seconds is not None) + (self.until is not None) + callback != 1:
            raise ValueError("give one of `seconds`, `until` and `callback: true`")
        if not callback and (self.timeout is not None or self.message or self.schema_ is not None):
            raise ValueError("`timeout`, `message` and `schema` belong to a callback")
        return self


def check(params: Mapping[str, Any]) -> Iterable[ParamProblem]:
    """Check a moment and a schema that are written out, before anything runs."""
    until, schema = params.get("until"), params.get("schema")
    if isinstance(until, str):
        try:
            moment_of(until)
        except TaskError as error:
            yield ParamProblem(("until",), error.message.removeprefix("wait: "), error.hint)
    if isinstance(schema, Mapping) and (size := len(codec.encode(dict(schema)))) > CALLBACK_SCHEMA.value:
        problem_text = f"'schema' has {size} bytes, more than {CALLBACK_SCHEMA.value}"
        yield ParamProblem(("schema",), problem_text, "check the rest of the body in the step that follows")
    elif isinstance(schema, Mapping) and (problem := schema_problem(dict(schema))):
        where = "/".join(str(part) for part in problem.path)
        problem_text = f"{where}: {problem.message}" if where else problem.message
        yield ParamProblem(
            ("schema", *problem.path), f"'schema' is no JSON Schema: {problem_text}", problem.hint
        )


def run(params: Params, context: TaskContext) -> WaitRequest:
    """Return what the engine waits for: the pipeline continues when that is over."""
    given = params.model_dump(by_alias=True, exclude_defaults=True)
    return wait_request(given)
