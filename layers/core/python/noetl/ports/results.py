"""Where values live that are too large to travel."""

from __future__ import annotations

from typing import Protocol


class ResultStore(Protocol):
    """Immutable objects by URI (``noetl://execution/<eid>/result/…``). Adapters: local files, memory; S3 on AWS.

    Writing the same URI again with the same bytes is a success (a repeated attempt writes the same object).
    Raises TaskError-free InfrastructureError when the store cannot be reached.
    """

    name: str
    """The tier's name, kept in references (``file``, ``memory``, ``s3``)."""

    def put(self, uri: str, data: bytes) -> None:
        """Durable when this returns."""

    def get(self, uri: str) -> bytes:
        """Raises NotFoundError(code="REFERENCE_NOT_AVAILABLE")."""

    def delete_execution(self, execution_id: int) -> int:
        """Remove all objects of an execution; the number removed."""
