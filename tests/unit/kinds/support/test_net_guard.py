"""URLs are read one way, and addresses are judged by what they are."""

from __future__ import annotations

import ipaddress

import pytest

from noetl.domain.errors import TaskError
from noetl.kinds.support.net_guard import Allowed, parse_url, why_internal
from tests.parts import over


@over(
    ("url", "sent", "shown"),
    [
        ("https://API.Example.com", "/", "https://api.example.com/"),
        ("http://example.com:80/a b?q=ü&r=%20#frag", "/a%20b?q=%C3%BC&r=%20", "http://example.com/a%20b?q=%C3%BC&r=%20"),
        ("https://bücher.example/", "/", "https://xn--bcher-kva.example/"),
        ("https://[2606:4700::1111]:8443/x", "/x", "https://[2606:4700::1111]:8443/x"),
        ("http://example.com?x", "/?x", "http://example.com/?x"),
        ("http://example.com//evil.example/", "//evil.example/", "http://example.com//evil.example/"),
        ("  http://93.184.216.34/\n", "/", "http://93.184.216.34/"),
    ],
)  # fmt: skip
def test_urls(url, sent, shown):
    target = parse_url(url)
    assert (target.path, target.url) == (sent, shown)


def test_a_password_in_a_url_is_not_repeated():
    with pytest.raises(TaskError) as caught:
        parse_url("http://user:canary@example.com/")
    assert "canary" not in str(caught.value)


@over(
    ("address", "reason"),
    [
        ("127.0.0.1", "loopback"),
        ("10.1.2.3", "private"),
        ("172.31.255.255", "private"),
        ("192.168.0.1", "private"),
        ("169.254.169.254", "link-local"),
        ("100.127.255.255", "carrier-grade"),
        ("0.0.0.0", "unspecified"),
        ("224.0.0.251", "multicast"),
        ("255.255.255.255", "reserved"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("fe80::1", "link-local"),
        ("fd00:ec2::254", "private"),
        ("ff02::1", "multicast"),
        ("::ffff:10.0.0.1", "private"),
        ("::127.0.0.1", "loopback"),
        ("64:ff9b::a9fe:a9fe", "link-local"),
        ("64:ff9b:1::8.8.8.8", "NAT64"),
        ("2002:a9fe:a9fe::", "link-local"),
        ("2001:0:4136:e378::1", "reserved"),
        ("4000::1", "reserved"),
        ("8.8.8.8", None),
        ("172.32.0.1", None),
        ("100.128.0.1", None),
        ("2606:4700::1111", None),
        ("::ffff:8.8.8.8", None),
        ("64:ff9b::8.8.8.8", None),
    ],
)
def test_internal_addresses(address, reason):
    found = why_internal(ipaddress.ip_address(address))
    assert found is None if reason is None else reason in str(found)


@over(
    ("entries", "host", "address", "ok"),
    [
        (("10.0.0.0/8",), "db.internal", "10.1.1.1", True),
        (("10.0.0.0/8",), "db.internal", "::ffff:10.1.1.1", True),
        (("10.0.0.0/8",), "db.internal", "11.1.1.1", True),
        (("10.0.0.0/8",), "db.internal", "192.168.1.1", False),
        (("db.internal",), "db.internal", "192.168.1.1", True),
        (("db.internal",), "evil.db.internal", "192.168.1.1", False),
        (("::1",), "localhost", "::1", True),
        (("::1",), "localhost", "127.0.0.1", False),
        ((), "localhost", "127.0.0.1", False),
    ],
)
def test_allowed(entries, host, address, ok):
    if ok:
        Allowed(entries).check(host, ipaddress.ip_address(address))
    else:
        with pytest.raises(TaskError) as caught:
            Allowed(entries).check(host, ipaddress.ip_address(address))
        assert caught.value.code == "address_refused"
