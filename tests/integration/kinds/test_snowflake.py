"""Snowflake, as a server here plays it by the documents of its SQL API: it verifies what is signed, runs statements (on DuckDB) by themselves,
answers in parts, and does nothing twice that comes twice under one id."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import duckdb
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential
from noetl.domain.outcomes.outcomes import PollRequest
from noetl.kinds.registry import default_registry
from noetl.kinds.snowflake.values import read
from tests.waiting import PATIENCE

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PEM = KEY.private_bytes(
    serialization.Encoding.PEM,
    serialization.PrivateFormat.PKCS8,
    serialization.BestAvailableEncryption(b"phrase"),
).decode()
PUBLIC = KEY.public_key().public_bytes(
    serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
)
FINGERPRINT = base64.b64encode(hashlib.sha256(PUBLIC).digest()).decode()
EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 (as DuckDB gives a timestamp without a zone)
PART = 3
"""Rows in a part of a result."""


class Snowflake:
    """``slow``: seconds that each statement takes. ``lost``: so many submissions are carried out, and their answer is lost. ``broken``: so many
    questions are answered 503. ``asked``: told of each time a task is suspended."""

    def __init__(self) -> None:
        self.database = duckdb.connect()
        self.statements: dict[str, dict[str, Any]] = {}
        self.requests: dict[str, str] = {}
        self.orders: list[dict[str, Any]] = []
        self.cancelled: list[str] = []
        self.polls = 0
        self.slow = 0.0
        self.now = 0.0
        self.lost = 0
        self.port = 0
        self.broken = 0
        self.waits: list[PollRequest] = []
        self.asked: Callable[[PollRequest], None] = lambda answer: None

    def wait(self, seconds: float) -> None:
        """Let time pass, which passes in no other way here."""
        self.now += seconds

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, Any] | None:
        if (refused := self.authorised(headers)) is not None:
            return 401, {"code": "390144", "message": refused, "sqlState": "08001"}
        url = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        parts = url.path.removeprefix("/api/v2/statements").strip("/").split("/")
        if method == "POST" and parts == [""]:
            return self.submit(query, json.loads(body))
        if method == "POST" and parts[1:] == ["cancel"]:
            self.cancelled.append(parts[0])
            return 200, {"code": "000604", "message": "successfully canceled", "statementHandle": parts[0]}
        self.polls += 1
        if self.broken:
            self.broken -= 1
            return 503, {"message": "busy"}
        return self.told(parts[0], int(query.get("partition", 0)))

    def authorised(self, headers: dict[str, str]) -> str | None:
        token = headers.get("authorization", "").removeprefix("Bearer ")
        if headers.get("x-snowflake-authorization-token-type") == "OAUTH":
            return None if token == "open-sesame" else "Invalid OAuth access token."
        head, claims, signature = token.split(".")
        raw = base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
        KEY.public_key().verify(raw, f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256())
        said = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        assert 0 < said["exp"] - said["iat"] <= 3600 and said["iat"] <= time.time() + 60 < said["exp"]
        known = {"iss": f"AB12345.LOADER.SHA256:{FINGERPRINT}", "sub": "AB12345.LOADER"}
        return None if known.items() <= said.items() else "JWT token is invalid."

    def submit(self, query: dict[str, str], order: dict[str, Any]) -> tuple[int, Any] | None:
        uuid.UUID(query["requestId"])
        count = order["statement"].count(";\n") + 1
        assert query["async"] == "true" and order["parameters"] == {"MULTI_STATEMENT_COUNT": str(count)}
        known = self.requests.get(query["requestId"])
        if known is None or "retry" not in query:
            known = self.requests[query["requestId"]] = str(uuid.uuid4())
            self.orders.append(order)
            self.statements[known] = {"ready": self.now + self.slow, **self.executed(order)}
        if self.lost:
            self.lost -= 1
            return None
        return self.told(known, 0)

    def executed(self, order: dict[str, Any]) -> dict[str, Any]:
        bindings = order.get("bindings", {})
        values = [self.value(bindings[str(place)]) for place in range(1, len(bindings) + 1)]
        try:
            cursor = self.database.execute(order["statement"], values)
            described = cursor.description or []
            rows = cursor.fetchall()
        except duckdb.Error as error:
            if ";\n" in order["statement"]:
                self.database.execute("ROLLBACK")
            return {"error": str(error)}
        if [one[0] for one in described] == ["Count"]:
            if not rows:
                return {
                    "columns": [{"name": "status", "type": "text"}],
                    "rows": [["Statement executed successfully."]],
                }
            return {
                "columns": [{"name": "number of rows inserted", "type": "fixed"}],
                "rows": [[str(rows[0][0])]],
            }
        columns = [{"name": one[0].upper(), **self.about(str(one[1]))} for one in described]
        return {"columns": columns, "rows": [[self.cell(cell) for cell in row] for row in rows]}

    @staticmethod
    def value(binding: dict[str, Any]) -> Any:
        text = binding["value"]
        if text is None or binding["type"] == "TEXT":
            return text
        return {"FIXED": int, "REAL": float, "BOOLEAN": lambda said: said == "true"}[binding["type"]](text)

    @classmethod
    def about(cls, name: str) -> dict[str, Any]:
        digits = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", name)
        precision, scale = (int(digits[1]), int(digits[2])) if digits else (38, 0)
        kind = cls.type(name)
        return {"type": kind, "precision": precision, "scale": scale} if kind == "fixed" else {"type": kind}

    @staticmethod
    def type(name: str) -> str:
        for ours, theirs in {
            "INT": "fixed",
            "DECIMAL": "fixed",
            "DOUBLE": "real",
            "BOOL": "boolean",
            "DATE": "date",
            "JSON": "variant",
            "BLOB": "binary",
        }.items():
            if ours in name.upper():
                return theirs
        return "timestamp_ntz" if "TIMESTAMP" in name.upper() else "text"

    @staticmethod
    def cell(value: Any) -> str | None:
        if isinstance(value, bytes):
            return value.hex()
        if isinstance(value, datetime.datetime):
            return f"{Decimal((value - EPOCH) // datetime.timedelta(microseconds=1)) / 1_000_000:.9f}"
        if isinstance(value, datetime.date):
            return str((value - datetime.date(1970, 1, 1)).days)
        return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    def told(self, handle: str, part: int) -> tuple[int, Any]:
        found = self.statements[handle]
        about = {"statementHandle": handle, "statementStatusUrl": f"/api/v2/statements/{handle}"}
        if self.now < found["ready"]:
            return 202, {"code": "333334", "message": "Asynchronous execution in progress.", **about}
        if "error" in found:
            return 422, {"code": "001003", "sqlState": "42000", "message": found["error"], **about}
        rows = found["rows"][part * PART : (part + 1) * PART]
        if part:
            return 200, {"data": rows}
        parts = max(1, -(-len(found["rows"]) // PART))
        meta = {"numRows": len(found["rows"]), "rowType": found["columns"], "partitionInfo": [{}] * parts}
        return 200, {"code": "090001", "resultSetMetaData": meta, "data": rows, **about}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Snowflake]:
    played = Snowflake()
    clock = SimpleNamespace(monotonic=lambda: played.now, sleep=played.wait, time=time.time)
    monkeypatch.setattr("noetl.kinds.snowflake.api.time", clock)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            made = played.answer(self.command, self.path, headers, body)
            if made is None:
                self.close_connection = True
                return
            said = json.dumps(made[1]).encode()
            self.send_response(made[0])
            self.send_header("Content-Length", str(len(said)))
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST = answer  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    played.port = http.server_port
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield played
    http.shutdown()
    http.server_close()
    thread.join(PATIENCE)
    played.database.close()


@pytest.fixture
def call(server, make_context):
    def call(changes: dict[str, Any] | None = None, timeout: float = PATIENCE, **params: Any) -> Any:
        data = {
            "account": "ab12345.eu-central-1",
            "user": "loader",
            "private_key": PEM,
            "private_key_passphrase": "phrase",
            "warehouse": "SMALL",
            "endpoint": f"http://127.0.0.1:{server.port}",
        } | (changes or {})
        credentials = {"warehouse": Credential("warehouse", "snowflake", data)}
        context = make_context(
            credentials=credentials, timeout=timeout, http_allow=("127.0.0.1",), output_max_bytes=10_000
        )
        until, waits = server.now + timeout, list[PollRequest]()
        while True:
            pending = waits[-1].state if waits else None
            again = replace(context, pending=pending, left=until - server.now)
            answer = default_registry().run("snowflake", {"auth": "warehouse", **params}, again)
            if not isinstance(answer, PollRequest):
                server.waits = waits
                return answer.result
            waits.append(answer)
            json.dumps(answer.state)
            server.asked(answer)
            server.wait(min(0.3, answer.delay))

    return call


def failed(call: Any, *args: Any, **params: Any) -> TaskError:
    with pytest.raises(TaskError) as caught:
        call(*args, **params)
    assert "PRIVATE KEY" not in str(caught.value) + json.dumps(caught.value.details)
    return caught.value


def test_values_go_bound_and_come_back_as_they_were(server, call):
    given = {
        "n": 2**60,
        "x": 0.1,
        "yes": True,
        "none": None,
        "text": "a'; DROP TABLE t; --",
        "map": {"k": [1]},
    }
    query = ", ".join(f"%({name})s AS {name}" for name in given)
    result = call(
        query=f"SELECT {query}, DATE '2026-11-21' AS day, TIMESTAMP '2026-11-21 10:00:00.5' AS at",
        params=given,
        role="READER",
    )
    (row,) = result["rows"]
    assert row == {
        "N": 2**60,
        "X": 0.1,
        "YES": True,
        "NONE": None,
        "TEXT": "a'; DROP TABLE t; --",
        "MAP": '{"k":[1]}',
        "DAY": "2026-11-21",
        "AT": "2026-11-21T10:00:00.500000",
    }
    (order,) = server.orders
    assert "DROP" not in order["statement"]
    assert (order["warehouse"], order["role"]) == ("SMALL", "READER")


def test_several_statements_rows_in_parts_and_inserts(server, call):
    done = call(
        commands=[
            "CREATE TABLE t (id INT, name TEXT)",
            "INSERT INTO t SELECT i, 'n' || i FROM range(8) r(i)",
            "SELECT id FROM t ORDER BY id",
        ]
    )
    assert [row["ID"] for row in done["rows"]] == list(range(8))
    assert done["results"][1:] == [{"affected_rows": 8}, {"row_count": 8}]
    assert call(table="t", args=[{"id": 8, "name": "x"}, {"id": 9, "name": None}]) == {"affected_rows": 2}
    assert call(query="SELECT count(*) AS n, max(id) AS m FROM t")["rows"] == [{"N": 10, "M": 9}]


def test_a_statement_that_takes_its_time_is_polled_seldom(server, call):
    server.slow = 1.0
    assert call(query="SELECT 1 AS one")["rows"] == [{"ONE": 1}]
    assert 2 <= server.polls <= 8


def test_statements_go_on_over_turns_that_hold_nobody(server, call):
    """Suspended again and again, each statement is handed in once; questions that go wrong on the way do not fail it."""
    server.slow = 2.2

    def asked(answer: PollRequest) -> None:
        server.broken = 1 if answer.state.get("misses", 0) == 0 else 0

    server.asked = asked
    done = call(timeout=PATIENCE, commands=["SELECT 1 AS one", "SELECT 2 AS two"])
    assert done["rows"] == [{"TWO": 2}] and done["results"] == [{"row_count": 1}] * 2
    assert [order["statement"] for order in server.orders] == ["SELECT 1 AS one", "SELECT 2 AS two"]
    assert {wait.state["number"] for wait in server.waits} == {1, 2} and not server.cancelled
    delays = [wait.delay for wait in server.waits if wait.state["number"] == 1]
    assert delays == sorted(delays) and delays[0] == 0.5


def test_a_statement_nobody_waits_for_is_stopped(server, call, make_context):
    server.slow = 2 * PATIENCE

    def asked(answer: PollRequest) -> None:
        server.waits.append(answer)
        raise InterruptedError

    server.asked = asked
    with pytest.raises(InterruptedError):
        call(timeout=PATIENCE, query="SELECT 1")
    (waits,) = server.waits
    data = {"account": "ab", "token": "open-sesame", "endpoint": f"http://127.0.0.1:{server.port}"}
    credentials = {"warehouse": Credential("warehouse", "snowflake", data)}
    default_registry().stop(
        "snowflake", waits.state, make_context(credentials=credentials, http_allow=("127.0.0.1",))
    )
    assert server.cancelled == [waits.state["handle"]]


def test_an_answer_that_was_lost_runs_nothing_twice(server, call):
    call(query="CREATE TABLE once (id INT)")
    server.lost = 1
    assert call(query="INSERT INTO once VALUES (1)") == {"affected_rows": 1}
    assert call(query="SELECT count(*) AS n FROM once")["rows"] == [{"N": 1}]


@pytest.mark.parametrize(
    ("changes", "params", "kind", "code", "retryable"),
    [
        ({}, {"query": "SELECT nonsense"}, "client_error", "001003", False),
        (
            {},
            {"query": "SELECT repeat('x', 500) FROM range(100)"},
            "storage_quota",
            "result_too_large",
            False,
        ),
        ({"user": "nobody"}, {"query": "SELECT 1"}, "auth", "390144", False),
        ({"private_key": "no key"}, {"query": "SELECT 1"}, "auth", "credential_shape", False),
        (
            {"private_key": None, "password": "hidden"},
            {"query": "SELECT 1"},
            "auth",
            "credential_shape",
            False,
        ),
        ({"account": "a b"}, {"query": "SELECT 1"}, "auth", "credential_shape", False),
        ({}, {}, "schema", "kind_params", False),
    ],
)
def test_errors(call, changes, params, kind, code, retryable):
    error = failed(call, changes, **params)
    assert (error.kind, error.code, error.retryable) == (kind, code, retryable)


def test_which_of_several_failed(call):
    assert failed(call, commands=["SELECT 1", "SELECT nonsense"]).details["statement"] == 2


def test_a_statement_that_takes_too_long_is_cancelled_there(server, call):
    server.slow = 2 * PATIENCE
    error = failed(call, timeout=3.0, query="SELECT 1")
    assert (error.kind, error.code, error.retryable) == ("db_timeout", "timeout", True)
    assert server.cancelled == [error.details["query_id"]]


def test_a_token_serves_as_well(call):
    changes = {"private_key": None, "token": "open-sesame"}
    assert call(changes, query="SELECT 1 AS one")["rows"] == [{"ONE": 1}]
    assert failed(call, {**changes, "token": "wrong"}, query="SELECT 1").kind == "auth"


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("fixed", "12.50", 12.5),
        ("fixed", "0.1234567890123456789", "0.1234567890123456789"),
        ("real", "inf", None),
        ("date", "-1", "1969-12-31"),
        ("time", "82919.000000000", "23:01:59"),
        ("timestamp_ltz", "1616173619.000000000", "2021-03-19T17:06:59+00:00"),
        ("timestamp_ntz", "-0.500000000", "1969-12-31T23:59:59.500000"),
        ("timestamp_tz", "1616173619.000000000 1920", "2021-03-20T01:06:59+08:00"),
        ("variant", '{"a": [1, null]}', {"a": [1, None]}),
        ("binary", "ff00", "/wA="),
        ("geography", "POINT(1 2)", "POINT(1 2)"),
        ("date", "no day", "no day"),
    ],
)
def test_cells(kind, text, value):
    assert read(text, {"type": kind}) == value
