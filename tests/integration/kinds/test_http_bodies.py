"""Bodies that are sent piece by piece: forms with files, and large results."""

from __future__ import annotations

import base64
import email
import email.policy
import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.memory.results import MemoryResultStore
from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext
from noetl.domain.results.references import make_ref, ref_uri
from noetl.kinds.http import body as http_body
from noetl.kinds.registry import default_registry
from noetl.services.results.artifacts import TaskArtifacts

ALLOW = ("127.0.0.1",)
CSV = b"id,name\n" + b"1,x\n" * 100_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "playbook"
    inside.mkdir()
    (inside / "scan.png").write_bytes(bytes(range(256)) * 2000)
    (tmp_path / "secret.txt").write_text("not yours")
    (inside / "link.txt").symlink_to(tmp_path / "secret.txt")
    return inside


@pytest.fixture
def context(make_context, folder) -> TaskContext:
    made = make_context(http_allow=ALLOW, data_dirs=(str(folder),))
    return replace(made, artifacts=TaskArtifacts(MemoryResultStore(), 1, "step", max_bytes=2**30))


@pytest.fixture
def rows(context) -> dict[str, Any]:
    with context.artifacts.create("csv") as writer:
        writer.write(CSV)
        return writer.close()


def stored(context: TaskContext, value: Any, name: str = "v") -> dict[str, Any]:
    """A large value, as the worker keeps what a task returned."""
    store, encoded = context.artifacts._results, codec.encode(value)  # type: ignore[attr-defined]
    uri = ref_uri(1, "step", name)
    store.put(uri, encoded)
    return make_ref(
        uri, store="memory", size=len(encoded), sha256=hashlib.sha256(encoded).hexdigest(), value=value
    )


def send(context: TaskContext, **params: Any) -> Any:
    return default_registry().run("http", {"method": "POST", **params}, context).result


@pytest.fixture
def sent(web) -> Callable[[], dict[str, Any]]:
    """The form that arrived: name → (filename, content type, content)."""
    web.answers["/form"] = (201, {}, b"")

    def read() -> dict[str, Any]:
        (received,) = web.received
        head = f"Content-Type: {received.headers['content-type']}\r\n\r\n".encode()
        form = email.message_from_bytes(head + received.body, policy=email.policy.HTTP)
        assert "transfer-encoding" not in received.headers
        return {
            part.get_param("name", header="content-disposition"): (
                part.get_filename(),
                (part.get("content-type") or "").replace('"', "") or None,
                part.get_payload(decode=True),
            )
            for part in form.iter_parts()
        }

    return read


def test_a_form_of_everything(web, context, rows, folder, sent):
    large = [{"n": number} for number in range(1000)]
    send(
        context,
        url=f"{web.base}/form",
        multipart={
            "title": "Ärger",
            "pages": 3,
            "ok": True,
            "left_out": None,
            "scan": {"file": "scan.png"},
            "note": {"content": "hello", "filename": "note.md"},
            "about": {"content": {"a": 1}},
            "blob": {
                "content": base64.b64encode(b"\x00\xff").decode(),
                "encoding": "base64",
                "filename": "b",
            },
            "rows": rows,
            "named": {"ref": rows, "filename": "people.csv", "content_type": "text/plain"},
            "large": {"ref": stored(context, large)},
        },
    )
    assert sent() == {
        "title": (None, None, "Ärger".encode()),
        "pages": (None, None, b"3"),
        "ok": (None, None, b"true"),
        "scan": ("scan.png", "image/png", (folder / "scan.png").read_bytes()),
        "note": ("note.md", "text/markdown", b"hello"),
        "about": (None, "application/json", b'{"a":1}'),
        "blob": ("b", "application/octet-stream", b"\x00\xff"),
        "rows": ("rows.csv", "text/csv; charset=utf-8", CSV),
        "named": ("people.csv", "text/plain", CSV),
        "large": ("large.json", "application/json", codec.encode(large)),
    }


def test_a_list_repeats_its_field(web, context, sent):
    send(context, url=f"{web.base}/form", multipart={"tag": ["a", "b"]})
    assert web.received[0].body.count(b'name="tag"') == 2


