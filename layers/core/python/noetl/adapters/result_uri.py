"""Result URIs, checked before any store believes them: ``noetl://execution/<eid>/result/<step>/<uuid>``."""

from __future__ import annotations

import hashlib

from noetl.domain.errors import InvalidInputError

PREFIX = "noetl://execution/"
MAX_LENGTH = 2048


def check_uri(uri: str) -> tuple[int, str]:
    """(execution id, rest after it). Raises InvalidInputError(code="result_uri") for anything that is not a result URI."""
    execution, separator, rest = uri.removeprefix(PREFIX).partition("/")
    known = uri.startswith(PREFIX) and separator and rest and len(uri) <= MAX_LENGTH
    if not (known and execution.isascii() and execution.isdigit() and len(execution) <= 19):
        raise InvalidInputError(
            f"{uri[:120]!r} is not the URI of a result",
            code="result_uri",
            hint="results are named noetl://execution/<execution id>/result/<step>/<uuid>",
        )
    return int(execution), rest


def result_key(uri: str) -> tuple[int, str]:
    """(execution id, SHA-256 of the URI in hexadecimal): what objects are called in stores whose names must be safe."""
    execution_id, _ = check_uri(uri)
    return execution_id, hashlib.sha256(uri.encode("utf-8", "surrogatepass")).hexdigest()
