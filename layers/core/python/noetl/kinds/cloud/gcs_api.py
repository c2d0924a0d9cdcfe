"""The JSON API of Google Cloud Storage, for the kind ``gcs`` and the tier ``gcs``."""

from __future__ import annotations

import base64
import hashlib
import secrets as randomness
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from noetl.domain import codec

ENDPOINT = "https://storage.googleapis.com"
SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"


def bucket_url(endpoint: str, bucket: str) -> str:
    """Return the URL of the objects in a bucket."""
    return f"{endpoint}/storage/v1/b/{quote(bucket, safe='')}/o"


def object_url(endpoint: str, bucket: str, name: str) -> str:
    return f"{bucket_url(endpoint, bucket)}/{quote(name, safe='')}"


def upload_url(endpoint: str, bucket: str, **query: str) -> str:
    return f"{endpoint}/upload/storage/v1/b/{quote(bucket, safe='')}/o?{urlencode(query)}"


def multipart(about: Mapping[str, Any], data: bytes) -> tuple[bytes, dict[str, str]]:
    """Make (body, headers) of an upload of metadata and content in one request.

    ``about``: with ``name`` and ``contentType``.
    """
    mark = randomness.token_hex(16)
    body = b"".join(
        [
            f"--{mark}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n".encode(),
            codec.encode(about),
            f"\r\n--{mark}\r\nContent-Type: {about['contentType']}\r\n\r\n".encode(),
            data,
            f"\r\n--{mark}--\r\n".encode(),
        ]
    )
    return body, {"Content-Type": f"multipart/related; boundary={mark}"}


def md5_of(data: bytes) -> str:
    """Encode the MD5 of ``data`` as Google reports it for the stored object."""
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
