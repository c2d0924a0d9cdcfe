"""SQL over history on a real Postgres: what the views say, and what the role and the gate keep people from."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from noetl.adapters.embedded import processes
from noetl.adapters.embedded.query_memory import NICE
from noetl.adapters.embedded.server import SETTINGS, EmbeddedServer, open_embedded
from noetl.adapters.postgres import Database
from noetl.adapters.postgres.executions.fact_rows import short
from noetl.adapters.postgres.history_sql import PostgresHistorySql
from noetl.adapters.postgres.reader_role import VIEWS_SCHEMA, make_reader_role
from noetl.domain import codec
from noetl.domain.errors import InfrastructureError, InvalidInputError, NoetlError, NotFoundError
from noetl.domain.facts.facts import (
    Arrival,
    CallDone,
    CommandIssued,
    NextEvaluated,
    StepEntered,
    StepExited,
    encode_facts,
)
from noetl.services.history.run_sql import VIEWS, check_sql, run_sql
from tests.parts import parted
from tests.waiting import PATIENCE

FACTS = r"""[{"name":"step.enter","run":1,"step":"start"},
  {"name":"call.done","run":1,"step":"start","result":{"text":"nul \u0000 half \ud800"}},
  {"name":"step.exit","run":1,"step":"start"}]"""
SAMPLE = f"""
INSERT INTO noetl.execution (execution_id, path, name, program, status, version, state, ended_at) VALUES
    (382358247895465985, 'demo/hello', 'hello', 'p', 'failed', 1,
     '{{"status":"failed","error":{{"code":"boom","message":"it broke \\u0000"}}}}', now()),
    (382358247895465986, 'demo/hello', 'hello', 'p', 'running', 0, NULL, NULL);
INSERT INTO noetl.event (execution_id, event_id, lane, seq, type, at, facts) VALUES
    (382358247895465985, 'start', 0, 1, 'start', now(), '{FACTS}'),
    (382358247895465985, 'odd', 0, 2, 'odd', now(), '{{"not":"a list"}}'),
    (382358247895465985, 'item:1:0:0', 1, 0, 'call.done', now(), '{{"status":"success"}}');
INSERT INTO noetl.slot (execution_id, name, scope, value) VALUES
    (382358247895465985, 'n', 'ctx', '36893488147419103232'), (382358247895465985, '1', 'undo', '{{"secret": 1}}');
