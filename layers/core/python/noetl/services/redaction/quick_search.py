"""A quick search that proves in one pass that bytes hold no secret.

It comes before the exact search, which undoes escapes.
A sign is a part that every spelling of a secret contains: eight bytes from its middle, or an escape for one of its characters. One
automaton looks for all signs at once, at some hundred megabytes a second however many there are. Bytes without a sign hold no secret.
Bytes with a sign may hold one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from html.entities import html5
from string import ascii_letters, digits

Sign = Callable[[bytes], bool]
"""Whether bytes may hold what is looked for."""

WIDTH = 8
MOST = 4000
"""Signs for which an automaton is made; what has more is searched exactly at once."""
MEMORY = 64 * 1024**2
_HEX_GAP = rb"[0xX\\nrt \r\n\t:,;.|/_=-]*"
_LINE_GAP = rb"[\\nr \r\n\t]*"
_SYNTAX = frozenset(f"{ascii_letters}{digits}%\\&#;{{}}\"'".encode())
"""Bytes that an escape can consist of: an escape that means one of them may be part of another."""
_BEGINS = frozenset(b"%\\&")
"""Of these, what is part of an escape only where another of them follows."""


def of_texts(plain: Iterable[bytes], hexadecimal: Iterable[bytes], encoded: Iterable[bytes]) -> Sign:
    """Return the signs of secrets in their spellings.

    They are those of ``plain`` texts as they are, of ``hexadecimal`` ones in either case, and of ``encoded`` ones; the last two with gaps.
    """
    signs = {_exactly(_middle(text)) for text in plain}
    for text in hexadecimal:
        pairs = _middle(text, even=True)
        signs.add(_HEX_GAP.join(b"(?i:%s)" % _exactly(pairs[at : at + 2]) for at in range(0, len(pairs), 2)))
    for text in encoded:
        middle = _middle(text)
        signs.add(_LINE_GAP.join(_exactly(middle[at : at + 1]) for at in range(len(middle))))
    return _searched(signs) if 0 < len(signs) <= MOST else _always


def of_escapes(texts: Iterable[bytes], *, quoted: bool) -> Sign:
    """Return the signs of escapes that may hide one of ``texts``.

    Such an escape means a byte of a text, or a byte of a further escape. All other escapes leave bytes that end a text as well as an escape,
    so undoing them reveals nothing.
    """
    shown = frozenset(b"".join(texts))
    if max(shown, default=0) >= 0x80:
        return _always
    begins = _BEGINS - shown
    signs = {*_escapes((_SYNTAX | shown) - begins), *((rb"[\"']\\", b'""', b"''") if quoted else ())}
    follows = b"[%s]" % _exactly(bytes(_SYNTAX))
    return _searched({*signs, *(escape + follows for escape in _escapes(begins))})


def _escapes(wanted: frozenset[int]) -> Iterator[bytes]:
    """Return patterns of the escapes that mean one of ``wanted``."""
    if not wanted:
        return
    pairs = "|".join(f"{byte:02x}" for byte in sorted(wanted))
    digits = "|".join(f"{byte:x}" for byte in sorted(wanted))
    names = (name[:-1] for name, text in html5.items() if name.endswith(";") and wanted & set(text.encode()))
    yield f"(?i:%(?:{pairs}))".encode()
    yield rf"\\(?:x|u00|U000000)(?i:{pairs})".encode()
    yield rf"\\u\{{0*(?i:{digits})\}}".encode()
    yield f"&(?:#|(?:{'|'.join(sorted(names))});)".encode()


def _middle(text: bytes, *, even: bool = False) -> bytes:
    """Return the bytes in the middle of a secret.

    The beginning is no sign: secrets of one kind begin alike (`https://`, `-----BEGIN`), and so do texts that are no secrets.
    """
    first = max(0, len(text) - WIDTH) // 2
    return text[first - first % 2 if even else first :][:WIDTH]


def _exactly(text: bytes) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in text)


def _searched(signs: Iterable[bytes]) -> Sign:
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem, options.log_errors, options.never_capture = MEMORY, False, True
    search = re2.compile(b"|".join(sorted(signs)), options).search
    return lambda data: search(data) is not None


def _always(data: bytes) -> bool:
    return True
