"""Port of the stores for values that are too large to send."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, Self


class ObjectWriter(Protocol):
    """An object that is being written. There is nothing under its URI before ``commit``."""

    def write(self, data: bytes) -> None: ...

    def commit(self) -> None:
        """Durable when this returns.

        Raises ConflictError(code="result_exists") when there is an object already.
        """

    def abort(self) -> None:
        """Nothing is left. Allowed after ``commit``, and twice: then it does nothing."""


class ObjectReader(Protocol):
    """The bytes of an object, from one place on."""

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes; none at the end. Raises InfrastructureError."""

    def close(self) -> None: ...


class ResultStore(Protocol):
    """Immutable objects by URI (``noetl://execution/<eid>/result/…``).

    Adapters: local files, memory; S3 on AWS.

    Writing the same URI again with the same bytes is a success (a repeated attempt writes the same object).
    Raises TaskError-free InfrastructureError when the store cannot be reached.
    """

    name: str
    """The tier's name, kept in references (``file``, ``memory``, ``s3``)."""

    def put(self, uri: str, data: bytes) -> None:
        """Durable when this returns."""

    def get(self, uri: str) -> bytes:
        """Raises NotFoundError(code="REFERENCE_NOT_AVAILABLE")."""

    def writer(self, uri: str) -> ObjectWriter:
        """For what is too large to be held in memory."""

    def reader(self, uri: str, start: int = 0) -> ObjectReader:
        """Raises NotFoundError(code="REFERENCE_NOT_AVAILABLE")."""

    def path(self, uri: str) -> Path | None:
        """The file that holds exactly the object's bytes, where there is one on this machine."""

    def delete(self, uris: Sequence[str]) -> None:
        """Remove objects; those that are not there are gone already."""

    def delete_execution(self, execution_id: int) -> int:
        """Remove all objects of an execution; the number removed."""

    def doubt(self, uri: str) -> bool:
        """What was read is not what had been written: a copy that lies here is dropped.

        True: reading again goes to where it came from.
        """

    def choose(self, size: int | None, requested: str | None = None) -> ResultStore:
        """The tier that a new object goes to; its ``name`` is what the reference says.

        ``size``: None when it is not known yet.

        ``requested``: the tier that the playbook asks for (``spec.result.store``).
        """

    def at(self, store: str | None) -> ResultStore:
        """The tier that an object is read from.

        ``store``: as its reference says; None: it says nothing.
        """


class OneTier:
    """What a store says about tiers that is the only one of its place, or one among several."""

    def doubt(self, uri: str) -> bool:
        """There are no copies here."""
        return False

    def choose(self, size: int | None, requested: str | None = None) -> Self:
        return self

    def at(self, store: str | None) -> Self:
        return self