INSERT INTO noetl.credential (name, id, type, data_encrypted, meta) VALUES ('kept', 1, 'generic', 'sealed', '{{}}');
"""


@pytest.fixture(scope="module")
def history(module_database: str, postgres: EmbeddedServer) -> Iterator[PostgresHistorySql]:
    with psycopg.connect(module_database, autocommit=True) as connection:
        connection.execute(SAMPLE)
    name = psycopg.conninfo.conninfo_to_dict(module_database)["dbname"]
    yield PostgresHistorySql(lambda: postgres.reader_dsn(str(name)), postgres.bound_query)


def rows(history: PostgresHistorySql, text: str, limit: int = 100) -> list[list[object]]:
    return run_sql(history, text, limit).rows


def test_the_documented_columns_are_those_of_the_views(history, module_database):
    with psycopg.connect(module_database) as connection:
        found = connection.execute(
            "SELECT table_name, column_name, data_type FROM information_schema.columns"
            " WHERE table_schema = %s ORDER BY table_name, ordinal_position",
            (VIEWS_SCHEMA,),
        ).fetchall()
    assert {(view, *column) for view, columns in VIEWS.items() for column in columns.items()} == set(found)
    for view, columns in VIEWS.items():
        table = run_sql(history, f"SELECT * FROM {view}", 10)
        assert {one.name: one.type for one in table.columns} == columns
        assert [one.name for one in table.columns] == list(columns)


def test_executions_steps_facts_items_and_values(history):
    assert rows(history, "SELECT status, error_code FROM executions ORDER BY execution_id;") == [
        ["failed", "boom"],
        ["running", None],
    ]
    assert rows(history, "SELECT step, status, retries FROM steps") == [["start", "done", 0]]
    assert rows(history, "SELECT name, fact->'result'->>'text' FROM facts WHERE number = 2") == [
        ["call.done", "nul � half �"]
    ]
    assert rows(history, "SELECT run, index, status FROM items") == [[1, 0, "success"]]
    assert rows(history, "SELECT execution_id, scope, value FROM values") == [
        ["382358247895465985", "ctx", 36893488147419103232]
    ]
    assert rows(history, "WITH a AS (SELECT 1 AS n) SELECT n, 1.5, 'x'::text, true, NULL FROM a") == [
        [1, "1.5", "x", True, None]
    ]


NEXT = [
    CallDone(7, "a", result=["nul \0 half \ud800", [1]]),
    StepExited(7, "a"),
    NextEvaluated(7, "a", (Arrival(8, "b", 3),)),
]


def test_facts_of_a_row_that_keeps_them_short_are_all_there(history, module_database):
    facts = encode_facts([*NEXT, StepEntered(8, "b"), CommandIssued(8, "b", "8", "python")])
    with psycopg.connect(module_database, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO noetl.event (execution_id, event_id, lane, seq, type, at, facts)"
            " VALUES (382358247895465986, 'cmd:7:0', 0, 2, 'call.done', now(), %s)",
            [short(facts).decode()],
        )
    query = "SELECT number, name, step, run, fact FROM facts WHERE execution_id = 382358247895465986 ORDER BY number"
    expected = codec.decode(facts)
    expected[0]["result"][0] = "nul � half �"
    found = [
        [number, fact["name"], fact["step"], fact["run"], fact] for number, fact in enumerate(expected, 1)
    ]
    assert short(facts) != facts and rows(history, query) == found


def test_rows_and_bytes_have_limits(history, monkeypatch):
    found = run_sql(history, "SELECT generate_series(1, 100000) AS n", 700)
    assert (len(found.rows), found.truncated, found.rows[-1]) == (700, True, [700])
    found = run_sql(history, "SELECT n FROM generate_series(1, 700) AS g(n)", 700)
    assert (len(found.rows), found.truncated) == (700, False)
    monkeypatch.setattr("noetl.adapters.postgres.history_sql.MOST_BYTES", 10_000)
    found = run_sql(
        history,
        "SELECT repeat_me.t FROM (SELECT lpad('', 1000, 'x') AS t FROM generate_series(1, 100)) AS repeat_me",
        100,
    )
    assert (len(found.rows) < 10, found.truncated) == (True, True)


def allow(monkeypatch, milliseconds):
    """Give a query this much time."""
    begin = (
        "BEGIN READ ONLY",
        f"SET LOCAL statement_timeout = {milliseconds}",
        f"SET LOCAL search_path = {VIEWS_SCHEMA}",
    )
    monkeypatch.setattr("noetl.adapters.postgres.history_sql._BEGIN", begin)


def test_rows_arrive_one_by_one_and_none_that_is_too_large(history, monkeypatch):
    """A query decides how large rows are: this process holds what it answers, not what the database could send."""
    allow(monkeypatch, round(PATIENCE * 1000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = run_sql(history, "SELECT lpad('', 3000000, 'x') FROM generate_series(1, 100)", 100)
    assert (len(found.rows), found.truncated) == (1, True)
    # 15 MB; of lpad alone the database takes seconds.
    found = run_sql(history, "SELECT replace(lpad('', 1500, 'x'), 'x', lpad('', 10000, 'x'))", 1)
    assert (found.rows, found.truncated) == ([], True)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "kilobytes"


def test_json_that_is_no_value_here_is_text(history):
    deep = "[" * 3000 + "]" * 3000
    assert rows(history, f"SELECT '1e999'::json, '{deep}'::json, 1 AS a, 2 AS a -- two of a name") == [
        ["1e999", deep, 1, 2]
    ]


def test_the_order_of_a_query_is_that_of_the_answer(history):
    assert rows(history, "SELECT n FROM generate_series(1, 5) AS g(n) ORDER BY n DESC", 3) == [[5], [4], [3]]


def test_a_mistake_is_named_with_its_place(history):
    with pytest.raises(InvalidInputError) as caught:
        run_sql(history, "SELECT path,\n  statuss FROM executions", 10)
    assert caught.value.code == "sql_invalid"
    assert "2:3: column" in str(caught.value)
    assert caught.value.details["at"] == "2:3"


def test_time_has_a_limit(history, monkeypatch):
    allow(monkeypatch, 50)
    with pytest.raises(InvalidInputError) as caught:
        run_sql(history, "SELECT count(*) FROM generate_series(1, 1000000000) AS g(n)", 10)
    assert caught.value.code == "sql_timeout"


LONG_ROW = (
    f"SELECT length(({'+'.join(['exp(a)'] * 600)})::text) FROM (VALUES (5999.123456789::numeric)) AS q (a)"
)


ENDLESS_ROW = "SELECT strpos(lpad('', 20000000, 'a'), 'b' || lpad('', 1000000, 'a'))"


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "darwin", reason="the processes of a server are not seen there")
@pytest.mark.timeout(PATIENCE)
def test_a_query_that_cannot_be_interrupted_does_not_hold_up_the_stop_of_the_server(tmp_path, monkeypatch):
    """The server is ended hard, and the next one recovers; without that, a stop takes as long as the query."""
    monkeypatch.setattr("noetl.adapters.postgres.history_sql.SECONDS", 0.2)
    monkeypatch.setattr("noetl.adapters.postgres.history_sql._GRACE", 0.2)
    monkeypatch.setattr("noetl.adapters.embedded.processes.STOP_SECONDS", 10 * PATIENCE)
    with open_embedded(tmp_path / "postgres") as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute(SAMPLE)
        assert refusal_of(PostgresHistorySql(server.reader_dsn), ENDLESS_ROW) == "sql_timeout"
    assert not processes.accepts(processes.socket_folder(tmp_path / "postgres"))
    with open_embedded(tmp_path / "postgres") as server, psycopg.connect(server.dsn()) as connection:
        found = connection.execute("SELECT count(*) FROM noetl.execution").fetchone()
    assert found == (2,)


def refusal_of(history, text):
    with pytest.raises(InvalidInputError) as caught:
        run_sql(history, text, 10)
    return caught.value.code


def test_time_has_a_limit_within_a_row_too(history, module_database, monkeypatch):
    """Postgres looks at its timeout between parts of a row: 600 calls of ``exp`` take seconds."""
    monkeypatch.setattr("noetl.adapters.postgres.history_sql.SECONDS", 0.2)
    monkeypatch.setattr("noetl.adapters.postgres.history_sql._GRACE", 0.2)
    assert refusal_of(history, LONG_ROW) == "sql_timeout"
    name = psycopg.conninfo.conninfo_to_dict(module_database)["dbname"]
    with psycopg.connect(module_database) as connection:
        running = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE usename = 'noetl_reader' AND datname = %s", (name,)
        ).fetchall()
    assert len(running) == 1, "the row goes on after its caller was answered"
    if sys.platform != "darwin":
        assert os.getpriority(os.PRIO_PROCESS, running[0][0]) == NICE, "nor for the processor"


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[str]:
    """Start a server that replays what another one wrote, and yield the reader's address of it."""
    data, wal = tmp_path / "postgres", {"wal_level": "replica"}
    with open_embedded(data, wal) as server:
        address = server.reader_dsn()
    (data / "standby.signal").touch()
    processes.give_away(data / "standby.signal")
    command = [processes.binaries() / "postgres", "-D", data, "-k", processes.socket_folder(data)]
    for name, value in {**SETTINGS, **wal, "listen_addresses": "", "port": str(processes.PORT)}.items():
        command += ["-c", f"{name}={value}"]
    started = subprocess.Popen(
        command, env=processes.environment(), stderr=subprocess.DEVNULL, **processes.run_as()
    )
    try:
        processes.wait_for_ready(data)
        yield address
    finally:
        started.send_signal(signal.SIGINT)
        started.wait()


