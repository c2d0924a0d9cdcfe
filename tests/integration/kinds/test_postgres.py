"""The postgres kind against a real server."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential
from noetl.dsl.program import Sql
from noetl.kinds.postgres.connect import CONNECTIONS, Connections
from noetl.kinds.postgres.run import Session
from noetl.kinds.registry import default_registry
from noetl.templating import MappingScope, render_sql
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.postgres


@pytest.fixture(autouse=True)
def clean(dsn):
    CONNECTIONS.close_idle(0)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    yield
    CONNECTIONS.close_idle(0)


@pytest.fixture
def run(dsn, make_context):
    def call(query=None, *, context=None, **params):
        params |= {} if query is None else {"query": query}
        return default_registry().run("postgres", params, context or make_context(workspace_dsn=dsn))

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


def test_select_and_change_results(run):
    assert run("CREATE TABLE t (id int, name text)").result == {"affected_rows": 0}
    assert run("INSERT INTO t VALUES (1, 'a'), (2, 'b')").result == {"affected_rows": 2}
    found = run("SELECT id, name FROM t ORDER BY id")
    rows = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    assert found.result == {"columns": ["id", "name"], "rows": rows, "row_count": 2}
    assert found.meta["pg"]["sqlstate"] == "00000"
    assert run("SELECT id FROM t WHERE false").result == {"columns": ["id"], "rows": [], "row_count": 0}
    assert run("DELETE FROM t WHERE id = 1 RETURNING name").result == {
        "columns": ["name"],
        "rows": [{"name": "a"}],
        "row_count": 1,
        "affected_rows": 1,
    }


def test_a_value_of_unknown_type_is_text_and_undoes_nothing(run):
    found = run(
        [
            "CREATE TABLE t (id int); INSERT INTO t VALUES (1)",
            "SELECT jsonb_build_object('a', %(v)s, 'b', %(w)s, 'c', %(n)s) AS j, concat(%(v)s, %(w)s) AS c",
            "SELECT count(*) AS n FROM t WHERE id = %(n)s",
        ],
        params={"v": "x", "w": None, "n": 1},
    ).result
    assert found["rows"] == [{"n": 1}]
    assert found["results"][2]["rows"] == [{"j": {"a": "x", "b": None, "c": 1}, "c": "x"}]
    assert run("SELECT count(*) AS n FROM t").result["rows"] == [{"n": 1}]


def test_calls_at_once_find_out_about_the_same_values(run, monkeypatch):
    """Each fails before any has told what it found: the parameter that another one told of meanwhile is sent as text, too."""
    calls, names = 4, [f"v{number}" for number in range(6)]
    together, learn = threading.Barrier(calls), Session.learn_type

    def learn_together(session: Session, error: TaskError) -> bool:
        together.wait(PATIENCE)
        return learn(session, error)

    monkeypatch.setattr(Session, "learn_type", learn_together)
    parts = ", ".join(f"'{name}', %({name})s" for name in names)
    query = f"SELECT jsonb_build_object({parts}, 'at once', true) AS j"
    with ThreadPoolExecutor(calls) as threads:
        answers = list(
            threads.map(lambda _: run(query, params=dict.fromkeys(names, "x")).result, range(calls))
        )
    assert [one["rows"] for one in answers] == [
        [{"j": {**dict.fromkeys(names, "x"), "at once": True}}]
    ] * calls


def test_several_statements_are_one_transaction(run, failure):
    result = run(
        ["CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1),(2)", "SELECT count(*) FROM t"]
    )
    assert result.result["rows"] == [{"count": 2}]
    assert result.result["results"] == [{"affected_rows": 0}, {"affected_rows": 2}, {"row_count": 1}]
    error = failure("INSERT INTO t VALUES (3); INSERT INTO t VALUES (1)")
    assert (error.kind, error.code, error.details["statement"]) == ("db_constraint", "23505", 2)
    assert run("SELECT count(*) AS n FROM t").result["rows"] == [{"n": 2}]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("12345678901234567890123::numeric", 12345678901234567890123),
        ("10.00::numeric", 10),
        ("0.1::numeric", 0.1),
        ("0.12345678901234567890::numeric", "0.12345678901234567890"),
        ("'NaN'::numeric", None),
        ("('1' || repeat('0', 2000))::numeric", "1" + "0" * 2000),
        ("'NaN'::float8", None),
        ("'-Infinity'::float8", None),
        ("0.1::float8", 0.1),
        ("9223372036854775807::bigint", 2**63 - 1),
        ("true", True),
        ("null", None),
        ("date '2024-02-29'", "2024-02-29"),
        ("timestamptz '2024-01-01 10:00+00' at time zone 'UTC'", "2024-01-01T10:00:00"),
        ("'infinity'::timestamptz", "infinity"),
        ("'20000-01-01'::date", "20000-01-01"),
        ("time '10:20:30.5'", "10:20:30.500000"),
        ("interval '1 month 2 days'", "1 mon 2 days"),
        ("'6f1c6e0e-6f0f-4e39-8a3f-2f5d8f5b0a10'::uuid", "6f1c6e0e-6f0f-4e39-8a3f-2f5d8f5b0a10"),
        (r"'\x00ff'::bytea", "AP8="),
        ("int4range(1, 5)", "[1,5)"),
        ("inet '10.0.0.1'", "10.0.0.1"),
        ("'{\"a\": [1, 12345678901234567890123, null]}'::jsonb", {"a": [1, 12345678901234567890123, None]}),
        ("array[1.5, null]::numeric[]", [1.5, None]),
        ("array[['2024-01-01'::date]]", [["2024-01-01"]]),
        ("row(1, 'a')", ["1", "a"]),
    ],
)
def test_values_out(run, expression, value):
    assert run(f"SELECT {expression} AS v").result["rows"] == [{"v": value}]


def test_timestamps_with_zone_keep_their_offset(run):
    found = run("SET LOCAL timezone = 'Asia/Kolkata'; SELECT timestamptz '2024-01-01 00:00+00' AS v")
    assert found.result["rows"] == [{"v": "2024-01-01T05:30:00+05:30"}]


def test_columns_of_one_name_stay_apart(run):
    result = run("SELECT 1 AS id, 2 AS id, 3 AS id_2").result
    assert result["columns"] == ["id", "id_3", "id_2"]
    assert result["rows"] == [{"id": 1, "id_3": 2, "id_2": 3}]


HOSTILE = [
    "'; drop table t; --",
    "100% %s %(x)s %%",
    "$$; $1 $tag$",
    'back\\slash \\\' "quoted"',
    "{{ 7*7 }}",
    "line\nbreak\ttab ü ☃ 𝄞",
    "",
]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("form", ["placeholder", "template", "quoted", "table", "array", "json"])
def test_values_are_bound_whatever_they_hold(run, value, form):
    run("CREATE TABLE t (v text, a text[], j jsonb)")
    match form:
        case "placeholder":
            run("INSERT INTO t (v) VALUES (%(v)s)", params={"v": value})
        case "template":
            run(rendered("INSERT INTO t (v) VALUES ({{ v }})", v=value))
        case "quoted":
            run(rendered("INSERT INTO t (v) VALUES ('{{ v }}')", v=value))
        case "table":
            run(table="t", args={"v": value})
        case "array":
            run("INSERT INTO t (a) VALUES (%(v)s)", params={"v": [value, None]})
        case "json":
            run("INSERT INTO t (j) VALUES (%(v)s)", params={"v": {value: [value]}})
    row = run("SELECT * FROM t").result["rows"][0]
    expected = {"array": {"a": [value, None]}, "json": {"j": {value: [value]}}}.get(form, {"v": value})
    assert row == {"v": None, "a": None, "j": None, **expected}


def test_templates_and_placeholders_together(run):
    sql = rendered("SELECT {{ a }}::int AS a, %(p1)s::text AS p, '50%%' AS q, 'x %(no)s' AS n", a=5)
    row = run(sql, params={"p1": "mine", "no": "bound?"}).result["rows"][0]
    assert row == {"a": 5, "p": "mine", "q": "50%", "n": "x %(no)s"}


def test_percent_signs_without_params_are_just_characters(run):
    assert run("SELECT 7 % 4 AS m, '%d' AS d, 'abc' LIKE '%b%' AS l").result["rows"] == [
        {"m": 3, "d": "%d", "l": True}
    ]


@pytest.mark.parametrize("value", [[], [1, 2], ["a"], [1, "a", None], [[1], []], [{"a": 1}], {"a": []}])
@pytest.mark.parametrize("column", ["json", "jsonb", "text"])
def test_lists_and_mappings_fit_json_columns(run, value, column):
    run(f"CREATE TABLE t (j {column})")
    run(table="t", args={"j": value})
    assert run("SELECT j::json AS j FROM t").result["rows"] == [{"j": value}]


@pytest.mark.parametrize(
    ("sql", "value", "rows"),
    [
        ("SELECT 2 = ANY(%(v)s) AS r", [1, 2], [{"r": True}]),
        ("SELECT 2 = ANY(%(v)s) AS r", [], [{"r": False}]),
        ("SELECT 'a' = ANY(%(v)s) AS r", ["b", 'a"\\'], [{"r": False}]),
        ("SELECT unnest(%(v)s) AS r", [1, None], [{"r": 1}, {"r": None}]),
        ("SELECT unnest(%(v)s) AS r", [1, 2.5], [{"r": 1.0}, {"r": 2.5}]),
        ("SELECT %(v)s::int[] AS r", [[1, 2], [3, 4]], [{"r": [[1, 2], [3, 4]]}]),
        ("SELECT %(v)s::date[] AS r", ["2024-01-01"], [{"r": ["2024-01-01"]}]),
        ("SELECT jsonb_array_elements(%(v)s) AS r", [1, "a"], [{"r": 1}, {"r": "a"}]),
        ("SELECT %(v)s ->> 'a' AS r", {"a": "x"}, [{"r": "x"}]),
        ("SELECT g AS r FROM generate_series(1, %(v)s) g", 2, [{"r": 1}, {"r": 2}]),
        ("SELECT %(v)s::numeric AS r", 2**200, [{"r": 2**200}]),
        ("SELECT date '2024-01-01' + %(v)s AS r", 1, [{"r": "2024-01-02"}]),
        ("SELECT coalesce(%(v)s, 'none') AS r", None, [{"r": "none"}]),
        ("SELECT %(v)s AND %(v)s AS r", True, [{"r": True}]),
    ],
)
def test_values_take_the_type_the_statement_wants(run, sql, value, rows):
    assert run(sql, params={"v": value}).result["rows"] == rows
    assert run(["SELECT 1", sql], params={"v": value}).result["rows"] == rows


def test_rows_into_a_table(run):
    run('CREATE SCHEMA s; CREATE TABLE s.t (id int, "we""ird %s" text DEFAULT \'d\', j jsonb)')
    assert run(table="s.t", args=[{"id": 1, 'we"ird %s': "x"}, {"id": 2, "j": {"a": 1}}]).result == {
        "affected_rows": 2
    }
    found = run("SELECT * FROM s.t ORDER BY id").result["rows"]
    assert [list(row.values()) for row in found] == [[1, "x", None], [2, "d", {"a": 1}]]
    assert run(table="s.t", args=[]).result == {"affected_rows": 0}
    assert run(table="s.t", args={}).result == {"affected_rows": 1}


def test_many_rows_go_in_batches_and_all_or_nothing(run, failure):
    run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    rows = [{"id": i, "v": f"v{i}"} for i in range(2500)]
    assert run(table="t", args=rows).result == {"affected_rows": 2500}
    assert failure(table="t", args=[{"id": i} for i in range(5000, 7000)] + [{"id": 1}]).code == "23505"
    assert run("SELECT count(*) AS n FROM t").result["rows"] == [{"n": 2500}]


def test_the_input_of_the_task_is_the_row(run, dsn, make_context):
    run("CREATE TABLE t (a int)")
    run(table="t", context=make_context(workspace_dsn=dsn, input={"a": 5}))
    assert run("SELECT a FROM t").result["rows"] == [{"a": 5}]


@pytest.mark.parametrize(
    ("params", "kind", "code"),
    [
        ({"query": "SELECT * FROM nope"}, "client_error", "42P01"),
        ({"query": "SELEC 1"}, "client_error", "42601"),
        ({"query": "SELECT 1/0"}, "client_error", "22012"),
        ({"query": "SELECT %(v)s", "params": {"v": "a\0b"}}, "client_error", "22021"),
        ({"query": "SELECT %(v)s", "params": {"v": "\ud800"}}, "client_error", "22021"),
        ({"query": "SELECT %(v)s", "params": {"v": {"a": "\0"}}}, "client_error", "22P05"),
        ({"query": "SELECT 'a\0'"}, "client_error", "22021"),
        ({"query": "SELECT %(v)s", "params": {}}, "schema", "sql_params"),
        ({"query": " ; -- nothing\n"}, "schema", "sql_empty"),
        ({"query": "BEGIN; SELECT 1; COMMIT"}, "client_error", "transaction_control"),
        ({"query": "/* a */ rollback"}, "client_error", "transaction_control"),
        ({"query": "/* /* */ */ COMMIT"}, "client_error", "transaction_control"),
        ({"query": "-- a\rCOMMIT"}, "client_error", "transaction_control"),
        ({"query": "COPY pg_class TO STDOUT"}, "client_error", "copy_refused"),
        ({"table": "t; drop table t", "args": {"a": 1}}, "client_error", "42P01"),
        ({"table": "a..b", "args": {"a": 1}}, "client_error", "name_invalid"),
        ({"query": "SELECT 1", "db_host": "x"}, "schema", "kind_params"),
        ({}, "schema", "kind_params"),
        ({"query": 5}, "schema", "kind_params"),
    ],
)
def test_errors(run, failure, params, kind, code):
    error = failure(**params)
    assert (error.kind, error.code, error.retryable) == (kind, code, False)
    assert run("SELECT 1 AS one").result["rows"] == [{"one": 1}]


def test_an_error_points_at_its_place(failure):
    error = failure("SELECT 1;\n\nSELECT 2,\n  nope\nFROM pg_class")
    assert "SELECT 2," in error.message
    assert (
        error.details["statement"],
        error.details["statement_line"],
        error.details["statement_column"],
    ) == (2, 2, 3)
    assert error.details["pg"] == {"code": "42703", "sqlstate": "42703"}


def test_constraints_name_themselves(run, failure):
    run("CREATE TABLE t (a int CONSTRAINT positive CHECK (a > 0))")
    error = failure(table="t", args={"a": -1})
    assert (error.kind, error.code, error.details["constraint_name"]) == (
        "db_constraint",
        "23514",
        "positive",
    )


def test_what_refuses_a_transaction_runs_alone(run, failure):
    run("CREATE TABLE t (a int)")
    assert run("VACUUM t").result == {"affected_rows": 0}
    assert failure("VACUUM t; SELECT 1").code == "25001"
    run("CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (1); COMMIT; END $$")
    run("CALL p()")
    assert run("SELECT a FROM t").result["rows"] == [{"a": 1}]


def test_deadlocks_are_retryable(run, failure, dsn):
    """A session looks for a deadlock once, so the task has to be the one that closes the circle: a gate holds it until the other waits."""
    run("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0), (2, 0)")
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    code = (
        "SET LOCAL deadlock_timeout = '50ms'; UPDATE t SET v = 2 WHERE id = 1; SELECT pg_advisory_xact_lock(7);"
        "UPDATE t SET v = 2 WHERE id = 2"
    )
    caught = []
    with psycopg.connect(dsn) as other, psycopg.connect(dsn, autocommit=True) as gate:

        def waiters() -> int:
            return gate.execute(waiting).fetchone()[0]

        gate.execute("SELECT pg_advisory_lock(7)")
        other.execute("SET deadlock_timeout = '1h'")
        other.execute("UPDATE t SET v = 1 WHERE id = 2")
        task = threading.Thread(target=lambda: caught.append(failure(code)))
        task.start()
        wait_until(lambda: waiters() == 1, "the task at the gate")
        behind = threading.Thread(target=lambda: other.execute("UPDATE t SET v = 1 WHERE id = 1"))
        behind.start()
        wait_until(lambda: waiters() == 2, "a wait for the task's row")
        gate.execute("SELECT pg_advisory_unlock(7)")
        task.join(PATIENCE)
        behind.join(PATIENCE)
    assert (caught[0].kind, caught[0].code, caught[0].retryable) == ("db_deadlock", "40P01", True)


# --- time, size, connections ------------------------------------------------------------------


def test_a_slow_statement_is_stopped(run, failure, dsn, make_context):
    run("SELECT 1")  # so that the time goes into the statement, and not into the connection
    error = failure("SELECT pg_sleep(3600)", context=make_context(workspace_dsn=dsn, timeout=0.3))
    assert (error.kind, error.code) == ("db_timeout", "57014")


def test_a_statement_that_lifts_the_server_limit_is_stopped_too(run, failure, dsn, make_context):
    run("SELECT 1")
    context = make_context(workspace_dsn=dsn, timeout=0.3)
    error = failure("SET LOCAL statement_timeout = 0; SELECT pg_sleep(3600)", context=context)
    assert (error.kind, error.code) == ("db_timeout", "57014")
    still_running = (
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() "
        "AND query LIKE '%sleep(3600)' AND state = 'active' AND pid <> pg_backend_pid()"
    )
    with psycopg.connect(dsn, autocommit=True) as connection:
        wait_until(lambda: not connection.execute(still_running).fetchall(), "the end of the statement")


def test_a_cancelled_execution_stops_its_statement(failure, dsn, make_context):
    import dataclasses

    context = dataclasses.replace(make_context(workspace_dsn=dsn), cancelled=lambda: True)
    assert failure("SELECT pg_sleep(3600)", context=context).kind == "cancelled"


def test_a_cancelled_execution_stops_rows_that_arrive_all_the_time(failure, dsn, make_context):
    import dataclasses

    context = dataclasses.replace(make_context(workspace_dsn=dsn), cancelled=lambda: True)
    error = failure("SELECT generate_series(1, 2000000000); SELECT 1", context=context)
    assert error.kind == "cancelled"


def test_results_are_bounded_while_they_arrive(run, failure, dsn, make_context):
    context = make_context(workspace_dsn=dsn, output_max_bytes=100_000)
    error = failure("SELECT repeat('x', 1000), generate_series(1, 100000000)", context=context)
    assert (error.kind, error.code) == ("storage_quota", "result_too_large")
    assert error.details["size"] < 300_000
    assert run("SELECT 1 AS one").result["rows"] == [{"one": 1}]


def test_connections_are_kept_but_nothing_in_them(run):
    first = run(
        "SELECT pg_backend_pid() AS pid; SET statement_timeout = 1234; SET search_path = nowhere"
    ).result
    assert first["affected_rows"] == 0
    run(
        "CREATE TEMP TABLE hidden (a int); SELECT pg_advisory_lock(1); LISTEN gossip; PREPARE mine AS SELECT 1"
    )
    run("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY; SET application_name = 'a task'")
    pids = {run("SELECT pg_backend_pid() AS pid").result["rows"][0]["pid"] for _ in range(3)}
    assert len(pids) == 1
    found = run(
        "SELECT current_setting('search_path') AS p, to_regclass('hidden') AS h, "
        "(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) AS n, "
        "(SELECT count(*) FROM pg_listening_channels()) AS l, (SELECT count(*) FROM pg_prepared_statements) AS s, "
        "current_setting('transaction_read_only') AS r, current_setting('application_name') AS a"
    )
    nothing = {"p": '"$user", public', "h": None, "n": 0, "l": 0, "s": 0, "r": "off", "a": "noetl"}
    assert found.result["rows"] == [nothing]


def test_a_failed_commit_is_told_and_leaves_the_session_usable(run, failure):
    run("CREATE TABLE t (a int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    pid = run("SELECT pg_backend_pid() AS pid").result["rows"][0]["pid"]
    error = failure("SET search_path = nowhere, public; INSERT INTO t VALUES (1), (1)")
    assert (error.kind, error.code) == ("db_constraint", "23505")
    found = run(
        "SELECT pg_backend_pid() AS pid, current_setting('search_path') AS p, (SELECT count(*) FROM t) AS n"
    )
    assert found.result["rows"] == [{"pid": pid, "p": '"$user", public', "n": 0}]


def test_as_many_connections_are_kept_as_tasks_run_at_once_and_no_more_than_the_bound(dsn):
    def pids(connections, count):
        taken = [connections.take(dsn, PATIENCE) for _ in range(count)]
        found = {connection.info.backend_pid for connection in taken}
        for connection in taken:
            connections.give_back(dsn, connection)
        return found

    connections = Connections(most=8)
    first = pids(connections, 8)
    assert pids(connections, 8) == first
    more = pids(connections, 9)
    assert len(more & first) == 8, "eight were kept"
    assert len(pids(connections, 9) & more) == 8, "and eight of nine"
    connections.close_idle()


def test_a_connection_the_server_ended_is_replaced(run, dsn):
    pid = run("SELECT pg_backend_pid() AS pid").result["rows"][0]["pid"]
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 2000)", (pid,))
    assert run("SELECT pg_backend_pid() AS pid").result["rows"][0]["pid"] != pid


def test_a_connection_lost_under_way(failure):
    error = failure("SELECT pg_terminate_backend(pg_backend_pid())")
    assert (error.kind, error.retryable) == ("db_connection", True)


def test_threads_share_the_cache(run):
    results = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(run(f"SELECT {n} AS n").result["rows"][0]["n"]))
        for n in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(results) == list(range(12))


# --- credentials ------------------------------------------------------------------------------


@pytest.fixture
def login(dsn):
    parts = conninfo_to_dict(dsn)
    return {name: parts[name] for name in ("host", "port", "user", "password", "dbname") if name in parts}


@pytest.mark.parametrize("spelling", ["plain", "db_", "dsn", "inline", "mapping"])
def test_credentials(run, dsn, login, make_context, spelling):
    data = {
        "db_": {f"db_{'name' if name == 'dbname' else name}": value for name, value in login.items()},
        "dsn": {"dsn": dsn},
    }.get(spelling, login)
    context = make_context(credentials={"db": Credential("db", "postgres", data)})
    auth = {"inline": data, "mapping": {"type": "postgres", "credential": "db"}}.get(spelling, "db")
    assert run("SELECT current_user AS u", auth=auth, context=context).result["rows"] == [
        {"u": login["user"]}
    ]


@pytest.mark.parametrize(
    ("change", "kind", "code"),
    [
        ({"user": "nobody-here"}, "auth", "28000"),
        ({"password": "canary-9"}, "auth", "28000"),
        ({"password": None}, "auth", "28000"),
        ({"dbname": "nowhere"}, "client_error", "3D000"),
        ({"host": "/nonexistent"}, "db_connection", "08001"),
        ({"host": ""}, "auth", "auth_invalid"),
        ({"user": None}, "auth", "auth_invalid"),
        ({"dsn": "host=x user=y sslkey=/etc/passwd"}, "auth", "auth_invalid"),
        ({"dsn": "host=x user=y password=canary-9 ="}, "auth", "auth_invalid"),
    ],
)
def test_credentials_that_do_not_work(failure, login, make_context, change, kind, code):
    context = make_context(credentials={"db": Credential("db", "postgres", {**login, **change})})
    error = failure("SELECT 1", auth="db", context=context)
    assert (error.kind, error.code, error.retryable) == (kind, code, kind == "db_connection")
    assert "canary-9" not in f"{error} {error.details}"


def test_without_any_database(failure, make_context):
    error = failure("SELECT 1", context=make_context())
    assert (error.kind, error.code) == ("auth", "auth_missing")
