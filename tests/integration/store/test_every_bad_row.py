"""Every column of every table is damaged as far as Postgres allows: each reader goes on to the rows beside it, and says which it leaves out."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg import sql

from noetl.adapters.memory import MemoryResultStore
from noetl.adapters.postgres import Database, PostgresExecutionStore
from noetl.adapters.postgres.catalog import PostgresCatalog
from noetl.adapters.postgres.credential_store import PostgresCredentialStore
from noetl.adapters.postgres.event_batches import PostgresEventBatches
from noetl.adapters.postgres.executions import unreadable_rows
from noetl.adapters.postgres.executions.inspection import PostgresInspection
from noetl.adapters.postgres.executions.retention import PostgresRetention
from noetl.adapters.postgres.saved_views import PostgresSavedViews
from noetl.adapters.postgres.schedule_store import PostgresScheduleStore
from noetl.adapters.postgres.task_cache import PostgresTaskCache
from noetl.adapters.postgres.trigger_store import PostgresTriggerStore
from noetl.adapters.postgres.variables import PostgresVariables
from noetl.adapters.postgres.workers import PostgresWorkers
from noetl.domain.automations.triggers import SqsSource
from noetl.domain.errors import InvalidInputError, NotFoundError
from noetl.domain.events import Cancel
from noetl.domain.limits import Limit, Numbers
from noetl.domain.state import ExecutionState, encode_state
from noetl.domain.unreadable import UnreadableRowError
from noetl.domain.variables import VariableWrite
from noetl.ports.automations.schedule_store import ScheduleRow, SkipCause, Skipped
from noetl.ports.automations.trigger_store import TriggerRow
from noetl.ports.credential_store import CredentialAccess, StoredCredential
from noetl.ports.executions.changes import TimerChange
from noetl.ports.executions.execution_store import LoadRequest
from noetl.ports.task_cache import CachedResult
from noetl.services.automations import schedules
from noetl.services.credentials import credentials
from noetl.services.history.history_pages import history
from noetl.services.history.replay import replay
from noetl.services.queries import limits
from noetl.services.queries.analyze import AnalyzeDeps, analyze
from noetl.services.queries.read_execution import describe, list_executions
from noetl.services.results.collect_results import collect
from tests.contract.builders import EID, Make
from tests.parts import repeated

pytestmark = pytest.mark.postgres
ROWS = {"a": EID, "b": EID + 1, "c": EID + 2}
"""Executions, and the letter of what belongs to each in other tables; those of b are damaged."""
DAMAGED = {"b", str(EID + 1)}
NAMES_OF_B = re.compile(rf"\b(b|{EID + 1}|{EID + 11})\b")
SILENT = {
    "claim",
    "outbox",
    "timers",
    "queue",
    "due",
    "list",
    "load",
    "limits",
    "credentials",
    "schedules",
    "triggers",
}
"""Readers of many rows: what they leave out has to be logged. Those of one row refuse it by its name."""
BY_TYPE = {
    "json": ("[]", "{}", "7", '{"tags": 7, "description": []}', '"\\ud800"'),
    "jsonb": ("[]",),
    "text": ("no such thing",),
    "bytea": ("\\x00ff",),
    "timestamp with time zone": ("infinity",),
    "double precision": ("NaN",),
}
FURTHER = {"owner": ("until:x:y", "pool:"), "next_at": ("-infinity",), "started_at": ("-infinity",)}
"""By the name of a column."""
LISTED_NOWHERE = {"migration", "runtime"}
EVERY = repeated(gate=3, full=1)
"""Which of the columns are damaged: one of so many."""
Found = set[str]


@dataclass
class Stores:
    """All that reads one database, fresh for each look: nothing is remembered."""

    database: Database

    def __post_init__(self) -> None:
        self.store = PostgresExecutionStore(self.database)
        self.inspection = PostgresInspection(self.database)
        self.retention = PostgresRetention(self.database)
        self.credentials = credentials.CredentialDeps(
            PostgresCredentialStore(self.database),
            SimpleNamespace(decrypt=_refuse, encrypt=lambda data, about: data),
            lambda name, data: credentials.Token("t", 1.0),
            itertools.count(1000).__next__,
        )


def _refuse(data: bytes, about: Any) -> bytes:
    if data != b"sealed":
        raise InvalidInputError("it cannot be opened", code="credential_unreadable")
    return data


def _no_program(digest: str) -> Any:
    raise NotFoundError(f"no program {digest}", code="program_not_found")


def each(read: Callable[[Stores, int], object]) -> Callable[[Stores], Found]:
    """A reader of one execution; it may refuse the row it was asked for, by its name."""

    def every(stores: Stores) -> Found:
        found = set()
        for letter, execution_id in ROWS.items():
            try:
                read(stores, execution_id)
            except UnreadableRowError as refused:
                names = (execution_id, execution_id + 10)
                assert any(str(one) in refused.message for one in names), refused
            else:
                found.add(letter)
        return found

    return every


def letters(ids: Iterator[int] | list[int]) -> Found:
    names = {execution_id: letter for letter, execution_id in ROWS.items()}
    return {names[one] for one in ids if one in names}


def owned(stores: Stores, take: Callable[[str], Iterable[Any]]) -> Found:
    """What an owner of its own is given, which gives all of it back."""
    owner = f"reads {next(NUMBERS)}"
    stores.store.heartbeat(owner, 60)
    found = letters([one.execution_id for one in take(owner)])
    stores.store.release(owner)
    return found


def claimed(stores: Stores) -> Found:
    return owned(stores, lambda owner: stores.store.claim(owner, 100))


def delivered(stores: Stores) -> Found:
    return owned(stores, lambda owner: stores.store.undelivered(owner, 100))


def timed(stores: Stores) -> Found:
    return owned(stores, lambda owner: stores.store.due_timers(owner, 100)[0])


def collected(stores: Stores) -> Found:
    """What is listed, and a whole round of the sweeper over it (which removes nothing: every result has a year)."""
    found = stores.retention.claim_expired(1.0, 0, 100)
    rounds = iter((True, True, False))
    collect(stores.retention, MemoryResultStore(), 1.0, lambda: next(rounds))
    return {"a", "b", "c"} if found.after is None or found.after >= EID else set()


NUMBERS = itertools.count()
READERS: dict[str, Callable[[Stores], Found]] = {
    "list": lambda s: letters([int(one.execution_id) for one in list_executions(s.store, limit=9, now=0.0)]),
    "status": each(lambda s, eid: describe(s.store, lambda name: None, eid, now=0.0)),
    "history": each(lambda s, eid: history(s.store, eid)),
    "analyze": each(
        lambda s, eid: analyze(eid, AnalyzeDeps(s.store, s.inspection, _no_program, lambda: 0.0))
    ),
    "replay": each(lambda s, eid: replay(s.store, eid)),
    "slots": each(lambda s, eid: s.store.slots(eid)),
    "loops": each(lambda s, eid: s.store.loop_progress(eid)),
    "loop": each(lambda s, eid: s.store.loop_run(eid, 9, 0)),
    "start": each(lambda s, eid: s.store.start_of(eid + 10)),
    "load": lambda s: letters(
        list(
            s.store.load(
                [LoadRequest(eid, scopes=("run",), commands=("1",)) for eid in ROWS.values()]
            ).executions
        )
    ),
    "variables": each(lambda s, eid: PostgresVariables(s.database).variables(eid)),
    "claim": claimed,
    "outbox": delivered,
    "timers": timed,
    "outstanding": lambda s: {"a", "b", "c"} if s.inspection.outstanding().pools is not None else set(),
    "backlog": lambda s: {"a", "b", "c"} if s.inspection.backlog(9) else set(),
    "limits": lambda s: {one.key for one in limits.list_limits(s.store, limit=9)},
    "waits": each(lambda s, eid: limits.waits(s.store, eid)),
    "credentials": lambda s: {one.name for one in credentials.list_credentials(s.credentials, limit=9)},
    "accesses": lambda s: {
        credentials.access_view(one).name for one in s.credentials.store.accesses(limit=99)
    },
    "schedules": lambda s: {
        schedules.view(one).name for one in PostgresScheduleStore(s.database).entries(limit=9)
    },
    "due": lambda s: {one.name for one in PostgresScheduleStore(s.database).due(1e9, 9)},
    "triggers": lambda s: {one.name for one in PostgresTriggerStore(s.database).entries(limit=9)},
    "queue": lambda s: {one.name for one in PostgresTriggerStore(s.database).of_queue("orders")},
    "views": lambda s: {one.name for one in PostgresSavedViews(s.database).entries("sql")},
    "workers": lambda s: {one.name for one in PostgresWorkers(s.database).entries()},
    "catalog": lambda s: {one.path for one in PostgresCatalog(s.database).entries(limit=9)},
    "batches": lambda s: {
        "abc"[one - 1] for one in PostgresEventBatches(s.database).unfinished(0.0, 60.0, 9)
    },
    "cached": lambda s: {letter for letter in ROWS if PostgresTaskCache(s.database).get(letter)},
    "retention": lambda s: {"a", "b", "c"} if s.retention.old(1e9, 9) is not None else set(),
    "results": collected,
}


def populate(stores: Stores) -> None:
    """Three of everything."""
    make, store, database = Make(), stores.store, stores.database
    state = encode_state(ExecutionState(program="prog"))
    for number, (letter, eid) in enumerate(ROWS.items(), 1):
        commands = (make.command("1", eid), make.command("2", eid, limits=(Limit(letter, 1),)))
        changed = make.change(
            execution_id=eid,
            state=state,
            created=make.created(path=letter, name=letter),
            events=(make.row(f"cmd:{letter}:0", seq=1),),
            slots={("run", "1"): {"v": 1}, ("vars", letter): 1},
            issue=commands,
            waiting=(make.command("3", eid),),
            loops=(make.loop(3, 1, run=9),),
            timers=(TimerChange("3", 1, 0.0),),
            outbox=(Cancel(eid, "cancel", "p"), make.start(eid + 10, path=letter)),
            variables=(VariableWrite(letter, 1),),
            limited=True,
        )
        store.commit([changed])
        store.set_limit(letter, Numbers(1, None, 1.0, 1), letter)
        stores.credentials.store.put(
            StoredCredential(number, letter, "generic", b"sealed", {"tags": [letter]})
        )
        stores.credentials.store.record(CredentialAccess(number, letter, "kept", letter, None, ""))
        schedule = ScheduleRow(letter, letter, 0.0, cron="0 6 * * *", next_at=100.0)
        PostgresScheduleStore(database).put(schedule)
        missed: dict[SkipCause, Skipped] = {"catch_up": Skipped(50.0, "it was missed")}
        PostgresScheduleStore(database).fired(
            schedule, 50.0, next_at=100.0, execution_id=None, skipped=missed
        )
        PostgresTriggerStore(database).put(TriggerRow(letter, "sqs", letter, SqsSource("orders")))
        PostgresSavedViews(database).put("sql", letter, {"q": letter}, letter, 9)
        PostgresWorkers(database).register(letter, "io", 1, letter, 10)
        PostgresCatalog(database).register(
            path=letter, name=letter, program=letter, content=letter, source_name=letter
        )
        PostgresTaskCache(database).put(CachedResult(letter, eid, letter, 1, 0.0, 1e9, {}))
        PostgresEventBatches(database).accept(number, ["{}"], key=letter, fingerprint="f", principal=letter)


def names_of(table: str) -> sql.SQL:
    """Which rows of a table are b's."""
    where = {
        "catalog": "path = 'b'",
        "event_batch": "batch_id = 2",
        "credential_access": "id = 2",
        "limit_key": "key = 'b'",
        "task_cache": "key = 'b'",
    }
    return sql.SQL(
        where.get(table, "name = 'b'" if table in NAMED else f"execution_id IN ({EID + 1}, {EID + 11})")
    )  # type: ignore[arg-type]


