"""The settings of a local process, read once from the environment.

docs/configuration.md documents every name.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from noetl.api.http.client_limits import ClientLimits
from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.domain.results.references import INLINE_LIMIT
from noetl.domain.sizes.table import ARTIFACT_BYTES, RESULT_BYTES
from noetl.runtime.storage_settings import StorageSettings
from noetl.runtime.task_folders import refuse_secrets, task_folders
from noetl.services.messaging.backpressure import LIMIT
from noetl.services.results.prune import RetentionDays
from noetl.system_calls.processors import count_processors

MOST_WORKER_PROCESSES = 4
"""More of them give one engine more outcomes than it can decide."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of this machine.

    ``home``: where it keeps engine data. ``database_url``: another Postgres instead of the embedded one.
    """

    home: Path
    database_url: str | None = None
    reader_url: str | None = None
    """Another Postgres with a role that reads the views of history; None: no SQL there."""
    credentials_file: Path | None = None
    http_allow: tuple[str, ...] = ()
    inline_limit: int = INLINE_LIMIT
    io_workers: int = 16
    cpu_workers: int = 2
    python_workers: int = 2
    worker_processes: int = 0
    """Most processes that run commands beside the one with the engine, under load."""
    lease_seconds: float = 30.0
    credential_cache_seconds: float = 3600.0
    python_memory_bytes: int = 1024 * 1024 * 1024
    duckdb_memory_bytes: int = 128 * 1024 * 1024
    output_max_bytes: int = RESULT_BYTES.value
    artifact_max_bytes: int = ARTIFACT_BYTES.value
    task_folders: tuple[str, ...] = ()
    """Folders that code of playbooks may read and write; a shell command begins in the first."""
    task_disk_bytes: int = 4 * 1024**3
    task_processes: int = 512
    retention: RetentionDays = field(default_factory=RetentionDays)
    storage: StorageSettings = field(default_factory=StorageSettings)
    backlog_limit: int = LIMIT
    """Most events, and most commands, that may wait when a server lets in more."""
    clients: ClientLimits = field(default_factory=ClientLimits)
    """What one client of a server may hold."""
    aws_auth_required: bool = False
    """Tasks that call AWS have to name a credential."""
    public_url: str = ""
    """Where others reach this machine's server; empty: where it listens."""
    wheels: str = ""
    """Folder of wheels that libraries of playbooks are installed from, instead of an index."""

    @property
    def keeps_results_alone(self) -> bool:
        """Return whether large results are hidden from other processes over the database."""
        return self.database_url is not None and not self.storage.cloud_tier

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
        """Read the settings. Raises InvalidInputError naming the variable that is invalid."""
        env = os.environ if environ is None else environ
        home = Path(env.get("NOETL_HOME") or Path.home() / ".noetl").expanduser()
        credentials = env.get("NOETL_CREDENTIALS")
        made = cls(
            home=home,
            database_url=_database_url(env),
            reader_url=env.get("NOETL_READER_URL") or None,
            credentials_file=Path(credentials).expanduser() if credentials else None,
            http_allow=tuple(
                part.strip() for part in env.get("NOETL_HTTP_ALLOW", "").split(",") if part.strip()
            ),
            inline_limit=_number(env, "NOETL_INLINE_LIMIT", INLINE_LIMIT, low=256),
            io_workers=_number(env, "NOETL_IO_WORKERS", 16, low=1),
            cpu_workers=_number(env, "NOETL_CPU_WORKERS", 2, low=1),
            python_workers=_number(env, "NOETL_PYTHON_WORKERS", max(2, count_processors()), low=1),
            worker_processes=_number(env, "NOETL_WORKER_PROCESSES", worker_processes(), low=0),
            lease_seconds=float(_number(env, "NOETL_LEASE_SECONDS", 30, low=1)),
            credential_cache_seconds=float(_number(env, "NOETL_CREDENTIAL_CACHE_SECONDS", 3600, low=0)),
            python_memory_bytes=_number(env, "NOETL_PYTHON_MEMORY_MB", 1024, low=64) * 1024 * 1024,
            duckdb_memory_bytes=_number(env, "NOETL_DUCKDB_MEMORY_MB", 128, low=32) * 1024 * 1024,
            output_max_bytes=_number(env, "NOETL_OUTPUT_MAX_MB", 64, low=1) * 1024 * 1024,
            artifact_max_bytes=_number(env, "NOETL_ARTIFACT_MAX_MB", 16 * 1024, low=1) * 1024 * 1024,
            task_folders=task_folders(env),
            task_disk_bytes=_number(env, "NOETL_TASK_DISK_MB", 4096, low=1) * 1024 * 1024,
            task_processes=_number(env, "NOETL_TASK_PROCESSES", 512, low=16),
            retention=retention_days(env),
            storage=StorageSettings.from_env(env),
            backlog_limit=_number(env, "NOETL_BACKLOG_LIMIT", LIMIT, low=1),
            clients=client_limits(env),
            aws_auth_required=_aws_auth_required(env),
            public_url=public_url(env),
            wheels=env.get("NOETL_WHEELS", ""),
        )
        made = replace(made, **overrides)
        refuse_secrets(made.task_folders, made.hidden_dirs)
        return made

    @property
    def hidden_dirs(self) -> tuple[str, ...]:
        """Return the folders that code of playbooks never sees.

        They hold credentials, or data of the engine.
        """
        own = (self.home, self.credentials_file, *self.storage.folders)
        return tuple(str(path) for path in own if path is not None)

    def make_home(self) -> None:
        """Make the home folder, for its owner alone.

        An existing folder keeps its mode: `noetl doctor` warns where others can read it. Raises InfrastructureError
        when it cannot be made, or cannot be written to.
        """
        try:
            self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise _unusable(self.home, error.strerror or str(error)) from error
        if not os.access(self.home, os.W_OK | os.X_OK):
            raise _unusable(self.home, os.strerror(errno.EACCES))


