"""Small pieces of text that several commands print."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from noetl.cli.errors import OutputFullError, ReaderGoneError, silence_stdout
from noetl.domain import codec
from noetl.domain.text.untrusted_text import escape_block, escape_json, escape_line, log_entry

_SHOWN = 4_000
UTC_SWITCH = "NOETL_UTC"
"""Set: every time is shown in UTC (`noetl --utc`)."""


def out(text: str = "") -> None:
    """Print lines on stdout at once.

    A pipe has them when they happen. What could steer a terminal is shown. Raises ReaderGoneError.
    """
    _print(f"{escape_block(text)}\n")


def out_line(text: str) -> None:
    """Print one line on stdout that may have texts of others in it. Raises ReaderGoneError."""
    _print(f"{escape_line(text)}\n")


def out_text(text: str) -> None:
    """Print a text on stdout with its own line ends: exact, unless stdout is a terminal.

    Raises ReaderGoneError.
    """
    _print(escape_block(text) if sys.stdout.isatty() else text)


def out_value(value: Any) -> None:
    """Print a value: a text as ``out_text`` does, anything else as indented JSON.

    Raises ReaderGoneError.
    """
    out_text(f"{pretty(value)}\n")


def _print(text: str) -> None:
    try:
        print(text, end="", flush=True)  # noqa: T201
    except BrokenPipeError:
        silence_stdout()
        raise ReaderGoneError from None
    except OSError as full:
        raise OutputFullError(full) from None


def note(text: str) -> None:
    """Print something beside the output, on stderr."""
    print(escape_block(text), file=sys.stderr, flush=True)  # noqa: T201


def note_log(text: str) -> None:
    """Print an entry of a process's own log on stderr.

    Its texts may be of others: only its first line looks like an entry.

    One that cannot be written (a full disk, a reader that has left) is lost; the process continues.
    """
    with suppress(OSError):
        print(log_entry(text), file=sys.stderr, flush=True)  # noqa: T201


def out_json(value: Any) -> None:
    """Print a value as one line of JSON, exact."""
    _print(f"{escape_json(codec.encode(value).decode())}\n")


def pretty(value: Any) -> str:
    """Return a value as indented JSON, and text unchanged."""
    if isinstance(value, str):
        return value
    encoded = codec.encode(value)
    try:
        return escape_json(msgspec.json.format(encoded, indent=2).decode())
    except msgspec.DecodeError:  # half of a surrogate pair, which only the standard library reads
        return json.dumps(json.loads(encoded), indent=2)


def shortened(text: str, more: str) -> str:
    """Cut ``text`` to what a person reads; ``more`` says how to get the rest."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…\n({len(text):,} characters; {more})"


def duration(milliseconds: float) -> str:
    """``35 ms``, ``1.24 s``, ``3m 05s``, ``2h 07m``."""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02d}m"


def clock(at: float) -> str:
    """Epoch seconds as date and time with their zone: ``2026-03-01 12:00:00+01:00``."""
    return _zoned(datetime.fromtimestamp(at, UTC), "%Y-%m-%d %H:%M:%S")


def clock_time(timestamp: str) -> str:
    """Format the time of an RFC 3339 timestamp, with its zone.

    In milliseconds: ``12:00:00.004+01:00``.
    """
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return one_line(timestamp, 40)
    return _zoned(moment, f"%H:%M:%S.{moment.microsecond // 1000:03d}")


def _zoned(moment: datetime, form: str) -> str:
    """In the zone of this machine, or in UTC where ``NOETL_UTC`` asks for it."""
    there = moment.astimezone(UTC if os.environ.get(UTC_SWITCH, "") not in ("", "0") else None)
    offset = there.strftime("%z")
    return f"{there.strftime(form)}{'Z' if offset == '+0000' else f'{offset[:3]}:{offset[3:5]}'}"


def one_line(text: str, width: int) -> str:
    """Put ``text`` on one line of at most ``width`` characters.

    What would steer a terminal is shown.
    """
    return printable(" ".join(text[: 4 * width + 100].split()), width)


def printable(line: str, width: int) -> str:
    """Cut a line to ``width``, and keep its spaces.

    Tables stay tables. What would steer a terminal is shown.
    """
    shown = escape_line(line[: 4 * width + 100].expandtabs(4).rstrip())
    return shown if len(shown) <= width else shown[: max(width - 1, 0)] + "…"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell; the last one runs free."""
    rows = [[escape_line(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(headers, *rows, strict=True)]
    lines = []
    for row in (headers, *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
