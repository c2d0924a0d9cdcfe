"""Settings of a local process, read from the environment once. Every name is documented in docs/configuration.md."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from noetl.domain.errors import InvalidInputError
from noetl.domain.results import INLINE_LIMIT


@dataclass(frozen=True, slots=True)
class Settings:
    """``home``: where this machine keeps engine data. ``database_url``: another Postgres instead of the embedded one."""

    home: Path
    database_url: str | None = None
    credentials_file: Path | None = None
    http_allow: tuple[str, ...] = ()
    inline_limit: int = INLINE_LIMIT
    io_workers: int = 16
    cpu_workers: int = 2
    python_workers: int = 2
    lease_seconds: float = 30.0
    python_memory_bytes: int = 1024 * 1024 * 1024
    output_max_bytes: int = 64 * 1024 * 1024

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
        """Raises InvalidInputError naming the variable that cannot be understood."""
        env = os.environ if environ is None else environ
        home = Path(env.get("NOETL_HOME") or Path.home() / ".noetl").expanduser()
        credentials = env.get("NOETL_CREDENTIALS")
        made = cls(
            home=home,
            database_url=env.get("NOETL_DATABASE_URL") or None,
            credentials_file=Path(credentials).expanduser() if credentials else None,
            http_allow=tuple(
                part.strip() for part in env.get("NOETL_HTTP_ALLOW", "").split(",") if part.strip()
            ),
            inline_limit=_number(env, "NOETL_INLINE_LIMIT", INLINE_LIMIT, low=256),
            io_workers=_number(env, "NOETL_IO_WORKERS", 16, low=1),
            cpu_workers=_number(env, "NOETL_CPU_WORKERS", 2, low=1),
            python_workers=_number(env, "NOETL_PYTHON_WORKERS", max(2, os.cpu_count() or 1), low=1),
            lease_seconds=float(_number(env, "NOETL_LEASE_SECONDS", 30, low=1)),
            python_memory_bytes=_number(env, "NOETL_PYTHON_MEMORY_MB", 1024, low=64) * 1024 * 1024,
            output_max_bytes=_number(env, "NOETL_OUTPUT_MAX_MB", 64, low=1) * 1024 * 1024,
        )
        return replace(made, **overrides)


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
