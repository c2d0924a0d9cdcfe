"""Messages and owners: what is read, what is refused, what is left for a newer reader."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.domain.commands import Command, LoopSlice
from noetl.domain.errors import InvalidInputError
from noetl.domain.events import Cancel, ItemsDone
from noetl.domain.messages import (
    SHARDS,
    VERSION,
    Message,
    MessageRef,
    NewerMessageError,
    decode_message,
    encode_message,
    event_dedup,
    event_group,
)
from noetl.domain.workers.lease_owners import QUEUE, holds, invocation, later, lease
from tests.parts import over

EVENT = Cancel(7, "stop", "prog", reason="genug: \u2028 é 😀")
REF = MessageRef("noetl://execution/7/result/message/x", "0" * 64, 3)


@pytest.mark.parametrize("message", [Message(1, "t", event=EVENT), Message(1, "t", 12.5, ref=REF)])
def test_a_message_comes_back_as_it_was(message):
    assert decode_message(encode_message(message)) == message


@over(
    "text",
    ["", "null", "[]", "{}", '{"v":1}', '{"v":"1"}', "[" * 9999, "\ud800", '{"v":1,"event":{"type":"unknown"}}', '{"v":true}',
     '{"v":1,"event":{"type":"cancel","execution_id":1,"event_id":"e","program":"p"},"ref":{"uri":"u","sha256":"s","size":1}}'],
)  # fmt: skip
def test_what_is_no_message_is_refused(text):
    with pytest.raises(InvalidInputError) as caught:
        decode_message(text)
    assert caught.value.code == "message_invalid" and not isinstance(caught.value, NewerMessageError)


@pytest.mark.parametrize("text", ['{"v":3}', '{"v":3,"event":{"type":"tomorrow"}}', '{"v":99,"token":[]}'])
def test_a_newer_message_is_told_apart(text):
    with pytest.raises(NewerMessageError):
        decode_message(text)


@over(
    ("over", "version"),
    [
        ({}, 1),
        ({"stage": "collection"}, 2),
        ({"loop": LoopSlice(0, 0, 1, 1, "x", "parallel", items=[1])}, 1),
        ({"loop": LoopSlice(0, 0, 1, 1, "x", "parallel", source={"ref": "noetl://x"})}, 2),
    ],
)
def test_only_what_an_earlier_reader_cannot_do_is_of_a_later_version(over, version):
    command = Command(7, "1", 1, "each", "prog", "io", **over)
    assert decode_message(encode_message(Message(VERSION, "t", command=command))).v == version


@given(st.text())
def test_any_text_is_a_message_or_refused(text):
    with pytest.raises(InvalidInputError):
        decode_message(text)


def test_control_events_of_an_execution_follow_each_other_and_items_spread():
    items = [ItemsDone(7, "e", "p", f"1.r0.{n}", 1, 0, 1, "s", 0, []) for n in range(100)]
    assert event_group(EVENT) == "7"
    assert {event_group(one) for one in items} == {f"7.{shard}" for shard in range(SHARDS)}
    assert (
        event_dedup(EVENT, "one")
        == event_dedup(Cancel(7, "stop", "other"), "one")
        != event_dedup(Cancel(8, "stop", "prog"), "one")
    )
    assert event_dedup(EVENT, "one") != event_dedup(EVENT, "two")


@over(
    ("owner", "now", "alive"),
    [
        (QUEUE, 1e12, True),
        (invocation(100.0, "engine:ab"), 100.9, True),
        (invocation(100.0, "engine:ab"), 101.0, False),
        (invocation(1000.0, "engine:ab"), 100.0, False),
        (later(1000.0), 100.0, True),
        (lease(1000.0, "io", "w"), 100.0, True),
        ("until:soon:me", 0.0, False),
        ("until::me", 0.0, False),
        ("until:-5:me", -9.0, False),
        ("laptop:1234", 0.0, None),
        ("", 0.0, None),
    ],
)
def test_a_name_says_how_long_it_owns(owner, now, alive):
    assert holds(owner, now) is alive
