"""Secrets that playbooks use in every way there is, looked for afterwards in everything that was written, answered or printed."""

from __future__ import annotations

import base64
import html
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import pytest

from noetl.cli import main
from noetl.runtime.server.serve import Server, ServeSettings
from noetl.runtime.settings import Settings
from tests.integration.api.canaries import (
    BASIC,
    BEARER,
    CANARIES,
    CLIENT,
    HIDDEN,
    INSIDE,
    KEY,
    LONG,
    NESTED,
    PIN,
    TOKEN,
    found_in,
    leaks,
)
from tests.integration.api.canary_playbooks import CHILD, CRASHES, DATABASE, EVERY_WAY, PARENT, PASSED_ON
from tests.integration.api.test_serve import Client
from tests.waiting import wait_until

pytestmark = pytest.mark.postgres


class Echo(BaseHTTPRequestHandler):
    """Says back whatever it was sent; ``/late`` fails the first time; ``/token`` is an authorisation server."""

    late = 0
    heard: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        said = {"path": self.path, "headers": dict(self.headers), "body": body}
        Echo.heard.append(json.dumps(said))
        status = 200
        if self.path == "/token":
            said = {"access_token": TOKEN, "expires_in": 600, "token_type": "bearer"}
        elif self.path == "/late":
            Echo.late += 1
            status = 503 if Echo.late == 1 else 200
        elif self.path == "/fail":
            status = 400
        text, form = json.dumps(said).encode(), "application/json"
        if self.path == "/page":
            status, form = 401, "text/html"
            text = f"<p>no entry for {html.escape(self.headers['X-Key'])}</p>".encode() * 400
        self.send_response(status)
        self.send_header("content-type", form)
        self.send_header("x-said", quote(json.dumps(said))[:3000])
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *words: Any) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    Echo.late, Echo.heard = 0, []
    made = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}"
    made.shutdown()
    thread.join()
    made.server_close()


def told(client: Client, execution_id: str) -> dict[str, bytes]:
    """Everything the API says of an execution."""
    paths = ["", "/status", "/events?limit=1000", "/events?vocabulary=formal", "/events?vocabulary=canonical"]
    paths += ["/steps", "/result"]
    found = {
        f"/api/executions/{execution_id}{path}": client("GET", f"/api/executions/{execution_id}{path}")
        for path in paths
    }
    found[f"{execution_id} vars"] = client("GET", f"/api/vars/{execution_id}")
    found[f"{execution_id} analyzed"] = client("POST", f"/api/executions/{execution_id}/analyze", {})
    wish = {
        "execution_id": execution_id,
        "template": ["{{ keychain.till.token }}", "{{ keychain }}", "{{ ctx }}"],
    }
    found[f"{execution_id} rendered"] = client("POST", "/api/context/render", wish)
    return {path: json.dumps(answer, ensure_ascii=False).encode() for path, answer in found.items()}


def printed(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str
) -> bytes:
    monkeypatch.setattr("sys.argv", ["noetl", *words])
    capsys.readouterr()
    main.main()
    said = capsys.readouterr()
    return (said.out + said.err).encode()


def test_no_secret_is_found_anywhere_but_where_it_was_sent(database, tmp_path, url, capsys, monkeypatch):
    home, log = tmp_path / "home", []
    monkeypatch.setenv("NOETL_HOME", str(home))
    monkeypatch.setenv("NOETL_DATABASE_URL", database)
    settings = Settings(home, database, lease_seconds=5.0, python_workers=1, inline_limit=2048)
    settings.make_home()
    said: dict[str, bytes] = {}
    with Server(settings, ServeSettings(port=0), on_log=log.append) as server:
        client = Client(server.address, server.tokens.add("tester", ["admin"]))
        for name, type_, data in (
            ("mail", "basic", {"username": "me", "password": BASIC}),
            ("shop", "bearer", {"token": BEARER}),
            ("partner", "oauth2", {"token_url": f"{url}/token", "client_id": "us", "client_secret": CLIENT}),
            (
                "warehouse",
                "postgres",
                {"host": "127.0.0.1", "port": 1, "user": "etl", "password": HIDDEN, "dbname": "x"},
            ),
            ("lake", "postgres", {"dsn": f"postgresql://etl:{quote(INSIDE, safe='')}@127.0.0.1:1/x"}),
            ("real", "postgres", {"dsn": database}),
            (
                "signing",
                "generic",
                {
                    "private_key": KEY,
                    "pin": PIN,
                    "long": LONG,
                    "account_key": json.dumps({"private_key": NESTED}),
                },
            ),
        ):
            answer = client(
                "POST", "/api/credentials", {"name": name, "type": type_, "data": data, "tags": ["t"]}
            )
            assert answer[0] == 201
            said[name] = json.dumps(answer).encode()
        for text in (CHILD, PARENT, PASSED_ON, DATABASE, EVERY_WAY, CRASHES):
            client.register(text.replace("$URL", url))
        started = client.start("canary/parent")
        wait_until(lambda: Echo.late == 1, "the first try")
        here = f"/api/executions/{started}/events"
        wait_until(lambda: "retry.scheduled" in str(client("GET", here)[1]), "the wait for the second")
        assert not leaks(database, home, told(client, started)), "while it waits between two tries"
        failed = client.until(started, "failed", "completed")
        assert failed["status"] == "failed"
        others = [client.start(f"canary/{path}") for path in ("passed", "database", "ways", "crashes")]
        for one in others:
            client.until(one, "failed", "completed")
        children = [one["execution_id"] for one in client("GET", "/api/executions?limit=50")[1]["executions"]]
        assert len(children) >= 6
        for one in children:
            said |= told(client, one)
        said["refused"] = json.dumps(
            client(
                "POST", "/api/credentials", {"name": "x", "type": "postgres", "data": {"password": HIDDEN}}
            )
        ).encode()
        said["list"] = json.dumps(
            [client("GET", "/api/credentials"), client("GET", "/api/credentials/shop")]
        ).encode()
    for number, words in enumerate(
        [
            ("credential", "list"),
            ("credential", "show", "mail"),
            ("list",),
            ("status", started),
            ("events", started),
            ("events", started, "--json"),
        ]
    ):
        said[f"cli {number}"] = printed(home, capsys, monkeypatch, *words)
    said["log"] = "\n".join(log).encode()
    sent = "".join(Echo.heard)
    for secret in (BEARER, TOKEN):
        assert json.dumps(secret)[1:-1] in sent, "it was used"
    assert (
        base64.b64encode(f"me:{BASIC}".encode()).decode() in sent
        and base64.b64encode(quote(CLIENT, safe="").encode())[:8]
    )
    assert (
        b"***"
        in said[f"/api/executions/{started}/steps"] + said[f"/api/executions/{started}/events?limit=1000"]
    )
    for line in (b"printed ***", b"ends with ***", b"password ***", b"partly ***", b"about to end with ***"):
        assert line in said["log"], said["log"][-2000:]
    assert any('"/page"' in one for one in Echo.heard), "every task had its turn"
    assert leaks(database, home, said) == []


def test_the_search_would_find_them(tmp_path):
    for secret in CANARIES:
        for text in (
            secret,
            json.dumps({"a": [secret]}),
            base64.b64encode(f"ab{secret}yz".encode()).decode(),
            quote(secret),
        ):
            assert found_in(text.encode()), text
    assert found_in(b"nothing of the kind") == []
