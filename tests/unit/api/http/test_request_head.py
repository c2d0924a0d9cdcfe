"""Heads of requests by themselves: what is sound passes, whatever the cut of its bytes; time and addresses of clients."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.api.http.client_limits import THIS_MACHINE, ClientLimits, peer_of
from noetl.api.http.request_head import early_fault, head_fault
from tests.parts import over

SOUND = (
    b"GET /a?b=c HTTP/1.1\r\nHost: x:80\r\nX: caf\xc3\xa9\ttab\r\nX: again\r\n\r\n",
    b"GET http://x/health HTTP/1.1\r\nHost: [::1]:8765\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost:\r\nContent-Length: 0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n",
    b"OPTIONS * HTTP/1.0\r\n\r\n",
)


@over("head", SOUND)
def test_a_sound_head_passes_at_once_and_byte_by_byte(head):
    assert head_fault(head) is None
    for cut in range(len(head)):
        assert early_fault(head[:cut], head[cut : cut + 1]) is None
        assert early_fault(head[:cut], head[cut:] + b"\x00\n") is None, "the body is no part of it"


@given(st.binary(max_size=60), st.integers(0, 60))
def test_what_is_found_early_is_found_in_the_whole(head, cut):
    before, data = head[:cut], head[cut:]
    if b"\r\n\r\n" not in before and early_fault(before, data):
        whole = head.partition(b"\r\n\r\n")[0]
        assert (found := head_fault(whole)) is not None and found.status in (400, 501, 505)


def test_a_faulty_byte_is_found_as_soon_as_it_comes():
    assert early_fault(b"GET / HTTP/1.1", b"\n") is not None
    assert early_fault(b"GET / HTTP/1.1\r", b"\n") is None
    assert early_fault(b"", b"\x16\x03\x01") is not None


def test_who_is_behind_an_address():
    for address in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "localhost"):
        assert peer_of(address) == THIS_MACHINE
    assert peer_of("2001:db8::1") == peer_of("2001:db8::ffff:1%eth0") != peer_of("2001:db8:0:1::1")
    assert peer_of("::ffff:192.0.2.1") == peer_of("192.0.2.1") == "192.0.2.1"
    limits = ClientLimits(connections=50, per_peer=100)
    assert (limits.most_of(THIS_MACHINE), limits.most_of("192.0.2.1")) == (50, 50)


def test_when_a_client_is_late():
    limits = ClientLimits(head_seconds=10, body_seconds=10, body_rate=100)
    assert limits.late_head(10) is None and "10 s" in str(limits.late_head(10.1))
    assert limits.late_body(10, 0) is None and limits.late_body(20, 1000) is None
    assert "100 bytes per second" in str(limits.late_body(20, 999))


def test_when_a_client_reads_too_slowly():
    limits = ClientLimits(body_seconds=10, body_rate=100)
    told = [limits.late_reader(20, 1000), limits.late_reader(20, 999), limits.late_reader(10, 0)]
    assert told == [False, True, False]


WIDE = {
    "spaces inside a value": b"X: a" + b" " * 65_000 + b"b",
    "spaces around a value": b"X:" + b" \t" * 16_000 + b"a" + b"\t " * 16_000,
    "spaces and no colon": b"X" + b" " * 65_000,
    "a name that does not end": b"X" * 65_000,
    "a Host of colons": b"Host: " + b":" * 65_000,
    "many short headers": b"\r\n".join(b"X: a b " for _ in range(7_000)),
}
"""The largest heads there are, each with what a backtracking search would try again and again."""


@pytest.mark.parametrize("name", WIDE)
def test_the_time_grows_with_the_head(name):
    """A head needs no token, and nothing else runs while it is read: spaces inside a value took 15 s."""
    head = b"GET /health HTTP/1.1\r\nHost: x\r\n" + WIDE[name] + b"\r\n\r\n"
    began = time.process_time()
    head_fault(head)
    early_fault(head[:100], head[100:-4])
    assert time.process_time() - began < 1.0
