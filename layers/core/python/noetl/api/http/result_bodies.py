"""What is answered about results."""

from __future__ import annotations

from typing import Any

import msgspec


class Download(msgspec.Struct, frozen=True):
    """A part of a result, for ``seconds`` at ``url``.

    It is the bytes as they are kept, compressed where ``compression`` says so (gzip).
    """

    ref: str
    url: str
    size: int | None
    sha256: str | None
    seconds: int
    compression: str | None = None


class ResultAnswer(msgspec.Struct, frozen=True):
    """The result of an execution.

    ``complete``: ``result`` is all of it. Otherwise large values in it are references, and ``downloads`` has a link to each.
    ``status``: of the execution, which has ``completed`` where it has a result; a single part (``ref``) may be asked for at any time.
    """

    execution_id: str
    result: Any
    complete: bool
    downloads: list[Download]
    status: str = "completed"
