"""Secrets in bytes that pass by: found wherever the stream is cut, in time that depends on the bytes alone."""

from __future__ import annotations

import random
import time

import pytest

from noetl.services.redaction import redacting_stream
from noetl.services.redaction.redacting_stream import MASK, StreamMask
from noetl.services.redaction.search_spellings import KnownSecrets


def masked(data: bytes, secrets: list[bytes], *, keep_length: bool) -> bytes:
    """Every secret looked for at every byte, in one piece."""
    out, at = b"", 0
    for start, end in _spans(data, secrets):
        out += data[at:start] + (b"*" * (end - start) if keep_length else MASK)
        at = end
    return out + data[at:]


def _spans(data: bytes, secrets: list[bytes]) -> list[tuple[int, int]]:
    found = sorted(
        (start, start + len(secret))
        for secret in secrets
        for start in range(len(data))
        if data.startswith(secret, start)
    )
    merged: list[tuple[int, int]] = []
    for start, end in found:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


@pytest.mark.parametrize("keep_length", [False, True])
@pytest.mark.parametrize("least", [0, 40, redacting_stream.LEAST])
def test_masks_as_if_the_stream_were_whole(
    keep_length: bool, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two letters only: secrets overlap, stand within one another, and nearly match everywhere."""
    monkeypatch.setattr(redacting_stream, "LEAST", least)
    chance = random.Random(f"{keep_length}{least}")
    for _ in range(150):
        secrets = [
            bytes(chance.choices(b"ab", k=chance.choice([4, 5, 6, 7, 8, 14, 15, 16, 23, 40])))
            for _ in range(chance.randint(1, 6))
        ]
        data = bytes(chance.choices(b"ab", k=chance.randint(0, 300)))
        for secret in secrets:
            place = chance.randint(0, len(data))
            data = data[:place] + secret + data[place:]
        mask = StreamMask(KnownSecrets(secrets), keep_length=keep_length)
        out, at = b"", 0
        while at < len(data):
            size = chance.choice([1, 3, 17, 100])
            out += mask.feed(data[at : at + size])
            at += size
        assert out + mask.end() == masked(data, secrets, keep_length=keep_length), (secrets, data)


def test_numbers_stay_numbers() -> None:
    mask = StreamMask(KnownSecrets([b"1000000", b"pin-1"]))
    assert mask.feed(b'{"id":41000000,"pin":"pin-1"}') + mask.end() == b'{"id":49999999,"pin":"***"}'


def test_thousands_of_secrets_cost_no_more_than_one() -> None:
    chance = random.Random(7)
    data = bytes(chance.choices(b"abcdefghijklmnopqrstuvwxyz0123456789", k=1 << 20))

    def seconds(count: int) -> float:
        mask = StreamMask(KnownSecrets(chance.randbytes(24).hex().encode() for _ in range(count)))
        began = time.process_time()
        for at in range(0, len(data), 65536):
            mask.feed(data[at : at + 65536])
        mask.end()
        return time.process_time() - began

    assert min(seconds(5000) for _ in range(3)) < 20 * min(seconds(1) for _ in range(3))
