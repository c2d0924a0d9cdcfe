"""Roles and databases of the embedded server, made in single-user mode.

No socket ever accepts its superuser.

``noetl`` is the superuser that initdb makes. It has no password and no line in pg_hba.conf, so only a process that can stop the server
and open its data folder acts as it. ``noetl_engine`` owns the engine's database, ``workspace`` the scratch one; each reaches its own.
``noetl_reader`` signs in to the engine's database and reads the views of history alone.
"""

from __future__ import annotations

from pathlib import Path

from noetl.adapters.embedded import processes

SUPERUSER, ENGINE_ROLE, READER_ROLE, WORKSPACE_ROLE = "noetl", "noetl_engine", "noetl_reader", "workspace"
ENGINE_DATABASE, WORKSPACE_DATABASE = "noetl", "workspace"
_MARK = "# noetl roles 4: the superuser has no line here"
HBA = f"""\
{_MARK}
local {WORKSPACE_DATABASE} {WORKSPACE_ROLE} trust
local {ENGINE_DATABASE} {ENGINE_ROLE} scram-sha-256
local {ENGINE_DATABASE} {READER_ROLE} scram-sha-256
"""
_PLAIN = "NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS"
# ``scram_iterations``: the password is 24 random bytes, so the usual 4,096 rounds would protect nothing and cost each sign-in 2 ms.
_SERVER = """\
SET scram_iterations = 1;

DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'noetl_engine') THEN CREATE ROLE noetl_engine; END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'noetl_reader') THEN CREATE ROLE noetl_reader; END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'workspace') THEN CREATE ROLE workspace; END IF;
END $$;

ALTER ROLE noetl_engine LOGIN {plain} PASSWORD {password};

ALTER ROLE noetl_reader LOGIN {plain} CONNECTION LIMIT {reader_connections} PASSWORD {reader_password};

ALTER ROLE noetl_reader SET temp_file_limit = {reader_files};

ALTER ROLE workspace LOGIN {plain} CONNECTION LIMIT 50;

ALTER ROLE noetl NOLOGIN PASSWORD NULL;

CREATE DATABASE noetl OWNER noetl_engine;

CREATE DATABASE workspace OWNER workspace;

ALTER DATABASE noetl OWNER TO noetl_engine;

ALTER DATABASE workspace OWNER TO workspace;

REVOKE CONNECT, TEMPORARY ON DATABASE noetl, postgres, template1 FROM PUBLIC;

"""
_OBJECTS = """\
DO $$ DECLARE statement text; BEGIN
    FOR statement IN
        SELECT format('ALTER SCHEMA %I OWNER TO noetl_engine', nspname) FROM pg_namespace
        WHERE oid >= 16384 AND nspowner = 10
        UNION ALL
        SELECT format('ALTER %s %s OWNER TO noetl_engine',
                      CASE relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
                      oid::regclass)
        FROM pg_class c
        WHERE oid >= 16384 AND relowner = 10 AND relkind IN ('r', 'p', 'v', 'm', 'S')
          AND relnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname LIKE 'pg\\_%')
          AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i', 'e')
                          AND c.relkind = 'S')
        UNION ALL
        SELECT format('ALTER ROUTINE %s OWNER TO noetl_engine', p.oid::regprocedure) FROM pg_proc p
        WHERE oid >= 16384 AND proowner = 10
          AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e')
        UNION ALL
        SELECT format('ALTER TYPE %s OWNER TO noetl_engine', t.oid::regtype) FROM pg_type t
        LEFT JOIN pg_class c ON c.oid = t.typrelid
        WHERE t.oid >= 16384 AND t.typowner = 10 AND t.typelem = 0 AND t.typtype IN ('b', 'd', 'e', 'r', 'c')
          AND (c.oid IS NULL OR c.relkind = 'c')
          AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = t.oid AND d.classid = 'pg_type'::regclass AND d.deptype = 'e')
    LOOP
        EXECUTE statement;
    END LOOP;
END $$;

"""


def make_roles(data: Path, password: str, *, fresh: bool = False) -> None:
    """Make the roles and databases of the engine and of playbooks.

    The superuser loses its password. The server is down.

    May be repeated, also over a folder whose engine was the superuser. ``password``: of the engine's role. ``fresh``: initdb has just
    made the folder, which is synced later. Raises InfrastructureError.
    """
    from psycopg import sql  # loading it takes as long as starting the server, which runs meanwhile

    from noetl.adapters.postgres.reader_role import CONNECTIONS, TEMPORARY_FILES, reader_password

    statements = _SERVER.format(
        plain=_PLAIN,
        password=sql.Literal(password).as_string(None),
        reader_password=sql.Literal(reader_password(password)).as_string(None),
        reader_connections=CONNECTIONS,
        reader_files=sql.Literal(TEMPORARY_FILES).as_string(None),
    )
    # CREATE DATABASE has no IF NOT EXISTS: the one complaint that is none.
    processes.run_alone(data, "postgres", statements, allowed="already exists", synced=not fresh)
    if not fresh:
        processes.run_alone(data, ENGINE_DATABASE, _OBJECTS)


def are_made(data: Path) -> bool:
    """Whether this version, or a later one, has made the roles of this folder."""
    try:
        return (data / "pg_hba.conf").read_text().startswith(_MARK)
    except FileNotFoundError:
        return False


def write_hba(data: Path) -> None:
    """Let in the engine's role and the workspace's, each into its own database.

    Whole or not at all: it marks the roles as made.
    """
    fresh = data / "pg_hba.conf.new"
    processes.write_private(fresh, HBA)
    processes.give_away(fresh)
    fresh.replace(data / "pg_hba.conf")
