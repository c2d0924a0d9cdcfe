"""Rows as streams: into Postgres by COPY, out of it by a cursor, and through DuckDB, with results in a tier."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from noetl.adapters.embedded.files import FileResultStore
from noetl.adapters.memory.results import MemoryResultStore
from noetl.domain.errors import TaskError
from noetl.domain.kinds import HOLE, Credential
from noetl.kinds.postgres.connect import CONNECTIONS
from noetl.kinds.registry import default_registry
from noetl.kinds.support.task_workspace import SUFFIX
from noetl.services.results.artifacts import TaskArtifacts
from tests.waiting import PATIENCE

pytestmark = pytest.mark.postgres

WIDE = (
    "SELECT i AS id, 'n' || i AS name, (i * 1.10)::numeric(12, 2) AS total, i % 2 = 0 AS even, NULLIF(i % 3, 0) AS rest,"
    " timestamptz '2026-01-01 00:00+00' + i * interval '1 day' AS at, ARRAY[i, i + 1] AS pair, jsonb_build_object('i', i) AS doc,"
    " decode('00ff', 'hex') AS raw, CASE WHEN i % 2 = 0 THEN '' END AS blank FROM generate_series(1, {}) AS i"
)


@pytest.fixture(autouse=True)
def clean(dsn):
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    yield
    CONNECTIONS.close_idle(0)


@pytest.fixture
def store(request, tmp_path):
    """A tier whose results are files; with ``memory`` one whose results are not."""
    other = getattr(request, "param", "file") == "memory"
    return MemoryResultStore() if other else FileResultStore(tmp_path / "results")


both_tiers = pytest.mark.parametrize("store", ["file", "memory"], indirect=True)


@pytest.fixture
def context(make_context, dsn, tmp_path, store):
    for folder in ("data", "work"):
        (tmp_path / folder).mkdir()
    made = make_context(
        workspace_dsn=dsn,
        data_dirs=(str(tmp_path / "data"),),
        work_dir=str(tmp_path / "work"),
        credentials={"wh": Credential("wh", "postgres", {"dsn": dsn})},
    )
    folder = str(tmp_path / "work")
    return replace(made, artifacts=TaskArtifacts(store, 1, "s", max_bytes=2**30, folder=folder))


@pytest.fixture
def run(context):
    def call(kind, query=None, **params):
        params |= {} if query is None else {"query": query}
        return default_registry().run(kind, params, context).result

    return call


@pytest.fixture
def fails(run):
    def call(*args, **params) -> TaskError:
        with pytest.raises(TaskError) as caught:
            run(*args, **params)
        return caught.value

    return call


@pytest.fixture
def artifact(context):
    def make(data: bytes, format: str, **extracted):
        with context.artifacts.create(format) as out:
            out.write(data)
            return out.close(extracted)

    return make


def rows_in(run, table="t", columns="*"):
    return run("postgres", f"SELECT {columns} FROM {table} ORDER BY 1")["rows"]


@both_tiers
@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_a_large_query_goes_into_a_tier_and_back_into_a_table_without_change(run, context, tmp_path, format):
    columns = "id, name, total, even, rest, at, blank" + ("" if format == "csv" else ", pair, doc, raw")
    ref = run("postgres", f"SELECT {columns} FROM ({WIDE.format(3000)}) AS rows", result=format)
    assert (ref["kind"], ref["meta"]["format"]) == ("result_ref", format)
    assert ref["extracted"]["row_count"] == 3000 and ref["extracted"]["columns"][:2] == ["id", "name"]
    run("postgres", f"CREATE TABLE t AS {WIDE.format(0)}")
    copied = run("postgres", copy={"table": "public.t", "from": ref})
    assert copied == {"row_count": 3000, "affected_rows": 3000}
    difference = run(
        "postgres",
        f"(SELECT {columns} FROM t EXCEPT SELECT {columns} FROM ({WIDE.format(3000)}) AS r) LIMIT 3",
    )
    assert difference["rows"] == []
    assert list((tmp_path / f"work{SUFFIX}").glob("*") if format == "parquet" else []) == []


def test_values_are_bound_in_a_cursor_and_what_gives_no_rows_is_refused(run, fails):
    ref = run(
        "postgres",
        "SELECT %(a)s::int AS a, v FROM unnest(%(b)s::text[]) AS v",
        params={"a": 7, "b": ["x", "%"]},
        result="jsonl",
    )
    run("postgres", "CREATE TABLE t (a int, v text)")
    run("postgres", copy={"table": "t", "from": ref})
    assert rows_in(run, columns="v, a") == [{"v": "%", "a": 7}, {"v": "x", "a": 7}]
    for statement in ("DELETE FROM t RETURNING a", "VACUUM"):
        assert fails("postgres", statement, result="csv").code == "not_a_query"
    error = fails("postgres", "WITH d AS (DELETE FROM t RETURNING a) SELECT * FROM d", result="csv")
    assert error.code == "0A000" and len(rows_in(run)) == 2
    assert run("postgres", "SELECT 1 AS a WHERE false", result="csv")["extracted"] == {
        "row_count": 0,
        "columns": ["a"],
    }


def test_what_comes_before_a_copy_belongs_to_its_transaction(run, fails, artifact):
    lines = b'{"id": 1}\n{"id": 2}\n{"id": "x"}\n'
    error = fails(
        "postgres", "CREATE TABLE t (id int)", copy={"table": "t", "from": artifact(lines, "jsonl")}
    )
    assert (error.code, error.kind, error.details["row"]) == ("22P02", "client_error", 3)
    assert "row 3" in error.message
    assert fails("postgres", "SELECT * FROM t").code == "42P01"
    made = run(
        "postgres", ["CREATE TABLE t (id int)"], copy={"table": "t", "from": artifact(lines[:-12], "jsonl")}
    )
    assert made["row_count"] == 2


@pytest.mark.parametrize(
    ("data", "format", "place"),
    [
        (b"id,name\n1,a\nx,b\n", "csv", {"line": 3}),
        (b'[{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]', "json", {"row": 2}),
        (b'{"id": 1, "name": "a"}\n{"id": 2, "name": "a\\u0000b"}\n', "jsonl", {"row": 2}),
        (b'{"id": 1}\n{"id": 2, "other": 1}\n', "jsonl", {"row": 2}),
    ],
)
def test_an_error_names_the_row(run, fails, artifact, data, format, place):
    run("postgres", "CREATE TABLE t (id int PRIMARY KEY, name text)")
    error = fails("postgres", copy={"table": "t", "from": artifact(data, format)})
    assert {name: error.details.get(name) for name in place} == place, error
    assert rows_in(run) == []


@pytest.mark.parametrize(
    ("copy", "code", "hint"),
    [
        ({"from": [{"id": 1, "nmae": "a"}]}, "42703", "it has id, name"),
        ({"from": [1, 2]}, "not_rows", "{{ step.data.items }}"),
        ({"from": {"items": []}}, "not_rows", "the part that is the list"),
        ({"from": [{"id": 1}], "mode": "upsert"}, "kind_params", None),
        ({"from": [{"id": 1}], "mode": "upsert", "key": ["name"]}, "copy_key", "`columns`"),
        ({"from": [{"id": 1, "name": "a"}], "mode": "upsert", "key": ["name"]}, "42P10", "unique index"),
        ({"from": [{"id": 1}], "table": "no.such"}, "42P01", "schema.table"),
        ({"from": {"kind": "result_ref", "ref": "noetl://execution/1/result/s/x", "sha256": "0"}}, "REFERENCE_NOT_AVAILABLE", None),
    ],
)  # fmt: skip
def test_refusals(run, fails, copy, code, hint):
    run("postgres", "CREATE TABLE t (id int PRIMARY KEY, name text)")
    error = fails("postgres", copy={"table": "t", **copy})
    assert error.code == code, error
    assert hint is None or hint in (error.hint or "")


def test_counts_are_verified_and_a_csv_that_would_be_cut_is_refused(run, fails, artifact):
    run("postgres", "CREATE TABLE t (id text)")
    error = fails("postgres", copy={"table": "t", "from": artifact(b"id\n1\n2\n", "csv", row_count=3)})
    assert (error.code, error.details["expected"], error.details["counted"]) == ("copy_count", 3, 2)
    for cut in (b"id\n1\n\\.\n2\n", b"id\n\\.", b"id\r\n\\.\r\n2"):
        assert fails("postgres", copy={"table": "t", "from": artifact(cut, "csv")}).code == "object_format"
    assert rows_in(run) == []
    kept = artifact(b'id\n"\\."\n\\.5\n""\n', "csv", row_count=3)
    assert run("postgres", copy={"table": "t", "from": kept})["row_count"] == 3


@pytest.mark.parametrize("kind", ["postgres", "duckdb", "transfer"])
def test_a_csv_of_one_column_keeps_its_nulls_and_its_texts(run, kind):
    """What it looks like leaves nobody guessing: semicolons, a line that could be a comment, quotes, nothing at all."""
    values = ["a;b", "# c;d", None, "'e'", "", "f;g"]
    query = "SELECT v FROM unnest(%(v)s::text[]) WITH ORDINALITY AS t(v, n) ORDER BY n"
    if kind == "postgres":
        ref = run("postgres", query, params={"v": values}, result="csv")
    elif kind == "duckdb":
        ref = run("duckdb", "SELECT unnest(%(v)s) AS v", params={"v": values}, result="csv")
    else:
        source = {"kind": "postgres", "query": query, "params": {"v": values}}
        ref = run("transfer", source=source, target={"kind": "artifact", "format": "csv"})["artifact"]
    assert [
        row["v"] for row in run("duckdb", "SELECT v FROM kept", sources={"kept": {"ref": ref}})["rows"]
    ] == values
    run("postgres", "CREATE TABLE t (n serial, v text)")
    assert run("postgres", copy={"table": "t", "from": ref})["row_count"] == 6
    assert [row["v"] for row in rows_in(run)] == values
    assert [row["v"] for row in run("artifact", ref=ref)] == [value or "" for value in values]


@pytest.mark.parametrize("result", ["rows", "parquet", "jsonl", "csv"])
def test_json_of_several_types_stays_what_it_is_wherever_it_lies(run, result):
    row = {"tags": [1, {"a": [None]}, "x"], "of": {"deep": [[1, "2"], [{}]]}, "plain": {"n": 1.5}}
    rows = run("duckdb", "SELECT * FROM given", sources={"given": {"ref": [row, row]}}, result=result)
    found = rows["rows"] if result == "rows" else run("artifact", ref=rows)
    assert [
        {name: json.loads(one) for name, one in row.items()} if result == "csv" else row for row in found
    ] == [row, row]


MANY = b"".join(b"%d,%d\n" % (n, n) for n in range(21_000))
"""More lines than DuckDB looks at before it decides what columns are."""


@pytest.mark.parametrize(
    ("data", "format", "words"),
    [
        (b"a,b\n" + MANY + b"x,1\n", "csv", ["Line: 21002", "string \"x\" to 'BIGINT'"]),
        (b"a,b\n1,2\n3\n", "csv", ["'s'"]),
        (b'a;b\n1;"cut o', "csv", ["'s'"]),
        (b"a\n\xff\xfe\n", "csv", ["not utf-8"]),
        (b'{"a":1}\n{"a":', "jsonl", ["Malformed JSON", "in line 3"]),
        (b'[{"a":1},{"a":2}', "json", ["Malformed JSON"]),
        (b"PAR1", "parquet", ["too small"]),
    ],
)
def test_a_source_that_is_damaged_is_named_and_not_its_file(fails, artifact, data, format, words):
    error = fails("duckdb", "SELECT * FROM s", sources={"s": {"ref": artifact(data, format)}})
    assert all(word in error.message for word in ["the source 's'", *words]), error.message
    assert not any(word in error.message for word in ("Possible", "LINE 1: CREATE", "Try increasing", "/tmp"))
    assert (error.details["source"], "`sources.s`" in (error.hint or "")) == ("s", True)


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (
            b'\xef\xbb\xbfa;b\r\n1;"x; ""y"""\r\n# 2;\'z\'\r\n',
            [{"a": "1", "b": 'x; "y"'}, {"a": "# 2", "b": "'z'"}],
        ),
        (b'"a,x"\tb\n1\t5" disk\n', [{"a,x": 1, "b": '5" disk'}]),
        (b"a|b\n1|\n", [{"a": 1, "b": None}]),
        (b"a\nb;c\nd;e\n", [{"a": "b;c"}, {"a": "d;e"}]),
    ],
)
def test_csv_of_strangers_is_read_by_its_first_line(run, artifact, data, rows):
    assert run("duckdb", "SELECT * FROM s", sources={"s": {"ref": artifact(data, "csv")}})["rows"] == rows


