"""Small pieces of text that several commands print."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from noetl.cli.errors import OutputFullError, ReaderGoneError, silence_stdout
from noetl.domain import codec

_SHOWN = 4_000
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def out(text: str = "") -> None:
    """One line (or several) on stdout, at once: whoever reads a pipe sees it when it happens. Raises ReaderGoneError."""
    try:
        print(text, flush=True)  # noqa: T201
    except BrokenPipeError:
        silence_stdout()
        raise ReaderGoneError from None
    except OSError as full:
        raise OutputFullError(full) from None


def out_text(text: str) -> None:
    """A text on stdout as it is, with its own line ends. Raises ReaderGoneError."""
    try:
        print(text, end="", flush=True)  # noqa: T201
    except BrokenPipeError:
        silence_stdout()
        raise ReaderGoneError from None
    except OSError as full:
        raise OutputFullError(full) from None


def note(text: str) -> None:
    """Something beside the output, on stderr."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def out_json(value: Any) -> None:
    """A value as one line of JSON."""
    out(codec.encode(value).decode())


def pretty(value: Any) -> str:
    """A value as indented JSON; text as it stands."""
    if isinstance(value, str):
        return value
    encoded = codec.encode(value)
    try:
        return msgspec.json.format(encoded, indent=2).decode()
    except msgspec.DecodeError:  # half of a surrogate pair, which only the standard library reads
        return json.dumps(json.loads(encoded), indent=2)


def shortened(text: str, more: str) -> str:
    """``text``, cut to what a person reads; ``more`` tells how to get the rest."""
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
    """Epoch seconds as local date and time."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def one_line(text: str, width: int) -> str:
    """``text`` on one line of at most ``width`` characters; what would steer a terminal is shown instead of obeyed."""
    return printable(" ".join(text[: 4 * width + 100].split()), width)


def printable(line: str, width: int) -> str:
    """A line with its spaces (tables stay tables), cut to ``width``; what would steer a terminal is shown instead of obeyed."""
    shown = _CONTROL.sub(
        lambda found: f"\\x{ord(found.group()):02x}", line[: 4 * width + 100].expandtabs(4).rstrip()
    )
    return shown if len(shown) <= width else shown[: max(width - 1, 0)] + "…"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell; the last one runs free."""
    widths = [max(len(cell) for cell in column) for column in zip(headers, *rows, strict=True)]
    lines = []
    for row in (headers, *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
