"""Secrets that playbooks use in every way there is, looked for afterwards in everything that was written, answered or printed."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from noetl.cli import main
from noetl.runtime.serving import Server, ServeSettings
from noetl.runtime.settings import Settings
from tests.integration.api.test_serve import Client

pytestmark = pytest.mark.postgres

# Characters that JSON, URLs and base64 write in other ways.
BASIC = 'cnry-basic/"+&=%é 7f3a91'
BEARER = "cnry-bearer/+=%~5c0d22"
CLIENT = "cnry-client:/+%&b81e44"
TOKEN = "cnry-token/+=9aa10c"
HIDDEN = "cnry-database-66d2e7"
CANARIES = (BASIC, BEARER, CLIENT, TOKEN, HIDDEN)
WITHIN = b"cnry-"
"""In all of them: whatever was cut or written in an unforeseen way still shows this."""

CHILD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: child, path: canary/child }
keychain: [{ name: own, kind: bearer, credential: shop }]
workflow:
  - step: start
    tool: { kind: http, url: "$URL/echo?child=1", headers: { X-Token: "{{ keychain.own.token }}" } }
"""
PARENT = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: parent, path: canary/parent }
keychain:
  - { name: till, kind: bearer, credential: "{{ workload.till }}" }
  - { name: partner, kind: oauth2 }
workload: { till: shop }
workflow:
  - step: start
    tool:
      - basic: { kind: http, url: "$URL/echo", auth: mail }
      - form:
          kind: http
          method: POST
          url: "$URL/echo"
          params: { q: "{{ keychain.till.token }}" }
          body: { deep: ["{{ keychain.till.token }}"] }
      - python:
          kind: python
          args: { token: "{{ keychain.till.token }}", words: [1, "{{ keychain.till.token }}!"] }
          code: |
            import base64, json, sys, urllib.parse
            print("printed", token, json.dumps({"t": token}), file=sys.stderr)
            print(base64.b64encode(token.encode()).decode(), urllib.parse.quote(token, safe=""))
            shifted = base64.b64encode(b"x" + token.encode()).decode()
            result = {"again": token, "shifted": shifted, "key": {token: 1}, "big": token * 4000}
      - partner: { kind: http, url: "$URL/echo", auth: partner }
    set: { ctx.copied: "{{ output.data }}", ctx.kept: "{{ basic }}", ctx.seen: "{{ python.again }}" }
    next: { arcs: [{ step: child, args: { handed: "{{ form }}" } }] }
  - step: child
    tool: { kind: playbook, path: canary/child }
    next: { arcs: [{ step: wait }] }
  - step: wait
    tool:
      - signed:
          kind: http
          url: "$URL/echo?first=1"
          headers: { X-Token: "{{ keychain.till.token }}" }
          set: { iter.header: "Bearer {{ outcome.result }}" }
      - slow:
          kind: http
          url: "$URL/late"
          headers: { X-Token: "{{ keychain.till.token }}" }
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'error' }}"
                  then: { do: retry, attempts: 3, delay: 3, backoff: fixed }
                - else: { then: { do: continue } }
    next: { arcs: [{ step: each }] }
  - step: each
    loop: { in: [1, 2, 3], iterator: n, spec: { mode: parallel } }
    tool:
      - call:
          kind: http
          url: "$URL/echo?n={{ iter.n }}"
          auth: { type: header, credential: shop, header: X-Key, value: "{{ keychain.till.token }}" }
    next: { arcs: [{ step: fail }] }
  - step: fail
    tool: { kind: http, url: "$URL/fail", auth: mail, headers: { X-Token: "{{ keychain.till.token }}" } }
"""
PASSED_ON = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: passed, path: canary/passed }
keychain: [{ name: shop, kind: bearer }]
workflow:
  - step: start
    tool:
      - say:
          kind: python
          args: { t: "{{ keychain.shop.token }}" }
          code: "raise ValueError('no ' + t + ' here')"
          spec: { policy: { rules: [{ else: { then: { do: continue } } }] } }
      - give: { kind: playbook, path: canary/child, payload: { t: "{{ keychain.shop.token }}" } }
"""
DATABASE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: database, path: canary/database }
workflow:
  - step: start
    tool: { kind: postgres, auth: warehouse, query: "select 1" }
