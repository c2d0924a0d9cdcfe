"""The duckdb kind: results, files of the playbook's folders, and everything it must not open."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from types import SimpleNamespace

import duckdb
import pytest

from noetl.adapters.embedded.files import FileResultStore
from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential
from noetl.dsl.program import Program, Sql
from noetl.kinds.registry import default_registry
from noetl.services.redaction.redaction import Secrets
from noetl.services.results.artifacts import TaskArtifacts
from noetl.templating import MappingScope, render_sql
from tests.parts import repeated
from tests.waiting import PATIENCE


@pytest.fixture
def folders(tmp_path):
    data, work, outside = tmp_path / "data", tmp_path / "work", tmp_path / "outside"
    for folder in (data, work, outside, data / "sub"):
        folder.mkdir()
    (data / "obs.csv").write_text("city,temp\noslo,3\nlima,19\n")
    (data / "sub" / "more.csv").write_text("city,temp\nrome,15\n")
    (data / "it's.csv").write_text("a\n1\n")
    (outside / "secret.csv").write_text("canary\n1\n")
    (data / "link.csv").symlink_to(outside / "secret.csv")
    (data / "folder").symlink_to(outside)
    (work / "folder").symlink_to(outside)
    return data, work, outside


@pytest.fixture
def context(make_context, folders):
    data, work, _ = folders
    return make_context(data_dirs=(str(data),), work_dir=str(work))


@pytest.fixture
def run(context):
    def call(query=None, *, within=None, **params):
        params |= {} if query is None else {"query": query}
        return default_registry().run("duckdb", params, within or context).result

    return call


@pytest.fixture
def failure(run):
    def call(*args, **params) -> TaskError:
        with pytest.raises(TaskError) as caught:
            run(*args, **params)
        return caught.value

    return call


def rendered(source, **scope):
    return render_sql(Sql(source), MappingScope(scope))


def test_results(run):
    assert run("SELECT 1 AS a, 'x' AS b") == {
        "columns": ["a", "b"],
        "rows": [{"a": 1, "b": "x"}],
        "row_count": 1,
    }
    found = run("CREATE TABLE t (id int); INSERT INTO t VALUES (1), (2); DELETE FROM t WHERE id = 2; FROM t")
    assert found["rows"] == [{"id": 1}]
    assert found["results"] == [
        {"affected_rows": 0},
        {"affected_rows": 2},
        {"affected_rows": 1},
        {"row_count": 1},
    ]
    returned = run("CREATE TABLE t (id int); INSERT INTO t VALUES (7) RETURNING id")
    assert (returned["rows"], returned["affected_rows"]) == ([{"id": 7}], 1)
    assert run("SELECT 1 AS a WHERE false") == {"columns": ["a"], "rows": [], "row_count": 0}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("170141183460469231731687303715884105727::hugeint", 2**127 - 1),
        ("10.00::decimal(10,2)", 10),
        ("0.5::decimal(10,2)", 0.5),
        ("0.123456789012345678901::decimal(38,21)", "0.123456789012345678901"),
        ("'nan'::double", None),
        ("1/0", None),
        ("timestamptz '2024-01-01 00:00+00'", "2024-01-01T00:00:00+00:00"),
        ("timestamp '2024-01-01 10:00'", "2024-01-01T10:00:00"),
        ("date '29000-01-01'", "29000-01-01"),
        ("interval '25 hours 3 days'", "4 days 01:00:00"),
        ("'\\x00\\xFF'::blob", "AP8="),
        ("{'a': [{'b': null}]}", {"a": [{"b": None}]}),
        ("map {1: 'x'}", {"1": "x"}),
        ("'{\"a\": 12345678901234567890123}'::json", {"a": 12345678901234567890123}),
        ("row(1, 'a')", [1, "a"]),
        ("'101'::bit", "101"),
    ],
)
def test_values_out(run, expression, value):
    assert run(f"SELECT {expression} AS v")["rows"] == [{"v": value}]


def test_now_has_a_zone(run):
    assert run("SELECT now() AS v")["rows"][0]["v"].endswith("+00:00")


@pytest.mark.parametrize(
    "value", ["'; drop table t; --", "100% %s %(x)s", "$$", "{{ 7*7 }}", "a\0b", "", [1, 2], {"a": 1}]
)
def test_values_in(run, value):
    assert run("SELECT %(v)s AS v", params={"v": value})["rows"] == [{"v": value}]
    assert run(rendered("SELECT {{ v }} AS v, 7 % 4 AS m", v=value))["rows"] == [{"v": value, "m": 3}]


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('obs.csv')",
        "SELECT * FROM 'obs.csv'",
        'SELECT * FROM "obs.csv"',
        "SELECT * FROM read_csv( -- which file\n 'obs.csv', header = true)",
        "SELECT * FROM read_csv(['obs.csv'])",
        "SELECT * FROM read_csv('obs*.csv')",
        "SELECT * FROM read_csv('./sub/../obs.csv')",
        "SELECT a.* FROM 'sub/more.csv' b RIGHT JOIN 'obs.csv' a USING (city)",
        "CREATE TABLE t (city text, temp int); COPY t FROM 'obs.csv'; FROM t",
        "CREATE VIEW v AS FROM 'obs.csv'; FROM v",
        "SELECT * FROM read_csv(%(file)s)",
    ],
)
def test_relative_names_are_files_of_the_playbook(run, sql):
    rows = run(sql, params={"file": "obs.csv"})["rows"]
    assert sorted(row["city"] for row in rows) == ["lima", "oslo"]


def test_names_from_templates(run, folders):
    assert run(rendered("SELECT count(*) AS n FROM read_csv({{ f }})", f="obs.csv"))["rows"] == [{"n": 2}]
    assert run(rendered("SELECT * FROM read_csv('{{ f }}')", f="it's.csv"))["rows"] == [{"a": 1}]
    assert run(f"SELECT count(*) AS n FROM '{folders[0]}/obs.csv'")["rows"] == [{"n": 2}]


def test_a_file_name_in_a_text_stays_text(run):
    assert run("SELECT 'obs.csv' AS a, 'from ''obs.csv''' AS b")["rows"] == [
        {"a": "obs.csv", "b": "from 'obs.csv'"}
    ]


def test_what_copy_writes_lies_in_the_work_folder_and_can_be_read(run, folders):
    assert run("COPY (SELECT 1 AS a) TO 'out/x.parquet'") == {"affected_rows": 1}
    assert (folders[1] / "out" / "x.parquet").exists()
    assert run("SELECT * FROM 'out/x.parquet'")["rows"] == [{"a": 1}]
    assert run("COPY (SELECT 2 AS a) TO %(to)s (FORMAT csv)", params={"to": "y.csv"}) == {"affected_rows": 1}
    assert (folders[1] / "y.csv").read_text() == "a\n2\n"


def test_a_playbook_in_the_user_s_folder_reads_its_data_and_no_keys(make_context, tmp_path, monkeypatch):
    user = tmp_path / "user"
    for name in ("data.csv", ".netrc", "ssh/id", ".noetl/token"):
        (user / name).parent.mkdir(parents=True, exist_ok=True)
        (user / name).write_text("a\n1\n")
    monkeypatch.setenv("HOME", str(user))
    (user / ".noetl/work").mkdir()
    context = make_context(
        data_dirs=(str(user),), work_dir=str(user / ".noetl/work"), hidden_dirs=(str(user / ".noetl"),)
    )

    def ask(query: str) -> list[dict[str, object]]:
        return default_registry().run("duckdb", {"query": query}, context).result["rows"]

    assert ask("SELECT * FROM read_csv('data.csv')") == [{"a": 1}]
    assert ask("COPY (SELECT 2 AS a) TO 'x.csv'; SELECT * FROM read_csv('x.csv')") == [{"a": 2}]
    for name in (".netrc", "ssh/id", ".noetl/token"):
        for written in (name, f"{user}/{name}"):
            with pytest.raises(TaskError) as caught:
                ask(f"SELECT * FROM read_text('{written}')")
            assert caught.value.code in ("access_refused", "path_outside", "file_not_found")


OUTSIDE = "{outside}/secret.csv"


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT * FROM read_text('/proc/self/environ')", "access_refused"),
        pytest.param("SELECT * FROM read_blob('/etc/passwd')", "access_refused", marks=pytest.mark.full),
        ("SELECT * FROM glob('/etc/*')", "access_refused"),
        ("SELECT * FROM '/etc/passwd'", "access_refused|catalog"),
        (f"SELECT * FROM read_csv('{OUTSIDE}')", "access_refused"),
        pytest.param(
            "SELECT * FROM read_csv('{data}/../outside/secret.csv')", "access_refused", marks=pytest.mark.full
        ),
        ("SELECT * FROM read_csv('../outside/secret.csv')", "path_outside"),
        pytest.param("SELECT * FROM read_csv('../out*/secret.csv')", "path_outside", marks=pytest.mark.full),
        ("SELECT * FROM read_csv('link.csv')", "path_outside|file_not_found"),
        pytest.param("SELECT * FROM read_csv('{data}/link.csv')", "access_refused", marks=pytest.mark.full),
        pytest.param("SELECT * FROM read_csv('li*.csv')", "access_refused", marks=pytest.mark.full),
        pytest.param(
            "SELECT * FROM read_csv('folder/secret.csv')",
            "path_outside|file_not_found",
            marks=pytest.mark.full,
        ),
        ("SELECT * FROM read_csv('{data}/folder/secret.csv')", "access_refused"),
        ("SELECT * FROM read_csv(getvariable('x'))", "parser|binder|access_refused"),
        ("SET VARIABLE x = '/etc/passwd'; SELECT * FROM read_text(getvariable('x'))", "access_refused"),
        ("SELECT * FROM read_csv(%(p)s)", "access_refused"),
        (
            "SELECT * FROM read_csv('http://127.0.0.1/x.csv')",
            "access_refused|io|missing_extension|http|duckdb",
        ),
        ("SELECT * FROM 's3://bucket/x.parquet'", "access_refused|io|missing_extension|http|duckdb|catalog"),
        ("ATTACH '{outside}/x.db'", "statement_refused"),
        pytest.param("ATTACH ':memory:' AS other", "statement_refused", marks=pytest.mark.full),
        ("ATTACH 'dbname=postgres' (TYPE postgres)", "statement_refused"),
        pytest.param("INSTALL httpfs", "statement_refused", marks=pytest.mark.full),
        ("LOAD httpfs", "statement_refused"),
        ("EXPORT DATABASE '{outside}/dump'", "statement_refused"),
        pytest.param("IMPORT DATABASE '{outside}'", "statement_refused", marks=pytest.mark.full),
        ("PREPARE p AS COPY (SELECT 1) TO '{data}/p.csv'", "statement_refused"),
        pytest.param("EXECUTE p", "statement_refused", marks=pytest.mark.full),
        ("PRAGMA import_database('{work}')", "statement_refused"),
        pytest.param("CALL \"import_database\"('{work}')", "statement_refused", marks=pytest.mark.full),
        ("EXPLAIN (ANALYZE) COPY (SELECT 1) TO '{data}/obs.csv'", "path_outside"),
        pytest.param(
            "EXPLAIN (ANALYZE, FORMAT json) COPY (SELECT 1) TO '{data}/obs.csv'",
            "path_outside",
            marks=pytest.mark.full,
        ),
        ("EXPLAIN ANALYZE COPY (SELECT 1) TO '{data}/obs.csv'", "path_outside"),
        pytest.param(
            "EXPLAIN ANALYZE PREPARE p AS COPY (SELECT 1) TO '{data}/obs.csv'",
            "statement_refused",
            marks=pytest.mark.full,
        ),
        pytest.param("EXPLAIN ANALYZE EXECUTE p", "statement_refused", marks=pytest.mark.full),
        ("COPY (SELECT 'x'::blob) TO 'evil.duckdb' (FORMAT blob)", "write_refused"),
        pytest.param(
            "COPY (SELECT 'x'::blob) TO 'evil.DuckDB.wal' (FORMAT blob)",
            "write_refused",
            marks=pytest.mark.full,
        ),
        (
            "COPY (SELECT 1 AS a) TO '.' (FORMAT csv, PER_THREAD_OUTPUT, FILE_EXTENSION 'duckdb')",
            "write_refused",
        ),
        pytest.param(
            "EXPLAIN (ANALYZE (true)) COPY (SELECT 1) TO '{data}/obs.csv'",
            "statement_refused",
            marks=pytest.mark.full,
        ),
        ("EXPLAIN (ANALYZE 'x)') COPY (SELECT 1) TO '{data}/obs.csv'", "path_outside"),
        (
            "COPY (SELECT 1 AS a) TO 'd' (PER_THREAD_OUTPUT, FILENAME_PATTERN '../../data/obs')",
            "write_refused",
        ),
        pytest.param(
            "COPY (SELECT 1 AS a, 2 AS b) TO 'd' (FORMAT csv, PARTITION_BY (a), FILENAME_PATTERN '../../../data/obs', OVERWRITE_OR_IGNORE)",
            "write_refused",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "COPY (SELECT 1 AS a) TO 'd' (PER_THREAD_OUTPUT, \"Filename_Pattern\" 'x/../../../data/obs')",
            "write_refused",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "COPY (SELECT 1 AS a) TO 'd' (PER_THREAD_OUTPUT, FILENAME_PATTERN ('../../data/obs'))",
            "write_refused",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "COPY (SELECT 1 AS a) TO 'd' (PER_THREAD_OUTPUT, FILENAME_PATTERN E'..\\x2f..\\x2fdata/obs')",
            "write_refused",
            marks=pytest.mark.full,
        ),
        (
            "COPY (SELECT 1 AS a) TO 'd' (PER_THREAD_OUTPUT, FILENAME_PATTERN 'a' || '/../../data/obs')",
            "write_refused|parser",
        ),
        (
            "COPY (SELECT 1 AS a) TO 'd' (PER_THREAD_OUTPUT, FILE_EXTENSION 'x/../../../data/obs.csv')",
            "write_refused",
        ),
        pytest.param(
            "COPY (SELECT 1 AS a) TO 'd' (PER_THREAD_OUTPUT, FILENAME_PATTERN %(p)s)",
            "write_refused|parser",
            marks=pytest.mark.full,
        ),
        ("COPY (SELECT 1) TO 'y'\n'/../../data/obs.csv'", "write_refused"),
        pytest.param(
            "COPY (SELECT 1) TO 'y' -- more\n '/../../data/obs.csv'", "write_refused", marks=pytest.mark.full
        ),
        pytest.param(
            "EXPLAIN ANALYZE COPY (SELECT 1) TO 'y'\n'/../../data/obs.csv'",
            "write_refused",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "COPY (SELECT 'x'::blob) TO 'evil.du'\n'ckdb' (FORMAT blob)",
            "write_refused",
            marks=pytest.mark.full,
        ),
        pytest.param("COPY (SELECT 1) TO %(p)s '/obs.csv'", "parser", marks=pytest.mark.full),
        pytest.param(
            "COPY (SELECT 1 AS a) TO 'd' (PER_THREAD_OUTPUT, FILENAME_PATTERN 'a'\n'/../../data/obs')",
            "write_refused",
            marks=pytest.mark.full,
        ),
        ("COPY (SELECT 1) TO '{outside}/o.csv'", "path_outside"),
        ("COPY (SELECT 1) TO '{data}/obs.csv'", "path_outside"),
        pytest.param("COPY (SELECT 1) TO '../data/obs.csv'", "path_outside", marks=pytest.mark.full),
        ("COPY (SELECT 1) TO 'folder/o.csv'", "path_outside"),
        pytest.param("COPY (SELECT 1) TO '/dev/stdout'", "path_outside", marks=pytest.mark.full),
        ("COPY (SELECT 1) TO ('{data}/obs.csv')", "write_refused"),
        pytest.param(
            "COPY (SELECT 1) TO 'x' || '/../../data/obs.csv'", "write_refused|parser", marks=pytest.mark.full
        ),
        ("EXPLAIN ANALYZE COPY (SELECT 1) TO '{data}/obs.csv'", "path_outside"),
        ("/* TO 'x' */ COPY (SELECT 1 AS \"to\") /* TO */ TO '{data}/obs.csv'", "path_outside"),
        ("SET enable_external_access = true", "configuration_locked"),
        pytest.param("SET memory_limit = '100GB'", "configuration_locked", marks=pytest.mark.full),
        pytest.param("RESET allowed_directories", "configuration_locked", marks=pytest.mark.full),
        ("PRAGMA enable_profiling", "configuration_locked"),
        ("BEGIN", "transaction_control"),
        pytest.param("COMMIT", "transaction_control", marks=pytest.mark.full),
        ("SELECT * FROM duckdb_extensions()", "access_refused"),
        ("SELECT * FROM sql", "catalog"),
        ("CREATE PERSISTENT SECRET s (TYPE s3)", "access_refused|duckdb|configuration_locked"),
    ],
)
def test_hostile_sql(failure, folders, sql, code):
    data, work, outside = folders
    before = {path: path.read_bytes() for path in (data / "obs.csv", outside / "secret.csv")}
    sql = sql.format(data=data, work=work, outside=outside)
    error = failure(sql, params={"p": "/etc/passwd"})
    assert error.code in code.split("|"), error
    assert not error.retryable
    assert {path: path.read_bytes() for path in before} == before
    assert os.listdir(outside) == ["secret.csv"]  # noqa: PTH208


def test_what_may_be_explained_and_how_files_may_be_named(run, folders):
    for sql in (
        "EXPLAIN SELECT 1",
        "EXPLAIN (ANALYZE) FROM (SELECT 1)",
        "EXPLAIN (SELECT 1)",
    ):
        assert run(sql)
    run(
        "COPY (SELECT 1 AS a, 2 AS b) TO 'parts' (FORMAT csv, PARTITION_BY (a), FILENAME_PATTERN 'part_{i}', FILE_EXTENSION 'txt')"
    )
    assert run("SELECT b FROM read_csv('parts/a=1/part_0.txt')")["rows"] == [{"b": 2}]


def test_a_file_of_another_program_is_no_database(failure, folders):
    """DuckDB would look for an extension that reads it, wherever the operator has one."""
    (folders[1] / "other.duckdb").write_bytes(b"SQLite format 3\0" + bytes(100))
    error = failure("SELECT 1", database="other")
    assert error.code == "database_invalid" and "'other' is no database of DuckDB" in error.message


def test_without_folders_there_are_no_files(failure, run, make_context, folders):
    bare = make_context()
    assert failure(f"SELECT * FROM '{folders[0]}/obs.csv'", within=bare).code in ("access_refused", "catalog")
    assert failure("COPY (SELECT 1) TO 'x.csv'", within=bare).code == "write_refused"
    assert failure("SELECT 1", database="d", within=bare).code == "write_refused"
    assert run("SELECT 1 AS a", within=bare)["rows"] == [{"a": 1}]


# --- errors, time, size -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "kind", "code"),
    [
        ({"query": "SELEC 1"}, "client_error", "parser"),
        ({"query": "SELECT * FROM nope"}, "client_error", "catalog"),
        ({"query": "SELECT 'x'::int"}, "client_error", "conversion"),
        ({"query": "CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1), (1)"}, "db_constraint", "constraint"),
        ({"query": "SELECT * FROM 'nope.csv'"}, "not_found", "file_not_found"),
        ({"query": "SELECT * FROM 'nope*.csv'"}, "not_found", "file_not_found"),
        ({"query": "SELECT %(v)s", "params": {"v": "\ud800"}}, "client_error", "duckdb"),
        ({"query": "SELECT %(v)s", "params": {"v": 2**200}}, "client_error", "duckdb"),
        ({"query": "SELECT %(v)s", "params": {"w": 1}}, "schema", "sql_params"),
        ({"query": "SELECT '\ud800'"}, "client_error", "text_invalid"),
        ({"query": ""}, "schema", "sql_empty"),
        ({"query": "SELECT 1", "database": "../x"}, "storage_access", "path_outside"),
        ({"query": "SELECT 1", "auth": "x"}, "schema", "kind_params"),
        ({"table": "nope", "args": {"a": 1}}, "client_error", "catalog"),
    ],
)  # fmt: skip
def test_errors(failure, params, kind, code):
    error = failure(**params)
    assert (error.kind, error.code, error.retryable) == (kind, code, False)


def test_a_slow_query_is_interrupted(failure, make_context):
    sql = "SELECT count(*) FROM range(100000000) a, range(100000000) b WHERE a.range + b.range = 3"
    error = failure(sql, within=make_context(timeout=0.4))
    assert (error.kind, error.code) == ("db_timeout", "timeout")


def test_results_are_bounded_while_they_arrive(failure, make_context):
    context = make_context(output_max_bytes=100_000)
    error = failure("SELECT repeat('x', 1000) AS x FROM range(100000000)", within=context)
    assert (error.kind, error.code) == ("storage_quota", "result_too_large")


def test_memory_is_bounded(failure, make_context):
    """What cannot be laid aside on disk: one value that is larger than all of it."""
    context = make_context(duckdb_memory_bytes=32 * 2**20)
    error = failure("SELECT length(string_agg(repeat('x', 1000), '')) FROM range(200000)", within=context)
    assert (error.kind, error.code) == ("storage_quota", "out_of_memory")


# --- database files ---------------------------------------------------------------------------


def test_a_database_file_stays(run, failure, folders):
    run("CREATE TABLE t (id int, v text)", database="keep")
    assert run(table="t", args=[{"id": 1, "v": "a%s"}, {"id": 2}], database="keep.duckdb") == {
        "affected_rows": 2
    }
    failure("INSERT INTO t VALUES (3, 'x'); SELECT 'x'::int", database="keep")
    assert run("SELECT * FROM t ORDER BY id", database="keep")["rows"] == [
        {"id": 1, "v": "a%s"},
        {"id": 2, "v": None},
    ]
    assert (folders[1] / "keep.duckdb").exists()
    assert failure("SELECT * FROM read_text('/etc/passwd')", database="keep").code == "access_refused"


def test_a_database_file_serves_one_task_at_a_time(run):
    run("CREATE TABLE n (v int); INSERT INTO n VALUES (0)", database="one")
    threads = [
        threading.Thread(target=lambda: run("UPDATE n SET v = v + 1", database="one")) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert run("SELECT v FROM n", database="one")["rows"] == [{"v": 6}]


ROWS = repeated(gate=300, full=3000)


@pytest.mark.parametrize("format", ["parquet", "csv", "jsonl"])
def test_a_secret_in_rows_is_taken_out_of_what_duckdb_writes(format, context, run, tmp_path):
    """Repeated, so that a compressed file would not have it in clear, with a quote that CSV doubles."""
    secret = 'correct"horse"battery'
    program = Program(v=1, semantics=1, hash="", name="", path="")
    secrets = Secrets(
        SimpleNamespace(get=lambda name, _: Credential(name, "generic", {"password": secret})), 1, program
    )
    secrets.credential("c")
    results = FileResultStore(tmp_path / "kept")
    artifacts = TaskArtifacts(results, 1, "s", max_bytes=1 << 30, masking=secrets.mask_of_stream)
    query = f"SELECT i, repeat('{secret} ', 40) AS note FROM range({ROWS}) AS r(i)"
    ref = run(query, result=format, within=replace(context, artifacts=artifacts))
    with artifacts.open(ref) as stream, artifacts.file(ref, f".{format}") as path:
        content = stream.read()
        assert b"horse" not in content and len(content) < 333 * ROWS * (format != "parquet") + 30_000
        reader = {"parquet": "read_parquet", "csv": "read_csv", "jsonl": "read_json"}[format]
        rows = duckdb.sql(f"SELECT i, note FROM {reader}('{path}') ORDER BY i").fetchall()
    assert len(rows) == ROWS and all(set(note) == {"*", " "} for _, note in rows)
