"""What executions gave: whole, in parts, or as links to files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.exchange import BYTES, Answer, Request
from noetl.api.http.problems import BadRequestError
from noetl.api.http.result_bodies import Download, ResultAnswer
from noetl.api.nouns.executions import escaped_size
from noetl.domain.long_work import begin_long_work
from noetl.domain.results.references import leads_to_object
from noetl.domain.results.result_bytes import compression_of
from noetl.domain.results.tiers import KNOWN_TIERS
from noetl.ports.results import ObjectReader
from noetl.services.queries import read_execution
from noetl.services.queries.result_entries import LARGEST_LOADED, read_entries
from noetl.services.queries.result_response import Delivered, deliver, divided, in_parts
from noetl.services.results.hydration import make_hydrate

LINK_SECONDS = 900
PIECE = 1024 * 1024


def get_result(deps: ApiDeps, request: Request) -> Answer:
    """Return a result whole, or its large parts as references with links.

    ``parts``: all large values as references. ``ref``: one reference of this execution, whether it has ended or not.
    """
    execution_id = parse.execution_id(request.params["execution_id"])
    if (uri := request.query.get("ref")) is not None:
        return Answer(200, _one_part(deps, execution_id, uri, request.query.get("store", "")))
    if parse.flag(request, "parts"):
        return Answer(
            200, _result_answer(deps, execution_id, in_parts(deps.store, deps.results, execution_id))
        )
    text = ""
    value = read_execution.unresolved_result(deps.store, execution_id)
    for one in result_answers(deps, execution_id, value, most=deps.max_answer):
        text = Answer(200, one).body()
        if escaped_size(text) <= deps.max_answer:
            break
    return Answer(200, text=text)


def get_entries(deps: ApiDeps, request: Request) -> Answer:
    """Read every result of steps, so it is long work."""
    execution_id = parse.execution_id(request.params["execution_id"])
    begin_long_work()
    return Answer(
        200, read_entries(deps.store, make_hydrate(deps.results, most=LARGEST_LOADED), execution_id)
    )


def result_answers(deps: ApiDeps, execution_id: int, value: Any, *, most: int) -> Iterator[ResultAnswer]:
    """Yield a result in its largest form below ``most`` bytes of JSON, then with references.

    The second form follows only when the first was the whole result.
    """
    found = deliver(value, deps.results, most=most)
    yield _result_answer(deps, execution_id, found)
    if found.whole:
        yield _result_answer(deps, execution_id, divided(value, deps.results))


def _result_answer(deps: ApiDeps, execution_id: int, found: Delivered) -> ResultAnswer:
    downloads = [
        Download(
            uri,
            deps.link(uri, LINK_SECONDS, str(ref.get("store") or "")),
            ref.get("size"),
            ref.get("sha256"),
            LINK_SECONDS,
            compression_of(ref),
        )
        for uri, ref in found.parts.items()
    ]
    return ResultAnswer(str(execution_id), found.value, found.whole, downloads)


def _one_part(deps: ApiDeps, execution_id: int, uri: str, store: str) -> ResultAnswer:
    info = read_execution.find(deps.store, execution_id)
    if not (uri.startswith(f"noetl://execution/{execution_id}/result/") and leads_to_object({"ref": uri})):
        raise BadRequestError(
            f"ref={uri[:120]!r} is not a result of execution {execution_id}",
            code="invalid_parameter",
            hint="the reference names the execution that made it; ask that execution",
        )
    if store not in KNOWN_TIERS:
        raise BadRequestError(
            f"store={store[:40]!r} is not a tier",
            code="invalid_parameter",
            hint="as the reference says it, or nothing",
        )
    link = Download(uri, deps.link(uri, LINK_SECONDS, store), None, None, LINK_SECONDS)
    return ResultAnswer(str(execution_id), None, False, [link], read_execution.view_status(info))


def download(deps: ApiDeps, request: Request) -> Answer:
    """The link is the permission.

    Bytes as they are kept: compressed, where the reference says so.
    """
    uri, store = deps.linked(request.params["link"])
    return Answer(200, content=_pieces(deps.results.at(store).reader(uri)), content_type=BYTES)


def _pieces(reader: ObjectReader) -> Iterator[bytes]:
    with closing(reader):
        while data := reader.read(PIECE):
            yield data
