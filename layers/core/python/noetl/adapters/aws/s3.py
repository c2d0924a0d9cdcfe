"""The results bucket: large values, compiled programs, and marks of revoked work."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from noetl.adapters.aws.clients import FAILURES, answering, error_code, unreachable
from noetl.adapters.aws.s3_streams import S3Reader, S3Writer, is_missing
from noetl.adapters.program_hash import check_hash
from noetl.adapters.result_uri import result_key
from noetl.caching.lru_cache import LruCache
from noetl.domain.errors import ConflictError, InfrastructureError, NotFoundError
from noetl.domain.results.retention import PERMANENT
from noetl.dsl.program import PROGRAM_VERSION
from noetl.ports.results import OneTier

ATTEMPTS = 4
PAGE = 1000
"""Most objects in one deletion, and in one page of a listing (limits of S3)."""
TOKEN = "noetl-token"
"""Metadata of a program's object: who kept it (domain/capability_tokens.py)."""
REMEMBER_SECONDS = 5.0
REMEMBERED = 4096


class S3ResultStore(OneTier):
    """Large results as objects of S3.

    Keys: ``executions/<execution id>/<SHA-256 of the URI>``; ``permanent/<SHA-256 of the URI>`` for results that outlive their execution
    (the lifecycle of the bucket uses these prefixes). Encryption at rest is the bucket's default.

    ``lists``: whether the role may list the bucket (``is_missing``).
    """

    def __init__(
        self, bucket: str, client: Any, name: Literal["s3", "minio"] = "s3", *, lists: bool = True
    ) -> None:
        self._bucket = bucket
        self._client = client
        self._lists = lists
        self.name: str = name

    def put(self, uri: str, data: bytes) -> None:
        """Store an object once.

        Raises ConflictError(code="result_exists") when the object exists with other bytes.
        """
        key = self._key(uri)
        if not _write_once(self._client, self._bucket, key, data) and self.get(uri) != data:
            raise ConflictError(f"{uri} exists with other content", code="result_exists")

    def get(self, uri: str) -> bytes:
        found = _read(self._client, self._bucket, self._key(uri), self._lists)
        if found is None:
            raise NotFoundError(
                f"{uri} is not in bucket {self._bucket}",
                code="REFERENCE_NOT_AVAILABLE",
                hint="its execution was deleted, or the bucket's lifecycle rules removed it",
            )
        return found

    def writer(self, uri: str) -> S3Writer:
        return S3Writer(self._client, self._bucket, self._key(uri), uri)

    def reader(self, uri: str, start: int = 0) -> S3Reader:
        return S3Reader(self._client, self._bucket, self._key(uri), start, uri, lists=self._lists)

    def path(self, uri: str) -> Path | None:
        return None

    def link(self, uri: str, seconds: int) -> str:
        """Return a URL at which anyone can read the object for ``seconds`` seconds.

        The URL ends at the latest with this process's credentials.
        """
        wanted = {
            "Bucket": self._bucket,
            "Key": self._key(uri),
            "ResponseContentType": "application/json",
        }
        with answering("s3"):
            url: str = self._client.generate_presigned_url("get_object", Params=wanted, ExpiresIn=seconds)
        return url

    def delete(self, uris: Sequence[str]) -> None:
        keys = [self._key(uri) for uri in uris]
        with answering("s3"):
            for start in range(0, len(keys), PAGE):
                self._delete(keys[start : start + PAGE], "")

    def delete_execution(self, execution_id: int) -> int:
        deleted = 0
        with answering("s3"):
            for keys in self._listed(f"executions/{int(execution_id)}/"):
                self._delete(keys, f" of execution {execution_id}")
                deleted += len(keys)
        return deleted

    def _delete(self, keys: Sequence[str], whose: str) -> None:
        """Delete at most ``PAGE`` objects."""
        answer = self._client.delete_objects(
            Bucket=self._bucket, Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True}
        )
        if answer.get("Errors"):
            first = answer["Errors"][0]
            raise InfrastructureError(
                f"{len(answer['Errors'])} results{whose} could not be deleted: "
                f"{first.get('Code')} {first.get('Message')}",
                code="result_store_failed",
            )

    def _listed(self, prefix: str) -> Iterator[list[str]]:
        """Yield the keys below a prefix in pages of at most ``PAGE``."""
        for page in self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=prefix, PaginationConfig={"PageSize": PAGE}
        ):
            keys = [entry["Key"] for entry in page.get("Contents", ())]
            if keys:
                yield keys

    @staticmethod
    def _key(uri: str) -> str:
        execution_id, key = result_key(uri)
        folder = f"executions/{execution_id}" if execution_id != PERMANENT else "permanent"
        return f"{folder}/{key}"


