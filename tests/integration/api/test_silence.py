"""A database that hangs: nobody waits for it for ever, and nothing has to be restarted when it is back."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
from psycopg import conninfo

from noetl.adapters.postgres import connection, silence_watchdog
from noetl.runtime.server.serve import Server, ServeSettings
from noetl.runtime.settings import Settings
from tests.integration.api.test_serve import GATED, Client
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.postgres


class Proxy:
    """Between a client and the database; ``stalled``: it takes what comes and passes nothing on."""

    def __init__(self, dsn: str) -> None:
        self.to = conninfo.conninfo_to_dict(dsn)
        self.stalled = threading.Event()
        self.closing = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        given = {**self.to, "host": "127.0.0.1", "port": self.listener.getsockname()[1]}
        self.dsn = conninfo.make_conninfo(**given, sslmode="disable", gssencmode="disable")
        self.threads = [threading.Thread(target=self.accept, daemon=True)]
        self.threads[0].start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                thread = threading.Thread(target=self.carry, args=(client,), daemon=True)
                self.threads.append(thread)
                thread.start()

    def server(self) -> socket.socket:
        host, port = str(self.to["host"]), self.to.get("port") or 5432
        if not host.startswith("/"):
            return socket.create_connection((host, int(port)))
        made = socket.socket(socket.AF_UNIX)
        made.connect(f"{host}/.s.PGSQL.{port}")
        return made

    def carry(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, self.server() as server:
            other = {client: server, server: client}
            while not self.closing:
                for one in select.select([client, server], [], [], 0.05)[0]:
                    data = one.recv(65536)
                    if not data:
                        return
                    while self.stalled.is_set() and not self.closing:
                        time.sleep(0.01)
                    other[one].sendall(data)

    def close(self) -> None:
        self.closing = True
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(PATIENCE)


@pytest.fixture
def proxy(database: str) -> Iterator[Proxy]:
    made = Proxy(database)
    yield made
    made.close()


def test_whoever_asks_a_database_that_hangs_is_answered_in_time(
    proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silence_watchdog, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 2)
    settings = Settings(tmp_path / "home", proxy.dsn, lease_seconds=5.0, python_workers=1)
    settings.make_home()
    with Server(settings, ServeSettings(port=0), on_log=lambda line: None) as server:
        assert server.tokens is not None
        client = Client(server.address, server.tokens.add("tester", ["admin"]))
        client.register(GATED)
        waiting = client.start("demo/gated")
        client.until(waiting, "waiting")
        asked: list[tuple[int, str, Any]] = []

        def ask(number: int) -> None:
            headers = {"Authorization": f"Bearer {client.token}", "Idempotency-Key": f"silence {number}"}
            if number % 2:
                made = {"method": "GET", "url": f"{server.address}/api/executions/{waiting}"}
            else:
                body = json.dumps({"path": "demo/gated"})
                made = {"method": "POST", "url": f"{server.address}/api/executions", "body": body}
            answer = urllib3.request(**made, headers=headers, timeout=PATIENCE, retries=False)
            asked.append((answer.status, answer.headers["Retry-After"], answer.json()))

        proxy.stalled.set()
        monkeypatch.setattr(silence_watchdog, "ANSWER_SECONDS", 1.0)
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(asked) == 6
        for status, after, told in asked:
            assert status == 503 and after, told
        assert {told["code"] for *_, told in asked} <= {
            "database_silent",
            "database_unreachable",
            "database_busy",
        }
        assert any(told["code"] == "database_silent" for *_, told in asked)
        assert client("GET", "/health")[0] == 200
        proxy.stalled.clear()
        monkeypatch.setattr(silence_watchdog, "ANSWER_SECONDS", PATIENCE)
        for number in (0, 2, 4):
            headers = {"Idempotency_Key": f"silence {number}"}
            status, first = _patient(client, headers)
            assert status == 201 and client("POST", "/api/executions", {"path": "demo/gated"}, **headers) == (
                201,
                first,
            )
            client.until(first["execution_id"], "waiting")
        _, listed = client("GET", "/api/executions?path=demo/gated")
        assert len(listed["executions"]) == 4, "each start happened once"


def _patient(client: Client, headers: dict[str, str]) -> tuple[int, Any]:
    """Asked again as long as it is told to come again."""

    def answered() -> Any:
        status, told = client("POST", "/api/executions", {"path": "demo/gated"}, **headers)
        return (status, told) if status != 503 else None

    answer: tuple[int, Any] = wait_until(answered, "an answer of the database")
    return answer
