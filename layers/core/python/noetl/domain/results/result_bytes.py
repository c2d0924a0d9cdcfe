"""The stored bytes of a large result: compressed on request, verified when they are read."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from typing import Any

from noetl.domain.errors import TaskError
from noetl.domain.results.references import unavailable

WORTH_BYTES = 64 * 1024
"""Below this ``auto`` leaves a result as it is."""
SAMPLE_BYTES = 64 * 1024
WORTH_SHARE = 0.7
"""What the beginning has to shrink to for ``auto`` to compress the whole."""
LEVEL = 6
_GZIP = 16 + zlib.MAX_WBITS


def gzipped(data: bytes) -> bytes:
    """The same for the same bytes: no name, no time in it."""
    packer = gzip_packer()
    packed: bytes = packer.compress(data) + packer.flush()
    return packed


def gzip_packer() -> Any:
    """``compress(bytes)``, then ``flush()``."""
    return zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)


def worth_it(beginning: bytes) -> bool:
    """Whether something that begins so shrinks enough."""
    sample = beginning[:SAMPLE_BYTES]
    return len(zlib.compress(sample, 1)) <= WORTH_SHARE * len(sample)


def stored_as(data: bytes, compression: str | None) -> tuple[bytes, str | None]:
    """(bytes to store, how they are compressed).

    ``compression``: of ``spec.result.store.compression``.
    """
    if compression == "gzip" or (compression == "auto" and len(data) >= WORTH_BYTES and worth_it(data)):
        return gzipped(data), "gzip"
    return data, None


def compression_of(ref: Mapping[str, Any]) -> str | None:
    """Return how the bytes behind a reference are compressed.

    Raises TaskError(code="REFERENCE_NOT_AVAILABLE") for a compression that this process cannot read.
    """
    meta = ref.get("meta")
    found = meta.get("compression") if isinstance(meta, Mapping) else None
    if found in (None, "none"):
        return None
    if found != "gzip":
        raise unavailable(ref, f"is compressed by {str(found)[:40]!r}, which this release cannot read")
    return "gzip"


def opened(data: bytes, ref: Mapping[str, Any], most: int) -> bytes:
    """Return a result's value as bytes, from the bytes as they are stored.

    Their checksum is right, and no more than ``most`` bytes come out of them.

    Raises TaskError (codes ``REFERENCE_NOT_AVAILABLE``, ``result_too_large_to_load``).
    """
    wanted = ref.get("sha256")
    if wanted is not None and hashlib.sha256(data).hexdigest() != wanted:
        raise unavailable(ref, "does not match its checksum")
    if compression_of(ref) is None:
        return data
    limit = bound(ref, most)
    unpacker = zlib.decompressobj(_GZIP)
    try:
        found = unpacker.decompress(data, limit + 1)
    except zlib.error as error:
        raise unavailable(ref, f"cannot be decompressed: {error}") from error
    if len(found) > limit or not unpacker.eof:
        raise too_large(ref, limit)
    return found


def bound(ref: Mapping[str, Any], most: int) -> int:
    """Return how many bytes may come out of a compressed result, as its reference states.

    Raises TaskError above ``most``.
    """
    size = ref.get("size")
    claimed = size if isinstance(size, int) and size >= 0 else most
    if claimed > most:
        raise too_large(ref, most)
    return claimed


def too_large(ref: Mapping[str, Any], most: int) -> TaskError:
    return TaskError(
        f"the result {ref.get('ref')} is larger than {most} bytes when it is decompressed",
        kind="storage_quota",
        code="result_too_large_to_load",
        hint="pass the reference on to a task that reads it as a stream",
    )


class Unpacker:
    """A decompressor of a stream.

    It returns never more than ``limit`` bytes in all, and never much more at once than was asked for.
    """

    def __init__(self, ref: Mapping[str, Any], limit: int) -> None:
        self._ref = ref
        self._left = limit
        self._limit = limit
        self._unpacker = zlib.decompressobj(_GZIP)

    @property
    def hungry(self) -> bool:
        """It has to be fed before it can give more."""
        return not self._unpacker.unconsumed_tail

    def feed(self, data: bytes, size: int) -> bytes:
        """Return up to ``size`` bytes out of what it has.

        ``data``: what follows (nothing while it is not hungry).

        Raises TaskError(code="REFERENCE_NOT_AVAILABLE" or "result_too_large_to_load").
        """
        try:
            found = self._unpacker.decompress(self._unpacker.unconsumed_tail + data, size)
        except zlib.error as error:
            raise unavailable(self._ref, f"cannot be decompressed: {error}") from error
        self._left -= len(found)
        if self._left < 0:
            raise too_large(self._ref, self._limit)
        return found

    def end(self) -> None:
        """There is no more.

        Raises TaskError(code="REFERENCE_NOT_AVAILABLE") when it ends too early.
        """
        if not self._unpacker.eof:
            raise unavailable(self._ref, "ends too early")