"""


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
        text = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
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


def forms(secret: str) -> set[bytes]:
    """Ways a secret may be written."""
    data = secret.encode()
    found = {data, json.dumps(secret)[1:-1].encode(), json.dumps(secret, ensure_ascii=False)[1:-1].encode()}
    found |= {quote(secret, safe="").encode(), quote(secret).encode(), data.hex().encode()}
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + data)
        core = whole[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6]
        found |= {core, core.replace(b"+", b"-").replace(b"/", b"_")}
    return found


FORMS = {form: secret for secret in CANARIES for form in forms(secret)}


def found_in(text: bytes) -> list[str]:
    return sorted(
        {secret for form, secret in FORMS.items() if form in text} | ({"cnry-"} if WITHIN in text else set())
    )


def rows(dsn: str) -> Iterator[tuple[str, bytes]]:
    """Every row of every table, in whatever schema it is."""
    with psycopg.connect(dsn) as connection:
        tables = connection.execute(
            "SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        assert ("noetl", "credential") in tables and ("noetl", "auth_cache") in tables
        for schema, table in tables:
            query = sql.SQL("SELECT to_json(t)::text FROM {} t").format(sql.Identifier(schema, table))
            for (row,) in connection.execute(query):
                yield f"{schema}.{table}", row.encode()
            as_record = sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(schema, table))
            for (row,) in connection.execute(as_record):
                yield f"{schema}.{table}", row.encode()


def leaks(dsn: str, home: Path, said: dict[str, bytes]) -> list[tuple[str, list[str]]]:
    """Where a secret was found: rows, files (their names too), and whatever was said."""
    places = [*rows(dsn), *said.items()]
    places += [(str(file), str(file).encode()) for file in home.rglob("*")]
    places += [(str(file), file.read_bytes()) for file in home.rglob("*") if file.is_file()]
    return [(place, shown(text)) for place, text in places if found_in(text)]


def shown(text: bytes) -> list[bytes]:
    """Where the secrets stand in a text that has some."""
    marks = [*FORMS, WITHIN]
    return [text[max(0, at - 60) : at + 40] for form in marks if (at := text.find(form)) >= 0]


def told(client: Client, execution_id: str) -> dict[str, bytes]:
    """Everything the API says of an execution."""
    paths = ["", "/status", "/events?limit=1000", "/events?vocabulary=formal", "/events?vocabulary=canonical"]
    paths += ["/steps", "/result", "/graph"]
    found = {
        f"/api/executions/{execution_id}{path}": client("GET", f"/api/executions/{execution_id}{path}")
        for path in paths
    }
    found["vars"] = client("GET", f"/api/vars/{execution_id}")
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
        ):
            answer = client(
                "POST", "/api/credentials", {"name": name, "type": type_, "data": data, "tags": ["t"]}
            )
            assert answer[0] == 201
            said[name] = json.dumps(answer).encode()
        for text in (CHILD, PARENT, PASSED_ON, DATABASE):
            client.register(text.replace("$URL", url))
        started = client.start("canary/parent")
        for _ in range(600):
            if Echo.late == 1:
                break
            time.sleep(0.05)
        time.sleep(1.0)
        assert client("GET", f"/api/executions/{started}/status")[1]["status"] == "running"
        assert not leaks(database, home, told(client, started)), "while it waits between two tries"
        failed = client.until(started, "failed", "completed")
        assert failed["status"] == "failed"
        others = [client.start("canary/passed"), client.start("canary/database")]
        for one in others:
            client.until(one, "failed", "completed")
        children = [one["execution_id"] for one in client("GET", "/api/executions?limit=50")[1]["executions"]]
        assert len(children) >= 4
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
    assert b"printed ***" in said["log"], said["log"][-2000:]
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