NAMED = {"schedule", "trigger", "credential", "worker", "schedule_moment", "schedule_skip", "saved_view"}


@pytest.fixture(scope="module")
def stores(module_database: str) -> Iterator[Stores]:
    found = Stores(Database(module_database))
    populate(found)
    yield found
    found.store.close()


@pytest.fixture
def connection(module_database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(module_database, autocommit=True) as made:
        yield made


def columns(connection: psycopg.Connection) -> Iterator[tuple[str, str, str]]:
    """(table, column, type) of all that can be damaged and has rows of b: what is made of other columns cannot."""
    found = connection.execute(
        "SELECT c.table_name, c.column_name, c.data_type FROM information_schema.columns c"
        " WHERE c.table_schema = 'noetl' AND c.data_type = ANY(%s) AND c.is_generated = 'NEVER' ORDER BY 1, 2",
        [list(BY_TYPE)],
    ).fetchall()
    for table, column, kind in found:
        if table not in LISTED_NOWHERE and column != "namespace":
            yield table, column, kind


def test_readers_go_on_past_a_row_with_any_column_damaged(
    stores: Stores,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    whole = {name: read(stores) for name, read in READERS.items()}
    assert all(found >= {"a", "c"} for found in whole.values()), whole
    broken, tried = [], set[str]()
    for table, column, kind in itertools.islice(columns(connection), 0, None, EVERY):
        for damage in (*BY_TYPE[kind], *FURTHER.get(column, ())):
            for what in damaged(connection, table, column, kind, damage):
                tried.add(f"{table}.{column}")
                monkeypatch.setattr(unreadable_rows, "_reported", {})
                broken += [f"{what}: {line}" for line in looks(Stores(stores.database), whole, caplog, kind)]
    assert not broken, "\n".join(broken)
    assert len(tried) > 60 / EVERY, sorted(tried)


def damaged(connection: psycopg.Connection, table: str, column: str, kind: str, damage: str) -> Iterator[str]:
    """Damage b's rows while the caller looks; nothing is told where Postgres refuses the value, or b has no row."""
    place = sql.Identifier("noetl", table)
    change = sql.SQL("UPDATE {} SET {} = CAST({} AS {}) WHERE {}").format(
        place, sql.Identifier(column), sql.Literal(damage), sql.SQL(kind), names_of(table)
    )
    with connection.transaction():
        connection.execute(sql.SQL("CREATE TEMP TABLE kept AS TABLE {}").format(place))
    try:
        with connection.transaction():
            done = connection.execute(change).rowcount
    except (psycopg.errors.IntegrityError, psycopg.errors.DataError):
        done = 0
    if done:
        yield f"{table}.{column} = {damage!r}"
        with connection.transaction():
            connection.execute("SET LOCAL session_replication_role = replica")  # nothing goes with a row
            connection.execute(sql.SQL("DELETE FROM {}").format(place))
            given = sql.SQL(", ").join(map(sql.Identifier, written(connection, table)))
            connection.execute(
                sql.SQL("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM kept").format(
                    place, given, given
                )
            )
    connection.execute("DROP TABLE kept")


def written(connection: psycopg.Connection, table: str) -> list[str]:
    """Columns that are not made of others."""
    rows = connection.execute(
        "SELECT c.column_name FROM information_schema.columns c"
        " WHERE c.table_schema = 'noetl' AND c.table_name = %s AND c.is_generated = 'NEVER'",
        [table],
    )
    return [str(name) for (name,) in rows]


def looks(
    stores: Stores, whole: dict[str, Found], caplog: pytest.LogCaptureFixture, kind: str
) -> Iterator[str]:
    """What each reader does wrong."""
    for name, read in READERS.items():
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            try:
                found = read(stores)
            except Exception as error:
                yield f"{name} raises {type(error).__name__}: {str(error)[:200]}"
                continue
        if lost := whole[name] - found - DAMAGED:
            yield f"{name} does not tell of {sorted(lost)}"
        if (
            kind == "json"
            and name in SILENT
            and "b" in whole[name] - found
            and not NAMES_OF_B.search(caplog.text)
        ):
            yield f"{name} leaves out b, and does not say so: {caplog.text}"
