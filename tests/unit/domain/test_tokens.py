"""What a token proves, and everything that it does not; whose work is whose by name alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as but

from noetl.domain.commands import Command, ItemOutcome, LoopSlice, Rest
from noetl.domain.events import Cancel, CommandDone, ItemsDone, encode_event
from noetl.domain.outcomes import Outcome
from noetl.domain.owners import QUEUE, holds, invocation
from noetl.domain.tokens import KeyRing, fits, grant, sign, signed

OLD, NEW = "the key of last month", "the key of this month"
RING = KeyRing.of([NEW])
FINE = Outcome("ok")
COMMAND = Command(7, "3", 3, "load", "hash", "io", attempt=2, turn=1)
DONE = CommandDone(7, "cmd:3:1", "hash", "3", 2, 1, 3, "load", FINE)
SLICE = LoopSlice(round=2, start=10, stop=14, total=20, iterator="x", mode="parallel")
CHUNK = but(COMMAND, command_id="3.2:10", loop=SLICE)
ITEMS = ItemsDone(7, "items", "hash", "3.2:10", 2, 1, 3, "load", 2, [ItemOutcome(n, FINE) for n in (10, 13)])


def test_a_grant_fits_the_outcome_of_its_command():
    assert fits(grant(COMMAND, RING), DONE, RING)
    assert fits(grant(CHUNK, RING), ITEMS, RING)
    assert fits(grant(CHUNK, RING), but(ITEMS, items=[], rest=Rest(13)), RING)


@pytest.mark.parametrize(
    "claimed",
    [
        {"execution_id": 8},
        {"program": "other"},
        {"command_id": "4"},
        {"attempt": 3},
        {"turn": 2},
        {"run": 4},
        {"step": "drop"},
        {"stage": "case"},
    ],
    ids=lambda claimed: next(iter(claimed)),
)
def test_it_fits_nothing_else(claimed: dict[str, Any]):
    assert not fits(grant(COMMAND, RING), but(DONE, **claimed), RING)


@pytest.mark.parametrize(
    "claimed",
    [
        {"round": 3},
        {"items": [ItemOutcome(9, FINE)]},
        {"items": [ItemOutcome(10, FINE), ItemOutcome(14, FINE)]},
        {"rest": Rest(14)},
        {"rest": Rest(9)},
        {"command_id": "3.2:14"},
    ],
    ids=str,
)
def test_a_chunk_speaks_for_its_items_only(claimed: dict[str, Any]):
    assert not fits(grant(CHUNK, RING), but(ITEMS, **claimed), RING)


def test_a_range_cannot_be_widened_and_a_step_is_no_loop():
    token = grant(CHUNK, RING)
    assert ".10-14." in token
    for wider in (".0-20.", ".10-15.", ".10-999999999999.", ".+10-14.", ".-.", "..", ".١٠-14."):
        assert not fits(token.replace(".10-14.", wider), but(ITEMS, items=[ItemOutcome(10, FINE)]), RING), (
            wider
        )
    assert not fits(grant(COMMAND, RING), but(ITEMS, command_id="3"), RING)
    assert not fits(token, but(DONE, command_id="3.2:10"), RING)


@pytest.mark.parametrize("token", ["", ".", "..", "a.b.c", "\0", "é.1-2.é", "x" * 5000])
def test_what_is_no_token_fits_nothing(token: str):
    assert not fits(token, DONE, RING)
    assert not fits(token, ITEMS, RING)
    assert not signed(token, b"{}", RING)


def test_a_signature_is_of_the_whole_text_and_a_grant_is_no_signature():
    text = encode_event(Cancel(7, "cancel:1", "hash", reason="enough", principal="ann"))
    token = sign(text, RING)
    assert signed(token, text, RING)
    assert not signed(token, text.replace(b"ann", b"bob"), RING)
    assert not signed(token, text + b" ", RING)
    assert not signed(grant(COMMAND, RING), text, RING)
    assert not fits(token, DONE, RING)


def test_a_rotation_breaks_nothing_under_way_and_ends():
    before, during = KeyRing.of([OLD]), KeyRing.of([NEW, OLD])
    assert fits(grant(COMMAND, before), DONE, during)
    assert fits(grant(COMMAND, during), DONE, RING), "the new key grants"
    assert not fits(grant(COMMAND, before), DONE, RING)
    assert not fits(grant(COMMAND, during), DONE, before)


def test_a_ring_shows_no_key_and_takes_no_weak_one():
    ring = replace(RING)
    assert not any(key.hex() in repr(ring) or repr(key) in repr(ring) for key in ring.keys.values())
    for weak in ([], ["short"], [NEW, "short"]):
        with pytest.raises(ValueError):
            KeyRing.of(weak)


def test_an_invocation_holds_until_its_name_says():
    name = invocation(1000.5, "engine:ab")
    assert [holds(name, now) for now in (0.0, 1000.9, 1001.0, 5000.0)] == [True, True, False, False]
    assert holds(QUEUE, 1e12) is True
    assert holds("host:42", 0.0) is None, "a process has a lease"
    for odd in ("until:", "until:x:me", "until:-1:me", "until: 9:me"):
        assert holds(odd, 0.0) is False
