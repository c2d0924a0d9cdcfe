"""The kind ``lambda``: calls an AWS Lambda function and returns its answer."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import KindSpec, TaskContext, TaskResult
from noetl.kinds.cloud.aws_client import AwsParams, answering, client
from noetl.kinds.support.foreign_json import foreign_value

SPEC = KindSpec(
    name="lambda",
    summary="Calls an AWS Lambda function.",
    pool="io",
    default_timeout=300.0,
    aliases={"function_name": "function", "body": "payload"},
    needs_network=True,
    extra="aws",
)

EXAMPLE: dict[str, Any] = {"function": "score-customer", "payload": {"customer": 17}}

MOST_SYNC = 6 * 1024 * 1024
MOST_ASYNC = 1024 * 1024
"""Bytes of a payload (quotas of Lambda: synchronous, asynchronous)."""
LOG_TAIL = 2000


class Params(AwsParams):
    """``function`` with ``payload``; the task's ``args`` when there is none."""

    refused: ClassVar[Mapping[str, str]] = {
        "invocation_type": "write `wait: false` for a call whose result no step needs",
    }

    function: Annotated[
        str,
        Field(
            pattern=r"^(arn:aws[a-z-]*:lambda:[a-z0-9-]+:\d{12}:function:)?[A-Za-z0-9_-]{1,140}(:[A-Za-z0-9$_-]{1,128})?$",
            description="Name or ARN, with a version or alias behind a colon.",
        ),
    ]
    payload: Annotated[Any, Field(description="Its event; default: the task's args.")] = None
    qualifier: Annotated[
        str | None, Field(pattern=r"^[A-Za-z0-9$_-]{1,128}$", description="Version or alias.")
    ] = None
    wait: Annotated[bool, Field(description="false: hand the event over and continue.")] = True


def run(params: Params, context: TaskContext) -> TaskResult:
    """Invoke the function and return its result, or ``{status: accepted}`` without waiting.

    The function sees the task's idempotency key in its client context.

    Raises TaskError: ``function_error`` (kind transform; ``details``: the function's error, the end of its log),
    ``payload_too_large``, or the code of Lambda.
    """
    data = codec.encode(dict(context.input) if params.payload is None else params.payload)
    most = MOST_SYNC if params.wait else MOST_ASYNC
    if len(data) > most:
        raise TaskError(
            f"the payload has {len(data)} bytes; Lambda takes {most}",
            kind="client_error",
            code="payload_too_large",
            hint="put it into a bucket, and its address into the payload",
        )
    request: dict[str, Any] = {
        "FunctionName": params.function,
        "InvocationType": "RequestResponse" if params.wait else "Event",
        "Payload": data,
    }
    if params.wait:
        about = {"custom": {"idempotency_key": context.idempotency_key}}
        request |= {"LogType": "Tail", "ClientContext": base64.b64encode(codec.encode(about)).decode()}
    if params.qualifier:
        request["Qualifier"] = params.qualifier
    service = client("lambda", params, context)
    with answering("lambda", params.function):
        answer = service.invoke(**request)
        payload = answer["Payload"].read() if params.wait else b""
    meta = {"lambda": {"status": answer["StatusCode"], "version": answer.get("ExecutedVersion")}}
    if not params.wait:
        return TaskResult({"status": "accepted"}, meta)
    if answer.get("FunctionError"):
        raise _failed(params.function, payload, answer)
    return TaskResult(_value(payload), meta)


def _value(payload: bytes) -> Any:
    try:
        return foreign_value(payload, "the answer of the function") if payload else None
    except (ValueError, RecursionError):
        return payload.decode("utf-8", "replace")


def _failed(function: str, raw: bytes, answer: Mapping[str, Any]) -> TaskError:
    """Classify a failed function.

    One that ran out of time or memory may succeed the next time; an exception of its code will not.
    """
    payload = _value(raw)
    error: Mapping[str, Any] = payload if isinstance(payload, dict) else {"errorMessage": str(payload)}
    message = str(error.get("errorMessage") or "it failed")
    log = base64.b64decode(answer.get("LogResult") or b"").decode("utf-8", "replace")
    late = "Task timed out" in message
    return TaskError(
        f"the function {function} failed: {message[:500]}",
        kind="timeout" if late else "transform",
        code="function_timeout" if late else "function_error",
        retryable=late,
        details={
            "error_type": error.get("errorType"),
            "message": message[:LOG_TAIL],
            "trace": [str(line)[:300] for line in (error.get("stackTrace") or ())][:10],
            "log": log[-LOG_TAIL:],
        },
    )
