"""The content of an object as a value, and back: one reader for s3 and gcs."""

from __future__ import annotations

import base64
import binascii
import csv
import io
from collections.abc import Mapping
from typing import Any, Literal

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.results.references import MEDIA_TYPES
from noetl.kinds.rows.reading import read_rows

Format = Literal["auto", "json", "jsonl", "csv", "text", "base64"]

_BY_TYPE: Mapping[str, Format] = {
    "application/json": "json",
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "text/csv": "csv",
}
_BY_SUFFIX: Mapping[str, Format] = {
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".txt": "text",
    ".md": "text",
    ".html": "text",
    ".xml": "text",
    ".yaml": "text",
    ".yml": "text",
}
_TYPES: Mapping[str, str] = {**MEDIA_TYPES, "base64": MEDIA_TYPES["bytes"]}


def read_object(data: bytes, format: Format, content_type: str, key: str, what: str) -> Any:
    """Read ``data`` as a value: JSON, values of lines, rows, text, or base64.

    Rows are mappings of text.

    ``auto`` that is nothing of these is text when it is UTF-8, base64 otherwise. Raises TaskError(kind="parse",
    code="object_format") when the content is not what ``format`` says. ``what``: the object in words.
    """
    chosen = _guessed(content_type, key) if format == "auto" else format
    if chosen == "csv":
        return [row for rows in read_rows(io.BytesIO(data), "csv", what=what) for row in rows]
    try:
        return _READERS[chosen](data)
    except (ValueError, RecursionError) as error:
        raise TaskError(
            f"{what} cannot be read as {chosen}: {error}",
            kind="parse",
            code="object_format",
            hint="say what it is: `format: text` (or json, jsonl, csv, base64)",
        ) from None


def write_object(value: Any, format: Format, key: str, what: str) -> tuple[bytes, str]:
    """Write a value as (bytes, media type).

    ``auto``: by the suffix of ``key``; else text is text, and every other value JSON.

    Raises TaskError(kind="schema", code="object_format") for a value that the format cannot say.
    """
    chosen = format
    if chosen == "auto":
        chosen = _guessed("", key)
        if chosen == "auto" or (isinstance(value, str) and chosen in ("jsonl", "csv", "json")):
            chosen = "text" if isinstance(value, str) else "json"
    try:
        return _WRITERS[chosen](value), _media_type(chosen, key)
    except (ValueError, TypeError, csv.Error) as error:
        raise TaskError(
            f"{what} cannot be written as {chosen}: {error}", kind="schema", code="object_format"
        ) from None


def _guessed(content_type: str, key: str) -> Format:
    named = _BY_TYPE.get(content_type.partition(";")[0].strip().lower())
    return named or _BY_SUFFIX.get(f".{key.rpartition('.')[2].lower()}", "auto")


def _media_type(format: str, key: str) -> str:
    """Text that is one of the others in its written form keeps its type."""
    by_key = _guessed("", key)
    return _TYPES[by_key if format == "text" and by_key in _TYPES else format]


def _lines(data: bytes) -> list[Any]:
    return [codec.decode(line) for line in data.splitlines() if line.strip()]


def _text_or_base64(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


_READERS: Mapping[str, Any] = {
    "json": codec.decode,
    "jsonl": _lines,
    "text": lambda data: data.decode("utf-8"),
    "base64": lambda data: base64.b64encode(data).decode(),
    "auto": _text_or_base64,
}


def _encode_lines(value: Any) -> bytes:
    if not isinstance(value, list):
        raise ValueError("it takes a list, one value for each line")
    return b"".join(codec.encode(one) + b"\n" for one in value)


def _encode_rows(value: Any) -> bytes:
    """Write CSV with a header of all names in the order they occur.

    Null is an empty field; a mapping or list inside is JSON.
    """
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise ValueError("it takes a list of mappings, one for each line")
    names = list(dict.fromkeys(name for row in value for name in row))
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, names, restval="", lineterminator="\n")
    writer.writeheader()
    for row in value:
        writer.writerow({name: _field(one) for name, one in row.items()})
    return out.getvalue().encode()


def _field(value: Any) -> Any:
    if isinstance(value, (dict, list, bool)):
        return codec.encode(value).decode()
    return "" if value is None else value


def _encode_text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError(f"it takes text, not {type(value).__name__}")
    return value.encode()


def bytes_of_base64(value: Any) -> bytes:
    """Decode base64. Raises ValueError."""
    try:
        return base64.b64decode(_encode_text(value), validate=True)
    except binascii.Error as error:
        raise ValueError(f"it is not base64: {error}") from None


_WRITERS: Mapping[str, Any] = {
    "json": codec.encode,
    "jsonl": _encode_lines,
    "csv": _encode_rows,
    "text": _encode_text,
    "base64": bytes_of_base64,
}
