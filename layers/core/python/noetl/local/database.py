"""The Postgres behind the RDS of the emulator.

It uses TCP on loopback, with passwords, like the real one.
"""

from __future__ import annotations

import secrets
import sys
from pathlib import Path

from psycopg import conninfo

from noetl.adapters.embedded import processes
from noetl.adapters.embedded.server import SETTINGS
from noetl.domain.errors import InfrastructureError
from noetl.local.layout import Layout
from noetl.local.state import Process, process

HOST = "127.0.0.1"
ADMIN = "noetl_local"
HBA = f"""\
local all {ADMIN} scram-sha-256
host all all {HOST}/32 scram-sha-256
"""


def start(layout: Layout, port: int) -> Process:
    """Start the server over the local stack's data folder (made when missing).

    Raises InfrastructureError.
    """
    data = layout.postgres
    if not (data / "PG_VERSION").exists():
        password = secrets.token_urlsafe(24)
        with processes.fresh_folder(data) as fresh:
            processes.initialise(fresh, ADMIN, password)
            (fresh / "pg_hba.conf").write_text(HBA)
        _write_dsn(layout, port, password)
    elif not dsn_file(layout).exists():
        raise InfrastructureError(
            f"{dsn_file(layout)} is gone: it holds the password of {data}",
            code="local_postgres",
            hint="noetl local down --purge removes the data folder",
            retryable=False,
        )
    else:
        kept = conninfo.conninfo_to_dict(dsn_file(layout).read_text())
        _write_dsn(layout, port, str(kept["password"]))
    processes.stop(data)  # over our own folder: one that a killed `up` had not recorded yet
    settings = {**SETTINGS, "listen_addresses": HOST, "max_connections": "200"}
    processes.start(data, settings, port=port)
    found = process(int(processes.pid_file_line(data, 0) or 0))
    if found is None:
        raise InfrastructureError("the local Postgres ended right after its start", code="local_postgres")
    return found


def stop(layout: Layout) -> None:
    """Shut the server down with its checkpoint.

    Call it only for a server that the recorded state says is ours.
    """
    processes.stop(layout.postgres)


def dsn_file(layout: Layout) -> Path:
    """The superuser's connection string; only its owner can read it."""
    return layout.postgres.with_name("postgres.dsn")


def grant_command(layout: Layout) -> list[str]:
    """The command that makes a role and its database (see ``noetl.local.grant``)."""
    return [sys.executable, "-m", "noetl.local.grant", str(dsn_file(layout))]


def _write_dsn(layout: Layout, port: int, password: str) -> None:
    folder = processes.socket_folder(layout.postgres)
    text = conninfo.make_conninfo(
        host=str(folder), port=port, user=ADMIN, password=password, dbname="postgres"
    )
    processes.write_private(dsn_file(layout), text)
