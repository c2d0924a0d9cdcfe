"""The tiers of results of a deployment, and links to what is in them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

from noetl.adapters.aws.clients import make_client
from noetl.adapters.aws.dynamodb import DynamoResultStore
from noetl.adapters.disk.store import DiskResultStore
from noetl.adapters.tiered import TieredResults
from noetl.domain.errors import ConflictError
from noetl.ports.results import ResultStore
from noetl.runtime.aws.settings import CloudSettings
from noetl.runtime.aws.telemetry import telemetry
from noetl.runtime.storage import bucket_tier, default_tier, outside_tiers

COPY_BYTES = 8 * 1024 * 1024


def open_results(settings: CloudSettings) -> TieredResults:
    """Open the result tiers that the environment has.

    The disk is lost with the function, so each write waits for the cloud tier. Raises InvalidInputError, InfrastructureError.
    """
    storage = settings.storage
    tiers: dict[str, ResultStore] = {
        "s3": bucket_tier(settings.results_bucket, lists=settings.lists),
        **outside_tiers(storage, settings.http_allow),
    }
    if storage.kv_table:
        tiers["kv"] = DynamoResultStore(storage.kv_table, lambda: make_client("dynamodb"))
    default = default_tier(storage, tiers, "s3", storage.cache_dir, waits=True, log=telemetry.log)
    found = TieredResults(tiers, default, telemetry.log, auto=storage.kv_auto_bytes)
    found.start()
    return found


def make_link(results: TieredResults) -> Callable[[str, int, str], str]:
    """Return the function that makes a link: (URI, seconds, tier) → a URL.

    Every client that has the URL can read the object for that time. An object in a tier that has no such URLs is first copied into the
    results bucket.
    """
    bucket: Any = results.tiers["s3"]

    def link(uri: str, seconds: int, store: str) -> str:
        tier: Any = results.at(store)
        tier = tier.cloud if isinstance(tier, DiskResultStore) else tier
        if hasattr(tier, "link"):
            return str(tier.link(uri, seconds))
        _copy(uri, tier, bucket)
        return str(bucket.link(uri, seconds))

    return link


def _copy(uri: str, source: ResultStore, target: ResultStore) -> None:
    with closing(source.reader(uri)) as reader:
        writer = target.writer(uri)
        try:
            while data := reader.read(COPY_BYTES):
                writer.write(data)
            writer.commit()
        except ConflictError:
            return  # an earlier question had it copied
        finally:
            writer.abort()
