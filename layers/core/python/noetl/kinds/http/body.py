"""Bodies that are sent piece by piece: a large result as it is kept, and forms with files."""

from __future__ import annotations

import mimetypes
import os
import secrets
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext
from noetl.domain.results.manifests import STORED
from noetl.domain.results.references import format_of, is_ref
from noetl.domain.sizes.gate import find_unfit
from noetl.kinds.http.client import Streamed
from noetl.kinds.http.params import Part
from noetl.kinds.http.request import Headers, encode_body, scalar_text, usable_header
from noetl.kinds.support.artifact_values import load
from noetl.kinds.support.object_format import bytes_of_base64
from noetl.kinds.support.paths import locate, open_file

_PIECE = 256 * 1024
Source = bytes | Streamed


def body_from(value: Any, headers: Headers, context: TaskContext) -> Source | None:
    """Return a streamed result as it is stored, and any other value as ``body`` sends it.

    Raises TaskError.
    """
    if not is_ref(value):
        return encode_body(value, None, headers)
    if not _is_said_by_its_bytes(value, context):
        return encode_body(load(value, context), None, headers)
    headers.default("Content-Type", usable_header(_media(value)) or _OCTETS)
    return _kept(value, context)


def multipart(fields: Mapping[str, Any], headers: Headers, context: TaskContext) -> Streamed:
    """Encode a form with files (RFC 7578); set Content-Type. Raises TaskError."""
    boundary = f"noetl-{secrets.token_hex(16)}"
    headers.set("Content-Type", f"multipart/form-data; boundary={boundary}")
    sources: list[Source] = []
    for name, given in fields.items():
        for one in given if isinstance(given, list) else [given]:
            if one is None:
                continue
            about, content = _part(name, one, context)
            sources += [f"--{boundary}\r\n{about}\r\n\r\n".encode(), content, b"\r\n"]
    sources.append(f"--{boundary}--\r\n".encode())
    size = sum(source.size if isinstance(source, Streamed) else len(source) for source in sources)

    def pieces() -> Generator[bytes]:
        for source in sources:
            yield from source.pieces() if isinstance(source, Streamed) else (source,)

    return Streamed(size, pieces)


def _part(name: str, given: Any, context: TaskContext) -> tuple[str, Source]:
    """Return the header fields of a part, and its content."""
    if not isinstance(given, Part):
        return _about(name, None, None), scalar_text(name, given).encode("utf-8", "replace")
    filename, media = given.filename, given.content_type
    content: Source
    if given.file is not None:
        path = locate(given.file, context.settings)
        content = _file(path)
        filename = filename or path.name
        media = media or mimetypes.guess_type(filename)[0]
    elif given.ref is not None:
        content, known = _referenced(given.ref, context)
        filename = filename or f"{name}.{_suffix(given.ref)}"
        media = media or known
    else:
        content, known = _literal(given.content, base64=given.encoding == "base64", what=f"multipart.{name}")
        media = media or (known if filename is None or known != _TEXT else mimetypes.guess_type(filename)[0])
    return _about(name, filename, media or (_OCTETS if filename else None)), content


_OCTETS = "application/octet-stream"
_TEXT = "text/plain; charset=utf-8"


def _about(name: str, filename: str | None, media: str | None) -> str:
    disposition = f'Content-Disposition: form-data; name="{_quoted(name)}"'
    if filename is not None:
        disposition += f'; filename="{_quoted(filename)}"'
    if media is None:
        return disposition
    if usable_header(media) is None:
        raise TaskError(f"{media[:80]!r} is not a content type", kind="client_error", code="header_invalid")
    return f"{disposition}\r\nContent-Type: {media}"


def _quoted(text: str) -> str:
    """Percent-encode what would end the name or the line, as browsers do (HTML standard)."""
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def _referenced(ref: Mapping[str, Any], context: TaskContext) -> tuple[Source, str | None]:
    if not is_ref(ref):
        return _literal(ref, base64=False, what="ref")
    if _is_said_by_its_bytes(ref, context):
        return _kept(ref, context), _media(ref)
    return _literal(load(ref, context), base64=False, what=f"the result {ref['ref']}")


def _literal(value: Any, *, base64: bool, what: str) -> tuple[bytes, str | None]:
    if base64:
        try:
            return bytes_of_base64(value), None
        except ValueError as error:
            raise TaskError(f"{what}: {error}", kind="client_error", code="value_invalid") from None
    if isinstance(value, str):
        return value.encode("utf-8", "replace"), _TEXT
    problem = find_unfit(value)
    if problem:
        raise TaskError(
            f"{what} cannot be sent as JSON: {problem}", kind="client_error", code="value_invalid"
        )
    return codec.encode(value), "application/json"


def _is_said_by_its_bytes(ref: Mapping[str, Any], context: TaskContext) -> bool:
    """Not so a text that is kept as JSON, and a list that is kept in parts."""
    if format_of(ref) != "json":
        return True
    with context.artifacts.open(ref) as stream:
        return not stream.read(len(STORED)).startswith((b'"', STORED))


def _media(ref: Mapping[str, Any]) -> str | None:
    media = _meta(ref).get("content_type")
    return media if isinstance(media, str) and media else None


def _meta(ref: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a reference's ``meta``.

    A reference may come from anywhere, and have anything in it.
    """
    found = ref.get("meta")
    return found if isinstance(found, Mapping) else {}


def _suffix(ref: Mapping[str, Any]) -> str:
    form = format_of(ref) if is_ref(ref) else "json"
    return {"text": "txt", "bytes": "bin"}.get(form, form)


def _kept(ref: Mapping[str, Any], context: TaskContext) -> Streamed:
    size = _meta(ref).get("bytes", ref.get("size"))
    if type(size) is not int:
        raise TaskError(
            f"{str(ref)[:60]!r} does not say how large it is",
            kind="schema",
            code="not_a_reference",
            hint="pass the result of a step as it is: {{ step }}",
        )

    def pieces() -> Generator[bytes]:
        with context.artifacts.open(ref) as stream:
            yield from _exactly(size, stream.read, f"the result {ref['ref']}")

    return Streamed(size, pieces)


def _file(path: Path) -> Streamed:
    with open_file(path) as found:
        size = os.fstat(found.fileno()).st_size

    def pieces() -> Generator[bytes]:
        with open_file(path) as stream:
            yield from _exactly(size, stream.read, str(path))

    return Streamed(size, pieces)


def _exactly(size: int, read: Callable[[int], bytes], what: str) -> Iterator[bytes]:
    """Yield exactly ``size`` bytes, as announced.

    The server would take a longer or shorter body for a part of the next request.
    """
    left = size
    while piece := read(_PIECE):
        left -= len(piece)
        if left < 0:
            break
        yield piece
    if left != 0:
        raise TaskError(
            f"{what} changed while it was sent: it had {size} bytes",
            kind="storage_access",
            code="file_changed",
            retryable=True,
        )
