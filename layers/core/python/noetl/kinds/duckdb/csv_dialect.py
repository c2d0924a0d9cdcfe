"""The dialect of a CSV file, stated instead of guessed.

DuckDB guesses from the content until some dialect fits: from a file that was cut off, or has a row of another length, it makes a
table of a single column. So this module states what can be known, and a file that does not fit is an error.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

from noetl.kinds.duckdb.quoting import literal

_DELIMITERS = (",", ";", "\t", "|")
_HEAD_BYTES = 64 * 1024


def csv_options(path: Path, *, written_here: bool) -> Iterator[str]:
    """Yield options of ``read_csv``.

    ``written_here``: a kind has written the file. A file of another origin may begin without a header.
    """
    # An empty text is no null; a line that begins with # is a row, not a comment.
    yield "allow_quoted_nulls = false"
    yield "comment = ''"
    yield "quote = '\"'"
    if written_here:
        yield from ("delim = ','", "escape = '\"'", "header = true", "skip = 0")
    elif (delimiter := _delimiter(path)) is not None:
        yield f"delim = {literal(delimiter)}"


def _delimiter(path: Path) -> str | None:
    """Return the most frequent delimiter of the first line, outside of quotes.

    None where the line cannot be read; DuckDB then reports the error.
    """
    if path.suffix == ".zst":
        return None
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except (OSError, EOFError):
        return None
    plain = b"".join(head.split(b'"')[::2]).lstrip(b"\r\n").splitlines()
    line = plain[0].decode("utf-8", "replace") if plain else ""
    return max(_DELIMITERS, key=line.count)