@pytest.mark.full
def test_queries_run_on_a_replica_and_where_one_is_asked_for_on_nothing_else(history, replica):
    """The reader endpoint of Aurora leads to the primary while there is no reader, which a query may have ended."""
    here = PostgresHistorySql(lambda: replica, apart=True)
    assert here.run("SELECT count(*) FROM executions", 1).rows == [[0]]
    primary = PostgresHistorySql(history._address, apart=True)
    with pytest.raises(InfrastructureError) as caught:
        primary.run("SELECT 1", 1)
    assert caught.value.code == "reader_unreachable" and caught.value.retryable


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("40001", "database_contention"),
        ("40P01", "database_contention"),
        ("55P03", "database_contention"),
        ("53100", "database_unreachable"),
        ("58030", "database_unreachable"),
        ("22012", "sql_invalid"),
    ],
)
def test_what_the_database_lacks_is_no_mistake_of_the_query(history, module_database, state, code):
    """A reader instance ends queries that are in the way of the primary's changes (40001); the same query may run a moment later."""
    name = f"fails_{state.lower()}"
    with psycopg.connect(module_database, autocommit=True) as connection:
        connection.execute(
            f"CREATE FUNCTION {VIEWS_SCHEMA}.{name}() RETURNS int LANGUAGE plpgsql AS"
            f" $$ BEGIN RAISE 'it says why' USING ERRCODE = '{state}'; END $$"
        )
    with pytest.raises(NoetlError) as caught:
        history.run(f"SELECT {name}()", 1)
    assert caught.value.code == code and "it says why" in str(caught.value)
    assert isinstance(caught.value, InfrastructureError) is (code != "sql_invalid")


