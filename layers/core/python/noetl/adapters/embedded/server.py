"""The Postgres server that comes with the library.

There is one per data folder, shared by every process that opens it.

Who uses it is kept by the kernel: each user holds a shared lock on a file, so a process that is killed is not counted any more,
and the last one that closes stops the server. A server whose only user was killed runs on until the next user closes.

Two databases: ``noetl`` is the engine's; ``workspace`` is what playbooks may use as scratch space. Each has a role that can reach nothing
else and is no superuser (see ``roles``); the engine's needs a password that only the owner of its file can read.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType

from noetl.adapters.embedded import processes, roles
from noetl.adapters.embedded.locked import locked
from noetl.adapters.embedded.measured import is_memory_too_small
from noetl.domain.errors import InfrastructureError

ENGINE, WORKSPACE = roles.ENGINE_DATABASE, roles.WORKSPACE_DATABASE
SETTINGS = {
    "fsync": "on",
    "shared_buffers": "64MB",
    "max_connections": "100",
    "work_mem": "8MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "512MB",
    "checkpoint_timeout": "15min",
    "wal_compression": "pglz",
    "jit": "off",
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_checkpoints": "off",
}
"""Durable, and small enough for a laptop. Refused commits are business as usual, so errors stay out of the log.

The level ``log`` is above that of errors; a server says there that it cannot start a process. Statements stay out of it.
"""


def home() -> Path:
    """The folder of this user's local data: ``NOETL_HOME``, by default ``~/.noetl``."""
    return Path(os.environ.get("NOETL_HOME") or Path.home() / ".noetl").expanduser().resolve()


class EmbeddedServer:
    """A running server. Use as a context manager, or call ``stop``."""

    def __init__(self, data: Path, password: str, users: int) -> None:
        self.data = data
        self._password = password
        self._users = users

    def dsn(self, database: str = ENGINE) -> str:
        """Connection string; for ``workspace`` with the role that can reach only that database."""
        from psycopg import conninfo

        user = roles.WORKSPACE_ROLE if database == WORKSPACE else roles.ENGINE_ROLE
        password = None if database == WORKSPACE else self._password
        folder = str(processes.socket_folder(self.data))
        return conninfo.make_conninfo(
            host=folder, port=processes.PORT, user=user, password=password, dbname=database
        )

    def reader_dsn(self, database: str = ENGINE) -> str:
        """Connection string of the role that reads the views of history."""
        from psycopg import conninfo

        from noetl.adapters.postgres.reader_role import reader_password

        password = reader_password(self._password)
        return conninfo.make_conninfo(self.dsn(database), user=roles.READER_ROLE, password=password)

    def bound_query(self, process: int) -> None:
        """Limit the memory of the server's process that runs a query of a person.

        Postgres logs each query that reaches the limit: the log has one, too. Raises InfrastructureError(code="query_memory").
        """
        from noetl.adapters.embedded import query_memory

        query_memory.bound(process, self.data)
        processes.empty_long_log(self.data)

    def revive(self) -> bool:
        """Start the server again when it has ended beneath its users; True when that was needed.

        Causes are a kill and a lack of memory. Raises InfrastructureError.
        """
        with contextlib.suppress(BlockingIOError), locked(self.data, wait=False):
            if self._users >= 0 and not processes.accepts(processes.socket_folder(self.data)):
                processes.start(self.data, SETTINGS)
                return True
        return False

    def stop(self) -> bool:
        """Stop using the server; the last user stops it. True when it is down now."""
        if self._users < 0:
            return False
        with locked(self.data):
            os.close(self._users)
            self._users = -1
            with _users_file(self.data) as users:
                try:
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return False
                processes.stop(self.data)
        return True

    def __enter__(self) -> EmbeddedServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def open_embedded(
    data: Path | None = None,
    settings: Mapping[str, str] | None = None,
    meanwhile: Callable[[], object] = lambda: None,
) -> EmbeddedServer:
    """Start the server over ``data``, or join the running one; both databases are ready.

    The default of ``data`` is ``<home>/postgres``.

    ``settings`` override SETTINGS when the server has to be started. ``meanwhile`` is called once, while it starts. Raises
    InfrastructureError.
    """
    folder = (data or home() / "postgres").expanduser().resolve()
    if is_memory_too_small():
        raise processes.failed("the embedded Postgres cannot be started", MemoryError(), "postgres_start")
    with _writable(folder):
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _writable(folder), locked(folder):
        password = _password(folder)
        if not (folder / "PG_VERSION").exists():
            with processes.fresh_folder(folder) as fresh:
                processes.initialise(fresh, roles.SUPERUSER)
                roles.make_roles(fresh, password, fresh=True)
                roles.write_hba(fresh)
        _check_version(folder)
        if not roles.are_made(folder):
            _demote(folder, password)
        if processes.accepts(processes.socket_folder(folder)):
            meanwhile()
            processes.wait_for_ready(folder)
        else:
            processes.start(folder, {**SETTINGS, **(settings or {})}, meanwhile=meanwhile)
        from noetl.adapters.postgres.migrations import migrate

        users = os.open(_users_path(folder), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(users, fcntl.LOCK_SH)
        server = EmbeddedServer(folder, password, users)
        try:
            migrate(server.dsn())
        except BaseException:
            os.close(users)
            raise
    return server


@contextlib.contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """Report a refusal of the system (full disk, no more processes).

    Raises InfrastructureError.
    """
    try:
        yield
    except OSError as error:
        raise processes.failed(
            f"the embedded Postgres in {folder} cannot be used", error, "postgres_folder"
        ) from error


def _demote(folder: Path, password: str) -> None:
    """Bring the folder of an earlier version up to date, whose engine was the superuser.

    Raises InfrastructureError while it is in use.
    """
    with _users_file(folder) as users:
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InfrastructureError(
                f"{folder} is in use by a process of an earlier version, and has to be upgraded",
                code="postgres_in_use",
                hint="end the other `noetl` processes of this home folder (`noetl server stop`), then try again",
                retryable=False,
            ) from None
        processes.stop(folder)
        roles.make_roles(folder, password)
        roles.write_hba(folder)


def _check_version(folder: Path) -> None:
    found = (folder / "PG_VERSION").read_text().strip()
    wanted = processes.binaries().parent.name.removeprefix("pginstall")
    if found != wanted:
        raise InfrastructureError(
            f"{folder} was made by Postgres {found}, this version of the library brings Postgres {wanted}",
            code="postgres_version",
            hint="move the folder away (its executions stay in it), or dump and load it with pg_dump",
            retryable=False,
        )


def _password(folder: Path) -> str:
    """The engine role's password, made once, readable by the owner of the folder only."""
    path = folder.with_name(f"{folder.name}.secret")
    if not (folder / "PG_VERSION").exists():
        processes.write_private(path, secrets.token_urlsafe(24))
    try:
        return path.read_text()
    except FileNotFoundError:
        raise InfrastructureError(
            f"{path} is gone: it holds the password of the engine's role in {folder}",
            code="postgres_secret",
            hint="restore the file, or move the data folder away to start afresh",
            retryable=False,
        ) from None


def _users_path(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.users")


@contextlib.contextmanager
def _users_file(folder: Path) -> Iterator[int]:
    handle = os.open(_users_path(folder), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)
