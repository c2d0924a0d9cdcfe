"""Bodies that are compressed: whole ones are decoded wherever their pieces end, cut ones are refused wherever they were cut."""

from __future__ import annotations

import gzip
import itertools
import zlib
from collections.abc import Callable

import pytest
from urllib3.exceptions import DecodeError, ProtocolError

from noetl.kinds.http.content_encoding import decoded
from tests.parts import over

TEXT = b"".join(b"%d," % (n * n) for n in range(400))


def raw(data: bytes) -> bytes:
    engine = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return engine.compress(data) + engine.flush()


CODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "members": ("x-gzip", lambda data: gzip.compress(data[:100]) + gzip.compress(data[100:])),
    "deflate": ("Deflate", zlib.compress),
    "deflate without a frame": ("deflate", raw),
    "twice": ("deflate, gzip", lambda data: gzip.compress(zlib.compress(data))),
}


@over("name", CODINGS)
@over("size", [1, 7, 10_000])
def test_a_whole_body_comes_out_as_it_went_in(name: str, size: int) -> None:
    coding, pack = CODINGS[name]
    packed = pack(TEXT)
    pieces = [packed[at : at + size] for at in range(0, len(packed), size)]
    assert b"".join(decoded(pieces, coding)) == TEXT
    assert list(decoded([], coding)) == []


@pytest.mark.parametrize("name", CODINGS)
def test_a_body_that_was_cut_off_is_told_wherever_it_was(name: str) -> None:
    coding, pack = CODINGS[name]
    packed = pack(TEXT)
    ends = {len(gzip.compress(TEXT[:100]))} if name == "members" else set()  # there, it is a whole one
    for cut in set(range(1, len(packed))) - ends:
        with pytest.raises(ProtocolError):
            list(decoded([packed[:cut]], coding))


def test_what_is_not_compressed_is_refused_and_padding_is_not() -> None:
    for coding in ("gzip", "deflate"):
        with pytest.raises(DecodeError):
            list(decoded([b"hello"], coding))
    assert b"".join(decoded([gzip.compress(TEXT) + b"\0" * 9, b"\0"], "gzip")) == TEXT
    assert list(decoded([b"as", b"is"], "br")) == [b"as", b"is"]


def test_little_that_stands_for_much_comes_in_pieces() -> None:
    bomb = decoded([gzip.compress(bytes(8 * 2**20))], "gzip")
    assert [len(piece) for piece in itertools.islice(bomb, 3)] == [256 * 1024] * 3