class S3ProgramStore:
    """Compiled programs as objects of S3.

    Keys: ``programs/v<version of the Program format>/<hash>.json``. ``lists``: whether the role may list the bucket.
    """

    def __init__(self, bucket: str, client: Any, *, lists: bool = True) -> None:
        self._bucket = bucket
        self._client = client
        self._lists = lists

    def get(self, program: str) -> bytes | None:
        found = self.read(program)
        return None if found is None else found[0]

    def put(self, program: str, data: bytes) -> None:
        self.write(program, data, "", replace=False)

    def read(self, program: str) -> tuple[bytes, str] | None:
        found = _object(self._client, self._bucket, self._key(program), self._lists)
        return None if found is None else (found["Body"].read(), found.get("Metadata", {}).get(TOKEN, ""))

    def write(self, program: str, data: bytes, token: str, *, replace: bool) -> bool:
        key, more = self._key(program), {"Metadata": {TOKEN: token}} if token else {}
        if not replace:
            return _write_once(self._client, self._bucket, key, data, more)
        with answering("s3"):
            self._client.put_object(Bucket=self._bucket, Key=key, Body=data, **more)
        return True

    @staticmethod
    def _key(program: str) -> str:
        return f"programs/v{PROGRAM_VERSION}/{check_hash(program)}.json"


class S3Revocations:
    """Marks of revoked executions and step runs as empty objects of S3.

    Keys: ``revoked/<execution id>`` and ``revoked/<execution id>/<run>``. A question between items is cheap: the store asks again for a
    missing mark only after ``remember`` seconds, and never again for one that exists. ``lists``: whether the role may list the bucket.
    """

    def __init__(
        self,
        bucket: str,
        client: Any,
        *,
        lists: bool = True,
        remember: float = REMEMBER_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bucket = bucket
        self._lists = lists
        self._client = client
        self._remember = remember
        self._clock = clock
        self._known: LruCache[str, float] = LruCache(REMEMBERED)
        """Key → until when it is known to be missing; infinity: it exists."""

    def revoke(self, execution_id: int, run: int | None = None) -> None:
        key = _mark(execution_id, run)
        with answering("s3"):
            self._client.put_object(Bucket=self._bucket, Key=key, Body=b"")
        self._note(key, True)

    def is_revoked(self, execution_id: int, run: int) -> bool:
        return self._exists(_mark(execution_id, None)) or self._exists(_mark(execution_id, run))

    def _exists(self, key: str) -> bool:
        until = self._known.get(key) or 0.0
        if until == float("inf"):
            return True
        if self._clock() < until:
            return False
        try:
            self._client.head_object(Bucket=self._bucket, Key=key)
        except FAILURES as error:
            if not is_missing(error, lists=self._lists):
                raise unreachable(error, "s3") from error
            self._note(key, False)
            return False
        self._note(key, True)
        return True

    def _note(self, key: str, exists: bool) -> None:
        self._known.put(key, float("inf") if exists else self._clock() + self._remember)


def _mark(execution_id: int, run: int | None) -> str:
    whole = f"revoked/{int(execution_id)}"
    return whole if run is None else f"{whole}/{int(run)}"


def _read(client: Any, bucket: str, key: str, lists: bool) -> bytes | None:
    """Read the bytes of an object; None when it is missing."""
    found = _object(client, bucket, key, lists)
    data: bytes | None = None if found is None else found["Body"].read()
    return data


def _object(client: Any, bucket: str, key: str, lists: bool) -> dict[str, Any] | None:
    """Get an object and read it to its end; None when it is missing."""
    try:
        found: dict[str, Any] = client.get_object(Bucket=bucket, Key=key)
        return {**found, "Body": io.BytesIO(found["Body"].read())}
    except FAILURES as error:
        if is_missing(error, lists=lists):
            return None
        raise unreachable(error, "s3") from error


def _write_once(
    client: Any, bucket: str, key: str, data: bytes, more: Mapping[str, Any] | None = None
) -> bool:
    """Create an object; return False when it exists already."""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(0.05 * 2**attempt)
        try:
            client.put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*", **(more or {}))
        except FAILURES as error:
            code = error_code(error)
            if code in ("PreconditionFailed", "412"):
                return False
            # Somebody else is writing the same object right now: who was first shows in a moment.
            if code not in ("ConditionalRequestConflict", "409") or attempt == ATTEMPTS - 1:
                raise unreachable(error, "s3") from error
        else:
            return True
    raise AssertionError("the last attempt returns or raises")
