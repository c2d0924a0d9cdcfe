"""Objects of S3 as streams: written in parts, read from any position."""

from __future__ import annotations

import contextlib
import re
from typing import Any

from noetl.adapters.aws.clients import FAILURES, answering, error_code, error_message, unreachable
from noetl.domain.errors import ConflictError, NotFoundError

PART_BYTES = 8 * 1024 * 1024
"""Of one part of an upload, and most that is held: S3 wants at least 5 MiB and at most 10,000 parts, so objects end at 80 GiB
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html)."""
_MISSING = frozenset({"NoSuchKey", "404", "NotFound"})
_HIDDEN = frozenset({"AccessDenied", "403", "Forbidden"})
_EXISTS = frozenset({"PreconditionFailed", "412"})
_DENIED = re.compile(r"not authorized to perform: ([A-Za-z0-9:]+)", re.ASCII)


def is_missing(error: Exception, *, lists: bool) -> bool:
    """Return whether S3 says that an object is missing. ``lists``: whether the role may list.

    To a role that may not list the bucket, S3 answers "forbidden" instead, so that the role cannot learn which objects exist. A refusal
    that
    names another action is a refusal (https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadObject.html#API_HeadObject_RequestSyntax,
    "Permissions").
    """
    code = error_code(error)
    if lists or code not in _HIDDEN:
        return code in _MISSING
    denied = _DENIED.search(error_message(error))
    return denied is None or denied[1] == "s3:ListBucket"


class S3Writer:
    """A writer of one object: one request when it fits into one part, else a multipart upload.

    S3 shows a multipart upload only when it is complete.
    """

    def __init__(self, client: Any, bucket: str, key: str, what: str) -> None:
        self._client = client
        self._object = {"Bucket": bucket, "Key": key}
        self._what = what
        self._waiting = bytearray()
        self._upload = ""
        self._parts: list[dict[str, Any]] = []

    def write(self, data: bytes) -> None:
        self._waiting += data
        while len(self._waiting) >= PART_BYTES:
            part = bytes(self._waiting[:PART_BYTES])
            del self._waiting[:PART_BYTES]
            self._send(part)

    def commit(self) -> None:
        try:
            self._complete()
        except FAILURES as error:
            if error_code(error) in _EXISTS:
                raise ConflictError(f"{self._what} exists already", code="result_exists") from error
            raise unreachable(error, "s3") from error
        self._upload, self._parts = "", []

    def abort(self) -> None:
        self._waiting.clear()
        if self._upload:
            # What cannot be taken back now, the bucket's lifecycle rule removes.
            with contextlib.suppress(*FAILURES):
                self._client.abort_multipart_upload(**self._object, UploadId=self._upload)
            self._upload, self._parts = "", []

    def _send(self, part: bytes) -> None:
        with answering("s3"):
            if not self._upload:
                self._upload = self._client.create_multipart_upload(**self._object)["UploadId"]
            number = len(self._parts) + 1
            answer = self._client.upload_part(
                **self._object, UploadId=self._upload, PartNumber=number, Body=part
            )
        self._parts.append({"PartNumber": number, "ETag": answer["ETag"]})

    def _complete(self) -> None:
        if not self._upload:
            self._client.put_object(**self._object, Body=bytes(self._waiting), IfNoneMatch="*")
            return
        if self._waiting:
            self._send(bytes(self._waiting))
        self._client.complete_multipart_upload(
            **self._object, UploadId=self._upload, MultipartUpload={"Parts": self._parts}, IfNoneMatch="*"
        )


class S3Reader:
    """A reader of one object.

    Raises NotFoundError(code="REFERENCE_NOT_AVAILABLE") when it is made for an object that is missing.
    """

    def __init__(
        self, client: Any, bucket: str, key: str, start: int, what: str, *, lists: bool = True
    ) -> None:
        wanted = {"Bucket": bucket, "Key": key}
        if start:
            wanted["Range"] = f"bytes={start}-"
        self._body: Any = None
        try:
            self._body = client.get_object(**wanted)["Body"]
        except FAILURES as error:
            if is_missing(error, lists=lists):
                raise NotFoundError(
                    f"{what} is not in bucket {bucket}", code="REFERENCE_NOT_AVAILABLE"
                ) from None
            if error_code(error) != "InvalidRange":  # a range that begins where the object ends has no bytes
                raise unreachable(error, "s3") from error

    def read(self, size: int) -> bytes:
        if self._body is None:
            return b""
        with answering("s3"):
            data: bytes = self._body.read(size)
        return data

    def close(self) -> None:
        if self._body is not None:
            self._body.close()
