"""The kind ``s3``: objects of S3, or of a store that speaks its protocol.

Actions: read, write, list, copy and delete objects, and make links.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from noetl.domain.errors import TaskError
from noetl.domain.kinds import HOLE, KindSpec, ParamProblem, TaskContext, TaskResult
from noetl.kinds.cloud.aws_client import AwsParams, answering, client
from noetl.kinds.support.base import READ_SECONDS, seconds_schema
from noetl.kinds.support.object_format import Format, read_object, write_object

SPEC = KindSpec(
    name="s3",
    summary="Reads, writes, lists, copies and deletes objects of S3.",
    pool="io",
    default_timeout=120.0,
    aliases={"operation": "action", "data": "body", "destination_key": "to_key"},
    result_fields=(
        "body",
        "bucket",
        "key",
        "size",
        "content_type",
        "etag",
        "last_modified",
        "metadata",
        "version_id",
        "objects",
        "prefixes",
        "count",
        "next",
    ),
    needs_network=True,
    extra="aws",
)

EXAMPLE: dict[str, Any] = {
    "auth": "reports_account",
    "action": "put",
    "bucket": "reports",
    "key": "2026/11/{{ execution_id }}.json",
    "body": {"total": 17},
}

Action = Literal["get", "put", "list", "head", "delete", "copy", "presign"]
MOST_LISTED = 10_000
PAGE = 1000
"""Most keys in one answer of S3, and in one request to delete (documented limits of the API)."""
LONGEST_LINK = 7 * 24 * 3600
_Life = Annotated[int, Field(ge=1, le=LONGEST_LINK), READ_SECONDS, seconds_schema(1, LONGEST_LINK)]
"""Seconds a signed URL can live (a limit of Signature Version 4)."""


class Params(AwsParams):
    """``action`` on ``bucket`` and ``key``, or on what begins with ``prefix``."""

    refused: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("access_key_id", "secret_access_key", "aws_access_key_id", "aws_secret_access_key", "endpoint_url"),
        "register a credential of type aws and name it in `auth`",
    )
    sensitive: ClassVar[frozenset[str]] = frozenset({"body"})

    action: Annotated[Action, Field(description="What to do.")] = "get"
    bucket: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", description="The bucket.")]
    key: Annotated[str | None, Field(min_length=1, max_length=1024, description="The object.")] = None
    keys: Annotated[
        list[str] | None, Field(min_length=1, max_length=PAGE, description="Objects to delete.")
    ] = None
    prefix: Annotated[str, Field(max_length=1024, description="`list`: what the keys begin with.")] = ""
    delimiter: Annotated[str | None, Field(max_length=10, description="`list`: `/` lists folders too.")] = (
        None
    )
    limit: Annotated[int, Field(ge=1, le=MOST_LISTED, description="`list`: most objects.")] = PAGE
    after: Annotated[str | None, Field(description="`list`: begin behind this key.")] = None
    token: Annotated[
        str | None, Field(description="`list`: the `next` of an earlier call: continue there.")
    ] = None
    body: Annotated[Any, Field(description="`put`: text, or a value that `format` writes.")] = None
    format: Annotated[
        Format, Field(description="What the content is. `auto`: by content type, then by the key's suffix.")
    ] = "auto"
    content_type: Annotated[
        str | None, Field(max_length=256, description="`put`: the media type kept with it.")
    ] = None
    metadata: Annotated[dict[str, str], Field(description="`put`: the object's own metadata.")] = Field(
        default_factory=dict
    )
    if_absent: Annotated[bool, Field(description="`put`: fail when the object is there.")] = False
    to_bucket: Annotated[str | None, Field(description="`copy`: default is the same bucket.")] = None
    to_key: Annotated[
        str | None, Field(min_length=1, max_length=1024, description="`copy`: the new object.")
    ] = None
    version_id: Annotated[str | None, Field(description="`get`, `head`, `delete`: one version.")] = None
    expires_in: _Life = Field(900, description="`presign`: how long the link lives.")
    method: Annotated[Literal["get", "put"], Field(description="`presign`: what the link allows.")] = "get"

    @model_validator(mode="after")
    def _fits(self) -> Params:
        if problem := _missing(
            self.action, key=self.key is not None, keys=self.keys is not None, to_key=self.to_key is not None
        ):
            raise ValueError(problem)
        return self


def _missing(action: object, *, key: bool, keys: bool, to_key: bool) -> str:
    if action is HOLE:
        return ""
    if action == "delete":
        return "" if key != keys else "delete needs `key`, or `keys` (not both)"
    if action == "list":
        return "list takes a `prefix`, not a `key`" if key else ""
    if not key:
        return f"{action} needs a `key`"
    return "copy needs `to_key`" if action == "copy" and not to_key else ""


def check(params: Mapping[str, Any]) -> list[ParamProblem]:
    """Refuse a ``put`` without a body: it would write an empty object by mistake."""
    if params.get("action") == "put" and "body" not in params:
        return [ParamProblem(("action",), "put needs a `body`", 'an empty object has the body ""')]
    return []


def run(params: Params, context: TaskContext) -> TaskResult:
    """Run the action against S3 and return its result.

    By action: ``{body, size, …}``, ``{key, etag, …}``, ``{objects, prefixes, count, next}``, ``{deleted}``, ``{url, expires_in}``.

    Raises TaskError: ``code`` is that of S3 (``NoSuchKey``: not_found; ``AccessDenied``: auth), or ``object_too_large``,
    ``object_exists``, ``object_format``, ``bucket_refused``.
    """
    what = f"s3://{params.bucket}/{params.key or params.prefix}"
    refuse_own((params.bucket, params.to_bucket), context)
    s3 = client("s3", params, context)
    with answering("s3", what):
        return TaskResult(_ACTIONS[params.action](s3, params, context, what))


def refuse_own(buckets: Iterable[str | None], context: TaskContext) -> None:
    """Refuse a bucket of the deployment itself. Raises TaskError(code="bucket_refused")."""
    own = next((bucket for bucket in buckets if bucket in context.settings.own_buckets), None)
    if own is not None:
        raise TaskError(
            f"{own} holds the results of this deployment; a task may not reach into it",
            kind="auth",
            code="bucket_refused",
            hint="read another step's result by its name in a template",
        )


def _get(s3: Any, params: Params, context: TaskContext, what: str) -> dict[str, Any]:
    answer = s3.get_object(Bucket=params.bucket, Key=params.key, **_version(params))
    size, most = int(answer["ContentLength"]), context.settings.output_max_bytes
    if size > most:
        answer["Body"].close()
        raise TaskError(
            f"{what} has {size} bytes; a task here may read {most}",
            kind="storage_quota",
            code="object_too_large",
            hint="let duckdb read it, or loop over it, in place of carrying it",
        )
    data = answer["Body"].read()
    value = read_object(data, params.format, str(answer.get("ContentType") or ""), params.key or "", what)
    return {"body": value, **_described(params, answer, size)}


def _head(s3: Any, params: Params, context: TaskContext, what: str) -> dict[str, Any]:
    answer = s3.head_object(Bucket=params.bucket, Key=params.key, **_version(params))
    return _described(params, answer, int(answer["ContentLength"]))


def _described(params: Params, answer: Mapping[str, Any], size: int) -> dict[str, Any]:
    return {
        "bucket": params.bucket,
        "key": params.key,
        "size": size,
        "content_type": answer.get("ContentType"),
        "etag": _etag(answer),
        "last_modified": answer["LastModified"].isoformat(),
        "metadata": dict(answer.get("Metadata") or {}),
        "version_id": answer.get("VersionId"),
    }


def _put(s3: Any, params: Params, context: TaskContext, what: str) -> dict[str, Any]:
    """Write an object; S3 checks the content by its SHA-256, so it is stored as it was sent."""
    data, kind = write_object(params.body, params.format, params.key or "", what)
    digest = hashlib.sha256(data).digest()
    request: dict[str, Any] = {
        "Bucket": params.bucket,
        "Key": params.key,
        "Body": data,
        "ContentType": params.content_type or kind,
        "ChecksumSHA256": base64.b64encode(digest).decode(),
        "Metadata": params.metadata,
    }
    if params.if_absent:
        request["IfNoneMatch"] = "*"
    try:
        answer = s3.put_object(**request)
    except s3.exceptions.ClientError as error:
        if params.if_absent and error.response.get("Error", {}).get("Code") == "PreconditionFailed":
            raise TaskError(f"{what} is there already", kind="client_error", code="object_exists") from None
        raise
    return {
        "bucket": params.bucket,
        "key": params.key,
        "size": len(data),
        "sha256": digest.hex(),
        "etag": _etag(answer),
        "version_id": answer.get("VersionId"),
    }


def _list(s3: Any, params: Params, context: TaskContext, what: str) -> dict[str, Any]:
    """List up to ``limit`` objects and folders in the order of their keys.

    ``next`` is the ``token`` of the following call, null at the end.
    """
    objects: list[dict[str, Any]] = []
    folders: list[str] = []
    request: dict[str, Any] = {"Bucket": params.bucket, "Prefix": params.prefix}
    if params.delimiter:
        request["Delimiter"] = params.delimiter
    if params.after:
        request["StartAfter"] = params.after
    if params.token:
        request["ContinuationToken"] = params.token
    more = True
    while more and len(objects) + len(folders) < params.limit:
        request["MaxKeys"] = min(PAGE, params.limit - len(objects) - len(folders))
        answer = s3.list_objects_v2(**request)
        objects += [
            {
                "key": found["Key"],
                "size": found["Size"],
                "etag": _etag(found),
                "last_modified": found["LastModified"].isoformat(),
            }
            for found in answer.get("Contents", ())
        ]
        folders += [found["Prefix"] for found in answer.get("CommonPrefixes", ())]
        more = bool(answer.get("IsTruncated"))
        request["ContinuationToken"] = answer.get("NextContinuationToken")
    following = request["ContinuationToken"] if more else None
    return {"objects": objects, "prefixes": folders, "count": len(objects), "next": following}


def _delete(s3: Any, params: Params, context: TaskContext, what: str) -> dict[str, Any]:
    """Delete an object. An absent one counts as deleted: S3 does not report the difference."""
    if params.key is not None:
        s3.delete_object(Bucket=params.bucket, Key=params.key, **_version(params))
        return {"deleted": 1}
    keys = list(dict.fromkeys(params.keys or ()))
    listed = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
    failed = s3.delete_objects(Bucket=params.bucket, Delete=listed).get("Errors") or []
    if failed:
        first = failed[0]
        raise TaskError(
            f"{len(failed)} of {len(keys)} objects of {params.bucket} were not deleted; {first['Key']}: {first['Code']}",
            kind="storage_access",
            code=str(first["Code"]),
            retryable=True,
            details={"failed": [one["Key"] for one in failed[:20]]},
        )
    return {"deleted": len(keys)}


def _copy(s3: Any, params: Params, context: TaskContext, what: str) -> dict[str, Any]:
    """Copy inside S3: the content does not pass this process.

    So it may be of any size up to 5 GB (a limit of CopyObject).
    """
    target = params.to_bucket or params.bucket
    source = {"Bucket": params.bucket, "Key": params.key, **_version(params)}
    answer = s3.copy_object(Bucket=target, Key=params.to_key, CopySource=source)
    return {"bucket": target, "key": params.to_key, "etag": _etag(answer["CopyObjectResult"])}


def _presign(s3: Any, params: Params, context: TaskContext, what: str) -> dict[str, Any]:
    """Make a link for a client without a credential.

    It is a secret as long as it is valid: every client that has it may use it.
    """
    target = {"Bucket": params.bucket, "Key": params.key}
    url = s3.generate_presigned_url(f"{params.method}_object", Params=target, ExpiresIn=params.expires_in)
    return {"url": url, "method": params.method.upper(), "expires_in": params.expires_in}


def _version(params: Params) -> dict[str, str]:
    return {"VersionId": params.version_id} if params.version_id else {}


def _etag(answer: Mapping[str, Any]) -> str | None:
    found = answer.get("ETag")
    return str(found).strip('"') if found else None


_ACTIONS: Mapping[str, Any] = {
    "get": _get,
    "put": _put,
    "list": _list,
    "head": _head,
    "delete": _delete,
    "copy": _copy,
    "presign": _presign,
}