DOUBLED = "||".join(["a"] * 100)
TOO_LARGE = {
    "three values of a row": "SELECT lpad('', 100000000, 'x'), lpad('', 100000000, 'y'), lpad('', 100000000, 'z')",
    "one value": "SELECT length(lpad('', 250000000, 'x'))",
    "an aggregate": "SELECT length(string_agg(lpad('', 1000000, 'x'), '')) FROM generate_series(1, 400)",
    "planning": f"SELECT a FROM (SELECT {DOUBLED} AS a FROM (SELECT {DOUBLED} AS a FROM (SELECT {DOUBLED} AS a FROM"
    " (SELECT path AS a FROM executions) AS q) AS q) AS q) AS q",
}


@pytest.mark.skipif(sys.platform == "darwin", reason="no call limits the memory of another process there")
@pytest.mark.parametrize("what", TOO_LARGE)
def test_memory_has_a_limit(history, what):
    """Without one a query of a holder of ``read`` takes the memory of the machine, and the kernel ends the database of everyone."""
    assert refusal_of(history, TOO_LARGE[what]) == "sql_too_large"
    assert rows(history, "SELECT 1") == [[1]]


PIECES = 22
"""Texts of a megabyte, joined one by one: what Postgres keeps of that is 256 MB, and the limit is 268."""


def nearly_full(fill: int, then: str) -> str:
    """Return a query that holds ``fill`` bytes beyond 256 MB when it computes ``then`` of ``a``, an empty text."""
    return (
        f"SELECT length(b), {then} FROM (SELECT left(b, {fill}) AS b, left(b, 0) AS a FROM (SELECT {'||'.join(['c'] * PIECES)} AS b FROM"
        " (SELECT lpad(n::text, 1000000, 'x') AS c FROM generate_series(1, 1) AS g(n) OFFSET 0) AS q OFFSET 0) AS q OFFSET 0) AS q"
    )


DEEP = {
    "json": "length((lpad(a, 5000, '[') || lpad(a, 5000, ']'))::json::text)",
    "a pattern": "regexp_count(a, lpad(a, 3000, '(') || 'a' || lpad(a, 3000, ')'))",
    "a mistake": "lpad(a, 100000, 'x')::integer",
}


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "darwin", reason="no call limits the memory of another process there")
@pytest.mark.parametrize("what", parted(list(DEEP), ["a pattern"]))
def test_a_stack_that_grows_at_the_limit_ends_no_process(history, monkeypatch, what):
    """A stack that may not grow ends the process by a signal, and with it every connection of everyone."""
    monkeypatch.setattr("noetl.adapters.postgres.history_sql.SECONDS", PATIENCE)
    most = PIECES * 1_000_000
    fits, full = 0, most
    while full - fits > 10_000:
        fill = (fits + full) // 2
        try:
            run_sql(history, nearly_full(fill, DEEP[what]), 10)
        except InvalidInputError as error:
            if error.code == "sql_too_large":
                full = fill
                continue
            assert error.code == "sql_invalid", error
        fits = fill
    assert fits > 0 and full < most, "both ends were seen"


@pytest.mark.skipif(sys.platform == "darwin", reason="no call limits the memory of another process there")
def test_refused_queries_do_not_fill_the_disk_with_the_log(history, postgres, monkeypatch):
    """Postgres writes what it holds, 11 KB, for each of them, and a caller may send a hundred in a second."""
    log = postgres.data.with_name(f"{postgres.data.name}.log")
    assert refusal_of(history, TOO_LARGE["one value"]) == "sql_too_large"
    before = log.stat().st_size
    assert before > 5_000
    monkeypatch.setattr("noetl.adapters.embedded.processes.LOG_BYTES", before - 1)
    assert rows(history, "SELECT 1") == [[1]]
    assert log.stat().st_size < before
    assert refusal_of(history, TOO_LARGE["one value"]) == "sql_too_large"
    assert log.read_bytes()[:1].isascii() and b"\0" not in log.read_bytes(), "what follows begins the file"


