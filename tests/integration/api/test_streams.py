"""Streams of changes at a real ``noetl serve``: hints in time, by one thread however many they are, and an end with the server."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from noetl.api.http.client_limits import ClientLimits
from noetl.api.live import change_hub, changes
from noetl.runtime.server.serve import Server, ServeSettings
from noetl.runtime.settings import Settings
from tests.integration.api.test_http import Raw, read
from tests.integration.api.test_serve import GATED, Client
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.postgres


class Stream:
    """A client that reads events as they come."""

    def __init__(self, raw: Raw, topics: str, held: ExitStack, *lines: bytes) -> None:
        self.connection = held.enter_context(raw.connect())
        head = f"GET /api/stream?topics={topics} HTTP/1.1\r\n".encode()
        self.connection.sendall(head + raw.head(*lines))
        self.text = b""

    def until(self, wanted: bytes) -> bytes:
        """Read until something came; gives everything before its end, once."""
        self.connection.settimeout(PATIENCE)
        while wanted not in self.text:
            part = self.connection.recv(65536)
            assert part, self.text
            self.text += part
        before, _, self.text = self.text.partition(wanted)
        return before + wanted

    def change(self, wanted: bytes) -> dict:
        """The next change that has this text."""
        while True:
            self.until(b"\ndata: ")
            line = self.until(b"\n")
            if wanted in line:
                return json.loads(line)


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[Server]:
    settings = Settings(tmp_path / "home", database, python_workers=1, clients=ClientLimits(silence=0.5))
    settings.make_home()
    logged: list[str] = []
    with Server(settings, ServeSettings(port=0, threads=2), on_log=logged.append) as made:
        yield made
    assert not any("Traceback" in line for line in logged), logged


def test_a_page_sees_an_execution_change_and_goes_on_where_it_was(server, monkeypatch):
    monkeypatch.setattr(change_hub, "LOOK_SECONDS", 10 * PATIENCE)  # what this process does wakes it
    raw = Raw(server)
    client = Client(server.address, raw.token)
    client.register(GATED)
    with ExitStack() as held:
        listed = Stream(raw, "executions", held)
        assert b"text/event-stream" in listed.until(b"\r\n\r\n")
        first = listed.change(b"executions")["version"]
        about = client.start("demo/gated")
        client.until(about, "waiting")
        one = Stream(raw, f"execution:{about}", held)
        now = one.change(b"running")
        assert now["version"] > 0 and now["seq"] > 0 and now["topic"] == f"execution:{about}"
        last = one.until(b"\n\n").partition(b"id: ")[2].strip()
        client("POST", f"/api/executions/{about}/cancel", {})
        assert one.change(b"cancelled")["version"] > now["version"]
        assert listed.change(b"executions")["version"] != first
        again = Stream(raw, f"execution:{about},execution:7", held, b"Last-Event-ID: " + last)
        assert again.change(b"cancelled")["status"] == "cancelled" and again.change(b":7")["status"] == "gone"
    status, page = client("GET", f"/api/changes?topics=execution:{about},executions")
    assert status == 200 and {one["topic"] for one in page["changes"]} == {f"execution:{about}", "executions"}
    assert client("GET", f"/api/changes?topics=execution:{about},executions&since={page['next']}")[1] == {
        "changes": [],
        "next": page["next"],
    }


@pytest.mark.parametrize(
    ("topics", "code"),
    [
        ("", 400),
        ("limits", 400),
        ("execution:0", 400),
        ("execution:x", 400),
        (",".join(f"execution:{n}" for n in range(1, 66)), 400),
    ],
)
def test_topics_that_are_none(server, topics, code):
    client = Client(server.address, Raw(server).token)
    for route in ("stream", "changes"):
        assert client("GET", f"/api/{route}?topics={topics}")[0] == code
    assert client("GET", "/api/changes?topics=executions&since=zz")[0] == 400


def test_who_may_not_read_watches_nothing(server):
    assert server.tokens is not None
    stranger = Client(server.address, server.tokens.add("starter", ["execute"]))
    for route in ("stream", "changes"):
        assert stranger("GET", f"/api/{route}?topics=executions")[0] == 403
        assert Client(server.address)("GET", f"/api/{route}?topics=executions")[0] == 401


def test_two_hundred_idle_streams_hold_no_thread_and_end_with_the_server(database, tmp_path, monkeypatch):
    asked: list[int] = []
    settings = Settings(tmp_path / "home", database, python_workers=1, clients=ClientLimits(silence=0.2))
    settings.make_home()
    with ExitStack() as held:
        with Server(settings, ServeSettings(port=0, threads=2), on_log=lambda line: None) as server:
            pulses = server.hub._read
            monkeypatch.setattr(server.hub, "_read", lambda ids: asked.append(len(ids)) or pulses(ids))
            raw = Raw(server)
            before = threading.active_count()
            streams = [Stream(raw, f"executions,execution:{number}", held) for number in range(1, 201)]
            for one in streams:
                one.change(b"executions")
            assert threading.active_count() <= before + 1, "the one that asks the database"
            wait_until(lambda: asked.count(201) >= 2, "one question for all of them, again and again")
            assert Client(server.address, raw.token)("GET", "/api/executions")[0] == 200
            for one in streams[:100]:
                one.connection.close()
            wait_until(lambda: len(server.hub._streams) == 100, "the end of those that left")
        assert not server._thread.is_alive()
        for one in streams[100:]:
            with contextlib.suppress(ConnectionResetError):
                assert (one.text + read(one.connection)).endswith(b"0\r\n\r\n"), "it ends, and is not cut off"
    assert not any(one.name == "noetl-changes" for one in threading.enumerate())


def test_a_stream_wakes_only_for_its_own_topics(server, monkeypatch):
    compared: list[set[int]] = []

    def compare(topics, pulses, known):
        compared.append(set(topics.values()))
        return changes.changed(topics, pulses, known)

    monkeypatch.setattr(change_hub, "changed", compare)
    monkeypatch.setattr(change_hub, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(change_hub, "SOON_SECONDS", 0.01)
    monkeypatch.setattr(change_hub, "HEARTBEAT_SECONDS", 10 * PATIENCE)
    raw = Raw(server)
    client = Client(server.address, raw.token)
    client.register(GATED)
    with ExitStack() as held:
        asleep = Stream(raw, "execution:7", held)
        asleep.change(b"gone")
        about = client.start("demo/gated")
        client.until(about, "waiting")
        one = Stream(raw, f"execution:{about}", held)
        one.change(b"running")
        client("POST", f"/api/executions/{about}/cancel", {})
        one.change(b"cancelled")
    assert compared.count({7}) == 1, "what it was shown first"
    assert compared.count({int(about)}) >= 2


def test_heartbeats_come_while_the_store_is_asked_and_nothing_changes(server, monkeypatch):
    monkeypatch.setattr(change_hub, "HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(change_hub, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(change_hub, "SOON_SECONDS", 0.01)
    with ExitStack() as held:
        stream = Stream(Raw(server), "execution:7", held)
        for _ in range(3):
            stream.until(b": heartbeat\n\n")


def test_no_question_is_asked_while_no_page_looks(server, monkeypatch):
    asked: list[int] = []
    pulses = server.hub._read
    monkeypatch.setattr(server.hub, "_read", lambda ids: asked.append(len(ids)) or pulses(ids))
    monkeypatch.setattr(change_hub, "LOOK_SECONDS", 0.01)
    raw = Raw(server)
    with ExitStack() as held:
        Stream(raw, "executions", held).change(b"executions")
    wait_until(lambda: not server.hub._streams, "the end of the stream")
    wait_until(
        lambda: server.hub._state.acquire(timeout=1.0) and not server.hub._state.release(),
        "the last question",
    )
    count = len(asked)
    client = Client(server.address, raw.token)
    client.register(GATED)
    client.until(client.start("demo/gated"), "waiting")
    assert len(asked) <= count + 1
