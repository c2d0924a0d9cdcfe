"""Connections that are kept between calls: who may use them, what the guard says of them, and what happens when they end."""

from __future__ import annotations

import socket
import time

import pytest

from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential
from noetl.kinds.http import connection
from noetl.kinds.registry import default_registry
from noetl.kinds.support import net_guard
from noetl.kinds.support.idle_connections import Moment
from noetl.kinds.support.net_guard import Names
from tests.waiting import PATIENCE

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture(autouse=True)
def nothing_kept():
    connection.forget()
    yield
    connection.forget()


@pytest.fixture
def call(make_context):
    def get(url, allow=("127.0.0.1",), credentials=None, **params):
        context = make_context(http_allow=allow, credentials=credentials)
        return default_registry().run("http", {"url": url, **params}, context).result

    return get


@pytest.fixture
def failure(call):
    def get(*args, **params) -> TaskError:
        with pytest.raises(TaskError) as caught:
            call(*args, **params)
        return caught.value

    return get


class Resolver(dict[str, str]):
    """Addresses by name. ``asked``: the names that somebody wanted to know."""

    def __init__(self):
        super().__init__()
        self.asked: list[str] = []

    def getaddrinfo(self, host, port, **_):
        self.asked.append(host)
        if host not in self:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET, 1, 6, "", (self[host], port))]


@pytest.fixture
def names(monkeypatch):
    resolver = Resolver()
    monkeypatch.setattr(net_guard.socket, "getaddrinfo", resolver.getaddrinfo)
    return resolver


# --- the guard ------------------------------------------------------------------------------------


def test_a_name_that_is_bound_anew_between_two_calls_leads_nowhere_else(web, call, failure, names):
    web.answers["/"] = (200, {}, b"hi")
    url = f"http://rebind.example:{web.port}/"
    names["rebind.example"] = "127.0.0.1"
    call(url)
    names["rebind.example"] = "127.0.0.2"
    call(url)
    assert len({received.client for received in web.received}) == 1, "kept, at the address that was checked"
    connection.IDLE.close_idle()
    call(url)
    assert names.asked == ["rebind.example"], "the answer holds for a while"
    connection.forget()
    error = failure(url)
    assert (error.code, error.details["address"]) == ("address_refused", "127.0.0.2")
    assert len(web.received) == 3


def test_what_another_deployment_may_reach_is_judged_again(web, call, failure, names):
    web.answers["/"] = (200, {}, b"hi")
    names["inside.example"] = "127.0.0.1"
    url = f"http://inside.example:{web.port}/"
    call(url, allow=("127.0.0.1",))
    for _ in range(2):
        assert failure(url, allow=()).code == "address_refused", (
            "neither the kept connection nor the kept answer permits it"
        )
    assert (len(web.received), names.asked) == (1, ["inside.example"])


def test_an_address_where_nobody_answers_is_asked_for_again(web, call, failure, names):
    web.answers["/"] = (200, {}, b"hi")
    url, allow = f"http://moved.example:{web.port}/", ("127.0.0.0/8",)
    names["moved.example"] = "127.0.0.9"
    assert failure(url, allow=allow).code == "connect_failed"
    names["moved.example"] = "127.0.0.1"
    assert call(url, allow=allow)["data"] == "hi"


@pytest.mark.parametrize("clock", [0, 1])
def test_answers_of_dns_hold_for_seconds_and_are_few(names, clock):
    time = [0.0, 0.0]
    known = Names(seconds=10.0, most=2, now=lambda: Moment(*time))
    for host in ("a.example", "b.example", "c.example"):
        with pytest.raises(TaskError):
            known.resolve(host, 80, 5.0)
        names[host] = "127.0.0.1"
        known.resolve(host, 80, 5.0)
    names.asked.clear()
    known.resolve("c.example", 80, 5.0)
    known.resolve("a.example", 80, 5.0)
    assert names.asked == ["a.example"], "failures are not kept, and of answers two"
    time[clock] = 10.0
    known.resolve("a.example", 80, 5.0)
    assert names.asked == ["a.example", "a.example"]


# --- whose connection it is -----------------------------------------------------------------------


