"""Migration of a database to this version.

Numbered migrations are applied once each, functions whenever their text changed.

Forward only. What was applied is recorded in ``noetl.migration`` with a checksum; the last row of a complete run is the checksum of
everything, so a database that is up to date costs one query.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import psycopg
from psycopg import Connection, errors

from noetl.domain.errors import InfrastructureError

SQL = Path(__file__).with_name("sql")
LOCK = 0x6E6F65746C  # "noetl"
COMPLETE = "complete"
MIGRATIONS = "migrations/"
"""What the names of scripts begin with that are applied once; functions are applied whenever their text changed."""
BASELINE = "migrations/0048_tables", "migrations/0049_history_views"
"""What the migrations before the first release made, as two scripts. A database that those migrations made has it already."""
LAST_OF_EARLIER = (
    "migrations/0042_task_cache",
    "migrations/0046_rewritten_playbooks",
    "migrations/0047_callback_slots",
)
"""The last migrations before the baseline: a database that lacks one of them is older than the baseline."""
_JOURNAL = """
CREATE SCHEMA IF NOT EXISTS noetl;
CREATE TABLE IF NOT EXISTS noetl.migration (
    name TEXT PRIMARY KEY,
    checksum TEXT NOT NULL,
    applied_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
"""
_REWRITTEN = re.compile(r"^DROP TABLE (noetl\.[a-z_]+);$", re.MULTILINE)
"""A table that a migration copies and makes again."""
_CONDITION = """
SELECT m.name, current_setting('transaction_read_only')::boolean, pg_is_in_recovery()
FROM (SELECT) one LEFT JOIN noetl.migration m ON true;
"""


def migrate(dsn: str) -> list[str]:
    """Apply what is missing, in one transaction under an advisory lock.

    Returns the names of what was applied.

    Raises InfrastructureError when the database cannot be reached, and before anything is changed when a later version has migrated it
    (code="database_newer"), it is older than the baseline (code="database_older"), or a migration that was applied differs from the one
    here (code="migration_changed").
    """
    try:
        with _connect(dsn) as connection:
            known = _recorded(connection)
            _check(known)
            if known.get(COMPLETE) == fingerprint():
                return []
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
                return _apply(connection)
    except psycopg.OperationalError as error:
        raise InfrastructureError(
            f"the database cannot be reached: {error}",
            code="database_unreachable",
            hint="`noetl doctor` shows what is wrong with it",
        ) from error


def check_known(dsn: str) -> None:
    """Check that the database was migrated before.

    Raises InfrastructureError: ``database_unreachable``, or ``database_replaced`` for one that no migration has touched.
    """
    try:
        with _connect(dsn) as connection:
            known = _recorded(connection)
    except psycopg.OperationalError as error:
        raise InfrastructureError(
            f"the database cannot be reached: {error}", code="database_unreachable"
        ) from error
    if not known:
        raise InfrastructureError(
            "the database is empty, and this deployment had migrated one: a changed name or engine made another one, and the one "
            "before was kept",
            code="database_replaced",
            hint='docs/operations.md, "A database that was replaced"',
            retryable=False,
        )


def pending(dsn: str) -> list[str]:
    """Names of what ``migrate`` would apply.

    Raises InfrastructureError as it does for a database of another version.
    """
    with _connect(dsn) as connection:
        known = _recorded(connection)
    _check(known)
    known = known | _held_baseline(known)
    return [name for name, text in scripts().items() if known.get(name) != _checksum(text)]


def check_current(dsn: str) -> None:
    """Check that the database is migrated to this version and takes writes.

    Raises InfrastructureError: ``database_unreachable``, ``database_not_migrated`` (something of this version was never applied; what a later
    version changed since is no reason, because both run while one is deployed), or ``database_read_only``.
    """
    try:
        with _connect(dsn) as connection:
            recorded, refusal = _condition(connection)
    except psycopg.OperationalError as error:
        raise InfrastructureError(
            f"the database cannot be reached: {error}", code="database_unreachable"
        ) from error
    missing = scripts().keys() - recorded
    if missing:
        raise InfrastructureError(
            f"the database is not migrated to this version: it lacks {', '.join(sorted(missing))}",
            code="database_not_migrated",
            hint="deploy again, or `noetl db migrate`",
        )
    if refusal:
        raise InfrastructureError(
            f"the database answers, but takes no writes: {refusal}",
            code="database_read_only",
            hint="point the deployment at the primary, or make the database writable",
        )


def _connect(dsn: str) -> Connection:
    return Connection.connect(dsn, autocommit=True, prepare_threshold=None, connect_timeout=10)


@cache
def scripts() -> dict[str, str]:
    """Script name → text, in the order in which they are applied."""
    found = sorted((SQL / "migrations").glob("*.sql")) + sorted((SQL / "functions").glob("*.sql"))
    return {f"{path.parent.name}/{path.stem}": path.read_text() for path in found}


@cache
def fingerprint() -> str:
    return _checksum("\n".join(f"{name} {_checksum(text)}" for name, text in scripts().items()))


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _recorded(connection: Connection) -> dict[str, str]:
    try:
        return dict(connection.execute("SELECT name, checksum FROM noetl.migration").fetchall())
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return {}


def _check(known: Mapping[str, str]) -> None:
    """Refuse a database whose migrations this version does not know, or knows otherwise."""
    earlier = {name for name in known if _is_earlier(name)}
    if earlier and not earlier.issuperset(LAST_OF_EARLIER):
        raise InfrastructureError(
            f"the database stopped at {max(earlier)}, before the first migration of this version",
            code="database_older",
            hint="export what is needed with the version that made it, and begin with an empty database",
            retryable=False,
        )
    newer = sorted(
        name for name in known if name.startswith(MIGRATIONS) and name not in {*scripts(), *earlier}
    )
    if newer:
        raise InfrastructureError(
            f"the database was migrated by a later version of NoETL: this one does not know {', '.join(newer)}",
            code="database_newer",
            hint="use that version, or one after it; a schema is never taken back",
            retryable=False,
        )
    for name, text in scripts().items():
        if name.startswith(MIGRATIONS) and known.get(name, _checksum(text)) != _checksum(text):
            raise InfrastructureError(
                f"{name} was applied with other content than this version has",
                code="migration_changed",
                hint="use the version that made this database; an applied migration must never be edited, add a new one",
                retryable=False,
            )


def _is_earlier(name: str) -> bool:
    return name.startswith(MIGRATIONS) and name < BASELINE[0]


def _held_baseline(known: Mapping[str, str]) -> dict[str, str]:
    """Return the checksums of the baseline that earlier migrations have made."""
    if BASELINE[0] in known or not any(map(_is_earlier, known)):
        return {}
    return {name: _checksum(scripts()[name]) for name in BASELINE}


def _condition(connection: Connection) -> tuple[frozenset[str], str]:
    """Return the scripts that were applied, and why the database takes no writes.

    The reason is empty when it does. It takes one round trip.
    """
    try:
        rows = connection.execute(_CONDITION).fetchall()
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return frozenset(), ""
    _, read_only, replica = rows[0]
    reason = "it is a replica in recovery" if replica else "its transactions are read-only"
    return frozenset(name for name, _, _ in rows if name is not None), reason if read_only else ""


def _apply(connection: Connection) -> list[str]:
    connection.execute(_JOURNAL)
    known = _recorded(connection)
    _check(known)
    held = _held_baseline(known)
    for name, checksum in held.items():
        _record(connection, name, checksum)
    known = known | held
    applied = []
    for name, text in scripts().items():
        if known.get(name) == _checksum(text):
            continue
        _lock_rewritten(connection, text)
        connection.execute(text.encode())
        _record(connection, name, _checksum(text))
        applied.append(name)
    _record(connection, COMPLETE, fingerprint())
    return applied


def _lock_rewritten(connection: Connection, text: str) -> None:
    """Lock the tables that a migration writes again, before it copies them.

    The version before goes on meanwhile: what it commits between the copy of a table and its removal would be lost.
    """
    for table in _REWRITTEN.findall(text):
        connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")


def _record(connection: Connection, name: str, checksum: str) -> None:
    connection.execute(
        "INSERT INTO noetl.migration (name, checksum) VALUES (%s, %s)"
        " ON CONFLICT (name) DO UPDATE SET checksum = excluded.checksum, applied_at = now()",
        (name, checksum),
    )
