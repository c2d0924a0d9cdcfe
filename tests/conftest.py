"""A Postgres for the tests that need one: one server per session (shared by xdist's workers), a fresh database per test.

The server starts when the first test asks for it, and is stopped and deleted by the last process that used it.
"""

from __future__ import annotations

import fcntl
import functools
import gc
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any

import botocore.session
import hypothesis
import psycopg
import pytest
from psycopg import sql

from noetl.adapters.embedded.server import EmbeddedServer
from noetl.adapters.postgres.migrations import migrate
from tests import soak, virtual_time
from tests.databases import TEMPLATE, VIRTUAL, Databases
from tests.notes import NOTES
from tests.parts import repeated
from tests.scopes import COLLECTED, rank, scope_of
from tests.servers import open_for_tests

# A busy machine is slow, which says nothing about the code.
hypothesis.settings.register_profile(
    "noetl",
    deadline=None,
    max_examples=repeated(gate=30, full=100),
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("noetl")

# The CDK's own check is a third of each synthesis. The templates of all environments are checked with cfn-lint, which finds more.
os.environ.setdefault("CDK_VALIDATION", "false")

# A client reads the description of its service, which is most of the work of making one: a process of the suite reads each once.
botocore.session.create_loader = functools.cache(botocore.session.create_loader)


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedServer]:
    """The running server with the migrated template database."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"{os.getpid()}-{secrets.token_hex(4)}"
    root = Path(tempfile.gettempdir()) / f"noetl-tests-{run}"
    root.mkdir(exist_ok=True, mode=0o700)
    server = open_for_tests(root / "pg", {"fsync": "off", "max_connections": "200"})
    _make_templates(server, root)
    yield server
    if server.stop():
        shutil.rmtree(root, ignore_errors=True)


def _make_templates(server: EmbeddedServer, root: Path) -> None:
    with (root / "template.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (TEMPLATE,)).fetchone()
            if found is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(TEMPLATE)))
                migrate(server.dsn(TEMPLATE))
                copy = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
                connection.execute(copy.format(sql.Identifier(VIRTUAL), sql.Identifier(TEMPLATE)))
                with psycopg.connect(server.dsn(VIRTUAL), autocommit=True) as made:
                    made.execute(virtual_time.SCHEMA)


@pytest.fixture(scope="session")
def databases(postgres: EmbeddedServer) -> Iterator[Databases]:
    with closing(Databases(postgres, os.environ.get("PYTEST_XDIST_WORKER", "main"))) as made:
        yield made


@pytest.fixture(scope="session")
def timed_databases(postgres: EmbeddedServer) -> Iterator[Databases]:
    with closing(Databases(postgres, os.environ.get("PYTEST_XDIST_WORKER", "main"), VIRTUAL)) as made:
        yield made


@pytest.fixture
def database_clock(timed_databases: Databases) -> Iterator[virtual_time.DatabaseClock]:
    """An empty, migrated database whose time passes when the test says so."""
    with timed_databases.fresh() as dsn, virtual_time.database_clock(dsn) as clock:
        yield clock


@pytest.fixture
def database(databases: Databases) -> Iterator[str]:
    """Connection string of an empty, migrated database."""
    with databases.fresh() as dsn:
        yield dsn


@pytest.fixture(scope="module")
def module_database(databases: Databases) -> Iterator[str]:
    """One for all tests of a module."""
    with databases.fresh() as dsn:
        yield dsn


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["notes"] = list(NOTES)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    NOTES.extend(getattr(node, "workeroutput", {}).get("notes", ()))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    soak.TALLY.take(report)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for line in (*NOTES, *(soak.TALLY.lines() if soak.is_asked() else ())):
        terminalreporter.write_line(line)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Before the mark expression takes effect: remember what is left to make test-full, and begin with what takes longest."""
    for item in items:
        item.user_properties += [(soak.PART, marker.args[0]) for marker in item.iter_markers(soak.PART)]
    config.stash[COLLECTED] = {
        function: any(item.get_closest_marker("full") for item in some)
        for function, some in groupby(items, key=lambda item: item.nodeid.partition("[")[0])
    }
    # A process of xdist has lost its "dist": that it deals out by groups is what it still knows.
    if config.getoption("loadgroup", False):
        items.sort(key=lambda item: rank(item.nodeid))


def pytest_collection_finish() -> None:
    """Leave what was collected out of garbage collection: it lives to the end, and every full collection goes through it.

    Of what tests make after that nearly nothing is in a circle, so it is looked through less often, too.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """By folder: xdist 3.8 marks groups in an attribute that pytest 9.2 does not read any more."""
    from xdist.scheduler import LoadScopeScheduling

    class ByShare(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    config.option.loadscopereorder = False
    return ByShare(config, log) if config.getoption("dist") == "loadgroup" else None
