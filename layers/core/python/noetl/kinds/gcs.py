"""The kind ``gcs``: objects of Google Cloud Storage, over its JSON API.

Actions: upload, download, list, delete and compose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import urlencode

from pydantic import Field, model_validator

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import HOLE, KindSpec, TaskContext, TaskResult
from noetl.kinds.cloud.gcs_api import ENDPOINT, SCOPE, bucket_url, md5_of, multipart, object_url, upload_url
from noetl.kinds.support.base import KindParams
from noetl.kinds.support.object_format import Format, read_object, write_object

if TYPE_CHECKING:
    from noetl.kinds.http.api_call import Api

SPEC = KindSpec(
    name="gcs",
    summary="Uploads, downloads, lists, deletes and composes objects of Google Cloud Storage.",
    pool="io",
    default_timeout=120.0,
    aliases={"operation": "action", "key": "object", "data": "body"},
    result_fields=("bucket", "name", "size", "content_type", "generation", "updated", "metadata", "body"),
    needs_network=True,
    extra="aws",
)

EXAMPLE: dict[str, Any] = {
    "auth": "lake",
    "action": "upload",
    "bucket": "reports",
    "object": "2026/11/totals.json",
    "body": {"total": 17},
}

MOST_LISTED = 10_000
PAGE = 1000
MOST_SOURCES = 32
"""Most objects in one compose (a limit of the API)."""

Action = Literal["upload", "download", "list", "head", "delete", "compose"]


class Params(KindParams):
    """``action`` on ``bucket`` and ``object``, or on what begins with ``prefix``."""

    refused: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("service_account", "private_key", "credentials", "token"),
        "register a credential of type gcs and name it in `auth`",
    )
    sensitive: ClassVar[frozenset[str]] = frozenset({"body"})

    auth: Annotated[str, Field(min_length=1, description="A credential of type gcs.")]
    action: Annotated[Action, Field(description="What to do.")] = "download"
    bucket: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$", description="The bucket.")]
    object: Annotated[
        str | None, Field(min_length=1, max_length=1024, description="Its name in the bucket.")
    ] = None
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
    delimiter: Annotated[str | None, Field(max_length=10, description="`list`: `/` lists folders too.")] = (
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
        action: Any = self.action
        if action is HOLE:
            return self
        if action == "list":
            if self.object is not None:
                raise ValueError("list takes a `prefix`, not a `object`")
        elif self.object is None:
            raise ValueError(f"{action} needs a `object`")
        if action == "compose" and self.sources is None:
            raise ValueError("compose needs `sources`")
        return self


def run(params: Params, context: TaskContext) -> TaskResult:
    """Run the action against Google Cloud Storage and return its result.

    The result is by action: the object's ``{bucket, name, size, …}``, with ``body`` for a download; ``{objects, prefixes, count, next}``;
    ``{deleted}``.

    Raises TaskError: ``code`` is Google's reason (``notFound``), or ``object_too_large``, ``object_exists``, ``object_format``,
    ``object_changed`` (what arrived is not what was sent), ``token_refused``.
    """
    from noetl.kinds.cloud.google_auth import access_token, google_error
    from noetl.kinds.http.api_call import Api

    credential = context.credential(params.auth)
    endpoint = str(credential.data.get("endpoint") or ENDPOINT).rstrip("/")
    api = Api(context, {"Authorization": f"Bearer {access_token(credential, SCOPE, context)}"})
    try:
        return TaskResult(_ACTIONS[params.action](api, endpoint, params, context))
    except TaskError as error:
        if error.status == 412:
            raise TaskError(
                "the object is there already", kind="client_error", code="object_exists", status=412
            ) from None
        raise google_error(error, "Google Cloud Storage") from None


def _upload(api: Api, endpoint: str, params: Params, context: TaskContext) -> dict[str, Any]:
    """Send metadata and content in one request; check Google's MD5 of what arrived."""
    what = f"gs://{params.bucket}/{params.object}"
    data, kind = write_object(params.body, params.format, params.object or "", what)
    about = {"name": params.object, "contentType": params.content_type or kind, "metadata": params.metadata}
    body, headers = multipart(about, data)
    url = upload_url(endpoint, params.bucket, uploadType="multipart", **_absent(params))
    made = _json(api, "POST", url, body, headers)
    arrived = made.get("md5Hash")
    if arrived and arrived != md5_of(data):
        raise TaskError(
            f"{what} is not what was sent", kind="storage_access", code="object_changed", retryable=True
        )
    return _described(made)


def _download(api: Api, endpoint: str, params: Params, context: TaskContext) -> dict[str, Any]:
    about = _head(api, endpoint, params, context)
    most, what = context.settings.output_max_bytes, f"gs://{params.bucket}/{params.object}"
    if about["size"] > most:
        raise TaskError(
            f"{what} has {about['size']} bytes; a task here may read {most}",
            kind="storage_quota",
            code="object_too_large",
        )
    exact = urlencode({"alt": "media", "generation": about["generation"]})
    data = api.call("GET", f"{_url(endpoint, params)}?{exact}").body
    return {
        "body": read_object(data, params.format, about["content_type"] or "", params.object or "", what),
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
        page = _json(api, "GET", f"{bucket_url(endpoint, params.bucket)}?{urlencode(query)}")
        objects += [_described(one) for one in page.get("items", ())]
        folders += page.get("prefixes", ())
        token = page.get("nextPageToken")
        if not token or len(objects) + len(folders) >= params.limit:
            return {"objects": objects, "prefixes": folders, "count": len(objects), "next": token}


def _delete(api: Api, endpoint: str, params: Params, context: TaskContext) -> dict[str, Any]:
    """Delete an object. One that is absent counts as not deleted, and is no error.

    So a repeated delete does no harm.
    """
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
    from noetl.kinds.http.api_call import json_of

    return json_of(api.call(method, url, body, headers))


def _url(endpoint: str, params: Params) -> str:
    return object_url(endpoint, params.bucket, params.object or "")


def _absent(params: Params) -> dict[str, str]:
    """Require generation 0: no object may exist at that name."""
    return {"ifGenerationMatch": "0"} if params.if_absent else {}


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
