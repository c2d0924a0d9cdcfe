"""The server that comes with the library: shared, killed, started again; what a playbook's role may not reach."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from noetl.adapters.embedded import processes
from noetl.adapters.embedded.server import home, open_embedded
from noetl.adapters.postgres import migrations
from noetl.domain.errors import InfrastructureError
from tests.parts import repeated
from tests.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

USER = """
import sys, time
from pathlib import Path
from noetl.adapters.embedded.server import open_embedded
server = open_embedded(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.readline()
print(server.stop(), flush=True)
"""


@pytest.fixture(scope="module")
def first_start():
    """What the first start of a folder left that is tested: executions, and whether it writes to disk."""
    return {}


@pytest.fixture(scope="module")
def made(first_start):
    """A data folder that was used once and left in order; before that, a start was killed half way."""
    root = Path(tempfile.mkdtemp(prefix="noetl-emb-"))
    (root / "pg.new" / "base").mkdir(parents=True)
    (root / "pg.secret").write_text("of the attempt before")
    with open_embedded(root / "pg") as server, psycopg.connect(server.dsn(), autocommit=True) as connection:
        first_start["executions"] = connection.execute("SELECT count(*) FROM noetl.execution").fetchone()
        first_start["fsync"] = connection.execute("SHOW fsync").fetchone()
        connection.execute("CREATE TABLE kept (value TEXT)")
        connection.execute("INSERT INTO kept VALUES ('durable')")
    yield root / "pg"
    with open_embedded(root / "pg"):
        pass
    shutil.rmtree(root)


@pytest.fixture
def folder(made):
    yield made
    processes.stop(made)


def running(folder):
    return processes.accepts(processes.socket_folder(folder))


def another(folder):
    """Another process that uses the server; a line on its stdin ends it."""
    process = subprocess.Popen(
        [sys.executable, "-c", USER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "open\n"
    return process


def finish(process):
    out, _ = process.communicate("\n", timeout=PATIENCE)
    return out.strip()


def kept(server):
    with psycopg.connect(server.dsn()) as connection:
        return connection.execute("SELECT value FROM kept").fetchone()[0]


def test_the_last_user_stops_the_server(folder):
    mine = open_embedded(folder)
    twice = open_embedded(folder)
    other = another(folder)
    assert mine.stop() is False and mine.stop() is False
    assert finish(other) == "False"
    assert kept(twice) == "durable"
    assert twice.stop() is True and not running(folder)


@pytest.mark.full
def test_what_is_asked_for_meanwhile_happens_once_between_start_and_use(folder, monkeypatch):
    order = []
    monkeypatch.setattr(processes, "_spawn", noting(order, processes._spawn))
    monkeypatch.setattr(processes, "_wait_ready", noting(order, processes._wait_ready))
    with open_embedded(folder, meanwhile=lambda: order.append("meanwhile")):
        assert order == ["_spawn", "meanwhile", "_wait_ready"]
        with open_embedded(folder, meanwhile=lambda: order.append("joined")):
            assert order[3:] == ["joined"]


def noting(order, function):
    def noted(*given):
        order.append(function.__name__)
        return function(*given)

    return noted


@pytest.mark.full
def test_where_the_system_cannot_tell_of_an_end_the_server_is_waited_for_too(folder, monkeypatch):
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    server = open_embedded(folder)
    assert server.stop() is True and not running(folder)


def test_a_killed_user_is_not_counted_any_more(folder):
    other = another(folder)
    mine = open_embedded(folder)
    other.kill()
    other.wait()
    assert kept(mine) == "durable", "the server goes on for the others"
    assert mine.stop() is True and not running(folder)


def test_a_server_whose_only_user_was_killed_is_taken_over(folder):
    other = another(folder)
    other.kill()
    other.wait()
    assert running(folder)
    with open_embedded(folder) as server:
        assert kept(server) == "durable"
    assert not running(folder)


def test_a_killed_server_is_started_again_by_whom_its_starter_outlives(folder):
    """The process that started the server lives on. The dead server must not look alive to the next start."""
    with open_embedded(folder) as server:
        for _ in range(repeated(gate=1, full=3)):
            leader = int(processes.pid_file_line(folder, 0))
            os.kill(leader, signal.SIGKILL)
            wait_until(
                lambda leader=leader: not Path(f"/proc/{leader}").exists(), "the end of the killed server"
            )
            assert server.revive() is True
            with psycopg.connect(server.dsn()) as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_killed_server_is_revived_by_a_user_that_lives_and_has_lost_nothing(folder):
    server = open_embedded(folder)
    os.kill(int(processes.pid_file_line(folder, 0)), signal.SIGKILL)
    with pytest.raises(psycopg.OperationalError):
        kept(server)
    assert server.revive() is True and server.revive() is False
    again = open_embedded(folder)
    assert kept(again) == kept(server) == "durable"
    assert server.stop() is False and again.stop() is True
    assert server.revive() is False and not running(folder), "who has stopped it does not bring it back"


@pytest.mark.parametrize(
    "pid",
    ["1", "999999", str(os.getpid()), "nonsense", ""],
    ids=["init", "unused", "mine", "nonsense", "empty"],
)
def test_a_stale_pid_file_does_not_stop_a_start(folder, pid):
    (folder / "postmaster.pid").write_text(f"{pid}\n{folder}\n1\n5432\n\n\n\nready\n")
    with open_embedded(folder) as server:
        assert kept(server) == "durable"


@pytest.mark.full
def test_a_server_that_lost_its_socket_is_replaced(folder, monkeypatch):
    """The server of a removed folder takes the socket of its successor along when it notices the removal."""
    monkeypatch.setattr(processes, "RETRY_SECONDS", 0.0)
    with open_embedded(folder) as server:
        lost = processes.pid_file_line(folder, 0)
        (processes.socket_folder(folder) / f".s.PGSQL.{processes.PORT}").unlink()
        assert server.revive() is True
        assert processes.pid_file_line(folder, 0) != lost
        assert kept(server) == "durable"


@pytest.mark.full
def test_a_number_that_the_server_of_another_folder_has_by_now_does_not_stop_a_start(folder):
    root = Path(tempfile.mkdtemp(prefix="noetl-emb-"))
    try:
        with open_embedded(root / "postgres"):
            leader = processes.pid_file_line(root / "postgres", 0)
            (folder / "postmaster.pid").write_text(f"{leader}\n{folder}\n1\n5432\n\n\n\nready\n")
            with open_embedded(folder) as server:
                assert kept(server) == "durable"
            assert processes.pid_file_line(root / "postgres", 0) == leader and running(root / "postgres")
    finally:
        shutil.rmtree(root, ignore_errors=True)


def test_a_start_that_was_killed_half_way_is_done_again(made, first_start):
    assert first_start == {"executions": (0,), "fsync": ("on",)}
    assert made.is_dir() and not made.with_name("pg.new").exists()
    assert made.with_name("pg.secret").read_text() != "of the attempt before"


def test_starting_again_changes_nothing(folder):
    with open_embedded(folder) as server:
        assert migrations.migrate(server.dsn()) == []


SUPERUSERS_ALONE = [
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "COPY pg_temp.taken FROM PROGRAM 'id'",
    "COPY pg_temp.taken FROM '/etc/passwd'",
    "SELECT pg_read_file('postgresql.conf')",
    "SELECT pg_ls_dir('/')",
    "SELECT lo_import('/etc/passwd')",
    "CREATE FUNCTION run(text) RETURNS int LANGUAGE c AS 'libc.so.6', 'system'",
    "CREATE FUNCTION run(text) RETURNS int LANGUAGE internal AS 'pg_backend_pid'",
    "CREATE LANGUAGE plpythonu HANDLER plpgsql_call_handler",
    "CREATE EXTENSION plpython3u",
    "LOAD '/tmp/evil.so'",
    "CREATE ROLE other",
    "ALTER ROLE CURRENT_USER SUPERUSER",
    "SET ROLE noetl",
    "SET SESSION AUTHORIZATION noetl",
    "GRANT pg_execute_server_program TO CURRENT_USER",
    "ALTER SYSTEM SET fsync = off",
    "CREATE DATABASE more",
]
"""What leads out of the database."""


def check_confined(server, database):
    """The role of ``database`` works there, and can do none of what leads to the machine."""
    with psycopg.connect(server.dsn(database), autocommit=True) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS mine")
        connection.execute("CREATE TABLE IF NOT EXISTS mine.t AS SELECT 1 AS x")
        with suppress(psycopg.Error):
            connection.execute("CREATE TEMP TABLE taken (line text)")
        for statement in SUPERUSERS_ALONE:
            with pytest.raises(psycopg.Error):
                connection.execute(statement)
                pytest.fail(statement)
        owned = "SELECT count(*) FROM pg_class WHERE relnamespace = 'noetl'::regnamespace AND relowner <> current_user::regrole"
        if database == "noetl":
            assert connection.execute(owned).fetchone() == (0,)


@pytest.mark.parametrize("database", ["noetl", "workspace"])
def test_no_role_that_is_let_in_leads_out_of_the_database(folder, database):
    with open_embedded(folder) as server:
        check_confined(server, database)


def test_each_role_reaches_its_own_database_only_and_the_superuser_none(folder):
    with open_embedded(folder) as server:
        secret = folder.with_name("pg.secret").read_text()
        for database in ("noetl", "workspace", "postgres", "template1"):
            for user in ("workspace", "noetl", "noetl_engine", "postgres"):
                if (database, user) in (("workspace", "workspace"), ("noetl", "noetl_engine")):
                    continue
                with pytest.raises(psycopg.OperationalError):
                    psycopg.connect(server.dsn("workspace"), dbname=database, user=user, password=secret)
        assert "password" not in server.dsn("workspace")


def of_an_earlier_version(folder):
    """A folder as earlier versions made it, whose engine is the superuser; its server is down."""
    secret = "of the earlier version"
    folder.with_name(f"{folder.name}.secret").write_text(secret)
    hba = "local workspace workspace trust\nlocal all noetl scram-sha-256\n"
    processes.initialise(folder, "noetl", secret)
    (folder / "pg_hba.conf").write_text(hba)
    processes.start(folder, {"fsync": "off"})
    dsn = conninfo.make_conninfo(host=str(processes.socket_folder(folder)), user="noetl", password=secret)
    with psycopg.connect(dsn, dbname="postgres", autocommit=True) as connection:
        connection.execute("CREATE ROLE workspace LOGIN CONNECTION LIMIT 50")
        connection.execute("CREATE DATABASE workspace OWNER workspace")
        connection.execute("CREATE DATABASE noetl")
    migrations.migrate(f"{dsn} dbname=noetl")
    with psycopg.connect(dsn, dbname="noetl", autocommit=True) as connection:
        connection.execute("CREATE TABLE public.kept AS SELECT 'durable' AS value")
        connection.execute("CREATE TYPE public.mood AS ENUM ('well')")
    return f"{dsn} dbname=noetl"


@pytest.fixture
def root():
    """Not below pytest's folder, which only root may search."""
    with tempfile.TemporaryDirectory(prefix="noetl-emb-") as path:
        yield Path(path)


def test_a_folder_of_an_earlier_version_loses_its_superuser_when_it_is_opened(root):
    folder = root / "pg"
    of_before = of_an_earlier_version(folder)
    other = os.open(root / "pg.users", os.O_RDWR | os.O_CREAT)
    fcntl.flock(other, fcntl.LOCK_SH)
    with pytest.raises(InfrastructureError, match="earlier version") as caught:
        open_embedded(folder)
    assert caught.value.code == "postgres_in_use" and "noetl server stop" in caught.value.hint
    psycopg.connect(of_before).close()
    os.close(other)
    with open_embedded(folder) as server:
        assert kept(server) == "durable" and migrations.migrate(server.dsn()) == []
        check_confined(server, "noetl")
        check_confined(server, "workspace")
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(of_before)
        with psycopg.connect(server.dsn()) as connection:
            connection.execute("ALTER TYPE public.mood ADD VALUE 'ill'")
            connection.execute("ALTER TABLE noetl.execution ADD COLUMN more INT")
        started = processes.pid_file_line(folder, 0)
        with open_embedded(folder):
            assert processes.pid_file_line(folder, 0) == started, "it is upgraded once"


def family(leader, sure):
    """Environments of a process and its children: of all in ``sure`` and more than three, or none.

    A child may end after it was listed, and the list that the kernel makes meanwhile may lack others.
    """
    pids = {*sure, *Path(f"/proc/{leader}/task/{leader}/children").read_text().split()}
    read = {pid: environ for pid in pids if (environ := environment_of(pid))}
    return read if read.keys() >= sure and len(read) > 3 else {}


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads /proc")
def test_the_server_has_nothing_of_its_starter_s_environment(folder):
    secret = {"AWS_SECRET_ACCESS_KEY": "canary-1", "NOETL_CREDENTIALS": "canary-2", "PGPASSWORD": "canary-3"}
    process = subprocess.Popen(
        [sys.executable, "-c", USER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **secret, "TZ": "UTC"},
    )
    assert process.stdout.readline() == "open\n"
    try:
        with open_embedded(folder) as server, psycopg.connect(server.dsn()) as connection:
            leader = processes.pid_file_line(folder, 0)
            sure = {leader, str(connection.info.backend_pid)}
            read = wait_until(
                lambda: family(leader, sure), "reading the postmaster, its helpers and a backend"
            )
            assert not [pid for pid, environment in read.items() if b"canary" in environment]
    finally:
        finish(process)
    assert set(processes.environment()) <= {"PATH", "LANG", "LC_ALL", *processes.ENVIRONMENT}


def environment_of(pid):
    """Read the environment of a process; one that has ended meanwhile has none."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_the_password_is_for_the_owner_of_the_folder_only(folder):
    secret = folder.with_name("pg.secret")
    assert secret.stat().st_mode & 0o077 == 0 and len(secret.read_text()) >= 32
    assert folder.stat().st_mode & 0o077 == 0


def test_statements_and_values_stay_out_of_the_log(folder):
    with open_embedded(folder) as server:
        for statement in (
            "SELECT 'canary'::int",
            "SYNTAX canary",
            "DO $$ BEGIN RAISE EXCEPTION 'canary'; END $$",
        ):
            with psycopg.connect(server.dsn()) as connection, pytest.raises(psycopg.Error):
                connection.execute(statement)
    assert "canary" not in folder.with_name("pg.log").read_text()


def test_another_version_s_folder_is_refused_with_a_remedy(tmp_path):
    (tmp_path / "pg").mkdir()
    (tmp_path / "pg" / "PG_VERSION").write_text("12\n")
    (tmp_path / "pg.secret").write_text("x")
    with pytest.raises(InfrastructureError, match="Postgres 12") as caught:
        open_embedded(tmp_path / "pg")
    assert caught.value.code == "postgres_version" and "pg_dump" in (caught.value.hint or "")


def test_a_lost_password_is_explained(tmp_path):
    (tmp_path / "pg").mkdir()
    (tmp_path / "pg" / "PG_VERSION").write_text("18\n")
    with pytest.raises(InfrastructureError) as caught:
        open_embedded(tmp_path / "pg")
    assert caught.value.code == "postgres_secret"


def test_deep_folders_get_a_socket_elsewhere():
    data = Path("/tmp") / ("x" * 60) / ("y" * 60)
    folder = processes.socket_folder(data)
    assert folder != data and len(str(folder)) < 90
    assert re.fullmatch(r"noetl-\d+-[0-9a-f]{16}", folder.name)


def test_home_comes_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "here"))
    assert home() == tmp_path / "here"
    monkeypatch.delenv("NOETL_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home() == tmp_path / ".noetl"
