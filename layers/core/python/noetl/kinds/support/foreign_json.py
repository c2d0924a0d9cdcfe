"""The decoder of JSON that a task or a remote service has made."""

from __future__ import annotations

from typing import Any

from noetl.domain import codec
from noetl.domain.errors import TaskError


def foreign_value(data: bytes, what: str) -> Any:
    """Decode JSON of another system; ``what`` names it in the error.

    Raises TaskError(code="result_too_large") when it has too many values, ValueError or RecursionError when it is no usable JSON.
    """
    try:
        return codec.decode_foreign(data)
    except codec.TooManyValuesError as error:
        raise TaskError(
            f"{what} is too large: {error}",
            kind="storage_quota",
            code="result_too_large",
            hint="write it to a file, a table or an artifact, and return where it is",
        ) from None
