"""Sources of a script: a file beside the playbook, S3, GCS, an address, or a result.

A script that is pinned by its digest is fetched once by a process, and has that digest or is refused.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from noetl.caching.lru_cache import LruCache
from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext
from noetl.domain.results.references import format_of, is_ref

MOST_BYTES = 4 * 1024 * 1024
"""Of a script that is fetched."""
KEPT_BYTES = 16 * 1024 * 1024
"""Of pinned scripts that a process remembers."""
Type = Literal["file", "http", "s3", "gcs", "result"]
_SCHEMES: Mapping[str, Type] = {"file": "file", "http": "http", "https": "http", "s3": "s3", "gs": "gcs"}
_SCHEME = re.compile(r"\A([A-Za-z][A-Za-z0-9+.-]*)://")
_Text = Annotated[str, Field(min_length=1, max_length=4096)]


class Source(BaseModel):
    """Where the script is: a ``uri``, or its parts."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    type: Type | None = Field(None, description="`file` unless the `uri` says something else.")
    path: _Text | None = Field(None, description="A file's, relative to an allowed folder; an object's key.")
    uri: _Text | None = Field(
        None, description="`file://…`, `https://…`, `s3://bucket/key`, `gs://bucket/name`."
    )
    bucket: _Text | None = Field(None, description="Of S3 or Google Cloud Storage; `path` is the key.")
    ref: Any = Field(None, description="A result that holds the script's text: `{{ step.data }}`.")
    auth: _Text | None = Field(None, description="Name of the credential to fetch it with.")
    region: _Text | None = Field(None, description="Of S3.")
    headers: dict[str, Any] | None = Field(None, description="Of an `http` request.")

    @model_validator(mode="after")
    def _place(self) -> Source:
        given = [name for name in ("path", "uri", "ref") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("name the script once: path, uri or ref")
        if self.kind == "result" and self.ref is None:
            raise ValueError("a result is named by 'ref'")
        if self.ref is not None and self.kind != "result":
            raise ValueError("'ref' is of the type result")
        if self.kind in ("s3", "gcs") and self.uri is None and self.bucket is None:
            raise ValueError(f"{self.kind} needs a 'bucket' beside the path, or a uri")
        if self.kind == "http" and self.uri is None:
            raise ValueError("http needs a 'uri'")
        named = _SCHEME.match(self.uri or "")
        if named and self.type is not None and _SCHEMES.get(named[1].lower()) != self.type:
            raise ValueError(f"{named[1]}:// is not of the type {self.type}")
        return self

    @property
    def kind(self) -> Type:
        if self.type is not None:
            return self.type
        named = _SCHEME.match(self.uri or "")
        if self.ref is not None:
            return "result"
        return _SCHEMES.get(named[1].lower(), "file") if named else "file"


@dataclass(frozen=True, slots=True)
class Fetched:
    """``name``: the last part of where it was, which may tell by its suffix what it is."""

    name: str
    content: bytes


def fetch(source: Source, pin: str | None, context: TaskContext) -> Fetched:
    """Fetch a script that is no file. ``pin``: its SHA-256 in hexadecimal.

    Raises TaskError: ``checksum``, ``script_too_large``, ``script_unpinned``, and what the service says.
    """
    if source.kind == "http" and pin is None:
        raise unpinned(source.uri or "")
    name = _name(source)
    kept = _kept.get(pin) if pin is not None else None
    if kept is not None:
        return Fetched(name, kept)
    content = _FETCH[source.kind](source, context)
    if len(content) > MOST_BYTES:
        raise _too_large(_shown(source))
    if pin is not None:
        found = hashlib.sha256(content).hexdigest()
        if found != pin:
            raise TaskError(
                f"{_shown(source)} has changed: its checksum is sha256:{found}, the playbook says sha256:{pin}",
                kind="storage_access",
                code="checksum",
                hint="look at what is there now; when it is right, write its checksum into the playbook",
            )
        _kept.put(pin, content, len(content))
    return Fetched(name, content)


def unpinned(uri: str) -> TaskError:
    return TaskError(
        f"the script of {uri} is not pinned, and its server could serve another one",
        kind="schema",
        code="script_unpinned",
        hint="pin it: checksum: sha256:… (sha256sum of the file)",
    )


_kept: LruCache[str, bytes] = LruCache(most_size=KEPT_BYTES)
"""Contents by their digest."""


def forget_scripts() -> None:
    """Drop the cached scripts: they are fetched again."""
    _kept.clear()


def _name(source: Source) -> str:
    if source.kind == "result":
        return "script"
    place = urlsplit(source.uri).path if source.uri else source.path or ""
    return (
        re.sub(r"[^\w.-]", "_", unquote(place).rstrip("/").rpartition("/")[2])[-100:].lstrip(".-") or "script"
    )


def _shown(source: Source) -> str:
    if source.kind == "result":
        return f"the result {source.ref['ref']}" if is_ref(source.ref) else "the result"
    if source.kind in ("s3", "gcs"):
        return f"{'gs' if source.kind == 'gcs' else 's3'}://{'/'.join(_object(source))}"
    return (source.uri or "").partition("?")[0]


def _object(source: Source) -> tuple[str, str]:
    """(bucket, key)."""
    if source.uri is None:
        return source.bucket or "", source.path or ""
    bucket, _, key = _SCHEME.sub("", source.uri, count=1).partition("/")
    if not bucket or not key:
        raise TaskError(
            f"{source.uri!r} names no object",
            kind="schema",
            code="script_source",
            hint="write s3://bucket/key",
        )
    return bucket, key


def _too_large(what: str) -> TaskError:
    return TaskError(
        f"{what} is larger than the {MOST_BYTES} bytes that a script may have",
        kind="storage_quota",
        code="script_too_large",
    )


def _of_http(source: Source, context: TaskContext) -> bytes:
    from noetl.kinds.http.call import limits_of, request_of
    from noetl.kinds.http.client import send
    from noetl.kinds.http.params import Params
    from noetl.kinds.http.response import failure_of

    params = Params.model_validate({"url": source.uri, "headers": source.headers, "auth": source.auth})
    request = request_of(params, context)
    limits = replace(limits_of(params, context, streamed=False), body_bytes=MOST_BYTES)
    answer = send(request, limits, follow_redirects=True)
    if answer.status != 200:
        raise failure_of(request, answer)
    return answer.body


def _of_s3(source: Source, context: TaskContext) -> bytes:
    from noetl.kinds.cloud.aws_client import AwsParams, answering, client
    from noetl.kinds.s3 import refuse_own

    bucket, key = _object(source)
    refuse_own((bucket,), context)
    s3 = client("s3", AwsParams(auth=source.auth, region=source.region), context)
    with answering("s3", _shown(source)):
        answer = s3.get_object(Bucket=bucket, Key=key)
        with answer["Body"] as body:
            content: bytes = body.read(MOST_BYTES + 1)
    return content


def _of_gcs(source: Source, context: TaskContext) -> bytes:
    from noetl.kinds.cloud.gcs_api import ENDPOINT, SCOPE, object_url
    from noetl.kinds.cloud.google_auth import access_token, google_error
    from noetl.kinds.http.api_call import Api

    bucket, name = _object(source)
    credential = context.credential(source.auth) if source.auth else None
    if credential is None:
        raise TaskError(
            "a script of Google Cloud Storage needs a credential",
            kind="auth",
            code="auth_missing",
            hint="name one of type gcs in `source.auth`",
        )
    endpoint = str(credential.data.get("endpoint") or ENDPOINT).rstrip("/")
    bounded = replace(context, settings=replace(context.settings, http_max_bytes=MOST_BYTES))
    api = Api(bounded, {"Authorization": f"Bearer {access_token(credential, SCOPE, context)}"})
    try:
        return api.call("GET", f"{object_url(endpoint, bucket, name)}?alt=media").body
    except TaskError as error:
        raise google_error(error, "Google Cloud Storage") from None


def _of_result(source: Source, context: TaskContext) -> bytes:
    if isinstance(source.ref, str):
        return source.ref.encode("utf-8", "replace")
    if not is_ref(source.ref):
        raise TaskError(
            f"a {type(source.ref).__name__} is no script",
            kind="schema",
            code="script_source",
            hint="name a result that is text: `ref: '{{ step.data }}'`",
        )
    if format_of(source.ref) != "json":
        with context.artifacts.open(source.ref) as stream:
            return stream.read(MOST_BYTES + 1)
    from noetl.kinds.support.artifact_values import load

    return _of_result(source.model_copy(update={"ref": load(source.ref, context)}), context)


_FETCH = {"http": _of_http, "s3": _of_s3, "gcs": _of_gcs, "result": _of_result}


def time_left(context: TaskContext, began: float) -> TaskContext:
    """Return the context with the time that is left after fetching.

    ``began``: on the monotonic clock.
    """
    return replace(context, timeout=max(0.001, context.timeout - (time.monotonic() - began)))