def test_the_role_has_a_limit_of_room_on_the_disk(postgres):
    with psycopg.connect(postgres.dsn()) as connection:
        found = connection.execute("SELECT rolconfig FROM pg_roles WHERE rolname = 'noetl_reader'").fetchone()
    assert found is not None
    assert "temp_file_limit=1GB" in found[0]


@pytest.mark.full
def test_room_on_the_disk_has_a_limit(history, monkeypatch):
    allow(monkeypatch, round(PATIENCE * 1000))
    monkeypatch.setattr("noetl.adapters.postgres.history_sql.SECONDS", PATIENCE)
    assert (
        refusal_of(history, "SELECT count(*) FROM generate_series(1, 1000000000) AS g(n)") == "sql_too_large"
    )


def test_only_processes_of_the_server_are_limited(postgres):
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(InfrastructureError) as caught:
        postgres.bound_query(os.getpid())
    assert caught.value.code == "query_memory"
    assert resource.getrlimit(resource.RLIMIT_AS) == before


HOSTILE = [
    "SELECT * FROM noetl.credential",
    "SELECT * FROM noetl.execution",
    'SELECT * FROM "noetl"."credential"',
    "TABLE noetl.credential",
    "DELETE FROM executions",
    "WITH gone AS (DELETE FROM executions RETURNING 1) SELECT * FROM gone",
    "WITH made AS (INSERT INTO noetl.execution DEFAULT VALUES RETURNING 1) SELECT * FROM made",
    "SELECT 1 INTO made",
    "SELECT * FROM executions FOR UPDATE",
    "CREATE TABLE x (a int)",
    "CREATE TEMP TABLE x AS SELECT 1",
    "COPY executions TO STDOUT",
    "COPY (SELECT 1) TO PROGRAM 'id'",
    "SELECT 1; DROP SCHEMA noetl CASCADE",
    "SELECT 1 -- ;\n; DELETE FROM executions",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('.')",
    "SELECT pg_sleep(100)",
    "SELECT 1 -- a\r, pg_sleep(100)",
    "SELECT 1 AS x😀$a$, pg_sleep(100) AS y😀$a$",
    "SELECT 1 AS x\u00a0$a$, pg_sleep(100) AS y\u00a0$a$",
    "SELECT 1 AS \u0663$a$, pg_sleep(100) AS \u0663$a$",
    "SELECT 1a$a$, pg_sleep(100) AS b, 2 c$a$",
    'SELECT "pg_sleep"(100)',
    "SELECT pg_catalog.pg_sleep(100)",
    'SELECT U&"pg\\005fsleep"(100)',
    "SELECT E'a'\n'\\'', pg_sleep(100), '1'--'",
    "SELECT E'a' -- b\r\t'\\'', pg_sleep(100), '1'--'",
    "SELECT 1 AS €$a$, pg_sleep(100) -- $a$",
    "SELECT 1 AS e\u0301$a$, pg_sleep(100) -- $a$",
    "SELECT 1 AS \u00a0$a$, pg_sleep(100) -- $a$",
    "SELECT 1 AS \u0663$a$, pg_sleep(100) -- $a$",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_notify('a', 'b')",
    "SELECT pg_terminate_backend(1)",
    "SELECT pg_logical_emit_message(false, 'a', 'b')",
    "SELECT set_config('role', 'noetl_engine', false)",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SELECT current_setting('data_directory')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_from_bytea(0, 'x')",
    "SELECT nextval('noetl.command_id_seq')",
    "SELECT query_to_xml('SELECT * FROM noetl.credential', true, true, '')",
    "SELECT dblink('host=127.0.0.1', 'SELECT 1')",
    "SELECT noetl.commit_changes('{}')",
    "SELECT txid_current()",
    "SELECT * FROM pg_catalog.pg_authid",
    "SELECT * FROM pg_stat_activity WHERE datname = current_database()",
    "SELECT * FROM information_schema.tables",
    "SELECT $1",
    "SET ROLE noetl_engine",
    "RESET ALL",
    "DO $$ BEGIN PERFORM 1; END $$",
    "EXPLAIN ANALYZE SELECT 1",
    "LISTEN x",
    "VACUUM",
    "",
    ";",
    "SELECT '",
    "SELECT /* ",
    "SELECT $tag$ x",
    "SELECT 1\x00",
    "SELECT '\ud800'",
    "SELECT 1) AS q (c0) OFFSET 0) AS q, (SELECT (SELECT 2",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_but_reading_the_views_is_possible(history, text):
    with pytest.raises(InvalidInputError) as caught:
        run_sql(history, text, 10)
    assert caught.value.code in ("sql_refused", "sql_invalid")


BEHIND_THE_GATE = [
    "SELECT * FROM noetl.credential",
    "SELECT data_encrypted FROM noetl.credential",
    "SELECT * FROM noetl.slot",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT lo_from_bytea(0, 'x')",
    "SELECT query_to_xml('SELECT * FROM noetl.credential', true, true, '')",
    "SELECT set_config('role', 'noetl_engine', false)",
    "SELECT noetl.refuse_taken(NULL, NULL)",
    "SELECT nextval('noetl.command_id_seq')",
    "SELECT * FROM pg_authid",
    "WITH gone AS (DELETE FROM noetl.execution RETURNING 1) SELECT * FROM gone",
    "SELECT 1; SELECT 2",
    "SELECT query_to_xml('CREATE TABLE noetl_history.x (a int)', true, true, '')",
]


@pytest.mark.parametrize("text", BEHIND_THE_GATE)
def test_the_role_itself_has_no_right_to_more(history, text):
    """What would happen if a query went around the gate of words."""
    with pytest.raises(InvalidInputError) as caught:
        history.run(text, 10)
    assert caught.value.code == "sql_invalid"


def test_a_transaction_that_was_made_writable_has_nothing_to_write(history):
    text = "SELECT set_config('transaction_read_only', 'off', false), query_to_xml('CREATE TEMP TABLE x (a int)', true, true, '')"
    with pytest.raises(InvalidInputError):
        history.run(text, 10)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM executions AS e (id, path) WHERE (path IN ('a', 'b')) AND EXISTS (SELECT 1)",
        "SELECT '; DROP TABLE x', $$;$$ -- ; comment\n;",
        "SELECT '😀\u00a0', $é$ 😀 $é$ AS größe, 1 AS \"x😀\" -- 😀",
        "WITH x (a) AS (VALUES (1)) SELECT cast(a AS numeric(3, 1)) FROM x",
        "SELECT percentile_cont(0.95) WITHIN GROUP (ORDER BY duration) FILTER (WHERE run > 1) FROM steps",
        "SELECT path, rank() OVER (PARTITION BY path ORDER BY started_at) FROM executions",
        "SELECT date_trunc('hour', started_at), extract(epoch FROM avg(duration)) FROM executions GROUP BY 1",
    ],
)
def test_what_people_ask_is_not_refused(history, text):
    assert check_sql(text).rstrip(";") == check_sql(text)
    run_sql(history, text, 10)


