"""Python values as Postgres text parameters, whole columns at a time.

Arrays are written here instead of by the driver's adapters: one pass per column, which is what makes a commit of a hundred
executions cheap. Text that Postgres cannot hold is refused, or escaped where any text must be kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from noetl.domain import codec
from noetl.domain.errors import InvalidInputError

EMPTY = b"{}"


def text(value: str) -> bytes:
    """Raises InvalidInputError for NUL and lone surrogates."""
    try:
        data = value.encode()
    except UnicodeEncodeError as error:
        raise _unstorable(value) from error
    if b"\0" in data:
        raise _unstorable(value)
    return data


def _unstorable(value: str) -> InvalidInputError:
    return InvalidInputError(
        f"{value[:60]!r} cannot be kept: it holds a NUL or half of a surrogate pair",
        code="unstorable_text",
        hint="such characters may stand in values, but not in names and ids",
    )


def number(value: float) -> bytes:
    return repr(value).encode()


def numbers(values: Iterable[float | None]) -> bytes:
    shown = str(list(values))[1:-1]
    return ("{" + (shown.replace("None", "NULL") if "None" in shown else shown) + "}").encode()


def flag(value: bool) -> bytes:
    return b"true" if value else b"false"


def flags(values: Iterable[bool]) -> bytes:
    return ("{" + ",".join(["t" if value else "f" for value in values]) + "}").encode()


def texts(values: Iterable[str]) -> bytes:
    """Raises InvalidInputError for NUL and lone surrogates."""
    parts = list(values)
    if not parts:
        return EMPTY
    joined = '","'.join(parts)
    if "\\" in joined or joined.count('"') != 2 * len(parts) - 2:
        joined = '","'.join([value.replace("\\", "\\\\").replace('"', '\\"') for value in parts])
    return text('{"' + joined + '"}')


def documents(values: Iterable[bytes]) -> bytes:
    """Encoded JSON documents as an array of text."""
    parts = [value.replace(b"\\", b"\\\\").replace(b'"', b'\\"') for value in values]
    return b'{"' + b'","'.join(parts) + b'"}' if parts else EMPTY


def records(values: list[dict[str, Any]]) -> bytes | None:
    """A json parameter of rows; None (NULL) when there are none."""
    return codec.encode(values) if values else None


_TROUBLE = re.compile("[\x00\\\\\ud800-\udfff]")
_ESCAPED = re.compile(r"\\(\\|u[0-9a-f]{4})")


def name(value: str) -> str:
    """Any text as text that Postgres can hold (``unname`` turns it back)."""
    if _TROUBLE.search(value) is None:
        return value
    return _TROUBLE.sub(lambda match: "\\\\" if match[0] == "\\" else f"\\u{ord(match[0]):04x}", value)


def unname(value: str) -> str:
    if "\\" not in value:
        return value
    return _ESCAPED.sub(lambda match: "\\" if match[1] == "\\" else chr(int(match[1][1:], 16)), value)


_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def printable(value: str) -> str:
    """Replace what Postgres cannot hold by U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", value)


_REFUSED = re.compile(
    r"\\(?:u0000|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)"
)


def for_jsonb(document: bytes) -> str:
    """A JSON document as jsonb takes it: NUL and lone surrogates become U+FFFD."""
    return _REFUSED.sub(_replacement, document.decode())


def _replacement(match: re.Match[str]) -> str:
    escape = match[0]
    if escape == "\\u0000" or (len(escape) == 6 and escape[2] in "dD" and escape[3] not in "01234567"):
        return "\\ufffd"
    return escape


def epoch(value: bytes) -> float:
    """A column that was cast to epoch seconds."""
    return float(value)
