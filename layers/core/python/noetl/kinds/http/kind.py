"""The kind ``http``: calls an HTTP API."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from noetl.domain.kinds import KindSpec, ParamProblem, TaskContext, TaskResult
from noetl.kinds.http.params import Paginate, Part, Save
from noetl.kinds.http.params import Params as Params
from noetl.kinds.support.nested_params import nested_problems

SPEC = KindSpec(
    name="http",
    summary="Calls an HTTP API and returns its answer.",
    pool="io",
    default_timeout=30.0,
    aliases={"endpoint": "url", "payload": "body", "json": "body", "data": "body"},
    ref_fields=("body_from", "multipart"),
    result_fields=("status_code", "headers", "url", "elapsed", "data", "body"),
    codes=(
        *(
            "connect_failed",
            "connection_lost",
            "connect_timeout",
            "read_timeout",
            "tls_failed",
            "bad_response",
        ),
        *(
            "dns_failed",
            "dns_timeout",
            "headers_too_large",
            "invalid_json",
            "content_encoding",
            "url_invalid",
        ),
        *("response_too_large", "header_invalid", "value_invalid", "too_many_redirects", "address_refused"),
        *(
            "pagination",
            "page_elsewhere",
            "too_many_pages",
            "auth_invalid",
            "auth_missing",
            "credential_shape",
        ),
        *(
            "file_not_found",
            "file_unreadable",
            "file_changed",
            "path_outside",
            "path_invalid",
            "name_invalid",
        ),
        *("no_folder", "format_unknown", "checksum", "request_invalid"),
        *(f"http_{status}" for status in range(400, 600)),
    ),
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


def check(params: Mapping[str, Any]) -> Iterator[ParamProblem]:
    """Mappings inside the parameters that templates stand in."""
    yield from nested_problems(Paginate, params.get("paginate"), ("paginate",), "`paginate`")
    yield from nested_problems(Save, params.get("save"), ("save",), "`save`")
    fields = params.get("multipart")
    for name, given in fields.items() if isinstance(fields, Mapping) else ():
        if not isinstance(given, list):
            yield from nested_problems(Part, given, ("multipart", name), f"the field {name!r}")
        else:
            for at, one in enumerate(given):
                yield from nested_problems(Part, one, ("multipart", name, at), f"the field {name!r}")


def run(params: Params, context: TaskContext) -> TaskResult:
    """Send the request; return ``{status_code, headers, url, elapsed, data}``.

    ``data`` of a streamed body is its reference.

    Raises TaskError: a status of 400 and above that is not accepted by its kind (docs/kinds.md), and what ``http.client.send`` raises.
    """
    from noetl.kinds.http.call import limits_of, refuse_oversized, request_of
    from noetl.kinds.http.client import send
    from noetl.kinds.http.pages import read_pages
    from noetl.kinds.http.response import envelope_of, failure_of, helper_of, result_of
    from noetl.kinds.http.stream_to_store import Download

    streamed = params.stream or params.save is not None
    if params.paginate is not None:
        return read_pages(params, params.paginate, context, streamed=streamed)
    request, limits = request_of(params, context), limits_of(params, context, streamed=streamed)
    wanted = None if params.save is None or params.save.format == "auto" else params.save.format
    started = time.monotonic()
    with Download(context.artifacts, wanted) as download:
        take = download.take if streamed else None
        answer = send(request, limits, follow_redirects=params.follow_redirects, take=take)
        elapsed = time.monotonic() - started
        if limits.fails(answer.status) or answer.status < 200:
            raise failure_of(request, answer)
        if streamed:
            result = envelope_of(answer, elapsed, download.close())
        else:
            result = result_of(answer, elapsed)
            refuse_oversized(result, len(answer.body), context.settings.output_max_bytes)
    return TaskResult(result, {"http": helper_of(answer)})
