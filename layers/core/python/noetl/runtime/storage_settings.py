"""The settings of result tiers, read from the environment.

docs/results.md says how to choose, docs/configuration.md lists all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from noetl.domain.errors import InvalidInputError
from noetl.domain.results.tiers import KV_BYTES

CLOUD_TIERS = ("s3", "minio", "gcs", "pvc")
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """The settings of the result tiers; an empty text means that there is no such tier.

    ``cloud_tier``: where large results are stored in the end; empty: local files on one machine, the results bucket on AWS.
    """

    cloud_tier: str = ""
    cache_dir: str = ""
    cache_bytes: int = 1024 * MIB
    spill: str = ""
    """``async`` or ``sync``; empty: the mode that is safe in this place."""
    s3_bucket: str = ""
    minio_endpoint: str = ""
    minio_bucket: str = ""
    minio_access_key: str = ""
    minio_secret_key: str = field(default="", repr=False)
    gcs_bucket: str = ""
    gcs_key_file: str = ""
    gcs_secret: str = ""
    """Name of a secret that holds the key, on AWS."""
    pvc_dir: str = ""
    kv_table: str = ""
    kv_auto_bytes: int = 0
    memory_bytes: int = 64 * MIB

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> StorageSettings:
        """Read the settings.

        Raises InvalidInputError(code="setting_invalid") naming the variable that is invalid.
        """

        def text(name: str) -> str:
            return env.get(name, "").strip()

        made = cls(
            cloud_tier=_one_of(env, "NOETL_STORAGE_CLOUD_TIER", ("", *CLOUD_TIERS)),
            cache_dir=text("NOETL_STORAGE_LOCAL_CACHE_DIR"),
            cache_bytes=_number(env, "NOETL_STORAGE_CACHE_MB", 1024, 1) * MIB,
            spill=_one_of(env, "NOETL_STORAGE_SPILL", ("", "async", "sync")),
            s3_bucket=text("NOETL_STORAGE_S3_BUCKET"),
            minio_endpoint=text("NOETL_STORAGE_MINIO_ENDPOINT"),
            minio_bucket=text("NOETL_STORAGE_MINIO_BUCKET"),
            minio_access_key=text("NOETL_STORAGE_MINIO_ACCESS_KEY"),
            minio_secret_key=text("NOETL_STORAGE_MINIO_SECRET_KEY"),
            gcs_bucket=text("NOETL_STORAGE_GCS_BUCKET"),
            gcs_key_file=text("NOETL_STORAGE_GCS_KEY_FILE"),
            gcs_secret=text("NOETL_STORAGE_GCS_SECRET"),
            pvc_dir=text("NOETL_STORAGE_PVC_DIR"),
            kv_table=text("NOETL_STORAGE_KV_TABLE"),
            kv_auto_bytes=min(_number(env, "NOETL_STORAGE_KV_AUTO_BYTES", 0, 0), KV_BYTES),
            memory_bytes=_number(env, "NOETL_STORAGE_MEMORY_MB", 64, 1) * MIB,
        )
        made._check()
        return made

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the folders and files of this machine that the settings name."""
        return tuple(filter(None, (self.cache_dir, self.pvc_dir, self.gcs_key_file)))

    def _check(self) -> None:
        if bool(self.minio_endpoint) != bool(self.minio_bucket):
            raise _invalid("the tier minio needs NOETL_STORAGE_MINIO_ENDPOINT and NOETL_STORAGE_MINIO_BUCKET")
        if self.minio_endpoint and not self.minio_endpoint.startswith(("http://", "https://")):
            raise _invalid(
                f"NOETL_STORAGE_MINIO_ENDPOINT={self.minio_endpoint[:80]!r} is not an address",
                "such as https://minio.example.com:9000",
            )
        if self.gcs_bucket and not (self.gcs_key_file or self.gcs_secret):
            raise _invalid(
                "the tier gcs needs NOETL_STORAGE_GCS_KEY_FILE, the key of a service account"
                " (on AWS NOETL_STORAGE_GCS_SECRET, the secret that holds it)"
            )
        if self.pvc_dir and not Path(self.pvc_dir).is_absolute():
            raise _invalid(f"NOETL_STORAGE_PVC_DIR={self.pvc_dir[:80]!r} is not an absolute path")


def _one_of(env: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    value = env.get(name, "").strip().lower()
    if value not in allowed:
        known = ", ".join(filter(None, allowed))
        raise _invalid(f"{name}={value[:80]!r} is none of {known}")
    return value


def _number(env: Mapping[str, str], name: str, default: int, low: int) -> int:
    text = env.get(name, "").strip() or str(default)
    if not (text.isascii() and text.isdigit() and low <= int(text) <= 10**9):
        raise _invalid(f"{name}={text[:80]!r} is not a whole number of at least {low}")
    return int(text)


def _invalid(message: str, hint: str | None = None) -> InvalidInputError:
    return InvalidInputError(
        message, code="setting_invalid", hint=hint or "docs/results.md explains how to set the tiers up"
    )
