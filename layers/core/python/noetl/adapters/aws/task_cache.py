"""Places of cached task results in the results bucket.

A rule of the bucket removes entries by their age; the results that they refer to lie below their executions.
"""

from __future__ import annotations

from typing import Any

from noetl.adapters.aws.clients import FAILURES, answering, unreachable
from noetl.adapters.aws.s3_streams import is_missing
from noetl.domain import codec
from noetl.ports.task_cache import CachedResult, stored_entry


class S3TaskCache:
    """Entries as objects of S3.

    Keys: ``cached/<worker>/<key>``. ``worker``: whose cache it is; its role reads and writes no other one (docs/adr/0085), so that
    code which takes over one function chooses no results of another. ``lists``: whether the role may list the bucket.
    """

    def __init__(self, bucket: str, worker: str, client: Any, *, lists: bool = True) -> None:
        self._bucket, self._client, self._lists = bucket, client, lists
        self._folder = f"cached/{worker}"

    def get(self, key: str) -> CachedResult | None:
        try:
            data: bytes = self._client.get_object(Bucket=self._bucket, Key=f"{self._folder}/{key}")[
                "Body"
            ].read()
        except FAILURES as error:
            if is_missing(error, lists=self._lists):
                return None
            raise unreachable(error, "s3") from error
        return stored_entry(data)

    def put(self, entry: CachedResult) -> None:
        with answering("s3"):
            self._client.put_object(
                Bucket=self._bucket, Key=f"{self._folder}/{entry.key}", Body=codec.encode(entry)
            )
