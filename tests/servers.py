"""The embedded server for tests, whose engine role may do what only tests need: make databases and roles, and empty tables."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from noetl.adapters.embedded import processes, roles
from noetl.adapters.embedded.locked import locked
from noetl.adapters.embedded.server import EmbeddedServer, open_embedded

_RIGHTS = """\
ALTER ROLE noetl_engine CREATEDB CREATEROLE;

ALTER ROLE noetl_engine SET createrole_self_grant = 'set, inherit';

GRANT CONNECT ON DATABASE postgres, template1 TO noetl_engine;

GRANT SET ON PARAMETER session_replication_role, deadlock_timeout TO noetl_engine;

"""
_SEEN = "GRANT SELECT ON pg_authid TO noetl_engine;\n\n"


def open_for_tests(folder: Path, settings: Mapping[str, str]) -> EmbeddedServer:
    """Open the server over ``folder``, which is made with these rights. Safe to call in several processes."""
    with locked(folder):
        if not (folder / "PG_VERSION").exists():
            password = secrets.token_urlsafe(24)
            with processes.fresh_folder(folder) as fresh:
                processes.initialise(fresh, roles.SUPERUSER)
                roles.make_roles(fresh, password, fresh=True)
                processes.run_alone(fresh, "postgres", _RIGHTS, synced=False)
                processes.run_alone(fresh, "template1", _SEEN, synced=False)
                (fresh / "pg_hba.conf").write_text(
                    f"{roles.HBA}local all {roles.ENGINE_ROLE},{roles.READER_ROLE} scram-sha-256\n"
                )
                processes.write_private(folder.with_name(f"{folder.name}.secret"), password)
    return open_embedded(folder, settings)
