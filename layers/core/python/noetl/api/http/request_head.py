"""Strict reading of a request's head (RFC 9112), whichever server received its bytes.

Servers and proxies differ in how they read a malformed head. Two of them in a row then disagree on where a request ends, which lets one
request hide in another. So a head that allows two readings is refused, although each server would accept it in some way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LENGTH_DIGITS = 18
"""Digits of a Content-Length that is read as a number at all."""
SINGLE = frozenset(
    {b"host", b"content-length", b"transfer-encoding", b"content-type", b"authorization", b"origin"}
)
"""Headers that a request has once."""
_START = re.compile(
    rb"(?P<method>[!#$%&'*+\-.^_`|~0-9A-Za-z]+) (?P<target>[\x21-\x7e]+) HTTP/(?P<version>\d\.\d)"
)
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LONE_BREAK = re.compile(rb"(?<!\r)\n|\r(?!\n)")
_LONE_FEED = re.compile(rb"(?<!\r)\n")
_HOST = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._~%!$&'()*+,;=-]*)(:\d{0,5})?")


@dataclass(frozen=True, slots=True)
class HeadFault:
    """Why a head is refused: 400, or 501 and 505 for what HTTP has and this server lacks."""

    status: int
    reason: str
    detail: str


def head_fault(head: bytes) -> HeadFault | None:
    """Find what is wrong with a head: everything before the empty line, None when it is sound."""
    if _LONE_BREAK.search(head):
        return _lone_break()
    if found := _CONTROL.search(head):
        return _control(found)
    first, *lines = head.removesuffix(b"\r\n\r\n").removesuffix(b"\r\n").split(b"\r\n")
    start = _START.fullmatch(first)
    if start is None:
        return _bad("the request line is not `METHOD target HTTP/1.1`")
    if start["method"] != start["method"].upper():
        return _bad("the method is not in capital letters")
    version = start["version"]
    if version not in (b"1.0", b"1.1"):
        return HeadFault(
            505, "HTTP Version Not Supported", f"HTTP/{version.decode()} is not supported; use HTTP/1.1"
        )
    headers: dict[bytes, bytes] = {}
    for line in lines:
        if line[:1] in (b" ", b"\t"):
            return _bad("a header continues on the next line (obs-fold), which RFC 9112 forbids")
        name, colon, value = line.partition(b":")
        if not colon or _NAME.fullmatch(name) is None:
            return _bad(f"{_shown(line)} is not a header")
        name = name.lower()
        if name in headers and name in SINGLE:
            return _bad(f"the header {_shown(name)} is there twice")
        headers[name] = value.strip(b" \t")
    return _host_fault(version, headers) or _length_fault(version, headers)


def early_fault(before: bytes, data: bytes) -> HeadFault | None:
    """Find a fault in an incomplete head that no further byte can mend.

    ``before``: what came before ``data`` (its end is enough).
    """
    known = before[-3:]
    text = (known + data).partition(b"\r\n\r\n")[0]
    if found := _CONTROL.search(text, len(known)):
        return _control(found)
    return _lone_break() if _LONE_FEED.search(text, max(0, len(known) - 1)) else None


def _control(found: re.Match[bytes]) -> HeadFault:
    return _bad(f"the head has the control character 0x{found[0][0]:02x}")


def _lone_break() -> HeadFault:
    return _bad("a line of the head does not end with CR LF")


def _host_fault(version: bytes, headers: dict[bytes, bytes]) -> HeadFault | None:
    host = headers.get(b"host")
    if host is None:
        return _bad("HTTP/1.1 wants the header Host") if version == b"1.1" else None
    return None if _HOST.fullmatch(host) else _bad(f"{_shown(host)} is not a Host")


def _length_fault(version: bytes, headers: dict[bytes, bytes]) -> HeadFault | None:
    length, coding = headers.get(b"content-length"), headers.get(b"transfer-encoding")
    if length is not None and coding is not None:
        return _bad("Content-Length and Transfer-Encoding contradict each other; send one of them")
    if length is not None and not (length.isdigit() and len(length) <= LENGTH_DIGITS):
        return _bad(f"Content-Length: {_shown(length)} is not a length of at most {LENGTH_DIGITS} digits")
    if coding is None:
        return None
    if version == b"1.0":
        return _bad("HTTP/1.0 has no Transfer-Encoding")
    if coding.lower() != b"chunked":
        return HeadFault(
            501, "Not Implemented", f"Transfer-Encoding: {_shown(coding)} is not taken; send chunked"
        )
    return None


def _shown(text: bytes) -> str:
    return repr(text[:40].decode("latin-1"))


def _bad(detail: str) -> HeadFault:
    return HeadFault(400, "Bad Request", detail)
