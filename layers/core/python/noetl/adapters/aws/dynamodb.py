"""The tier ``kv`` on AWS: values of at most 1 MiB in a DynamoDB table, cut into items."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from noetl.adapters.aws.clients import FAILURES, answering, error_code, unreachable
from noetl.adapters.buffered_stream import HeldStreams
from noetl.adapters.result_uri import result_key
from noetl.domain.errors import ConflictError, InfrastructureError, NotFoundError
from noetl.domain.results.tiers import KV_BYTES
from noetl.ports.results import OneTier

CHUNK = 390 * 1024
"""Bytes of a value in one item: an item holds 400 KiB, its names and keys counted
(https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html)."""
BATCH = 25
"""Most deletions in one request."""
ATTEMPTS = 5


class DynamoResultStore(HeldStreams, OneTier):
    """Large results as items of a DynamoDB table.

    Keys: ``pk`` = execution, ``sk`` = SHA-256 of the URI (the object and its first chunk), or that and the number of a further chunk.
    The object's item is written last, so a value is there as a whole or not at all. Nothing expires by its age.
    """

    name = "kv"

    def __init__(
        self,
        table: str,
        client: Callable[[], Any],
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._table = table
        self._made = client
        self._sleep = sleep

    @property
    def _client(self) -> Any:
        """Return the client, made on first use: most invocations store nothing in this table."""
        return self._made()

    def put(self, uri: str, data: bytes) -> None:
        """Store an object once.

        Raises ConflictError(code="result_exists") when the object exists with other bytes.
        """
        if len(data) > KV_BYTES:
            raise InfrastructureError(
                f"{uri}: {len(data)} bytes, and the tier kv takes {KV_BYTES}",
                code="result_store_full",
                retryable=False,
            )
        digest = hashlib.sha256(data).hexdigest()
        chunks = [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)] or [b""]
        with answering("dynamodb"):
            for number, chunk in enumerate(chunks[1:], 1):
                item = {**_key(uri, digest, number), "data": {"B": chunk}}
                self._client.put_item(TableName=self._table, Item=item)
        about = {"data": {"B": chunks[0]}, "sha256": {"S": digest}, "chunks": {"N": str(len(chunks))}}
        try:
            self._client.put_item(
                TableName=self._table,
                Item={**_key(uri), **about},
                ConditionExpression="attribute_not_exists(sk)",
            )
        except FAILURES as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise unreachable(error, "dynamodb") from error
            found = self._item(uri)
            if found is not None and found["sha256"]["S"] != digest:
                raise ConflictError(f"{uri} exists with other content", code="result_exists") from None

    def get(self, uri: str) -> bytes:
        head = self._item(uri)
        if head is None:
            raise self._missing(uri)
        found = [_bytes(head)]
        for number in range(1, int(head["chunks"]["N"])):
            chunk = self._item(uri, head["sha256"]["S"], number)
            if chunk is None:
                raise self._missing(uri)
            found.append(_bytes(chunk))
        return b"".join(found)

    def delete(self, uris: Sequence[str]) -> None:
        for uri in uris:
            head = self._item(uri)
            if head is not None:
                digest, chunks = head["sha256"]["S"], int(head["chunks"]["N"])
                self._delete([_key(uri), *(_key(uri, digest, number) for number in range(1, chunks))])

    def delete_execution(self, execution_id: int) -> int:
        deleted = 0
        for page in self._keys(execution_id):
            for start in range(0, len(page), BATCH):
                self._delete(page[start : start + BATCH])
            deleted += sum("#" not in key["sk"]["S"] for key in page)
        return deleted

    def _keys(self, execution_id: int) -> Iterator[list[dict[str, Any]]]:
        with answering("dynamodb"):
            for page in self._client.get_paginator("query").paginate(
                TableName=self._table,
                KeyConditionExpression="pk = :pk",
                ExpressionAttributeValues={":pk": {"S": str(int(execution_id))}},
                ProjectionExpression="pk, sk",
            ):
                yield page["Items"]

    def _delete(self, keys: list[dict[str, Any]]) -> None:
        wanted = {self._table: [{"DeleteRequest": {"Key": key}} for key in keys]}
        for attempt in range(ATTEMPTS):
            with answering("dynamodb"):
                wanted = self._client.batch_write_item(RequestItems=wanted).get("UnprocessedItems") or {}
            if not wanted:
                return
            self._sleep(0.1 * 2**attempt)
        raise InfrastructureError(
            f"{self._table} is too busy to delete {len(wanted[self._table])} items", code="aws_throttled"
        )

    def _item(self, uri: str, digest: str = "", number: int = 0) -> dict[str, Any] | None:
        with answering("dynamodb"):
            found: dict[str, Any] | None = self._client.get_item(
                TableName=self._table, Key=_key(uri, digest, number), ConsistentRead=True
            ).get("Item")
        return found

    def _missing(self, uri: str) -> NotFoundError:
        return NotFoundError(
            f"{uri} is not in table {self._table}",
            code="REFERENCE_NOT_AVAILABLE",
            hint="its execution was deleted",
        )


def _key(uri: str, digest: str = "", number: int = 0) -> dict[str, Any]:
    execution_id, key = result_key(uri)
    return {
        "pk": {"S": str(execution_id)},
        "sk": {"S": f"{key}#{digest}#{number:04d}" if number else key},
    }


def _bytes(item: dict[str, Any]) -> bytes:
    found = item["data"]["B"]
    return found if isinstance(found, bytes) else bytes(found)
