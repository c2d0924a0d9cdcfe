"""Answers that are streamed: from the connection to the result store, never in memory."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zlib
from dataclasses import replace
from typing import Any

import pytest

from noetl.adapters.memory.results import MemoryResultStore
from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext
from noetl.kinds.registry import default_registry
from noetl.services.results.artifacts import TaskArtifacts

ALLOW = ("127.0.0.1",)
MANY = 48 * 1024 * 1024


class Nowhere(MemoryResultStore):
    """Takes everything and keeps the size only."""

    def writer(self, uri: str) -> Any:
        return self

    def write(self, data: bytes) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...


@pytest.fixture
def results() -> MemoryResultStore:
    return MemoryResultStore()


@pytest.fixture
def make(make_context, results):
    def context(store: MemoryResultStore = results, limit: int = 2**34, **settings: Any) -> TaskContext:
        made = make_context(http_allow=ALLOW, artifact_max_bytes=limit, **settings)
        return replace(made, artifacts=TaskArtifacts(store, 1, "step", max_bytes=limit))

    return context


def call(context: TaskContext, **params: Any) -> dict[str, Any]:
    return default_registry().run("http", params, context).result


@pytest.mark.parametrize(
    ("path", "content_type", "body", "wish", "format", "kept"),
    [
        ("/a", "application/json", b'{"a":1}', {"stream": True}, "json", b'{"a":1}'),
        ("/a", "application/x-ndjson; charset=utf-8", b"1\n2\n", {"stream": True}, "jsonl", b"1\n2\n"),
        ("/a", "text/csv; charset=iso-8859-1", b"n\n\xfc\n", {"save": {}}, "csv", "n\nü\n".encode()),
        ("/a", "text/csv; charset=utf-16", "n\nü".encode("utf-16"), {"save": {}}, "csv", "n\nü".encode()),
        ("/a.parquet?x=.csv", "application/octet-stream", b"PAR1", {"stream": True}, "parquet", b"PAR1"),
        ("/v1.0/rows", "", b"\xff", {"stream": True}, "bytes", b"\xff"),
        ("/a.csv", "text/html", b"<p>", {"stream": True}, "text", b"<p>"),
        ("/a", "text/plain", b"1\n", {"save": {"format": "jsonl"}}, "jsonl", b"1\n"),
    ],
)
def test_the_body_becomes_a_result_of_its_own(
    web, make, results, path, content_type, body, wish, format, kept
):
    web.answers[path.partition("?")[0]] = (200, {"Content-Type": content_type}, body)
    found = call(make(), url=f"{web.base}{path}", **wish)
    ref = found["data"]
    assert (ref["kind"], ref["meta"]["format"], ref["size"]) == ("result_ref", format, len(kept))
    assert results.get(ref["ref"]) == kept
    if content_type:
        assert ref["meta"]["content_type"] == content_type
    assert (found["status_code"], found["url"]) == (200, f"{web.base}{path}")
    assert found["headers"]["content-length"] == str(len(body))


def test_an_empty_body_is_no_result(web, make, results):
    web.answers["/"] = (204, {}, b"")
    assert call(make(), url=web.base, stream=True)["data"] is None
    assert results.delete_execution(1) == 0


def test_a_failed_status_is_the_error_it_always_is(web, make, results):
    web.answers["/"] = (503, {"Retry-After": "3", "Content-Type": "application/json"}, b'{"why":"busy"}')
    with pytest.raises(TaskError) as caught:
        call(make(), url=web.base, stream=True)
    assert caught.value.details["body"] == {"why": "busy"}
    assert (caught.value.retryable, caught.value.details["retry_after"]) == (True, 3.0)
    assert results.delete_execution(1) == 0


def test_large_bodies_pass_through_little_memory(web, make):
    """More than an answer may have in memory (and gzip makes it of a small one)."""
    packer = zlib.compressobj(wbits=31)
    packed = b"".join([*(packer.compress(bytes(1 << 20)) for _ in range(MANY >> 20)), packer.flush()])
    web.answers["/"] = (200, {"Content-Encoding": "gzip", "Content-Type": "text/plain"}, packed)
    context = make(Nowhere(), http_max_bytes=1 << 20)
    tracemalloc.start()
    try:
        found = call(context, url=web.base, stream=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found["data"]["size"] == MANY
    assert peak < 3 * 1024 * 1024


@pytest.mark.parametrize("encoding", ["identity", "gzip", "endless"])
def test_more_than_is_kept_is_refused(web, make, results, encoding):
    def endless(handler):
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(b"x" * 100_000)

    body = bytes(2_000_000)
    packed = gzip.compress(body) if encoding == "gzip" else body
    web.answers["/"] = endless if encoding == "endless" else (200, {"Content-Encoding": encoding}, packed)
    with pytest.raises(TaskError) as caught:
        call(make(limit=1_000_000), url=web.base, stream=True)
    assert (caught.value.kind, caught.value.code) == ("storage_quota", "response_too_large")
    assert caught.value.retryable is False
    assert results.delete_execution(1) == 0


@pytest.mark.parametrize("chunked", [False, True])
def test_a_connection_that_breaks_leaves_nothing_behind(web, make, results, chunked):
    def broken(handler):
        handler.send_response(200)
        handler.send_header("Content-Type", "text/csv")
        if chunked:
            handler.send_header("Transfer-Encoding", "chunked")
        else:
            handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        handler.wfile.write(b"186a0\r\n" + b"x" * 100_000 + b"\r\n" if chunked else b"x" * 100_000)
        handler.close_connection = True

    web.answers["/"] = broken
    with pytest.raises(TaskError) as caught:
        call(make(), url=web.base, stream=True)
    assert (caught.value.kind, caught.value.code, caught.value.retryable) == (
        "connection",
        "connection_lost",
        True,
    )
    assert results.delete_execution(1) == 0
    web.answers["/"] = (200, {"Content-Type": "text/csv"}, b"a\n1\n")
    assert results.get(call(make(), url=web.base, stream=True)["data"]["ref"]) == b"a\n1\n"


def test_a_body_that_drips_is_cut_by_time(web, make, results):
    def drips(handler):
        handler.send_response(200)
        handler.end_headers()
        web.drip(handler, b"x")

    web.answers["/"] = drips
    with pytest.raises(TaskError) as caught:
        call(make(), url=web.base, stream=True, timeout=0.3)
    assert (caught.value.kind, caught.value.code) == ("timeout", "timeout")
    assert results.delete_execution(1) == 0


def test_redirects_are_followed_to_the_body(web, make, results):
    web.answers["/"] = (302, {"Location": "/rows.json"}, b"elsewhere")
    web.answers["/rows.json"] = (200, {"Content-Type": "application/json"}, json.dumps([1]).encode())
    ref = call(make(), url=web.base, stream=True)["data"]
    assert results.get(ref["ref"]) == b"[1]"
    assert results.delete_execution(1) == 1
