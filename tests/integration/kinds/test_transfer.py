"""Rows from every store to every other: values, modes, exact counts, and what happens when a transfer is cut off."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import psycopg
import pytest
from moto import mock_aws

from noetl.adapters.memory.results import MemoryResultStore
from noetl.domain.errors import TaskError
from noetl.domain.kinds import HOLE, Credential, TaskContext
from noetl.domain.outcomes.outcomes import PollRequest
from noetl.kinds.cloud.aws_client import forget_clients
from noetl.kinds.postgres.connect import CONNECTIONS
from noetl.kinds.registry import default_registry
from noetl.kinds.transfer.endpoints import Progress
from noetl.services.results.artifacts import TaskArtifacts
from tests.integration.kinds.test_snowflake import PEM, Snowflake, server  # noqa: F401
from tests.parts import parted
from tests.waiting import PATIENCE, wait_until

REGION = "eu-central-1"
CREDENTIALS = {
    "lake": Credential(
        "lake", "aws", {"access_key_id": "AKIA", "secret_access_key": "hidden", "region": REGION}
    )
}
SHAPE = "id bigint PRIMARY KEY, name text, price numeric(12,2), at timestamptz, day date, ok boolean, f double precision, doc jsonb, raw bytea"
COLUMNS = ["id", "name", "price", "at", "day", "ok", "f", "doc", "raw"]
FILLED = (
    "INSERT INTO {} SELECT i, CASE WHEN i % 3 = 0 THEN NULL ELSE E'n,\"\\n\\\\é' || i END, i + 0.10, '2026-01-02 03:04:05.678+02'::timestamptz"
    " + i * interval '1 day', DATE '2026-01-01' + i, i % 2 = 0, i / 3.0::float8, jsonb_build_object('i', i, 'l', array[i]),"
    " decode(lpad(to_hex(i), 8, '0'), 'hex') FROM generate_series(1, {}) AS t(i)"
)
_names = itertools.count()


class Ground:
    """A database, a bucket, a folder, and tasks that run in them. ``again``: the next attempt of the same task."""

    def __init__(self, dsn: str, folder: Path, make_context: Callable[..., TaskContext]) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True)
        self.s3 = boto3.client("s3", REGION)
        self.s3.create_bucket(Bucket="lake", CreateBucketConfiguration={"LocationConstraint": REGION})
        made = make_context(
            credentials=CREDENTIALS, timeout=PATIENCE, workspace_dsn=dsn, work_dir=str(folder / "work")
        )
        self.context = replace(made, artifacts=TaskArtifacts(MemoryResultStore(), 1, "s", max_bytes=10**8))
        self.again()

    def again(self, key: str = "") -> None:
        """Tasks from now on are another one."""
        self.context = replace(self.context, idempotency_key=key or f"1/{next(_names)}/t")

    def table(self, rows: int = 0, shape: str = SHAPE) -> str:
        name = f"t{next(_names)}"
        self.sql(f"CREATE TABLE {name} ({shape})")
        if rows:
            self.sql(FILLED.format(name, rows))
        return name

    def sql(self, text: str) -> list[Any]:
        cursor = self.connection.execute(text)
        return cursor.fetchall() if cursor.description else []

    def move(self, source: Any, target: Any, **params: Any) -> dict[str, Any]:
        given = {"source": source, "target": target, **params}
        assert default_registry().check("transfer", given) == []
        return default_registry().run("transfer", given, self.context).result  # type: ignore[union-attr]

    def refused(self, source: Any, target: Any, **params: Any) -> TaskError:
        with pytest.raises(TaskError) as caught:
            self.move(source, target, **params)
        return caught.value

    def duckdb(self, query: str, **params: Any) -> dict[str, Any]:
        given = {"database": "store", "query": query, **params}
        return default_registry().run("duckdb", given, self.context).result  # type: ignore[union-attr]


@pytest.fixture
def ground(dsn: str, tmp_path: Path, make_context, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    forget_clients()
    with mock_aws():
        ground = Ground(dsn, tmp_path, make_context)
        yield ground
        ground.connection.close()
    forget_clients()
    CONNECTIONS.close_idle(0)


def pg(table: str, **more: Any) -> dict[str, Any]:
    return {"kind": "postgres", "table": table, **more}


def obj(name: str, **more: Any) -> dict[str, Any]:
    return {"kind": "s3", "auth": "lake", "uri": f"s3://lake/{name}", **more}


FORMS = ["csv", "jsonl", "json", "parquet"]


@pytest.mark.parametrize("form", parted(FORMS, ["csv", "parquet"]))
def test_rows_go_to_an_object_and_come_back_as_they_were(ground: Ground, form: str) -> None:
    source, target = ground.table(2345), ground.table()
    out = ground.move(pg(source, order_by="id"), obj(f"a.{form}"), chunk_rows=1000)
    assert (out["rows_read"], out["rows_written"]) == (2345, 2345)
    assert out["bytes"] == ground.s3.head_object(Bucket="lake", Key=f"a.{form}")["ContentLength"]
    back = ground.move(obj(f"a.{form}"), pg(target), chunk_rows=500)
    assert (back["rows_read"], back["rows_written"], back["mode"]) == (2345, 2345, "append")
    assert ground.sql(f"SELECT * FROM {target} EXCEPT SELECT * FROM {source}") == []
    assert ground.sql(f"SELECT count(*) FROM {target}") == [(2345,)]


def test_parquet_of_a_query_has_the_types_of_its_columns(ground: Ground) -> None:
    ground.move(pg(ground.table(3)), obj("t.parquet", types={"name": "VARCHAR"}))
    file = Path(ground.context.settings.work_dir or "") / "t.parquet"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(ground.s3.get_object(Bucket="lake", Key="t.parquet")["Body"].read())
    told = {
        row["column_name"]: row["column_type"] for row in ground.duckdb("DESCRIBE FROM 't.parquet'")["rows"]
    }
    assert told == {
        "id": "BIGINT", "name": "VARCHAR", "price": "DECIMAL(12,2)", "at": "TIMESTAMP WITH TIME ZONE", "day": "DATE",
        "ok": "BOOLEAN", "f": "DOUBLE", "doc": "JSON", "raw": "BLOB",
    }  # fmt: skip


@pytest.mark.parametrize("order", parted([None, "id"], ["id"]))
def test_rows_go_through_duckdb_and_an_artifact(ground: Ground, order: str | None) -> None:
    source, target = ground.table(1200), ground.table()
    ground.duckdb(
        'CREATE TABLE moved (id BIGINT PRIMARY KEY, name VARCHAR, price DECIMAL(12,2), "at" TIMESTAMPTZ, day DATE, ok BOOLEAN, f DOUBLE,'
        " doc JSON, raw BLOB)"
    )
    given = {"order_by": order} if order else {}
    file = {"kind": "duckdb", "database": "store", "table": "moved"}
    told = ground.move(pg(source, **given), file, chunk_rows=500)
    assert told["rows_written"] == 1200
    assert ground.move(pg(source, **given), file, chunk_rows=500) == {**told, "resumed_at": 1200}
    ground.again()
    kept = ground.move({**file, **given}, {"kind": "artifact", "format": "parquet"}, chunk_rows=500)
    assert kept["artifact"]["extracted"] == {"row_count": 1200, "columns": COLUMNS}
    assert ground.move({"kind": "artifact", "ref": kept["artifact"]}, pg(target))["rows_written"] == 1200
    assert ground.sql(f"SELECT * FROM {target} EXCEPT SELECT * FROM {source}") == []
    assert ground.duckdb("SELECT count(*) AS n FROM moved")["rows"] == [{"n": 1200}]


MODES = [(kind, ordered) for kind in ("postgres", "duckdb") for ordered in (True, False)]


@pytest.mark.parametrize(("kind", "ordered"), parted(MODES, [("postgres", False), ("duckdb", True)]))
def test_modes(ground: Ground, kind: str, ordered: bool) -> None:
    shape = "id bigint PRIMARY KEY, v text NOT NULL, n bigint DEFAULT 7"
    name = ground.table(shape=shape)
    target = pg(name) if kind == "postgres" else {"kind": "duckdb", "database": "store", "table": name}
    if kind == "duckdb":
        ground.duckdb(f"CREATE TABLE {name} ({shape})")

    def move(rows: list[dict[str, Any]], **params: Any) -> Any:
        ground.again()
        staged = ground.table(shape="id bigint, v text, at serial")
        for row in rows:
            ground.connection.execute(f"INSERT INTO {staged} (id, v) VALUES (%s, %s)", (row["id"], row["v"]))
        source = (
            pg(staged, order_by="at")
            if ordered
            else {"kind": "postgres", "query": f"SELECT * FROM {staged} ORDER BY at"}
        )
        return ground.move(source, target, columns=["id", "v"], chunk_rows=2, **params)

    def found() -> list[Any]:
        text = f"SELECT id, v, n FROM {name} ORDER BY id"
        return (
            ground.sql(text)
            if kind == "postgres"
            else [tuple(row.values()) for row in ground.duckdb(text)["rows"]]
        )

    rows = [{"id": i, "v": f"v{i}"} for i in range(1, 6)]
    assert move(rows)["rows_written"] == 5
    assert found() == [(i, f"v{i}", 7) for i in range(1, 6)]
    changed = [{"id": 5, "v": "a"}, {"id": 6, "v": "b"}, {"id": 5, "v": "c"}, {"id": 5, "v": "d"}]
    told = move(changed, mode="upsert", key="id")
    assert (told["rows_read"], told["rows_written"]) == (4, 2 if kind == "duckdb" and not ordered else 3)
    assert found()[4:] == [(5, "d", 7), (6, "b", 7)]
    assert (
        move([{"id": 5, "v": "r"}, {"id": 9, "v": "s"}, {"id": 8, "v": "t"}], mode="replace")["rows_written"]
        == 3
    )
    assert found() == [(5, "r", 7), (8, "t", 7), (9, "s", 7)]
    assert move([], mode="replace")["rows_written"] == 0
    assert found() == []


@pytest.mark.parametrize("kind", ["transfer", "postgres"])
def test_what_replaces_a_table_waits_for_others_who_write_it(ground: Ground, dsn: str, kind: str) -> None:
    """Two that replace it at once would both leave their rows."""
    target = ground.table(shape="id int")
    rows = [{"id": 1}, {"id": 2}]
    given: dict[str, Any] = (
        {"source": {"kind": "artifact", "ref": rows}, "target": pg(target), "mode": "replace"}
        if kind == "transfer"
        else {"copy": {"table": target, "from": rows, "mode": "replace"}}
    )
    with psycopg.connect(dsn) as other, ThreadPoolExecutor(1) as pool:
        other.execute(f"INSERT INTO {target} VALUES (3)")  # not committed yet: a DELETE does not see it
        replaced = pool.submit(default_registry().run, kind, given, ground.context)
        here = "(SELECT oid FROM pg_database WHERE datname = current_database())"
        waiting = (
            f"SELECT 1 FROM pg_locks WHERE NOT granted AND database = {here} AND relation = '{{}}'::regclass"
        )
        wait_until(
            lambda: ground.sql(waiting.format(target)) or replaced.done(), "a wait for the other's rows"
        )
        other.commit()
        replaced.result()
    assert ground.sql(f"SELECT id FROM {target} ORDER BY id") == [(1,), (2,)]


class CutError(Exception):
    """A process ends here, as far as its stores can tell."""


@pytest.mark.parametrize(
    "source, mode",
    [
        ("postgres", "append"),
        pytest.param("postgres", "replace", marks=pytest.mark.full),
        pytest.param("postgres-unordered", "append", marks=pytest.mark.full),
        ("postgres-unordered", "replace"),
        ("csv", "upsert"),
        pytest.param("parquet", "append", marks=pytest.mark.full),
        ("artifact", "replace"),
    ],
)
def test_a_transfer_that_was_cut_off_goes_on_and_every_row_is_there_once(
    ground: Ground, source: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, target = ground.table(50), ground.table()
    given = cut_source(ground, source, table)
    ground.again()
    cuts = iter([3, 3, 1])
    left = [0]
    original = Progress.__setattr__

    def counted(self: Any, name: str, value: Any) -> None:
        original(self, name, value)
        if name == "rows_written" and value:
            left[0] -= 1
            if not left[0]:
                raise CutError

    monkeypatch.setattr(Progress, "__setattr__", counted)
    params = {"mode": mode, "chunk_rows": 10, **({"key": "id"} if mode == "upsert" else {})}
    resumed = []
    for cut in cuts:
        left[0] = cut
        with pytest.raises(TaskError, match="CutError"):
            ground.move(given, pg(target), **params)
        resumed.append(ground.sql("SELECT max(rows_read) FROM noetl_transfer WHERE NOT done")[0][0])
    left[0] = 0
    told = ground.move(given, pg(target), **params)
    assert (told["rows_read"], told["rows_written"]) == (50, 50)
    assert resumed == ([0, 0, 0] if source == "postgres-unordered" else [20, 30, 30])
    assert told["resumed_at"] == resumed[-1]
    assert ground.sql(f"SELECT * FROM {target} EXCEPT SELECT * FROM {table}") == []
    assert ground.sql(f"SELECT count(*) FROM {target}") == [(50,)]
    assert ground.move(given, pg(target), **params) == {**told, "resumed_at": 50}
    assert ground.sql("SELECT count(*) FROM pg_class WHERE relname LIKE 'noetl_stage%'") == [(0,)]


def cut_source(ground: Ground, source: str, table: str) -> dict[str, Any]:
    if source.startswith("postgres"):
        query = {
            "kind": "postgres",
            "query": f"SELECT * FROM {table} WHERE id %% 1 = %(z)s",
            "params": {"z": 0},
        }
        return query if "unordered" in source else {**query, "order_by": ["raw", "at", "id"]}
    if source == "artifact":
        return {"kind": "artifact", "ref": ground.move(pg(table), {"kind": "artifact"})["artifact"]}
    ground.move(pg(table), obj(f"cut.{source}"))
    return obj(f"cut.{source}")


@pytest.mark.parametrize(
    "source, target, params, code, message",
    [
        ({"query": "SELECT 1/0 AS id"}, {}, {}, "22012", "division by zero"),
        ({"query": "SELECT id FROM nowhere"}, {}, {}, "42P01", "nowhere"),
        ({"query": "DELETE FROM {source}"}, {}, {}, "not_a_query", "only rows of a query"),
        ({"query": "SELECT 1; SELECT 2"}, {}, {}, "not_a_query", "2 statements"),
        ({}, {"table": "nowhere"}, {}, "42P01", "the table nowhere cannot be written"),
        ({}, {}, {"columns": {"id": "id", "lost": "id"}}, "42703", "has no column 'lost'"),
        ({}, {}, {"columns": {"id": "lost"}}, "column_missing", "row 1 of the source has no column 'lost'"),
        (
            {"query": "SELECT nullif(i, 7) AS id FROM generate_series(1, 9) t(i)"},
            {},
            {},
            "23502",
            "row 7: null value",
        ),
        (
            {"query": "SELECT i % 7 AS id FROM generate_series(1, 9) t(i)"},
            {},
            {},
            "23505",
            "row 8: duplicate key value",
        ),
        (
            {"query": "SELECT 'x' || i AS id FROM generate_series(1, 9) t(i)"},
            {},
            {},
            "22P02",
            "row 1: invalid input syntax",
        ),
        (
            {"query": "SELECT i AS id, 2 AS k FROM generate_series(1, 9) t(i)", "order_by": "k"},
            {},
            {},
            "order_not_unique",
            "same k: 2",
        ),
        (
            {"query": "SELECT i AS id, NULL AS k FROM generate_series(1, 9) t(i)", "order_by": "k"},
            {},
            {},
            "order_not_unique",
            "null",
        ),
        ({"query": "SELECT 6 AS id"}, {}, {}, "copy_count", "the database counts 0"),
    ],
)
def test_what_goes_wrong_is_told_with_its_row_and_leaves_nothing(
    ground: Ground, source: Any, target: Any, params: Any, code: str, message: str
) -> None:
    table = ground.table(shape="id bigint PRIMARY KEY")
    ground.sql(
        "CREATE OR REPLACE FUNCTION no_six() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.id = 6 THEN RETURN NULL; END IF; RETURN NEW; END'"
    )
    if code == "copy_count":
        ground.sql(f"CREATE TRIGGER six BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION no_six()")
    given = (
        {"table": ground.table(9)}
        if not source
        else {**source, "query": source["query"].format(source=table)}
    )
    wanted = {"columns": ["id"], "chunk_rows": 3, **params}
    error = ground.refused({"kind": "postgres", **given}, {**pg(table), **target}, **wanted)
    assert (error.code, message in error.message) == (code, True), error.message
    row = message.partition("row ")[2].partition(":")[0].partition(" ")[0]
    assert not row.isdigit() or error.details["row"] == int(row)
    assert ground.sql(f"SELECT count(*) FROM {table}") == [(3 if "same k" in message else 0,)]


def test_an_object_that_was_written_anew_is_not_gone_on_with(ground: Ground) -> None:
    target = ground.table(shape="id bigint PRIMARY KEY CHECK (id < 5)")
    ground.s3.put_object(
        Bucket="lake", Key="x.csv", Body=b"id\n" + b"".join(b"%d\n" % i for i in range(1, 9))
    )
    assert ground.refused(obj("x.csv"), pg(target), chunk_rows=2).details["row"] == 5
    assert ground.sql(f"SELECT max(id) FROM {target}") == [(4,)]
    ground.s3.put_object(Bucket="lake", Key="x.csv", Body=b"id\n1\n")
    assert ground.refused(obj("x.csv"), pg(target), chunk_rows=2).code == "source_changed"


def test_a_row_with_a_column_of_its_own_is_refused(ground: Ground) -> None:
    target = ground.table(shape="id bigint, v text, w text")
    rows = {"kind": "artifact", "ref": [{"id": 1, "v": "a"}, {"id": 2}, {"id": 3, "v": "c", "w": "lost?"}]}
    error = ground.refused(rows, pg(target), chunk_rows=2)
    assert (error.code, error.details) == ("row_shape", {"row": 3, "column": "w"})
    ground.again()
    ground.sql(f"TRUNCATE {target}")
    ground.move(rows, pg(target), columns=["id"])
    assert ground.sql(f"SELECT * FROM {target} ORDER BY id") == [
        (1, None, None),
        (2, None, None),
        (3, None, None),
    ]


def test_a_resume_key_is_one_transfer_whoever_asks(ground: Ground) -> None:
    source, target = ground.table(5), ground.table()
    day = {"resume_key": f"orders of {source}"}
    assert ground.move(pg(source, order_by="id"), pg(target), **day)["resumed_at"] == 0
    ground.again()
    assert ground.move(pg(source, order_by="id"), pg(target), **day)["resumed_at"] == 5
    assert (
        ground.refused(pg(source, order_by="id"), pg(target), mode="replace", **day).code
        == "transfer_differs"
    )
    assert ground.sql(f"SELECT count(*) FROM {target}") == [(5,)]


def test_large_objects_go_up_in_parts_and_broken_ones_not_at_all(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl.kinds.transfer.s3.PART_BYTES", 5 * 1024 * 1024)
    query = "SELECT i AS id, repeat(md5(i::text), 400) AS t FROM generate_series(1, {}) AS t(i)"
    wide = {"kind": "postgres", "query": query.format(900)}
    out = ground.move(wide, obj("wide.jsonl"))
    assert (
        out["bytes"]
        == ground.s3.head_object(Bucket="lake", Key="wide.jsonl")["ContentLength"]
        > 10 * 1024 * 1024
    )
    assert out["etag"].endswith("-3")
    broken = {"kind": "postgres", "query": f"{query.format(900)} WHERE 1 / (i - 800) < 2"}
    assert ground.refused(broken, obj("broken.jsonl")).code == "22012"
    assert ground.s3.list_objects_v2(Bucket="lake", Prefix="broken").get("KeyCount") == 0
    assert "Uploads" not in ground.s3.list_multipart_uploads(Bucket="lake")


def test_a_transfer_that_does_not_fit_into_a_call_goes_on_in_the_next(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = itertools.count()
    # Every look at the clock takes a hundredth of a second, so that a part of the rows fits into a fifth of one.
    clock = SimpleNamespace(monotonic=lambda: next(looks) / 100)
    monkeypatch.setattr("noetl.kinds.transfer.kind.time", clock)
    monkeypatch.setattr("noetl.kinds.transfer.kind._RESERVE", 0.99)
    source, target = ground.table(500), ground.table()
    given = {"source": pg(source, order_by="id"), "target": pg(target), "chunk_rows": 1}
    whole, short = ground.context, replace(ground.context, timeout=20.0, left=60.0)
    ground.context = replace(short, left=0.0)
    error = ground.refused(**given)
    assert (error.code, error.retryable) == ("transfer_unfinished", True)
    ground.context = short
    asked = default_registry().run("transfer", given, short)
    assert isinstance(asked, PollRequest)
    assert 0 < error.details["rows_read"] == asked.state["resumed_at"] < asked.state["rows_read"] < 500
    monkeypatch.setattr("noetl.kinds.transfer.kind._RESERVE", 0.1)
    ground.context = replace(whole, pending=asked.state)
    told = ground.move(**given)
    assert (told["rows_written"], told["resumed_at"]) == (500, error.details["rows_read"])
    assert ground.sql(f"SELECT count(*) FROM {target}") == [(500,)]


@pytest.mark.parametrize(
    "change, place",
    [
        ({"source": {"kind": "postgres"}}, ("source",)),
        ({"source": {"kind": "postgres", "table": "t", "auth": HOLE, "tabel": "t"}}, ("source", "tabel")),
        ({"source": {"kind": "mysql", "auth": HOLE}}, ("source", "kind")),
        ({"source": {"kind": "s3", "uri": "http://x"}}, ("source",)),
        ({"target": {"kind": "duckdb", "table": "t", "database": "../x"}}, ("target", "database")),
        ({"mode": "upsert"}, ()),
        ({"key": "id"}, ()),
        ({"mode": "append", "target": {"kind": "artifact"}}, ()),
        ({"chunk_rows": 0}, ("chunk_rows",)),
        ({"columns": []}, ("columns",)),
    ],
)
def test_what_cannot_be_meant_is_told_before_anything_runs(change: Any, place: tuple[str, ...]) -> None:
    given = {"source": pg("a"), "target": pg("b"), **change}
    problems = default_registry().check("transfer", given)
    assert [problem.path[: len(place)] for problem in problems][:1] == [place], problems


@pytest.fixture
def warehouse(server: Snowflake, ground: Ground) -> Snowflake:  # noqa: F811
    data = {
        "account": "ab12345.eu-central-1",
        "user": "loader",
        "private_key": PEM,
        "private_key_passphrase": "phrase",
        "endpoint": f"http://127.0.0.1:{server.port}",
    }
    credential = Credential("warehouse", "snowflake", data)
    known = ground.context.credential
    settings = replace(ground.context.settings, http_allow=("127.0.0.1",))
    find = lambda name: credential if name == "warehouse" else known(name)  # noqa: E731
    ground.context = replace(ground.context, credential=find, settings=settings, left=30.0)
    server.database.execute(
        "CREATE TYPE TIMESTAMP_NTZ AS TIMESTAMP; CREATE MACRO PARSE_JSON(x) AS x::JSON; CREATE MACRO TO_BINARY(x, how) AS from_base64(x)"
    )
    server.database.execute(
        "CREATE TABLE ORDERS (ID BIGINT PRIMARY KEY, NAME VARCHAR, PRICE DECIMAL(12,2), DAY DATE, OK BOOLEAN, F DOUBLE, DOC JSON, RAW BLOB)"
    )
    return server


UPPER = {name.upper(): name for name in COLUMNS if name != "at"}
ORDERS = {"kind": "snowflake", "auth": "warehouse", "table": "ORDERS"}


@pytest.mark.parametrize("mode", parted(["append", "replace", "upsert"], ["upsert"]))
def test_rows_go_to_snowflake_and_back_though_attempts_are_cut_off(
    ground: Ground, warehouse: Snowflake, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = ground.table(25), ground.table()
    warehouse.database.execute(
        "INSERT INTO ORDERS (ID, NAME) VALUES (-1, 'old'), (7, 'old')" if mode == "upsert" else "SELECT 1"
    )
    key = {"key": "ID"} if mode == "upsert" else {}
    params = {"mode": mode, "columns": UPPER, "chunk_rows": 10, **key}
    original = warehouse.executed
    calls = itertools.count()
    monkeypatch.setattr(warehouse, "executed", lambda order: cut_after(7, calls, original, order))
    ground.refused(pg(source, order_by="id"), ORDERS, **params)
    monkeypatch.setattr(warehouse, "executed", original)
    told = ground.move(pg(source, order_by="id"), ORDERS, **params)
    assert (told["rows_read"], told["rows_written"], told["resumed_at"]) == (25, 25, 10)
    assert ground.move(pg(source, order_by="id"), ORDERS, **params)["resumed_at"] == 25
    assert warehouse.database.execute("SELECT count(*), min(NAME) FROM ORDERS WHERE ID < 0").fetchone() == (
        (1, "old") if mode == "upsert" else (0, None)
    )
    ground.again()
    back = {
        **ORDERS,
        "table": None,
        "query": "SELECT * FROM ORDERS WHERE ID > %(none)s ORDER BY ID",
        "params": {"none": 0},
    }
    del back["table"]
    columns = {name: upper for upper, name in UPPER.items()}
    assert ground.move(back, pg(target), columns=columns, chunk_rows=4)["rows_written"] == 25
    names = ", ".join(columns)
    assert ground.sql(f"SELECT {names} FROM {target} EXCEPT SELECT {names} FROM {source}") == []
    assert [
        row for row in warehouse.database.execute("SHOW TABLES").fetchall() if "stage" in row[0].lower()
    ] == []


def cut_after(count: int, calls: Iterator[int], executed: Any, order: dict[str, Any]) -> dict[str, Any]:
    """The warehouse is away from the ``count``-th statement on."""
    return executed(order) if next(calls) < count else {"error": "away"}


def test_a_result_that_snowflake_keeps_is_read_on(
    ground: Ground, warehouse: Snowflake, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = ground.table(shape="id bigint PRIMARY KEY CHECK (id <> 8)")
    warehouse.database.execute("INSERT INTO ORDERS (ID) SELECT * FROM range(1, 11)")
    back = {"kind": "snowflake", "auth": "warehouse", "query": "SELECT ID FROM ORDERS ORDER BY hash(ID)"}
    params = {"columns": {"id": "ID"}, "chunk_rows": 3}
    warehouse.database.execute("UPDATE ORDERS SET NAME = 'x'")
    first = ground.refused(back, pg(target), **params)
    assert (first.kind, first.code) == ("db_constraint", "23514")
    read = ground.sql("SELECT rows_read FROM noetl_transfer WHERE NOT done ORDER BY updated_at DESC LIMIT 1")[
        0
    ][0]
    ground.sql(f"ALTER TABLE {target} DROP CONSTRAINT {target}_id_check")
    asked = len(warehouse.orders)
    told = ground.move(back, pg(target), **params)
    assert (told["rows_read"], told["resumed_at"], len(warehouse.orders) - asked) == (10, read, 0)
    assert ground.sql(f"SELECT count(*) FROM {target}") == [(10,)]
    ground.again("other")
    ground.sql(f"TRUNCATE {target}; ALTER TABLE {target} ADD CHECK (id <> 8)")
    ground.refused(back, pg(target), **params)
    warehouse.statements = {handle: {**one, "error": "gone"} for handle, one in warehouse.statements.items()}
    assert ground.refused(back, pg(target), **params).code == ("source_changed" if read else "001003")
