"""Uploads, downloads, lists, deletes and composes objects of Google Cloud Storage, over its JSON API."""

from __future__ import annotations

import hashlib
import secrets as randomness
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import quote, urlencode

from pydantic import Field, model_validator

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import HOLE, Credential, KindSpec, TaskContext, TaskResult
from noetl.kinds.base import KindParams
from noetl.kinds.object_format import Format, read_object, write_object

if TYPE_CHECKING:
    from noetl.kinds.api_call import Api

SPEC = KindSpec(
    name="gcs",
    summary="Uploads, downloads, lists, deletes and composes objects of Google Cloud Storage.",
    pool="io",
    default_timeout=120.0,
    aliases={"operation": "action", "object": "name", "key": "name", "data": "body"},
    needs_network=True,
    extra="aws",
)

EXAMPLE: dict[str, Any] = {
    "auth": "lake",
    "action": "upload",
    "bucket": "reports",
    "name": "2026/11/totals.json",
    "body": {"total": 17},
}

ENDPOINT = "https://storage.googleapis.com"
TOKEN_URI = "https://oauth2.googleapis.com/token"
SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
TOKEN_SECONDS = 3600
EARLY_SECONDS = 60
"""A token is not used in its last minute."""
MOST_LISTED = 10_000
PAGE = 1000
MOST_SOURCES = 32
"""Most objects in one compose (a limit of the API)."""
_REASONS = {
    "notFound": "not_found",
    "authError": "auth",
    "forbidden": "auth",
    "rateLimitExceeded": "rate_limit",
    "quotaExceeded": "rate_limit",
}

_lock = threading.Lock()
_tokens: dict[str, tuple[str, float]] = {}

Action = Literal["upload", "download", "list", "head", "delete", "compose"]


class Params(KindParams):
    """``action`` on ``bucket`` and ``name``, or on what begins with ``prefix``."""

    refused: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("service_account", "private_key", "credentials", "token"),
        "register a credential of type gcs and name it in `auth`",
    )
    sensitive: ClassVar[frozenset[str]] = frozenset({"body"})

    auth: Annotated[str, Field(min_length=1, description="A credential of type gcs.")]
    action: Annotated[Action, Field(description="What to do.")] = "download"
    bucket: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$", description="The bucket.")]
    name: Annotated[str | None, Field(min_length=1, max_length=1024, description="The object.")] = None
    format: Annotated[Format, Field(description="What the content is, as for s3.")] = "auto"
    body: Annotated[Any, Field(description="`upload`: text, or a value that `format` writes.")] = None
    content_type: Annotated[
        str | None, Field(max_length=256, description="`upload`, `compose`: the media type.")
    ] = None
    metadata: Annotated[dict[str, str], Field(description="`upload`: the object's own metadata.")] = Field(
        default_factory=dict
    )
    if_absent: Annotated[bool, Field(description="`upload`, `compose`: fail when the object is there.")] = (
        False
    )
    prefix: Annotated[str, Field(max_length=1024, description="`list`: what the names begin with.")] = ""
    delimiter: Annotated[str | None, Field(max_length=10, description="`list`: `/` gives folders too.")] = (
        None
    )
    limit: Annotated[int, Field(ge=1, le=MOST_LISTED, description="`list`: most objects.")] = PAGE
    token: Annotated[str | None, Field(description="`list`: the `next` of an earlier call.")] = None
    sources: Annotated[
        list[str] | None,
        Field(min_length=1, max_length=MOST_SOURCES, description="`compose`: objects, in order."),
    ] = None

    @model_validator(mode="after")
    def _fits(self) -> Params:
        action: object = self.action
        if action is HOLE:
            return self
        if action == "list":
            if self.name is not None:
                raise ValueError("list takes a `prefix`, not a `name`")
        elif self.name is None:
            raise ValueError(f"{action} needs a `name`")
        if action == "compose" and self.sources is None:
            raise ValueError("compose needs `sources`")
        return self