@pytest.mark.full
def test_rows_may_have_very_many_columns_and_many_rows_be_inserted(run):
    """Rows of more than two hundred columns are a table, and not one column of mappings."""
    rows = [{f"c{at}": at * number for at in range(250)} for number in range(120)]
    assert run("duckdb", "SELECT * FROM s", sources={"s": {"ref": rows}})["rows"] == rows
    nested = [{"of": {f"k{number}": number}} for number in range(300)]
    shown = run("duckdb", "SELECT typeof(of) AS t FROM s LIMIT 1", sources={"s": {"ref": nested}})
    assert shown["rows"] == [{"t": "MAP(VARCHAR, BIGINT)"}], "one that is inside stays as DuckDB has it"
    columns = ", ".join(f"c{at} int" for at in range(250))
    began = time.process_time()
    run("postgres", f"CREATE TABLE wide ({columns})")
    assert run("postgres", table="wide", args=rows[:60]) == {"affected_rows": 60}
    run("duckdb", f"CREATE TABLE wide ({columns})", database="wide")
    assert run("duckdb", database="wide", table="wide", args=rows[:60]) == {"affected_rows": 60}
    assert time.process_time() - began < 5, "the time of an insert grows with its rows, not with their square"


def test_what_parquet_cannot_hold_is_told_in_words_of_the_query(fails):
    error = fails("postgres", "SELECT timestamptz '0044-03-15 BC' AS t", result="parquet")
    assert "the rows do not fit into Parquet" in error.message and "0044-03-15" in error.message
    assert "/" not in error.message.partition("expected format")[0] and "cast the column" in error.hint
    twins = 'SELECT 1 AS a, 2 AS "A"'
    into = {
        "source": {"kind": "postgres", "query": twins},
        "target": {"kind": "artifact", "format": "parquet"},
    }
    for error in (fails("postgres", twins, result="parquet"), fails("transfer", **into)):
        assert (error.code, "'a' and 'A'" in error.message) == ("name_invalid", True)


