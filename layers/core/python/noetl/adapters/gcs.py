"""The tier ``gcs``: a bucket of Google Cloud Storage.

Objects are written once, and in parts where they are large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from noetl.adapters.result_uri import result_key
from noetl.domain.errors import ConflictError, InfrastructureError, NotFoundError, TaskError
from noetl.domain.kinds import Credential, TaskSettings
from noetl.domain.results.retention import PERMANENT
from noetl.kinds.cloud.gcs_api import ENDPOINT, SCOPE, bucket_url, md5_of, multipart, object_url, upload_url
from noetl.ports.results import OneTier

PART_BYTES = 8 * 1024 * 1024
"""Of one request, and most that is held; parts of an upload are multiples of 256 KiB."""
SECONDS = 60.0
TYPE = "application/octet-stream"
_RESUME_INCOMPLETE = 308
"""The answer to a part that is not the last."""


@dataclass(frozen=True, slots=True)
class _Caller:
    """This process, as the API client sees it."""

    settings: TaskSettings
    timeout: float = SECONDS


@dataclass(frozen=True, slots=True)
class GcsPlace:
    """A place in a bucket.

    ``key``: of a service account, as Google's file has it (or ``access_token``, ``endpoint``). ``allow``: internal hosts that may be
    reached (an emulator). ``prefix``: what the names of all objects begin with.
    """

    bucket: str
    key: dict[str, Any] = field(repr=False)
    prefix: str = "noetl"
    allow: tuple[str, ...] = ()


class GcsResultStore(OneTier):
    """Large results in a bucket of Google Cloud Storage.

    Names are ``<prefix>/executions/<execution id>/<SHA-256 of the URI>``, and ``<prefix>/permanent/…`` for what no execution takes along.
    """

    name = "gcs"

    def __init__(self, place: GcsPlace) -> None:
        self._place = place
        self._endpoint = str(place.key.get("endpoint") or ENDPOINT).rstrip("/")
        self._caller = _Caller(TaskSettings(http_allow=place.allow))
        self._credential = Credential("the tier gcs", "gcs", place.key)

    def put(self, uri: str, data: bytes) -> None:
        """Raises ConflictError(code="result_exists") when the object exists with other bytes."""
        if not self._upload(self._name(uri), data) and self.get(uri) != data:
            raise ConflictError(f"{uri} exists with other content", code="result_exists")

    def get(self, uri: str) -> bytes:
        reader = self.reader(uri)
        return b"".join(iter(lambda: reader.read(PART_BYTES), b""))

    def writer(self, uri: str) -> _Writer:
        return _Writer(self, self._name(uri), uri)

    def reader(self, uri: str, start: int = 0) -> _Reader:
        return _Reader(self, self._name(uri), uri, start)

    def path(self, uri: str) -> Path | None:
        return None

    def delete(self, uris: Sequence[str]) -> None:
        for uri in uris:
            self._delete(self._name(uri))

    def delete_execution(self, execution_id: int) -> int:
        deleted = 0
        for name in self._listed(f"{self._place.prefix}/executions/{int(execution_id)}/"):
            self._delete(name)
            deleted += 1
        return deleted

    def _delete(self, name: str) -> None:
        with gcs_errors():
            try:
                self.call("DELETE", self.url(name))
            except TaskError as error:
                if error.status != 404:
                    raise

    def call(self, method: str, url: str, body: bytes | None = None, headers: Any = None) -> Any:
        """The answer. Raises TaskError."""
        from noetl.kinds.cloud.google_auth import access_token
        from noetl.kinds.http.api_call import Api

        token = access_token(self._credential, SCOPE, self._caller)
        return Api(self._caller, {"Authorization": f"Bearer {token}"}).call(method, url, body, headers)

    def url(self, name: str) -> str:
        return object_url(self._endpoint, self._place.bucket, name)

    def missing(self, uri: str) -> NotFoundError:
        return NotFoundError(
            f"{uri} is not in bucket {self._place.bucket}",
            code="REFERENCE_NOT_AVAILABLE",
            hint="its execution was deleted, or the bucket's lifecycle rules removed it",
        )

    def begin_upload(self, name: str) -> str:
        """Where the parts of a large object go to."""
        url = upload_url(
            self._endpoint, self._place.bucket, uploadType="resumable", name=name, ifGenerationMatch="0"
        )
        with gcs_errors():
            answer = self.call("POST", url, b"", {"X-Upload-Content-Type": TYPE})
        return str(answer.headers["location"])

    def _upload(self, name: str, data: bytes) -> bool:
        """Whether this call made the object; False when there is one."""
        from noetl.kinds.http.api_call import json_of

        url = upload_url(self._endpoint, self._place.bucket, uploadType="multipart", ifGenerationMatch="0")
        body, headers = multipart({"name": name, "contentType": TYPE}, data)
        with gcs_errors():
            try:
                made = json_of(self.call("POST", url, body, headers))
            except TaskError as error:
                if error.status == 412:
                    return False
                raise
        if made.get("md5Hash") not in (None, md5_of(data)):
            raise InfrastructureError(f"{name} did not arrive as it was sent", code="result_corrupt")
        return True

    def _listed(self, prefix: str) -> Iterator[str]:
        from noetl.kinds.http.api_call import json_of

        token = ""
        while True:
            query = {"prefix": prefix, "maxResults": "1000"} | ({"pageToken": token} if token else {})
            with gcs_errors():
                url = f"{bucket_url(self._endpoint, self._place.bucket)}?{urlencode(query)}"
                page = json_of(self.call("GET", url))
            for one in page.get("items", ()):
                yield one["name"]
            token = page.get("nextPageToken") or ""
            if not token:
                return

    def _name(self, uri: str) -> str:
        execution_id, key = result_key(uri)
        folder = "permanent" if execution_id == PERMANENT else f"executions/{execution_id}"
        return f"{self._place.prefix}/{folder}/{key}"


class _Writer:
    """A writer of an object.

    What fits into one part is one request. More is a resumable upload, which is shown when its last part has come.
    """

    def __init__(self, store: GcsResultStore, name: str, uri: str) -> None:
        self._store = store
        self._name = name
        self._uri = uri
        self._waiting = bytearray()
        self._upload = ""
        self._sent = 0

    def write(self, data: bytes) -> None:
        self._waiting += data
        # The last part says how much there is, so one is always kept back.
        while len(self._waiting) > PART_BYTES:
            self._upload = self._upload or self._store.begin_upload(self._name)
            self._send(bytes(self._waiting[:PART_BYTES]), "*")
            del self._waiting[:PART_BYTES]

    def commit(self) -> None:
        if not self._upload:
            made = self._store._upload(self._name, bytes(self._waiting))
        else:
            made = self._send(bytes(self._waiting), str(self._sent + len(self._waiting)))
        self._upload = ""
        if not made:
            raise ConflictError(f"{self._uri} exists already", code="result_exists")

    def abort(self) -> None:
        self._waiting.clear()
        if self._upload:
            upload, self._upload = self._upload, ""
            try:
                self._store.call("DELETE", upload)
            except TaskError:
                return  # Google drops what nobody ends within a week

    def _send(self, part: bytes, total: str) -> bool:
        last = self._sent + len(part) - 1
        with gcs_errors():
            try:
                answer = self._store.call(
                    "PUT", self._upload, part, {"Content-Range": f"bytes {self._sent}-{last}/{total}"}
                )
            except TaskError as error:
                if error.status == 412:
                    return False
                raise
        if total == "*" and answer.status != _RESUME_INCOMPLETE:
            raise InfrastructureError(f"{self._name}: the upload ended early", code="gcs_failed")
        self._sent += len(part)
        return True


class _Reader:
    """A reader of an object, one range at a time.

    It asks for the first range at once, so that a missing object is reported immediately.
    """

    def __init__(self, store: GcsResultStore, name: str, uri: str, start: int) -> None:
        self._store = store
        self._name = name
        self._uri = uri
        self._at = start
        self._held = b""
        self._ended = False
        self._fetch()

    def read(self, size: int) -> bytes:
        if not self._held and not self._ended:
            self._fetch()
        found, self._held = self._held[:size], self._held[size:]
        return found

    def close(self) -> None:
        self._held = b""

    def _fetch(self) -> None:
        wanted = {"Range": f"bytes={self._at}-{self._at + PART_BYTES - 1}", "Accept-Encoding": "identity"}
        with gcs_errors():
            try:
                self._held = self._store.call(
                    "GET", f"{self._store.url(self._name)}?alt=media", None, wanted
                ).body
            except TaskError as error:
                if error.status == 404 and error.details.get("body") is not None and _no_object(error):
                    raise self._store.missing(self._uri) from None
                if error.status != 416:  # a range that begins where the object ends has no bytes
                    raise
        self._at += len(self._held)
        self._ended = len(self._held) < PART_BYTES


def _no_object(error: TaskError) -> bool:
    """Whether it is the object that is missing, and not its bucket."""
    return "bucket does not exist" not in str(error.details.get("body"))


@contextmanager
def gcs_errors() -> Iterator[None]:
    """Turn errors of the API into InfrastructureError.

    It is retryable unless the request itself is refused.
    """
    try:
        yield
    except TaskError as error:
        from noetl.kinds.cloud.google_auth import google_error

        plain = google_error(error, "Google Cloud Storage")
        refused = plain.kind == "auth"
        raise InfrastructureError(
            f"the tier gcs: {plain.message}",
            code="gcs_refused" if refused else "gcs_unreachable" if plain.retryable else "gcs_failed",
            retryable=plain.retryable,
            hint="the service account needs roles/storage.objectUser on the bucket" if refused else None,
        ) from error