def run(params: Params, context: TaskContext) -> TaskResult:
    """By action: the object's ``{bucket, name, size, …}``, with ``body`` for a download; ``{objects, prefixes, count, next}``; ``{deleted}``.

    Raises TaskError: ``code`` is the reason that Google gives (``notFound``), or ``object_too_large``, ``object_exists``, ``object_format``,
    ``object_changed`` (what arrived is not what was sent), ``token_refused``.
    """
    from noetl.kinds.api_call import Api

    credential = context.credential(params.auth)
    endpoint = str(credential.data.get("endpoint") or ENDPOINT).rstrip("/")
    api = Api(context, {"Authorization": f"Bearer {_token(credential, context)}"})
    try:
        return TaskResult(_ACTIONS[params.action](api, endpoint, params, context))
    except TaskError as error:
        raise _told(error) from None


def _upload(api: Api, endpoint: str, params: Params, context: TaskContext) -> dict[str, Any]:
    """Metadata and content in one request; Google's MD5 of what arrived is compared with ours."""
    what = f"gs://{params.bucket}/{params.name}"
    data, kind = write_object(params.body, params.format, params.name or "", what)
    about = {"name": params.name, "contentType": params.content_type or kind, "metadata": params.metadata}
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
    query = urlencode({"uploadType": "multipart", **_absent(params)})
    url = f"{endpoint}/upload/storage/v1/b/{quote(params.bucket, safe='')}/o?{query}"
    made = _json(api, "POST", url, body, {"Content-Type": f"multipart/related; boundary={mark}"})
    arrived = made.get("md5Hash")
    if arrived and arrived != _md5(data):
        raise TaskError(
            f"{what} is not what was sent", kind="storage_access", code="object_changed", retryable=True
        )
    return _described(made)


def _download(api: Api, endpoint: str, params: Params, context: TaskContext) -> dict[str, Any]:
    about = _head(api, endpoint, params, context)
    most, what = context.settings.output_max_bytes, f"gs://{params.bucket}/{params.name}"
    if about["size"] > most:
        raise TaskError(
            f"{what} has {about['size']} bytes; a task here may read {most}",
            kind="storage_quota",
            code="object_too_large",
        )
    exact = urlencode({"alt": "media", "generation": about["generation"]})
    data = api.call("GET", f"{_url(endpoint, params)}?{exact}").body
    return {
        "body": read_object(data, params.format, about["content_type"] or "", params.name or "", what),
        **about,
    }


def _head(api: Api, endpoint: str, params: Params, context: TaskContext) -> dict[str, Any]:
    return _described(_json(api, "GET", _url(endpoint, params)))


def _list(api: Api, endpoint: str, params: Params, context: TaskContext) -> dict[str, Any]:
    objects: list[dict[str, Any]] = []
    folders: list[str] = []
    token = params.token
    while True:
        query = {
            "prefix": params.prefix,
            "maxResults": str(min(PAGE, params.limit - len(objects) - len(folders))),
        }
        query |= {"delimiter": params.delimiter} if params.delimiter else {}
        query |= {"pageToken": token} if token else {}
        page = _json(
            api, "GET", f"{endpoint}/storage/v1/b/{quote(params.bucket, safe='')}/o?{urlencode(query)}"
        )
        objects += [_described(one) for one in page.get("items", ())]
        folders += page.get("prefixes", ())
        token = page.get("nextPageToken")
        if not token or len(objects) + len(folders) >= params.limit:
            return {"objects": objects, "prefixes": folders, "count": len(objects), "next": token}


def _delete(api: Api, endpoint: str, params: Params, context: TaskContext) -> dict[str, Any]:
    """What is not there counts as not deleted, and is no error: a repeated delete does no harm."""
    try:
        api.call("DELETE", _url(endpoint, params))
    except TaskError as error:
        if error.status == 404:
            return {"deleted": 0}
        raise
    return {"deleted": 1}


def _compose(api: Api, endpoint: str, params: Params, context: TaskContext) -> dict[str, Any]:
    order: dict[str, Any] = {"sourceObjects": [{"name": name} for name in params.sources or ()]}
    if params.content_type:
        order["destination"] = {"contentType": params.content_type}
    query = f"?{urlencode(_absent(params))}" if params.if_absent else ""
    url = f"{_url(endpoint, params)}/compose{query}"
    return _described(_json(api, "POST", url, codec.encode(order), {"Content-Type": "application/json"}))


_ACTIONS: Mapping[str, Any] = {
    "upload": _upload,
    "download": _download,
    "list": _list,
    "head": _head,
    "delete": _delete,
    "compose": _compose,
}


