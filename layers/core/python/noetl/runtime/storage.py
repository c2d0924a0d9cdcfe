"""Result tiers that every kind of deployment makes in the same way from its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from noetl.adapters.disk.store import DiskResultStore
from noetl.adapters.embedded.files import FileResultStore
from noetl.domain import codec
from noetl.domain.errors import InvalidInputError
from noetl.ports.results import ResultStore
from noetl.runtime.storage_settings import StorageSettings

Log = Callable[[str], None]


def default_tier(
    storage: StorageSettings,
    tiers: dict[str, ResultStore],
    otherwise: str,
    folder: str,
    *,
    waits: bool,
    log: Log,
) -> str:
    """Return the name of the default tier, behind a disk cache if there is a folder for one."""
    cloud = storage.cloud_tier or otherwise
    if cloud not in tiers:
        raise InvalidInputError(
            f"NOETL_STORAGE_CLOUD_TIER={cloud} names a tier that is not set up",
            code="setting_invalid",
            hint="docs/results.md states what each tier needs",
        )
    if not folder or cloud == "file":
        return cloud
    path = Path(folder).expanduser()
    tiers["disk"] = DiskResultStore(path, tiers[cloud], waits=waits, data_bytes=storage.cache_bytes, log=log)
    return "disk"


def outside_tiers(storage: StorageSettings, allow: tuple[str, ...]) -> Mapping[str, ResultStore]:
    """Make the tiers that are the same in every kind of deployment."""
    found: dict[str, ResultStore] = {}
    if storage.minio_endpoint:
        from noetl.adapters.aws.clients import make_store_client
        from noetl.adapters.aws.s3 import S3ResultStore

        client = make_store_client(storage.minio_endpoint, storage.minio_access_key, storage.minio_secret_key)
        found["minio"] = S3ResultStore(storage.minio_bucket, client, "minio")
    if storage.gcs_bucket:
        from noetl.adapters.gcs import GcsPlace, GcsResultStore

        found["gcs"] = GcsResultStore(GcsPlace(storage.gcs_bucket, _gcs_key(storage), allow=allow))
    if storage.pvc_dir:
        if not Path(storage.pvc_dir).is_dir():
            raise InvalidInputError(
                f"NOETL_STORAGE_PVC_DIR={storage.pvc_dir} is not a folder",
                code="setting_invalid",
                hint="is the volume mounted here?",
            )
        found["pvc"] = FileResultStore(Path(storage.pvc_dir), "pvc")
    return found


def bucket_tier(bucket: str, *, lists: bool = True) -> ResultStore:
    """Make the tier of an S3 bucket.

    ``lists``: whether this process's role may list the bucket.
    """
    from noetl.adapters.aws.clients import make_client
    from noetl.adapters.aws.s3 import S3ResultStore

    return S3ResultStore(bucket, make_client("s3"), lists=lists)


def _gcs_key(storage: StorageSettings) -> dict[str, Any]:
    if storage.gcs_secret:
        from noetl.adapters.aws.clients import make_client
        from noetl.adapters.aws.secrets import secret_texts

        text, where = (
            next(iter(secret_texts(make_client("secretsmanager"), storage.gcs_secret))),
            "the secret",
        )
    else:
        where = storage.gcs_key_file
        try:
            text = Path(where).expanduser().read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInputError(
                f"NOETL_STORAGE_GCS_KEY_FILE={where} cannot be read: {error}", code="setting_invalid"
            ) from None
    try:
        found = codec.decode(text.encode())
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidInputError(
            f"{where} of the tier gcs is not the JSON key of a service account", code="setting_invalid"
        )
    return found
