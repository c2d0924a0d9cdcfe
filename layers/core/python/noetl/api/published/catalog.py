"""Many playbooks in one request."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.bodies import RegisterBody
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.route import Route
from noetl.api.nouns.catalog import UNNAMED, register_body
from noetl.domain.errors import InfrastructureError, NoetlError
from noetl.domain.sizes.gate import exceeded
from noetl.domain.sizes.table import BATCH_PLAYBOOKS


class BatchBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``items``: playbooks, as ``POST /api/catalog/register`` takes each."""

    items: Annotated[list[RegisterBody], msgspec.Meta(min_length=1)]


class BatchEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One item, in the order of the request.

    ``error``: what is wrong with the first thing that is.
    """

    status: Literal["registered", "failed"]
    path: str = ""
    version: int = 0
    created: bool = False
    catalog_id: str = ""
    error: str = ""
    code: str = ""


class BatchRegisteredAnswer(msgspec.Struct, frozen=True):
    """The outcomes of a batch; an item that is refused stops no other."""

    registered: int
    failed: int
    results: list[BatchEntry]


def register_batch(deps: ApiDeps, request: Request) -> Answer:
    """Register each playbook; answer 200 also when some were refused.

    Raises InfrastructureError: the whole request can be repeated.
    """
    body = parse.body(request, deps, BatchBody)
    if len(body.items) > BATCH_PLAYBOOKS.value:
        raise exceeded(
            BATCH_PLAYBOOKS,
            len(body.items),
            "the batch",
            code="batch_size",
            remedy="send the rest in another request",
        )
    results = [_register(deps, item) for item in body.items]
    done = sum(one.status == "registered" for one in results)
    return Answer(200, BatchRegisteredAnswer(done, len(results) - done, results))


def _register(deps: ApiDeps, item: RegisterBody) -> BatchEntry:
    try:
        done = register_body(deps, item)
    except InfrastructureError:
        raise
    except NoetlError as error:
        problems: Any = getattr(error, "diagnostics", ())
        named = item.source_name or item.path or UNNAMED
        message = (
            problems[0].format(named)
            if problems
            else f"{error.message}{f' ({error.hint})' if error.hint else ''}"
        )
        return BatchEntry("failed", item.path or "", error=message, code=error.code)
    return BatchEntry("registered", done.path, done.version, done.created, done.catalog_id)


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/api/catalog/register/batch",
        "registerPlaybooks",
        "Register many playbooks, each on its own. The answer has the outcome of each.",
        "write",
        register_batch,
        {200: BatchRegisteredAnswer},
        "catalog",
        body=BatchBody,
        logged=True,
    ),
)
