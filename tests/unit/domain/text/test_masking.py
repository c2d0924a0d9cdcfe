"""Texts of messages in a log, without the tokens in them."""

from __future__ import annotations

from noetl.domain.events import Cancel
from noetl.domain.messages import Message, encode_message
from noetl.domain.text.masking import loggable
from tests.parts import over

EVENT = Cancel(7, "stop", "prog", reason="genug: \u2028 é 😀")
PROOF = "0123456789abcdef" * 4


@over(
    "text",
    [
        encode_message(Message(1, f"00000001.0-0.{PROOF}", callbacks=PROOF, event=EVENT)),
        f'{{"token" : "{PROOF[:40]} of another form", "v": []',
        f'{{"event":{{"payload":"{{\\"token\\": \\"{PROOF[:40]}\\"}}"}}}}',
        f'{{"headers":"Authorization: bearer {PROOF[:40]}"}}',
        f'{{"reason":"noetl_{PROOF[:43]}"}}',
        f'{{"to":"/api/callbacks/00000001-7-1-0-{PROOF}"}}',
    ],
)
def test_a_log_keeps_no_token_of_a_message(text):
    assert "***" in loggable(text, 1000)
    for most in range(0, len(text), 7):
        shown = loggable(text, most)
        assert PROOF[8:24] not in shown and len(shown) <= most


def test_a_log_keeps_what_is_no_token():
    text = 'no message: "token" of user:3 \\\\\\"bearer" deadbeef'
    assert loggable(text, 100) == text