def test_without_a_role_the_answer_says_so():
    with pytest.raises(NotFoundError) as caught:
        run_sql(None, "SELECT 1", 10)
    assert caught.value.code == "sql_unavailable"
    refused = PostgresHistorySql(lambda: "host=127.0.0.1 port=1 user=x dbname=x")
    with pytest.raises(InfrastructureError):
        run_sql(refused, "SELECT 1", 10)


def test_the_migration_of_a_deployment_makes_the_role(database, postgres):
    """Twice, as each deployment does: with another password the second time."""
    name = f"reader_{psycopg.conninfo.conninfo_to_dict(database)['dbname']}"
    Database(database).close()
    try:
        for password in ("one", "two"):
            make_reader_role(database, name, password)
        with psycopg.connect(database) as connection:
            found = connection.execute(
                "SELECT rolsuper, rolcreaterole, rolinherit, rolconnlimit, has_table_privilege(rolname, 'noetl_history.steps', 'SELECT'),"
                " has_table_privilege(rolname, 'noetl.credential', 'SELECT'), has_schema_privilege(rolname, 'noetl', 'USAGE')"
                " FROM pg_roles WHERE rolname = %s",
                (name,),
            ).fetchone()
        assert found == (False, False, False, 4, True, False, False)
    finally:
        with psycopg.connect(database, autocommit=True) as connection:
            quoted = psycopg.sql.Identifier(name)
            connection.execute(psycopg.sql.SQL("DROP OWNED BY {}").format(quoted))
            connection.execute(psycopg.sql.SQL("DROP ROLE {}").format(quoted))