def test_a_connection_serves_the_same_credentials_alone(web, call):
    web.answers["/"] = (200, {"Set-Cookie": "session=of-the-first; Path=/"}, b"hi")
    credentials = {name: Credential(name, "api_key", {"value": name}) for name in ("mine", "yours")}

    def client(**params):
        call(f"{web.base}/", credentials=credentials, **params)
        return web.received[-1].client

    of_nobody = client()
    by_header = [client(headers={"Authorization": f"Bearer {who}"}) for who in "ab"]
    by_cookie = client(headers={"Cookie": "a=1"})
    by_credential = [client(auth=who) for who in ("mine", "yours")]
    assert len({of_nobody, *by_header, by_cookie, *by_credential}) == 6
    assert client() == of_nobody
    assert client(headers={"authorization": "Bearer a"}) == by_header[0]
    assert client(auth="yours") == by_credential[1]
    without = [received.headers for received in web.received if received.client == of_nobody]
    assert not any({"cookie", "authorization", "x-api-key"} & headers.keys() for headers in without)


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        ({"Authorization": "NTLM TlRMTVNTUAAB"}, {}),
        ({"Authorization": "negotiate YIIJvwYG"}, {}),
        ({}, {"WWW-Authenticate": ["Basic realm=x", "NTLM"]}),
        ({}, {"Proxy-Authenticate": "Negotiate"}),
    ],
)
def test_a_connection_that_may_stand_for_its_user_serves_once(web, call, sent, answered):
    web.answers["/"] = (200, answered, b"hi")
    for _ in range(2):
        call(f"{web.base}/", headers=sent)
    assert len({received.client for received in web.received}) == 2


# --- connections that end -------------------------------------------------------------------------


def hanging_up(raw_server, later, first=b""):
    """A server that answers the first request of its first connection, and the second with ``first``; then ``later`` answers."""
    heads: list[tuple[int, bytes]] = []
    connections: list[int] = []

    def requests(peer, number):
        waiting = b""
        while piece := peer.recv(65536):
            waiting += piece
            while b"\r\n\r\n" in waiting:
                head, waiting = waiting.split(b"\r\n\r\n", 1)
                heads.append((number, head.split(b" ", 1)[0]))
                yield head

    def talk(peer):
        connections.append(1)
        number = len(connections)
        for count, _ in enumerate(requests(peer, number)):
            answer = later if number > 1 else OK if count == 0 else first
            peer.sendall(answer)
            if answer != OK:
                return

    return raw_server(talk), heads


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_stale_connection_costs_a_repeatable_request_nothing(raw_server, call, method):
    url, heads = hanging_up(raw_server, OK)
    call(url)
    assert call(url, method=method)["data"] == "ok"
    assert heads == [(1, b"GET"), (1, method.encode()), (2, method.encode())]


@pytest.mark.parametrize(
    ("method", "answer", "code"),
    [
        ("POST", b"", "connection_lost"),
        ("PATCH", b"", "connection_lost"),
        ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "connection_lost"),
        ("GET", b"HT", "bad_response"),
    ],
)
def test_what_may_have_been_done_or_was_answered_is_sent_once(
    raw_server, call, failure, method, answer, code
):
    url, heads = hanging_up(raw_server, OK, answer)
    call(url)
    assert failure(url, method=method).code == code
    assert heads == [(1, b"GET"), (1, method.encode())]


def test_it_is_sent_again_once(raw_server, call, failure):
    url, heads = hanging_up(raw_server, b"")
    call(url)
    assert failure(url).code == "connection_lost"
    assert heads == [(1, b"GET"), (1, b"GET"), (2, b"GET")]


def test_a_new_connection_that_ends_is_no_stale_one(raw_server, failure):
    heads = []

    def talk(peer):
        heads.append(peer.recv(65536))

    assert failure(raw_server(talk)).code == "connection_lost"
    assert len(heads) == 1


def test_an_alarm_that_rings_late_leaves_the_connection_to_the_next_call(raw_server):
    url, heads = hanging_up(raw_server, OK, OK)
    target, allowed = net_guard.parse_url(url), net_guard.Allowed(("127.0.0.1",))
    pool = connection.pool_of(connection.Key(allowed, *target.origin, b""))

    def exchanged():
        with connection.Exchange(allowed, time.monotonic() + PATIENCE, PATIENCE) as exchange:
            answer = pool.urlopen(
                "GET", "/", headers={"Host": target.authority}, retries=False, preload_content=False
            )
            body = answer.read()
            exchange.cut()
        return body

    assert [exchanged(), exchanged()] == [b"ok", b"ok"]
    assert [number for number, _ in heads] == [1, 1]
