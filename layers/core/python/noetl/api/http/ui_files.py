"""The web UI's files: hashed ones are cached for ever, every other path is ``index.html``.

They are sent compressed where the build has compressed them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from noetl.api.http.exchange import Answer, Request

PLACE = "/ui/"
ASSETS = "assets/"
HASHED = "public, max-age=31536000, immutable"


def content_policy(issuers: Sequence[str] = ()) -> str:
    """Return the content security policy of the pages.

    ``issuers``: origins that sign people in, which the page may ask.
    """
    connect = " ".join(["'self'", *issuers])
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src {connect}; "
        "worker-src 'self'; form-action 'self'; base-uri 'self'; frame-ancestors 'none'"
    )


_GUARDS = {
    "Content-Security-Policy": content_policy(),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
_CODINGS = (("br", ".br"), ("gzip", ".gz"))
_HTML = _TYPES[".html"]
_NO_BUILD = """<!doctype html>
<html lang="en"><title>NoETL: no web UI yet</title>
<h1>The web UI is not built</h1>
<p>This server runs from a checkout, where the UI is built by hand. In its folder run</p>
<pre>make ui</pre>
<p>and load this page again. The API needs no build: see <a href="../openapi.json">openapi.json</a>.</p>
</html>
"""


class UiFiles:
    """The files of the web UI.

    ``folder``: of the build; while it has no ``index.html``, every page says how to make one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def answer(self, request: Request) -> Answer | None:
        """Answer what asks for the UI; None: the request is for a route of the API."""
        path = request.path
        if request.method not in ("GET", "HEAD"):
            return None
        if path == "/" and "text/html" in request.headers.get("accept", ""):
            return _found("ui/")
        if path == PLACE.rstrip("/"):
            return _found("ui/")
        return self._file(request, unquote(path[len(PLACE) :])) if path.startswith(PLACE) else None

    def _file(self, request: Request, name: str) -> Answer:
        folder = self._folder
        if not (folder / "index.html").is_file():
            return _page(404, _NO_BUILD)
        found = _inside(folder, name)
        if found is None and name.startswith(ASSETS):
            return _page(404, "<!doctype html><title>Not found</title><p>This build has no such file.</p>\n")
        return _send(found or folder / "index.html", request.headers, hashed=name.startswith(ASSETS))


def media_type(name: str) -> str:
    """Return the content type of a file of the build."""
    return _TYPES.get(PurePosixPath(name).suffix, "application/octet-stream")


def _inside(folder: Path, name: str) -> Path | None:
    """Find a file of the build. None: there is no such file, or it lies outside."""
    parts = name.split("/")
    if any(part in ("", ".", "..") or part.startswith(".") or "\0" in part or "\\" in part for part in parts):
        return None
    try:
        found = folder.joinpath(*parts).resolve()
        return found if found.is_file() and found.is_relative_to(folder.resolve()) else None
    except OSError:
        return None  # a name that is too long for a file


def _send(file: Path, headers: Mapping[str, str], *, hashed: bool) -> Answer:
    coding, shown = _coded(file, headers.get("accept-encoding", ""))
    about = shown.stat()
    tag = f'"{about.st_mtime_ns:x}-{about.st_size:x}"'
    reply_headers = {
        **_GUARDS,
        "Cache-Control": HASHED if hashed else "no-cache",
        "ETag": tag,
        "Vary": "Accept-Encoding",
        **({"Content-Encoding": coding} if coding else {}),
    }
    kind = media_type(file.name)
    if tag in headers.get("if-none-match", ""):
        return Answer(304, text="", headers=reply_headers)
    return Answer(200, content=(shown.read_bytes(),), headers=reply_headers, content_type=kind)


def _coded(file: Path, accepted: str) -> tuple[str, Path]:
    """Choose the compressed form that the client takes and the build has."""
    taken = codings(accepted)
    for coding, ending in _CODINGS:
        if coding in taken and (beside := file.with_name(file.name + ending)).is_file():
            return coding, beside
    return "", file


def codings(accepted: str) -> set[str]:
    """Return the codings that an Accept-Encoding names and does not refuse."""
    words = (word.replace(" ", "").partition(";q=") for word in accepted.lower().split(","))
    return {name for name, _, weight in words if weight.strip("0.") or not weight}


def _found(place: str) -> Answer:
    """Redirect by a relative address, so that a prefix which a proxy adds stays."""
    return Answer(302, text="", headers={**_GUARDS, "Location": place, "Cache-Control": "no-cache"})


def _page(status: int, text: str) -> Answer:
    return Answer(status, text=text, headers={**_GUARDS, "Cache-Control": "no-store"}, content_type=_HTML)