def test_an_empty_list_of_rows_has_the_columns_that_are_told(run, fails, artifact):
    for empty in (artifact(b" [ ]\n", "json"), artifact(b"", "jsonl"), []):
        assert fails("duckdb", "SELECT a FROM s", sources={"s": {"ref": empty}}).code == "source_empty"
        told = {"s": {"ref": empty, "columns": {"a": "BIGINT"}}}
        assert run("duckdb", "SELECT sum(a) AS a FROM s", sources=told)["rows"] == [{"a": None}]
    source = {"kind": "postgres", "query": "SELECT 1 AS a WHERE false"}
    moved = run("transfer", source=source, target={"kind": "artifact", "format": "json"})["artifact"]
    assert run("duckdb", "SELECT a FROM s", sources={"s": {"ref": moved}})["columns"] == ["a"]


def test_rows_replace_and_join_those_that_are_there(run, artifact):
    run("postgres", 'CREATE TABLE "T x" (id int PRIMARY KEY, name text, kept int DEFAULT 5)')
    rows = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    into = {"table": "T x", "from": rows}
    assert run("postgres", copy=into) == {"row_count": 2, "affected_rows": 2}
    again = artifact(b'{"id":2,"name":"B"}\n{"id":3,"name":"c"}\n{"id":3,"name":"C"}\n', "jsonl")
    upsert = into | {"from": again, "mode": "upsert", "key": ["id"]}
    assert run("postgres", copy=upsert) == {"row_count": 3, "affected_rows": 2}
    found = rows_in(run, '"T x"')
    assert [(row["id"], row["name"], row["kept"]) for row in found] == [(1, "a", 5), (2, "B", 5), (3, "C", 5)]
    assert run("postgres", copy=into | {"mode": "replace", "columns": ["id"]})["row_count"] == 2
    assert [row["name"] for row in rows_in(run, '"T x"')] == [None, None]
    assert run("postgres", copy=into | {"from": [], "mode": "replace"}) == {
        "row_count": 0,
        "affected_rows": 0,
    }
    assert rows_in(run, '"T x"') == []


