"""Whose process has the other end of a connection."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from noetl.adapters.connection_users import user_of
from tests.parts import over

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc/net")


@linux
@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_the_user_of_a_local_connection(family, address):
    try:
        listener = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip(f"this machine has no {address}")
    with listener, socket.create_connection(listener.getsockname()[:2]) as client:
        server, _ = listener.accept()
        with server:
            ends = server.getpeername()[:2], server.getsockname()[:2]
            assert ends[0] == client.getsockname()[:2]
            assert user_of(*ends) == os.getuid()
            assert user_of((address, 1), ends[1]) is None, "there is no such connection"


@over("client", [None, ("", 0), ("testclient", 50000), ("203.0.113.9", 4321)])
def test_who_is_not_known(client):
    assert user_of(client, ("127.0.0.1", 8765)) is None
    assert user_of(("127.0.0.1", 8765), None) is None
