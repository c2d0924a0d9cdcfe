"""Result URIs, checked before a store uses them.

They are ``noetl://execution/<eid>/result/<step>/<uuid>``.
"""

from __future__ import annotations

import hashlib

from noetl.domain.errors import InvalidInputError
from noetl.domain.ids import LARGEST_ID

PREFIX = "noetl://execution/"
MAX_LENGTH = 2048


def check_uri(uri: str) -> tuple[int, str]:
    """(execution id, rest after it).

    Raises InvalidInputError(code="result_uri") for anything that is not a result URI.
    """
    execution, separator, rest = uri.removeprefix(PREFIX).partition("/")
    known = uri.startswith(PREFIX) and separator and rest and len(uri) <= MAX_LENGTH
    number = int(execution) if execution.isascii() and execution.isdigit() and len(execution) <= 19 else -1
    if not (known and 0 <= number <= LARGEST_ID):
        raise InvalidInputError(
            f"{uri[:120]!r} is not the URI of a result",
            code="result_uri",
            hint="results are named noetl://execution/<execution id>/result/<step>/<uuid>",
        )
    return number, rest


def result_key(uri: str) -> tuple[int, str]:
    """Return (execution id, SHA-256 of the URI in hexadecimal).

    They name objects in stores whose names must be safe.
    """
    execution_id, _ = check_uri(uri)
    return execution_id, hashlib.sha256(uri.encode("utf-8", "surrogatepass")).hexdigest()
