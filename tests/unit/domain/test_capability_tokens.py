"""Capability tokens: everything that a token claims has to be what a message says."""

from __future__ import annotations

import msgspec
import pytest

from noetl.domain.capability_tokens import KeyRing, fits, grant, granted, sign, signed
from noetl.domain.commands import ChunkRest, Command, FrozenScope, ItemOutcome, LoopSlice
from noetl.domain.events import Cancel, CommandDone, ItemsDone, encode_event
from noetl.domain.outcomes.outcomes import Outcome
from tests.parts import over

OLD, NEW = "the key that was before", "the key that is there now"
RING = KeyRing.of([NEW, OLD])
COMMAND = Command(7, "3.1", 3, "pay", "prog", "io", attempt=2, turn=1, scope=FrozenScope(ctx={"a": 1}))
DONE = CommandDone(7, "done", "prog", "3.1", 2, 1, 3, "pay", Outcome("ok", 1))
LOOP = msgspec.structs.replace(COMMAND, loop=LoopSlice(0, 10, 20, 40, "n", "parallel", list(range(10, 20))))
ITEMS = ItemsDone(
    7, "items", "prog", "3.1", 2, 1, 3, "pay", 0, [ItemOutcome(n, Outcome("ok")) for n in (10, 19)]
)
OTHER = {
    "execution_id": 8, "command_id": "3.2", "attempt": 3, "turn": 2, "run": 4, "step": "refund", "program": "gorp",
}  # fmt: skip


def test_a_token_fits_what_it_was_granted_for():
    assert fits(grant(COMMAND, RING), DONE, RING)
    assert fits(grant(LOOP, RING), ITEMS, RING)
    assert granted(grant(COMMAND, RING), COMMAND, RING)


@over("field", OTHER)
def test_every_claim_counts(field):
    changed = {field: OTHER[field]}
    assert not fits(grant(COMMAND, RING), msgspec.structs.replace(DONE, **changed), RING)
    assert not fits(grant(LOOP, RING), msgspec.structs.replace(ITEMS, **changed), RING)
    assert not granted(grant(COMMAND, RING), msgspec.structs.replace(COMMAND, **changed), RING)


@over(
    "event",
    [
        msgspec.structs.replace(ITEMS, items=[ItemOutcome(9, Outcome("ok"))]),
        msgspec.structs.replace(
            ITEMS, items=[ItemOutcome(12, Outcome("ok")), ItemOutcome(20, Outcome("ok"))]
        ),
        msgspec.structs.replace(ITEMS, items=[ItemOutcome(-1, Outcome("ok"))]),
        msgspec.structs.replace(ITEMS, rest=ChunkRest(20)),
        msgspec.structs.replace(ITEMS, rest=ChunkRest(9)),
        msgspec.structs.replace(ITEMS, round=1),
        DONE,
        msgspec.structs.replace(DONE, stage="case"),
    ],
)
def test_a_chunk_speaks_for_its_own_items_only(event):
    assert not fits(grant(LOOP, RING), event, RING)


def test_a_stage_speaks_for_itself_only():
    case = msgspec.structs.replace(COMMAND, stage="case")
    assert not fits(grant(COMMAND, RING), msgspec.structs.replace(DONE, stage="case"), RING)
    assert fits(grant(case, RING), msgspec.structs.replace(DONE, stage="case"), RING)
    assert not fits(grant(COMMAND, RING), ITEMS, RING)


@over("part", [0, 1, 2])
@over("change", ["", "0", "0-99", "-", "é", "9" * 5000, "0-" + "9" * 13, "٣-٤"])
def test_a_token_that_was_touched_fits_nothing(part, change):
    for command, event in ((COMMAND, DONE), (LOOP, ITEMS)):
        parts = grant(command, RING).split(".")
        parts[part] = change
        assert not fits(".".join(parts), event, RING)
        assert not fits(change, event, RING)
        assert not granted(".".join(parts), command, RING)


def test_a_wider_span_is_not_believed():
    kid, _, mac = grant(LOOP, RING).split(".")
    wide = msgspec.structs.replace(ITEMS, items=[ItemOutcome(25, Outcome("ok"))])
    assert not fits(f"{kid}.10-40.{mac}", wide, RING)


def test_keys_are_rotated_without_breaking_what_is_under_way():
    before, after = KeyRing.of([OLD]), KeyRing.of([NEW])
    text = encode_event(Cancel(7, "stop", "prog"))
    for ring, good in ((RING, True), (before, True), (after, False)):
        assert fits(grant(COMMAND, before), DONE, ring) is good
        assert granted(grant(COMMAND, before), COMMAND, ring) is good
        assert signed(sign(text, before), text, ring) is good
    assert grant(COMMAND, RING) == grant(COMMAND, after), "the current key signs"


def test_a_control_event_is_signed_over_its_whole_text():
    text = encode_event(Cancel(7, "stop", "prog"))
    token = sign(text, RING)
    assert signed(token, text, RING)
    for other in (Cancel(8, "stop", "prog"), Cancel(7, "stop", "prog", cascade=False)):
        assert not signed(token, encode_event(other), RING)
    assert not signed(grant(COMMAND, RING), text, RING)
    assert not signed("", text, RING) and not signed("é.é", text, RING)


@pytest.mark.parametrize("secrets", [[], ["short"], [NEW, "short"]])
def test_a_ring_needs_real_keys(secrets):
    with pytest.raises(ValueError, match="key"):
        KeyRing.of(secrets)
    assert NEW not in repr(RING) and "keys" not in repr(RING)