@both_tiers
def test_duckdb_joins_results_of_steps_rows_of_postgres_and_files(run, artifact, tmp_path):
    run(
        "postgres",
        "CREATE TABLE cities (id int, name text, area numeric(10, 3)); INSERT INTO cities VALUES (1, 'Oslo', 480.750), (2, 'Lima', NULL)",
    )
    (tmp_path / "data" / "notes.csv").write_text("city,note\n1,cold\n2,warm\n")
    joined = run(
        "duckdb",
        "SELECT c.name, c.area, typeof(c.area) AS kind, n.note, m.temp, e.wind, l.x FROM cities c JOIN notes n ON n.city = c.id"
        " JOIN measured m ON m.city = c.id LEFT JOIN extra e ON e.city = c.id LEFT JOIN listed l ON l.city = c.id ORDER BY c.id",
        sources={
            "cities": {
                "postgres": "wh",
                "query": "SELECT * FROM cities WHERE id < %(most)s",
                "params": {"most": 9},
            },
            "notes": {"file": "notes.csv"},
            "measured": {"ref": artifact(b'{"city":1,"temp":-3.5}\n{"city":2,"temp":19}\n', "jsonl")},
            "extra": {"ref": [artifact(b"city,wind\n1,7\n", "csv"), artifact(b"city,wind\n2,3\n", "csv")]},
            "listed": {
                "ref": {"columns": ["city", "x"], "rows": [{"city": 2, "x": {"deep": [1]}}], "row_count": 1}
            },
        },
    )
    assert joined["rows"] == [
        {"name": "Oslo", "area": 480.75, "kind": "DECIMAL(10,3)", "note": "cold", "temp": -3.5, "wind": 7, "x": None},
        {"name": "Lima", "area": None, "kind": "DECIMAL(10,3)", "note": "warm", "temp": 19, "wind": 3, "x": {"deep": [1]}},
    ]  # fmt: skip
    assert not list((tmp_path / f"work{SUFFIX}").iterdir())


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_rows_of_duckdb_go_on_to_postgres_as_a_stream(run, format):
    ref = run(
        "duckdb",
        [
            "CREATE TABLE n AS SELECT i AS id FROM range(5000) AS r(i)",
            "SELECT id, md5(id::text) AS hash, [id] AS list, CASE id % 2 WHEN 0 THEN '' END AS blank FROM n WHERE id >= %(a)s",
        ],
        params={"a": 1000},
        result=format,
    )
    assert ref["extracted"] == {"row_count": 4000, "columns": ["id", "hash", "list", "blank"]}
    run("postgres", "CREATE TABLE t (id int, hash text, list json, blank text)")
    assert run("postgres", copy={"table": "t", "from": ref})["row_count"] == 4000
    found = run(
        "postgres",
        "SELECT count(*) AS n, count(blank) AS blanks, bool_and(hash = md5(id::text)) AS same, max(list::text) AS list FROM t",
    )
    assert found["rows"] == [{"n": 4000, "blanks": 2000, "same": True, "list": "[4999]"}]


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ({"ref": None}, "kind_params"),
        ({"ref": [], "file": "x.csv"}, "kind_params"),
        ({"file": "x.csv", "query": "SELECT 1"}, "kind_params"),
        ({"postgres": "wh"}, "kind_params"),
        ({"postgres": "nobody", "table": "t"}, "credential_not_found"),
        ({"postgres": "wh", "query": "DROP TABLE t"}, "not_a_query"),
        ({"postgres": "wh", "query": "SELECT 1; SELECT 2"}, "source_query"),
        (
            {
                "postgres": "wh",
                "query": "SELECT set_config('a.b', pg_advisory_lock(1)::text || nextval('s'), true)",
            },
            "25006",
        ),
        ({"ref": []}, "source_empty"),
        ({"ref": 5}, "not_rows"),
        ({"ref": [{"a": 1}], "columns": {"a": "INT), x('"}}, "kind_params"),
        ({"file": "../results"}, "path_outside"),
        ({"file": "data.bin"}, "source_format"),
        ({"s3": "bucket/key"}, "kind_params"),
    ],
)
def test_sources_that_are_refused(run, fails, tmp_path, source, code):
    run("postgres", "CREATE TABLE t (id int); CREATE SEQUENCE s")
    (tmp_path / "data" / "data.bin").write_bytes(b"x")
    error = fails("duckdb", "SELECT * FROM a", sources={"a": source})
    assert error.code == code, error
    assert code == "kind_params" or error.details["source"] == "a"


