"""Calls an HTTP API."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import KindSpec, TaskContext, TaskResult
from noetl.kinds.base import KindParams

SPEC = KindSpec(
    name="http",
    summary="Calls an HTTP API and gives its answer.",
    pool="io",
    default_timeout=30.0,
    aliases={"endpoint": "url", "payload": "body", "json": "body", "data": "body"},
    needs_network=True,
)

EXAMPLE: dict[str, Any] = {
    "method": "POST",
    "url": "https://api.example.com/orders",
    "params": {"expand": ["lines", "customer"]},
    "headers": {"Accept": "application/json"},
    "body": {"sku": "A-17", "quantity": 2},
    "auth": "shop_api",
    "timeout": {"connect": 3, "read": 10},
}

CONNECT_TIMEOUT = 10.0

Seconds = Annotated[float, Field(gt=0, le=86_400)]


class Timeouts(BaseModel):
    """Seconds to wait for a connection, and for each part of the answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    connect: Seconds | None = None
    read: Seconds | None = None


def _upper(value: Any) -> Any:
    return value.strip().upper() if isinstance(value, str) else value


class Save(BaseModel):
    """How a streamed body is kept."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["auto", "json", "jsonl", "csv", "parquet", "text", "bytes"] = Field(
        "auto", description="What the body is; `auto`: as its content type says, or its address."
    )


class Params(KindParams):
    """``url`` is required; everything else has a default."""

    refused: ClassVar[Mapping[str, str]] = {
        "verify": "TLS certificates are always verified; add your authority to the deployment's trust store",
        "proxies": "requests go out directly; proxies belong to the network of the deployment",
        "proxy": "requests go out directly; proxies belong to the network of the deployment",
    }
    sensitive = frozenset({"auth", "headers", "body", "form"})

    url: Annotated[str, Field(min_length=1, description="Absolute http or https URL.")]
    method: Annotated[
        Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"], BeforeValidator(_upper)
    ] = Field("GET", description="In any case; GET unless given.")
    params: dict[str, Any] | None = Field(None, description="Query parameters; a list repeats its name.")
    headers: dict[str, Any] | None = Field(None, description="Request headers.")
    body: Any = Field(None, description="Mappings, lists, numbers: sent as JSON. Text: sent as it is.")
    form: dict[str, Any] | None = Field(None, description="Sent URL-encoded, instead of `body`.")
    timeout: Seconds | Timeouts | None = Field(
        None, description="Seconds for the whole call, or `{connect, read}`."
    )
    auth: str | dict[str, Any] | None = Field(
        None, description="A credential's name, or `{type: basic|bearer|header, credential: …}`."
    )
    follow_redirects: bool = Field(True, description="Follow up to five redirects.")
    stream: bool = Field(False, description="Keep the body as a result of its own, never in memory.")
    save: Save | None = Field(None, description="The same, with `format`, where the answer does not tell it.")

    @model_validator(mode="after")
    def _one_body(self) -> Params:
        if self.body is not None and self.form is not None:
            raise ValueError("give either 'body' or 'form', not both")
        return self


def run(params: Params, context: TaskContext) -> TaskResult:
    """``{status_code, headers, url, elapsed, data}``; ``data`` of a streamed body is its reference.

    Raises TaskError: a status of 400 and above by its kind (docs/kinds.md), and what ``http_client.send`` raises.
    """
    from noetl.kinds.http_answer import envelope_of, failure_of, helper_of, result_of
    from noetl.kinds.http_client import send
    from noetl.kinds.http_save import Download

    streamed = params.stream or params.save is not None
    request, limits = _request(params, context), _limits(params, context, streamed=streamed)
    wanted = None if params.save is None or params.save.format == "auto" else params.save.format
    started = time.monotonic()
    with Download(context.artifacts, wanted) as download:
        take = download.take if streamed else None
        answer = send(request, limits, follow_redirects=params.follow_redirects, take=take)
        elapsed = time.monotonic() - started
        if answer.status >= 400 or answer.status < 200:
            raise failure_of(request, answer)
        if streamed:
            result = envelope_of(answer, elapsed, download.close())
        else:
            result = result_of(answer, elapsed)
            _refuse_oversized(result, len(answer.body), context.settings.output_max_bytes)
    return TaskResult(result, {"http": helper_of(answer)})


def _refuse_oversized(result: dict[str, Any], body_bytes: int, limit: int) -> None:
    """A result is measured as the JSON it becomes; escapes make a byte of the body at most six."""
    from noetl.kinds.http_client import MAX_HEADER_BYTES

    if body_bytes * 6 < limit - 2 * MAX_HEADER_BYTES:
        return
    size = len(codec.encode(result))
    if size > limit:
        raise TaskError(
            f"the answer takes {size} bytes as a result, at most {limit} are allowed",
            kind="storage_quota",
            code="result_too_large",
            details={"size": size, "limit": limit},
        )


def _request(params: Params, context: TaskContext) -> Any:
    from noetl.kinds.http_client import Request
    from noetl.kinds.http_request import Headers, add_auth, encode_body, with_query
    from noetl.kinds.net_guard import parse_url

    url = parse_url(params.url)
    if params.params:
        url = dataclasses.replace(url, path=with_query(url.path, params.params))
    headers = Headers()
    for name, value in (params.headers or {}).items():
        if value is not None:
            headers.set(name, value)
    secret = add_auth(params.auth, headers, context) if params.auth else frozenset()
    body = encode_body(params.body, params.form, headers)
    headers.default("Idempotency-Key", context.idempotency_key)
    headers.default("User-Agent", "noetl")
    headers.default("Accept", "*/*")
    headers.default("Accept-Encoding", "gzip, deflate")
    return Request(params.method, url, headers.as_dict(), body, secret)


def _limits(params: Params, context: TaskContext, *, streamed: bool) -> Any:
    from noetl.kinds.http_client import Limits
    from noetl.kinds.net_guard import Allowed

    given, settings = params.timeout, context.settings
    total = min(context.timeout, given) if isinstance(given, float) else context.timeout
    own = given if isinstance(given, Timeouts) else Timeouts()
    return Limits(
        total=total,
        connect=min(own.connect or CONNECT_TIMEOUT, total),
        read=min(own.read or total, total),
        body_bytes=settings.artifact_max_bytes if streamed else settings.http_max_bytes,
        allowed=Allowed(tuple(settings.http_allow)),
    )
