"""The body of an answer without its content coding, decoded in bounded pieces.

A body that ends too early is refused.

urllib3 decodes as well, but takes a compressed body that was cut off (a proxy that gave up, a server that died) for a whole one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Protocol

from urllib3.exceptions import DecodeError, ProtocolError

_PIECE = 256 * 1024
"""Most decoded bytes at once: a few compressed ones may stand for very many."""


class Decoder(Protocol):
    def decode(self, data: bytes) -> Iterator[bytes]:
        """Decode a piece. Raises DecodeError."""

    def end(self) -> None:
        """End the input. Raises ProtocolError when something is missing."""


def decoded(pieces: Iterable[bytes], content_encoding: str) -> Iterator[bytes]:
    """Undo the codings of the header ``Content-Encoding``; leave unknown ones as they are.

    Raises DecodeError: not in that coding; ProtocolError: cut off.
    """
    found = pieces
    for name in reversed([name.strip().lower() for name in content_encoding.split(",")]):
        if name in ("gzip", "x-gzip"):
            found = _through(_Gzip(), found)
        elif name == "deflate":
            found = _through(_Deflate(), found)
        elif name not in ("", "identity"):
            break
    return iter(found)


def _through(decoder: Decoder, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Decode pieces; an empty body is in every coding."""
    begun = False
    for piece in pieces:
        begun = begun or bool(piece)
        yield from decoder.decode(piece)
    if begun:
        decoder.end()


def _inflate(engine: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    while not engine.eof:
        out = engine.decompress(data, _PIECE)
        if out:
            yield out
        data = engine.unconsumed_tail
        if not data and len(out) < _PIECE:
            return


class _Gzip:
    """A decoder of gzip members, one behind the other.

    It leaves out what follows the last one and is none (padding), as browsers do.
    """

    def __init__(self) -> None:
        self._member: zlib._Decompress | None = None
        self._members = 0
        self._over = False

    def decode(self, data: bytes) -> Iterator[bytes]:
        while data and not self._over:
            member = self._member = self._member or zlib.decompressobj(16 + zlib.MAX_WBITS)
            try:
                yield from _inflate(member, data)
            except zlib.error as error:
                if not self._members:
                    raise DecodeError(str(error)) from error
                self._over, self._member = True, None
                return
            if not member.eof:
                return
            data, self._member = member.unused_data, None
            self._members += 1

    def end(self) -> None:
        if self._member is not None:
            raise _cut_off("gzip")


class _Deflate:
    """With the frame of zlib, as the standard has it, or without, as some servers have it."""

    def __init__(self) -> None:
        self._engine: zlib._Decompress | None = None
        self._begin = b""

    def decode(self, data: bytes) -> Iterator[bytes]:
        if self._engine is None:
            self._begin += data
            if len(self._begin) < 2:
                return
            data = self._begin
            framed = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._engine = zlib.decompressobj(zlib.MAX_WBITS if framed else -zlib.MAX_WBITS)
        try:
            yield from _inflate(self._engine, data)
        except zlib.error as error:
            raise DecodeError(str(error)) from error

    def end(self) -> None:
        if self._engine is None or not self._engine.eof:
            raise _cut_off("deflate")


def _cut_off(coding: str) -> ProtocolError:
    return ProtocolError(f"the body ends in the middle of its {coding} coding")