def test_empty_sources_have_the_columns_that_are_known(run, artifact):
    saved = run("postgres", "SELECT 1 AS id, 'x' AS name WHERE false", result="jsonl")
    for source in (
        {"ref": saved},
        {"ref": {"columns": ["id", "name"], "rows": []}},
        {"ref": [], "columns": {"id": "INT", "name": "STRUCT(a INT[])"}},
    ):
        assert run("duckdb", "SELECT id, name FROM a", sources={"a": source})["columns"] == ["id", "name"]
    typed = {"ref": artifact(b"id,zip\n1,007\n", "csv"), "columns": {"zip": "VARCHAR"}}
    assert run("duckdb", "SELECT zip FROM a", sources={"a": typed})["rows"] == [{"zip": "007"}]


def test_sources_open_nothing_else_and_leave_nothing_in_a_database_file(run, fails, artifact, tmp_path):
    source = {"a": {"ref": artifact(b"id\n1\n", "csv")}}
    other = artifact(b"id\n2\n", "csv")
    run("duckdb", "CREATE TABLE kept AS SELECT * FROM a", sources=source, database="mine")
    assert run("duckdb", "SELECT * FROM kept", database="mine")["rows"] == [{"id": 1}]
    assert fails("duckdb", "SELECT * FROM a", database="mine").code == "catalog"
    for path in [*(tmp_path / "results").rglob("*"), tmp_path / f"work{SUFFIX}"]:
        if path.is_file() and path.stat().st_size == other["size"] and path.read_bytes() == b"id\n2\n":
            assert (
                fails("duckdb", f"SELECT * FROM read_csv('{path}'), a", sources=source).code
                == "access_refused"
            )
    assert fails("duckdb", "SELECT 1; CREATE TABLE x (a int)", result="csv").code == "not_a_query"


