"""Secrets are found as by a search that skips nothing, whatever the bytes are and wherever a stream is cut."""

from __future__ import annotations

import base64

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from noetl.services.redaction import quick_search, redacting_stream, search_spellings
from noetl.services.redaction.redacting_stream import StreamMask
from noetl.services.redaction.search_blocks import Span, merged
from noetl.services.redaction.search_spellings import ROUNDS, KnownSecrets
from tests.parts import repeated

SEPARATORS = (b"", b"", b"", b":", b" ", b"\n", b"\\n", b"0x", b", ")


def reference(known: KnownSecrets, secrets: list[bytes], data: bytes) -> list[Span]:
    """Each text looked for at each place; each escape undone one by one, with the bytes that each byte comes from; gaps without a sign."""
    quoted = any(quote in secret for secret in secrets for quote in (b'"', b"'"))
    escape = search_spellings._ESCAPE_OR_QUOTES if quoted else search_spellings._ESCAPE
    origins = [(at, at + 1) for at in range(len(data))]
    text, spans = data, []
    for _ in range(ROUNDS + 1):
        for secret in secrets:
            for at in range(len(text) - len(secret) + 1):
                if text.startswith(secret, at):
                    spans.append((origins[at][0], origins[at + len(secret) - 1][1]))
        undone, left, at = b"", [], 0
        for token in escape.finditer(text):
            meant = search_spellings._decoded(token)
            if meant == token[0]:  # The name of no character is no escape.
                continue
            undone += text[at : token.start()] + meant
            left += origins[at : token.start()]
            left += [(origins[token.start()][0], origins[token.end() - 1][1])] * len(meant)
            at = token.end()
        text, origins = undone + text[at:], left + origins[at:]
    return merged([*spans, *known._with_gaps(data)])


def spelled(byte: int, way: int) -> bytes:
    """One byte of ASCII, in one of the ways in which formats escape it."""
    ways = (
        "{0}",
        "%{1:02x}",
        "\\u{1:04X}",
        "&#{1};",
        "&#x{1:x};",
        "\\x{1:02X}",
        "%25{1:02X}",
        "\\u0025{1:02x}",
    )
    ways += ("\\u{{{1:x}}}", "\\U{1:08x}", "&amp;#{1};", "%2525{1:02x}", "&percnt;{1:02X}", "\\\\u{1:04x}")
    return ways[way % len(ways)].format(chr(byte), byte).encode()


LETTERS = st.sampled_from(b"abAB01%&;#u\\x/+ <'\"n")
SECRETS = st.lists(st.lists(LETTERS, min_size=4, max_size=20).map(bytes), min_size=1, max_size=3)


@st.composite
def texts(draw: st.DrawFn, secrets: list[bytes]) -> bytes:
    """Secrets in spellings of all sorts, whole or nearly, between bytes that look like parts of them."""
    noise = st.one_of(
        st.lists(LETTERS, max_size=12).map(bytes),
        st.sampled_from(
            [b"&amp;", b"%41", b"\\u00e9", "é".encode(), b"&eacute;", b'""', b'"\\"', b"%", b"&#"]
        ),
    )
    parts = [draw(noise)]
    for _ in range(draw(st.integers(0, 3))):
        secret = draw(st.sampled_from(secrets))
        kind = draw(st.sampled_from(["plain", "escaped", "hex", "base64"]))
        if kind == "escaped":
            ways = draw(st.lists(st.integers(0, 13), min_size=len(secret), max_size=len(secret)))
            piece = b"".join(spelled(byte, way) for byte, way in zip(secret, ways, strict=True))
        elif kind == "plain":
            piece = secret
        else:
            whole = secret.hex().encode() if kind == "hex" else base64.b64encode(secret)
            size = 2 if kind == "hex" else 1
            piece = b"".join(
                whole[at : at + size] + draw(st.sampled_from(SEPARATORS)) for at in range(0, len(whole), size)
            )
            piece = draw(st.sampled_from([piece, piece.upper()]))
        parts += [piece[: draw(st.sampled_from([len(piece), len(piece) - 1]))], draw(noise)]
    return b"".join(parts)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[bytes], bytes]:
    secrets = draw(SECRETS)
    return secrets, draw(texts(secrets))


def gapped(secrets: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    hexadecimal = [secret.hex().encode() for secret in secrets]
    whole = [base64.b64encode(secret).rstrip(b"=") for secret in secrets]
    return hexadecimal, [one[: len(one) - len(one) % 4] for one in whole if len(one) >= 8]


@settings(max_examples=repeated(gate=100, full=300), deadline=None)
@given(cases())
@example(([b"a%41b"], b"&amp; a%2541b"))
@example(([b"abAB"], b"%61\\u0062&#65;&#x42;"))
@example(([b"it's"], b"it''s"))
@example(([b"a&aa"], b"a&aa;"))
@example(([b"a&aa"], b"a&aa;%20"))
@example(([b"a&aa"], b"a&aa;%61&aa;"))
@example(([b"aaa;"], b"&amp;aaa;"))
@example(([b"aaa;"], b"&aaa;%61aa;"))
def test_finds_what_a_search_without_signs_finds(case: tuple[list[bytes], bytes]) -> None:
    secrets, data = case
    known = KnownSecrets(secrets, *gapped(secrets))
    assert known.found_in(data) == reference(known, secrets, data)


@settings(max_examples=repeated(gate=20, full=60), deadline=None)
@given(cases())
def test_masks_the_same_wherever_a_stream_is_cut(case: tuple[list[bytes], bytes]) -> None:
    secrets, data = case
    known = KnownSecrets(secrets, *gapped(secrets))

    def masked(*pieces: bytes) -> bytes:
        mask = StreamMask(known, keep_length=True)
        return b"".join([*(mask.feed(piece) for piece in pieces), mask.end()])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(redacting_stream, "LEAST", 0)
        found = known.found_in(data)
        whole = masked(data)
        assert all(set(whole[start:end]) == {ord("*")} for start, end in found)
        for cut in range(len(data) + 1):
            shown = masked(data[:cut], data[cut:])
            assert all(set(shown[start:end]) == {ord("*")} for start, end in found), cut


def test_what_has_no_sign_is_not_searched_or_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten megabytes with escapes that mean nothing to a secret cost two passes."""

    def refuse(*_: object) -> None:
        raise AssertionError("searched exactly")

    known = KnownSecrets([b"hunter2-Pa55word"], [b"hunter2-Pa55word".hex().encode()], [b"aHVudGVyMi1QYTU1"])
    data = b'{"name": "Ren\\u00e9 &amp; &lt;b&gt; caf&eacute; 100% %20", "n": [1.25, "12:34:56"]}\n' * 100_000
    assert known._hidden(b"%41") and known._sign(b"hunter2-Pa55word")
    monkeypatch.setattr(known, "_escape", None)
    monkeypatch.setattr(known, "_plain", None)
    monkeypatch.setattr(known, "_with_gaps", refuse)
    assert known.found_in(data) == []


def test_too_many_texts_for_an_automaton_are_searched_at_once() -> None:
    many = [f"{number:08x}-{number * 7919:08x}".encode() for number in range(quick_search.MOST + 1)]
    known = KnownSecrets(many)
    assert known.found_in(b"first " + many[-1] + b" last") == [(6, 6 + len(many[-1]))]
    assert known.found_in(b"first %s last" % many[7].replace(b"-", b"%2d"))
