"""The body of an answer as a streamed result.

It goes piece by piece from the connection to the result store.
"""

from __future__ import annotations

import codecs
import contextlib
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from noetl.domain.kinds import ArtifactFormat, Artifacts, ArtifactWriter
from noetl.kinds.http.client import Answer
from noetl.kinds.http.response import content_type_of, is_json, is_text

_BY_TYPE: Mapping[str, ArtifactFormat] = {
    "application/x-ndjson": "jsonl",
    "application/ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "application/json-lines": "jsonl",
    "application/x-jsonlines": "jsonl",
    "text/csv": "csv",
    "application/csv": "csv",
    "application/vnd.apache.parquet": "parquet",
    "application/x-parquet": "parquet",
}
_BY_SUFFIX: Mapping[str, ArtifactFormat] = {
    "json": "json",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "csv": "csv",
    "parquet": "parquet",
    "txt": "text",
    "md": "text",
    "xml": "text",
    "html": "text",
}
_VAGUE = frozenset({"", "text/plain", "application/octet-stream", "binary/octet-stream"})
"""Media types of servers that do not know better; then the address's suffix is asked."""


class Download:
    """A download as a context manager; one that ends without ``close`` leaves nothing behind.

    ``wanted``: None where the answer decides.
    """

    def __init__(self, artifacts: Artifacts, wanted: ArtifactFormat | None) -> None:
        self._artifacts = artifacts
        self._wanted = wanted
        self._stack = contextlib.ExitStack()
        self._writer: ArtifactWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def take(self, answer: Answer, pieces: Iterator[bytes]) -> None:
        """Store the body, as a ``http.client.Take``. An empty body makes no result."""
        writer: ArtifactWriter | None = None
        media, charset = content_type_of(answer)
        format = self._wanted or _format_of(media, answer.url)
        for piece in _in_utf8(pieces, charset if format in ("json", "jsonl", "csv", "text") else None):
            if writer is None:
                content_type = answer.headers.get("content-type", "")[:200]
                writer = self._stack.enter_context(self._artifacts.create(format, content_type))
            writer.write(piece)
        self._writer = writer

    def close(self) -> dict[str, Any] | None:
        """Make the result durable and return its reference; None of an empty body."""
        return None if self._writer is None else self._writer.close()


def _format_of(media: str, url: str) -> ArtifactFormat:
    if media in _BY_TYPE:
        return _BY_TYPE[media]
    if is_json(media):
        return "json"
    path = url.partition("?")[0].rpartition("/")[2]
    if media in _VAGUE and "." in path and (found := _BY_SUFFIX.get(path.rpartition(".")[2].lower())):
        return found
    return "text" if is_text(media) else "bytes"


def _in_utf8(pieces: Iterator[bytes], charset: str | None) -> Iterator[bytes]:
    """Convert a text of any charset to UTF-8, in which texts are stored."""
    if charset is None or codecs.lookup(charset).name in ("utf-8", "ascii"):
        yield from pieces
        return
    decoder = codecs.getincrementaldecoder(charset)("replace")
    for piece in pieces:
        if text := decoder.decode(piece):
            yield text.encode()
    if text := decoder.decode(b"", final=True):
        yield text.encode()