def worker_processes() -> int:
    """Return how many worker processes this process has use for, beside the engine's.

    One for each processor: the engine leaves time of its own to them. On a single processor they would only take turns.
    """
    cores = count_processors()
    return min(MOST_WORKER_PROCESSES, cores) if cores > 1 else 0


def retention_days(env: Mapping[str, str]) -> RetentionDays:
    """Read the days of retention. Raises InvalidInputError(code="setting_invalid")."""
    names = ("NOETL_RETENTION_DAYS", "NOETL_VARIABLES_RETENTION_DAYS")
    executions, variables = (float(_number(env, name, 0, low=1)) if env.get(name) else None for name in names)
    return RetentionDays(executions, variables)


def client_limits(env: Mapping[str, str]) -> ClientLimits:
    """Read the limits of clients. Raises InvalidInputError(code="setting_invalid")."""
    known = ClientLimits()
    return ClientLimits(
        connections=_number(env, "NOETL_CONNECTIONS", known.connections, low=1),
        per_peer=_number(env, "NOETL_CONNECTIONS_PER_PEER", known.per_peer, low=1),
        head_seconds=float(_number(env, "NOETL_HEADER_SECONDS", int(known.head_seconds), low=1)),
        body_seconds=float(_number(env, "NOETL_BODY_SECONDS", int(known.body_seconds), low=1)),
        body_rate=_number(env, "NOETL_BODY_RATE", known.body_rate, low=1),
        silence=float(_number(env, "NOETL_IDLE_SECONDS", int(known.silence), low=1)),
    )


def _unusable(home: Path, reason: str) -> InfrastructureError:
    return InfrastructureError(
        f"the home folder {home} cannot be used: {reason}",
        code="home_unusable",
        hint="set NOETL_HOME (or --home) to a folder of yours",
        retryable=False,
    )


def _database_url(env: Mapping[str, str]) -> str | None:
    """Read the database's address; no error shows it, since it may hold a password."""
    url = env.get("NOETL_DATABASE_URL")
    if not url:
        return None
    from psycopg import ProgrammingError, conninfo

    try:
        conninfo.conninfo_to_dict(url)
    except (ProgrammingError, ValueError):
        raise InvalidInputError(
            "NOETL_DATABASE_URL is not the address of a Postgres database",
            code="setting_invalid",
            hint="write postgresql://user:password@host:5432/database",
        ) from None
    return url


def public_url(env: Mapping[str, str]) -> str:
    """Read ``NOETL_PUBLIC_URL``, without a slash at its end. Raises InvalidInputError."""
    url = env.get("NOETL_PUBLIC_URL", "").strip().rstrip("/")
    if url and not (url.startswith(("http://", "https://")) and url.isprintable() and " " not in url):
        raise InvalidInputError(
            f"NOETL_PUBLIC_URL={url[:80]!r} is not the address of a server",
            code="setting_invalid",
            hint="such as https://noetl.example.com",
        )
    return url


def _aws_auth_required(env: Mapping[str, str]) -> bool:
    text = env.get("NOETL_AWS_AUTH") or "optional"
    if text not in ("optional", "required"):
        raise InvalidInputError(
            f"NOETL_AWS_AUTH={text[:80]!r} is neither optional nor required", code="setting_invalid"
        )
    return text == "required"


def _number(env: Mapping[str, str], name: str, default: int, *, low: int) -> int:
    text = env.get(name)
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if value < low:
        raise InvalidInputError(
            f"{name}={text!r} is not a whole number of at least {low}", code="setting_invalid"
        )
    return value