@pytest.mark.parametrize(
    ("name", "filename"),
    [('a"; filename="x', None), ("a\r\nX-Evil: 1\r\n\r\nbody", None), ("f", 'x"\r\nContent-Type: text/html')],
)
def test_names_cannot_end_their_line(web, context, sent, name, filename):
    send(context, url=f"{web.base}/form", multipart={name: {"content": "v", "filename": filename or "n"}})
    ((told, _, content),) = sent().values()
    assert content == b"v" and "\r" not in told and '"' not in told
    assert b"X-Evil" not in web.received[0].body.split(b"\r\n", 2)[2].split(b"\r\n")[0]


@pytest.mark.parametrize(
    ("part", "kind", "code"),
    [
        ({"file": "../secret.txt"}, "storage_access", "path_outside"),
        ({"file": "link.txt"}, "storage_access", "path_outside"),
        ({"file": "none.txt"}, "not_found", "file_not_found"),
        ({"file": "."}, "storage_access", "path_invalid"),
        ({"content": "x", "content_type": "a\r\nb"}, "client_error", "header_invalid"),
        ({"content": "#", "encoding": "base64"}, "client_error", "value_invalid"),
        ({"file": "scan.png", "content": "x"}, "schema", "kind_params"),
        ({"fil": "scan.png"}, "schema", "kind_params"),
        ({"ref": {"kind": "result_ref", "ref": "noetl://execution/1/result/s/gone", "meta": {"bytes": 3}}},
         "storage_access", "REFERENCE_NOT_AVAILABLE"),
        ({"ref": {"kind": "result_ref", "ref": "noetl://execution/1/result/s/x", "meta": {"format": "csv"}}},
         "schema", "not_a_reference"),
    ],
)  # fmt: skip
def test_parts_that_cannot_be_sent(web, context, part, kind, code):
    with pytest.raises(TaskError) as caught:
        send(context, url=f"{web.base}/form", multipart={"part": part})
    assert (caught.value.kind, caught.value.code) == (kind, code)
    assert web.received == []


@pytest.mark.parametrize("status", [307, 303])
def test_a_large_result_is_sent_as_it_is_kept(web, context, rows, status):
    """Once more after a redirect that keeps the body, and not after one that drops it."""
    web.answers["/in"] = (status, {"Location": "/there"}, b"")
    web.answers["/there"] = (200, {}, b"")
    send(context, url=f"{web.base}/in", body_from=rows)
    first, second = web.received
    assert (first.body, first.headers["content-type"]) == (CSV, "text/csv; charset=utf-8")
    assert (second.method, second.body) == (("POST", CSV) if status == 307 else ("GET", b""))


@pytest.mark.parametrize(
    ("value", "is_large", "body", "media"),
    [
        ([1, 2], False, b"[1,2]", "application/json"),
        ("text", False, b"text", "text/plain; charset=utf-8"),
        ([1, 2], True, b"[1,2]", "application/json"),
        ("text", True, b"text", "text/plain; charset=utf-8"),
    ],
)
def test_a_value_is_sent_the_same_whether_it_was_large_or_not(web, context, value, is_large, body, media):
    web.answers["/in"] = (200, {}, b"")
    send(context, url=f"{web.base}/in", body_from=stored(context, value) if is_large else value)
    assert (web.received[0].body, web.received[0].headers["content-type"]) == (body, media)


def test_a_file_that_grows_while_it_is_sent_breaks_the_call(folder):
    grown = folder / "grown.txt"
    grown.write_bytes(b"x" * 10)
    streamed = http_body._file(grown)
    grown.write_bytes(b"x" * 11)
    with pytest.raises(TaskError) as caught:
        list(streamed.pieces())
    assert (caught.value.code, caught.value.retryable) == ("file_changed", True)


def test_only_one_body(context):
    (problem,) = default_registry().check("http", {"url": "http://a.example/", "body": 1, "multipart": {}})
    assert "'body' or 'multipart'" in problem.message
