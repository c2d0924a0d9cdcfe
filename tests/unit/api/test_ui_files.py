"""The files of the web UI: which file answers which path, for how long, in which coding, and nothing beside them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from noetl.api.http.exchange import Request
from noetl.api.http.ui_files import UiFiles
from noetl.runtime.server.ui_build import ui_folder

INDEX = b"<!doctype html><title>UI</title>"


@pytest.fixture
def built(tmp_path: Path) -> UiFiles:
    folder = tmp_path / "dist"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_bytes(INDEX)
    (folder / "assets" / "main-abc.js").write_bytes(b"plain")
    (folder / "assets" / "main-abc.js.gz").write_bytes(gzip.compress(b"plain"))
    (folder / "assets" / "main-abc.js.br").write_bytes(b"brotli")
    (folder / ".env").write_text("secret")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "assets" / "link.txt").symlink_to(tmp_path / "secret.txt")
    return UiFiles(folder)


def get(ui: UiFiles, path: str, method: str = "GET", **headers: str):
    return ui.answer(
        Request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    )


@pytest.mark.parametrize(
    "path",
    [
        "/ui/", "/ui/enter", "/ui/executions/123", "/ui/playbooks/demo/x.yaml", "/ui/../secret.txt", "/ui/%2e%2e/secret.txt",
        "/ui/..%2fsecret.txt", "/ui/.env", "/ui//etc/passwd", "/ui/%00", "/ui/" + "x" * 5000, "/ui/assets",
    ],
)  # fmt: skip
def test_every_path_that_is_no_file_shows_the_ui(built, path):
    found = get(built, path)
    assert (found.status, found.content, found.headers["Cache-Control"]) == (200, (INDEX,), "no-cache")
    policy = found.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';") and "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy and found.headers["X-Content-Type-Options"] == "nosniff"
    again = get(built, path, if_none_match=found.headers["ETag"])
    assert (again.status, again.content) == (304, None)


@pytest.mark.parametrize(
    ("accepted", "coding", "sent"),
    [
        ("", None, b"plain"),
        ("gzip, deflate, br", "br", b"brotli"),
        ("gzip;q=1.0, br;q=0", "gzip", None),
        ("br;q=0.0, gzip;q=0.5", "gzip", None),
        ("identity", None, b"plain"),
    ],
)
def test_a_hashed_file_is_kept_for_ever_in_a_coding_that_the_client_takes(built, accepted, coding, sent):
    found = get(built, "/ui/assets/main-abc.js", accept_encoding=accepted)
    assert "immutable" in found.headers["Cache-Control"] and found.headers["Vary"] == "Accept-Encoding"
    assert found.headers.get("Content-Encoding") == coding
    assert found.content_type == "text/javascript; charset=utf-8"
    content = b"".join(found.content)
    assert content == sent if sent else gzip.decompress(content) == b"plain"


@pytest.mark.parametrize(
    "path", ["/ui/assets/main-old.js", "/ui/assets/link.txt", "/ui/assets/../../secret.txt"]
)
def test_a_file_that_the_build_lacks_is_not_the_ui(built, path):
    """A page of an earlier build must not take HTML for its script; and a link leads nowhere."""
    found = get(built, path)
    assert found.status == 404 and "secret" not in found.body()


def test_browsers_are_sent_to_the_ui_and_programs_are_not(built):
    browser = get(built, "/", accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert (browser.status, browser.headers["Location"]) == (302, "ui/")
    assert get(built, "/ui").headers["Location"] == "ui/"
    assert get(built, "/", accept="*/*") is None
    assert get(built, "/api/executions") is None and get(built, "/uix") is None
    assert get(built, "/ui/", method="POST") is None


def test_without_a_build_the_page_says_how_to_make_one(tmp_path):
    ui = UiFiles(tmp_path / "dist")
    found = get(ui, "/ui/executions")
    assert found.status == 404 and "make ui" in found.body()
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "index.html").write_bytes(INDEX)
    assert get(ui, "/ui/executions").status == 200, "a build that is made meanwhile counts at once"


def test_the_build_is_the_packages_or_the_checkouts(tmp_path):
    package = tmp_path / "layers" / "core" / "python" / "noetl"
    assert ui_folder(package) == tmp_path / "ui" / "dist"
    (package / "ui_static").mkdir(parents=True)
    (package / "ui_static" / "index.html").touch()
    assert ui_folder(package) == package / "ui_static"
