"""Result URIs, checked before any store believes them: ``noetl://execution/<eid>/result/<step>/<uuid>``."""

from __future__ import annotations

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
