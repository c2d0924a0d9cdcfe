"""Commands about the database: migrate, status."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from noetl.cli import errors
from noetl.cli.client import runtime_access
from noetl.cli.render.output import out, out_json
from noetl.domain.errors import InfrastructureError
from noetl.domain.shortages import shortage_in


@contextmanager
def open_database(settings: Any) -> Iterator[str]:
    """Return the connection string of the engine's database.

    The embedded server runs meanwhile when that is the one.
    """
    if settings.database_url:
        yield settings.database_url
        return
    from noetl.adapters.embedded.server import open_embedded

    settings.make_home()
    with open_embedded(settings.home / "postgres") as server:
        yield server.dsn()


def migrate(*, as_json: bool, home: str | None) -> int:
    """Apply what is missing."""
    from noetl.adapters.postgres.migrations import migrate as apply

    with open_database(runtime_access.settings(home)) as dsn:
        applied = apply(dsn)
    if as_json:
        out_json({"applied": applied})
    elif applied:
        out("\n".join(["applied:", *(f"  {name}" for name in applied)]))
    else:
        out("the schema is up to date")
    return errors.DONE


def status(*, as_json: bool, home: str | None) -> int:
    """Where the database is and what is missing; 3 when something is."""
    settings = runtime_access.settings(home)
    with open_database(settings) as dsn:
        facts = look(dsn)
    facts = {"database": place(settings), **facts, "scratch": scratch(settings)}
    if as_json:
        out_json(facts)
    else:
        out(f"database    {facts['database']}")
        out(f"server      Postgres {facts['server']}")
        missing = facts["pending"]
        out(
            "schema      up to date"
            if not missing
            else f"schema      {len(missing)} to apply: noetl db migrate"
        )
        out(f"scratch     {facts['scratch'] or 'none: `postgres` tasks need a credential'}")
    return errors.ENVIRONMENT if facts["pending"] else errors.DONE


def place(settings: Any) -> str:
    """The database in words, without its password."""
    if not settings.database_url:
        return f"embedded, {settings.home / 'postgres'}"
    from psycopg.conninfo import conninfo_to_dict

    parts = conninfo_to_dict(settings.database_url)
    return f"{parts.get('host', 'local socket')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"


def scratch(settings: Any) -> str | None:
    """Return the connection string of the scratch database.

    ``postgres`` tasks without a credential use it; only the embedded server has one.
    """
    if settings.database_url:
        return None
    from noetl.adapters.embedded.server import WORKSPACE, open_embedded

    with open_embedded(settings.home / "postgres") as server:
        return server.dsn(WORKSPACE)


def look(dsn: str) -> dict[str, Any]:
    """Server version, and migrations to apply. Raises InfrastructureError."""
    import psycopg

    from noetl.adapters.postgres.migrations import pending

    try:
        with psycopg.connect(dsn, autocommit=True, connect_timeout=10, prepare_threshold=None) as connection:
            version = str(connection.info.parameter_status("server_version"))
            missing = pending(dsn)
    except psycopg.Error as error:
        hint = "check NOETL_DATABASE_URL, or unset it to use the embedded Postgres"
        raise unusable(error, dsn, hint) from error
    return {"server": version, "pending": missing}


def unusable(error: Exception, dsn: str, hint: str) -> InfrastructureError:
    """Describe why the database cannot be used.

    ``hint`` helps when its machine is short of nothing.
    """
    from noetl.adapters.postgres.server_machine import remedy

    words = str(error).strip()
    lacking = shortage_in(words)
    reason = f"{lacking.reason}: {words}" if lacking else words
    return InfrastructureError(
        f"the database cannot be used: {reason}",
        code="database_unreachable",
        hint=remedy(lacking, error, dsn) if lacking else hint,
    )