def test_more_than_fits_into_memory_goes_to_disk(make_context, context, tmp_path):
    settings = replace(context.settings, duckdb_memory_bytes=32 * 2**20)
    query = "SELECT count(*) AS n FROM (SELECT md5(i::text) AS h, count(*) FROM range(1000000) AS r(i) GROUP BY h)"
    found = default_registry().run(
        "duckdb", {"query": query}, replace(context, settings=settings, timeout=PATIENCE)
    )
    assert found.result["rows"] == [{"n": 1000000}]
    assert not list((tmp_path / f"work{SUFFIX}").iterdir())
    assert not any(Path(context.settings.work_dir or "").iterdir())


def test_a_result_that_is_corrupt_changes_nothing(run, fails, artifact, store, monkeypatch):
    run("postgres", "CREATE TABLE t (id int)")
    broken = artifact(json.dumps([{"id": 1}]).encode(), "json") | {"sha256": "0" * 64}
    assert fails("postgres", copy={"table": "t", "from": broken}).code == "REFERENCE_NOT_AVAILABLE"
    assert rows_in(run) == []


def test_a_copy_that_waits_ends_in_time_and_its_connection_is_used_again(run, context, dsn, artifact):
    run("postgres", "CREATE TABLE t (id int)")
    rows = artifact(b"".join(b'{"id": %d}\n' % number for number in range(50_000)), "jsonl")
    with psycopg.connect(dsn) as other:
        other.execute("LOCK TABLE t")
        with pytest.raises(TaskError) as caught:
            default_registry().run(
                "postgres", {"copy": {"table": "t", "from": rows}}, replace(context, timeout=1.0)
            )
    assert (caught.value.kind, caught.value.code) == ("db_timeout", "57014")
    assert run("postgres", copy={"table": "t", "from": rows}) == {
        "row_count": 50_000,
        "affected_rows": 50_000,
    }


