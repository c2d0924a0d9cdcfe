"""Byte streams of the result store: compressed on request, with verified checksums."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from typing import Any

from noetl.domain.errors import NotFoundError
from noetl.domain.results.references import unavailable
from noetl.domain.results.result_bytes import (
    SAMPLE_BYTES,
    Unpacker,
    bound,
    compression_of,
    gzip_packer,
    worth_it,
)
from noetl.ports.results import ObjectReader, ObjectWriter
from noetl.services.results.stored_bytes import store_calls


class PackedWriter:
    """A writer that compresses bytes into an object.

    ``wish``: ``gzip``, ``auto`` (which looks at the beginning first), or none.
    """

    def __init__(self, writer: ObjectWriter, compression: str | None) -> None:
        self._writer = writer
        self._undecided: bytearray | None = bytearray() if compression == "auto" else None
        self._packer: Any = gzip_packer() if compression == "gzip" else None
        self._hash = hashlib.sha256()
        self.stored = 0
        """Bytes in the store so far."""

    @property
    def compression(self) -> str | None:
        return None if self._packer is None else "gzip"

    def write(self, data: bytes) -> None:
        if self._undecided is not None:
            self._undecided += data
            if len(self._undecided) < SAMPLE_BYTES:
                return
            data = self._decide()
        self._put(data if self._packer is None else self._packer.compress(data))

    def _decide(self) -> bytes:
        data, self._undecided = bytes(self._undecided or b""), None
        if len(data) >= SAMPLE_BYTES and worth_it(data):
            self._packer = gzip_packer()
        return data

    def _put(self, data: bytes) -> None:
        if not data:
            return
        self._hash.update(data)
        self.stored += len(data)
        with store_calls():
            self._writer.write(data)

    def commit(self) -> str:
        """Commit the object, durably, and return the checksum of the bytes in the store."""
        if self._undecided is not None:
            self._put(self._decide())
        if self._packer is not None:
            self._put(self._packer.flush())
        with store_calls():
            self._writer.commit()
        return self._hash.hexdigest()


class Verified(io.RawIOBase):
    """A stream of the original bytes, verified at its end.

    The bytes in the store have to be the ones that the reference describes.
    """

    def __init__(self, reader: ObjectReader, ref: Mapping[str, Any], most: int) -> None:
        self._reader = reader
        self._ref = ref
        self._hash = hashlib.sha256()
        self._unpacker = Unpacker(ref, bound(ref, most)) if compression_of(ref) else None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = (
            self._read(len(buffer)) if self._unpacker is None else self._unpacked(self._unpacker, len(buffer))
        )
        buffer[: len(found)] = found
        return len(found)

    def _read(self, size: int) -> bytes:
        try:
            with store_calls():
                data = self._reader.read(size)
        except NotFoundError as error:
            raise unavailable(self._ref, f"is not available: {error.message}") from error
        self._hash.update(data)
        if not data and self._ref.get("sha256") not in (None, self._hash.hexdigest()):
            raise unavailable(self._ref, "does not match its checksum")
        return data

    def _unpacked(self, unpacker: Unpacker, size: int) -> bytes:
        while True:
            data = self._read(size) if unpacker.hungry else b""
            hungry = unpacker.hungry
            found = unpacker.feed(data, size)
            if found:
                return found
            if hungry and not data:
                unpacker.end()
                return b""