def _json(
    api: Api, method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> Any:
    from noetl.kinds.api_call import json_of

    return json_of(api.call(method, url, body, headers))


def _url(endpoint: str, params: Params) -> str:
    return f"{endpoint}/storage/v1/b/{quote(params.bucket, safe='')}/o/{quote(params.name or '', safe='')}"


def _absent(params: Params) -> dict[str, str]:
    """Generation 0: only where no object is."""
    return {"ifGenerationMatch": "0"} if params.if_absent else {}


def _md5(data: bytes) -> str:
    import base64

    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def _described(found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "bucket": found.get("bucket"),
        "name": found.get("name"),
        "size": int(found.get("size") or 0),
        "content_type": found.get("contentType"),
        "generation": found.get("generation"),
        "updated": found.get("updated"),
        "metadata": dict(found.get("metadata") or {}),
    }


def _told(error: TaskError) -> TaskError:
    """An error of the API by the reason it gives; any other error as it is."""
    body = error.details.get("body")
    said = body.get("error") if isinstance(body, dict) else None
    if not isinstance(said, dict):
        return error
    first: Any = next(iter(said.get("errors") or ()), {})
    reason = str(first.get("reason") or said.get("status") or error.code)
    if reason == "conditionNotMet":
        return TaskError(
            "the object is there already", kind="client_error", code="object_exists", status=error.status
        )
    return TaskError(
        f"Google Cloud Storage: {said.get('message') or error.message}",
        kind=_REASONS.get(reason, error.kind),
        code=reason,
        status=error.status,
        retryable=error.retryable or _REASONS.get(reason) == "rate_limit",
        details={key: error.details[key] for key in ("retry_after", "url") if key in error.details},
    )


# --- who the task is there ------------------------------------------------------------------------


def _token(credential: Credential, context: TaskContext) -> str:
    """An access token: given with the credential, or got for its service account's signature and kept until it ends."""
    data = credential.data
    if data.get("access_token"):
        return str(data["access_token"])
    account = _account(credential)
    key = hashlib.sha256(f"{account['client_email']}\n{account['private_key']}".encode()).hexdigest()
    with _lock:
        token, until = _tokens.get(key, ("", 0.0))
    if time.monotonic() < until:
        return token
    token, seconds = _exchanged(account, context)
    with _lock:
        _tokens[key] = (token, time.monotonic() + seconds - EARLY_SECONDS)
    return token


def _account(credential: Credential) -> Mapping[str, Any]:
    """The service account: under ``service_account`` (a mapping, or the JSON text of the key file), or beside it."""
    found: Any = credential.data.get("service_account") or credential.data
    if isinstance(found, str):
        try:
            found = codec.decode(found)
        except ValueError:
            found = None
    if not isinstance(found, Mapping) or not found.get("private_key") or not found.get("client_email"):
        raise TaskError(
            f"the credential {credential.name!r} holds no service account",
            kind="auth",
            code="credential_shape",
            hint="it needs client_email and private_key (the key file as Google gives it), or access_token",
        )
    return found


def _exchanged(account: Mapping[str, Any], context: TaskContext) -> tuple[str, float]:
    """(token, seconds it lives), for an assertion signed by the account (RFC 7523)."""
    from noetl.kinds.api_call import Api, json_of
    from noetl.kinds.signed_jwt import sign

    target, now = str(account.get("token_uri") or TOKEN_URI), int(time.time())
    claims = {
        "iss": account["client_email"],
        "scope": SCOPE,
        "aud": target,
        "iat": now,
        "exp": now + TOKEN_SECONDS,
    }
    assertion = sign(claims, str(account["private_key"]), key_id=account.get("private_key_id"))
    body = urlencode(
        {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion}
    ).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    try:
        answer = json_of(Api(context, {}).call("POST", target, body, headers))
        return str(answer["access_token"]), float(answer.get("expires_in") or TOKEN_SECONDS)
    except (KeyError, TypeError, ValueError):
        reason = "the answer has no access_token"
    except TaskError as error:
        if error.status is None or error.status >= 500:
            raise
        told = error.details.get("body")
        reason = (
            str(told.get("error_description") or told.get("error"))
            if isinstance(told, dict)
            else error.message
        )
    raise TaskError(
        f"Google gave no token for {account['client_email']}: {reason}",
        kind="auth",
        code="token_refused",
        hint="is the key still valid, and this machine's clock right?",
    )
