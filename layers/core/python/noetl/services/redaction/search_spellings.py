"""Secrets in bytes, also where a format spelled their characters differently.

A format that escapes characters may do so for any of them, in either case of letters and in any mixture. Listing every such text is
impossible, so the escapes are undone instead, and what is found in the result is traced back to the bytes it came from. Hexadecimal with
separators, and base64 with line ends, are searched without what separates them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property
from html.entities import html5

from noetl.services.redaction import quick_search
from noetl.services.redaction.search_blocks import Blocks, Span, merged

ROUNDS = 3
"""Escapes within escapes that are undone: an address in an address in JSON."""
WIDEST = 12
"""Bytes that a byte of a secret takes up at most: a number of HTML in JSON in JSON, a pair of hexadecimal digits and its separator."""
# Every alternative begins with a letter of its own: so `re` skips to the next of them fast.
_ESCAPES = (
    rb"%(?P<percent>[0-9A-Fa-f]{2})"
    rb"|\\\\{0,16}(?:u(?:(?P<high>[dD][89abAB][0-9A-Fa-f]{2})\\{1,16}u(?P<low>[dD][c-fC-F][0-9A-Fa-f]{2})"
    rb"|(?P<unit>[0-9A-Fa-f]{4})|\{(?P<braced>[0-9A-Fa-f]{1,6})\})"
    rb"|U(?P<long>[0-9A-Fa-f]{8})|x(?P<byte>[0-9A-Fa-f]{2})QUOTES)"
    rb"|&(?:#0{0,8}(?P<decimal>[1-9][0-9]{0,6});?|#[xX]0{0,8}(?P<hex>[1-9A-Fa-f][0-9A-Fa-f]{0,5});?"
    rb"|(?P<name>[A-Za-z][A-Za-z0-9]{1,30});)"
)
_ESCAPE = re.compile(_ESCAPES.replace(b"QUOTES", b""))
_BEGINS = (b"%", b"\\u", b"\\U", b"\\x", b"&")
"""Bytes without any of these have no escape."""
_ESCAPE_OR_QUOTES = re.compile(
    _ESCAPES.replace(b"QUOTES", rb"|(?P<within>[\"'])\\{1,16}(?P=within)") + rb"|\"\"|''"
)
"""Quotes that are doubled, too: looked for only where a secret has one."""
_HEX_GAP = rb"(?:0[xX]|\\{1,8}[xnrt]|[ \t\r\n:,;.|/_=-]){0,8}"
_LINE_GAP = rb"(?:\\{1,8}[nr]|[ \t\r\n]){0,8}"
_DECODED: dict[bytes, bytes] = {}
_LOWER = bytes(range(256)).lower()


class KnownSecrets:
    """The secrets to redact: texts of at least four bytes.

    ``hexadecimal`` ones (small letters) and ``encoded`` ones are searched with gaps, too.
    """

    def __init__(
        self,
        secrets: Iterable[bytes],
        hexadecimal: Iterable[bytes] = (),
        encoded: Iterable[bytes] = (),
    ) -> None:
        known = set(secrets)
        self._texts = known
        self._plain = Blocks(known)
        self._quoted = any(b'"' in one or b"'" in one for one in known)
        self._escape = _ESCAPE_OR_QUOTES if self._quoted else _ESCAPE
        pairs = {one for one in hexadecimal if len(one) >= 8}
        lines = {one for one in encoded if len(one) >= 8}
        self._hexadecimal, self._lines = Blocks(pairs), Blocks(lines)
        self._sign = quick_search.of_texts(known, pairs, lines)
        self.longest = max(
            self._plain.longest, WIDEST * self._hexadecimal.longest // 2, 2 * self._lines.longest
        )
        """Bytes that the longest one can take up."""

    def found_in(self, data: bytes) -> list[Span]:
        """Return where secrets are, in ascending order, with overlapping spans merged."""
        near = self._sign(data)
        return merged([*self._spelled(data, ROUNDS, near), *(self._with_gaps(data) if near else ())])

    def plain_in(self, data: bytes) -> list[Span]:
        """Return where secrets are in spellings that were given, as ``found_in`` does."""
        return self._plain.found_in(data)

    def __contains__(self, data: bytes) -> bool:
        near = self._sign(data)
        return bool(self._spelled(data, ROUNDS, near) or (near and self._with_gaps(data)))

    @cached_property
    def _hidden(self) -> quick_search.Sign:
        """Made when an escape is seen for the first time."""
        return quick_search.of_escapes(self._texts, quoted=self._quoted)

    def _spelled(self, data: bytes, rounds: int, near: bool) -> list[Span]:
        found = self._plain.found_in(data) if near else []
        if not rounds or not (self._quoted or any(begin in data for begin in _BEGINS)):
            return found
        if not self._hidden(data):
            return found
        undone = self._escape.sub(_cached, data)
        if undone == data:
            return found
        deeper = self._spelled(undone, rounds - 1, self._sign(undone))
        return [*found, *_traced(self._escape, data, deeper)] if deeper else found

    def _with_gaps(self, data: bytes) -> list[Span]:
        found: list[Span] = []
        if self._hexadecimal:
            joined = data.replace(b"0x", b"").replace(b"0X", b"")
            joined = joined.translate(_LOWER, b"\\xXnrt \t\r\n:,;.|/_=-")
            found += _gapped(data, joined, self._hexadecimal, _HEX_GAP, 2, re.IGNORECASE)
        if self._lines:
            joined = data.replace(b"\\n", b"").replace(b"\\r", b"").translate(None, b"\\ \t\r\n")
            found += _gapped(data, joined, self._lines, _LINE_GAP, 1, 0)
        return found


def _cached(token: re.Match[bytes]) -> bytes:
    """``_decoded``, remembered by the escape: texts have few different ones."""
    text = token[0]
    known = _DECODED.get(text)
    if known is None:
        known = _decoded(token)
        if len(_DECODED) < 4096 and len(text) < 16:
            _DECODED[text] = known
    return known


def _decoded(token: re.Match[bytes]) -> bytes:
    """Return the bytes that an escape means."""
    kind, digits = token.lastgroup, token[token.lastgroup or 0]
    if kind is None:
        return digits[:1]
    if kind in ("percent", "byte"):
        return bytes([int(digits, 16)])
    if kind == "within":
        return token[0][: token[0].index(digits) + 1]
    if kind == "name":
        return html5.get(f"{digits.decode()};", token[0].decode()).encode()
    if kind == "low":
        code = 0x10000 + ((int(token["high"], 16) - 0xD800) << 10) + int(digits, 16) - 0xDC00
    else:
        code = int(digits, 10 if kind == "decimal" else 16)
    return chr(code).encode("utf-8", "surrogatepass") if code < 0x110000 else token[0]


def _traced(escape: re.Pattern[bytes], data: bytes, spans: list[Span]) -> list[Span]:
    """Map spans of the text without escapes to spans of ``data``.

    A piece that looks like an escape and means itself (``&aa;``) is none.
    """
    undone: list[int] = [0]
    """Where each piece (an escape, or what is between two) begins in the result …"""
    given: list[int] = [0]
    """… and in ``data``."""
    for token in escape.finditer(data):
        decoded = _decoded(token)
        if decoded == token[0]:
            continue  # The name of no character: what stands there is the text itself, and its end may be a secret.
        before = undone[-1] + token.start() - given[-1]
        undone += [before, before + len(decoded)]
        given += [token.start(), token.end()]
    undone.append(undone[-1] + len(data) - given[-1])
    given.append(len(data))
    return [(_begin(undone, given, start), _end(undone, given, end)) for start, end in spans]


def _begin(undone: list[int], given: list[int], place: int) -> int:
    """Pieces at odd places are escapes: whole or not at all."""
    piece = bisect_right(undone, place) - 1
    return given[piece] if piece % 2 else given[piece] + place - undone[piece]


def _end(undone: list[int], given: list[int], place: int) -> int:
    piece = bisect_right(undone, place - 1) - 1
    return given[piece + 1] if piece % 2 else given[piece] + place - undone[piece]


def _gapped(data: bytes, joined: bytes, known: Blocks, gap: bytes, group: int, flags: int) -> list[Span]:
    found: list[Span] = []
    for text in {joined[start:end] for start, end in known.found_in(joined)}:
        pieces = (re.escape(text[at : at + group]) for at in range(0, len(text), group))
        found += (match.span() for match in re.finditer(gap.join(pieces), data, flags))
    return found