def test_keys_are_checked_before_anything_runs():
    check = default_registry().check
    (wrong,) = check("postgres", {"copy": {"tabel": "t", "table": "t", "from": HOLE}})
    assert (wrong.path, wrong.hint) == (("copy", "tabel"), "did you mean 'table'?")
    (missing,) = check("postgres", {"copy": {"from": HOLE}})
    assert "'table'" in missing.message
    (pasted,) = check("duckdb", {"query": "FROM a", "sources": {"a": {"postgres": "wh", "query": HOLE}}})
    assert pasted.path == ("sources", "a", "query") and "params" in (pasted.hint or "")
    (unknown,) = check("duckdb", {"query": "FROM a", "sources": {"a": {"reference": HOLE}}})
    assert unknown.path == ("sources", "a", "reference")
    for wrong_result in ("excel", {"format": "excel"}):
        assert check("duckdb", {"query": "FROM a", "save": wrong_result})
    assert not check("postgres", {"query": "SELECT 1", "save": {"format": "csv"}})
    assert check("postgres", {"copy": {"table": "t", "from": []}, "result": "csv"})


@both_tiers
def test_a_list_that_lies_in_parts_is_read_part_by_part(run, artifact):
    parts = [artifact(json.dumps([{"id": n} for n in range(at, at + 3)]).encode(), "json") for at in (0, 3)]
    kept = {"kind": "manifest", "strategy": "concat", "merge_path": "", "parts": parts, "total_parts": 2}
    run("postgres", "CREATE TABLE t (id int PRIMARY KEY)")
    stored = artifact(json.dumps(kept, separators=(",", ":")).encode(), "json")
    for given, rows in (
        (stored, 6),
        (kept | {"rest": [{"id": 6}]}, 7),
        (kept | {"parts": [], "rest": [{"id": 9}]}, 1),
    ):
        assert run("postgres", copy={"table": "t", "from": given, "mode": "replace"})["row_count"] == rows
        assert run("duckdb", "SELECT count(*) AS n FROM a", sources={"a": {"ref": given}})["rows"] == [
            {"n": rows}
        ]
