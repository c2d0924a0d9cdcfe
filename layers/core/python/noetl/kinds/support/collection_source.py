"""The stream of a loop's collection: an object of S3, a prefix's objects, or a file.

It is read element by element.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import unquote

from pydantic import Field, model_validator

from noetl.domain.errors import TaskError
from noetl.domain.kinds import KindSpec, TaskContext
from noetl.kinds.cloud.aws_client import AwsParams, answering, client
from noetl.kinds.rows.formats import FORMATS, RowFormat, format_of
from noetl.kinds.rows.parquet import read_parquet
from noetl.kinds.rows.reading import Readable, read_rows, read_values
from noetl.kinds.s3 import PAGE, refuse_own
from noetl.kinds.support.params import ParamsChecker
from noetl.kinds.support.paths import locate, open_file, path_of_file_uri

SPEC = KindSpec(name="loop.in", summary="What a loop goes over.", pool="io", default_timeout=900.0)


class Params(AwsParams):
    """Either ``s3`` or ``file``."""

    sensitive: ClassVar[frozenset[str]] = frozenset()

    s3: Annotated[
        str | None, Field(pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?$", max_length=1100)
    ] = None
    file: Annotated[str | None, Field(min_length=1, max_length=4096)] = None
    format: Literal["auto", "csv", "jsonl", "json", "parquet", "listing"] = "auto"
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    member: Annotated[str, Field(min_length=1, max_length=200)] = "rows"

    @model_validator(mode="after")
    def _fits(self) -> Params:
        if (self.s3 is None) == (self.file is None):
            raise ValueError("name one source: `s3` or `file`")
        if self.file is not None and self.format == "listing":
            raise ValueError("`listing` is for a prefix of s3")
        return self


_CHECKER = ParamsChecker(Params, SPEC)


def elements(source: Any, context: TaskContext) -> Iterator[Any]:
    """Yield the elements of ``source`` (see ``domain/collection_sources.py``).

    They are rows of CSV and Parquet, values of JSONL and of a JSON list, objects under a
    prefix as ``{bucket, key, size, etag, last_modified}``.

    Raises TaskError: ``not_found``, ``auth``, ``parse`` (code ``object_format``, with the number of the row), ``schema``.
    """
    params = _parse(source)
    if params.file is not None:
        return _of_file(params.file, params, context)
    assert params.s3 is not None
    bucket, _, key = params.s3.removeprefix("s3://").partition("/")
    refuse_own((bucket,), context)
    if params.format == "listing" or (params.format == "auto" and (not key or key.endswith("/"))):
        return _listed(bucket, key, params, context)
    return _of_object(bucket, key, params, context)


def _parse(source: Any) -> Params:
    if isinstance(source, str):
        source = {"s3": source} if source.startswith("s3:") else {"file": source}
    found = _CHECKER.parse(source)
    assert isinstance(found, Params)
    return found


def _listed(bucket: str, prefix: str, params: Params, context: TaskContext) -> Iterator[Any]:
    """List the objects below the prefix in the order of their keys.

    The object that represents the folder itself (its key is the prefix) is left out.
    """
    s3, what = client("s3", params, context), f"s3://{bucket}/{prefix}"
    request: dict[str, Any] = {"Bucket": bucket, "Prefix": prefix, "MaxKeys": PAGE}
    while True:
        with answering("s3", what):
            answer = s3.list_objects_v2(**request)
        for found in answer.get("Contents", ()):
            if found["Key"] != prefix or not prefix.endswith("/"):
                yield {
                    "bucket": bucket,
                    "key": found["Key"],
                    "size": found["Size"],
                    "etag": str(found.get("ETag") or "").strip('"') or None,
                    "last_modified": found["LastModified"].isoformat(),
                }
        if not answer.get("IsTruncated"):
            return
        request["ContinuationToken"] = answer["NextContinuationToken"]


def _of_object(bucket: str, key: str, params: Params, context: TaskContext) -> Iterator[Any]:
    s3, what = client("s3", params, context), f"s3://{bucket}/{key}"
    with answering("s3", what):
        answer = s3.get_object(Bucket=bucket, Key=key)
    body = answer["Body"]
    try:
        format = _format(params, key, str(answer.get("ContentType") or ""), what)
        with answering("s3", what):
            yield from read_elements(body, format, what, params, context)
    finally:
        body.close()


def _of_file(place: str, params: Params, context: TaskContext) -> Iterator[Any]:
    named = place if place.startswith("file:///") else unquote(place.removeprefix("file:"))
    path = locate(path_of_file_uri(named) if named.startswith("file:") else named, context.settings)
    what = f"file:{path.name}"
    format = _format(params, path.name, "", what)
    try:
        if format == "parquet" and not context.settings.task_folders:
            for rows in read_parquet(path, what=what):
                yield from rows
            return
        with open_file(path) as stream:
            yield from read_elements(stream, format, what, params, context)
    except OSError as error:
        raise TaskError(
            f"{what} cannot be read: {error.strerror}", kind="storage_access", code="file_unreadable"
        ) from None


def _format(params: Params, name: str, content_type: str, what: str) -> RowFormat:
    if params.format in FORMATS:
        return params.format
    found = format_of(name, content_type)
    if found is None:
        raise TaskError(
            f"{what} does not tell what it holds",
            kind="schema",
            code="format_unknown",
            hint="say it: in: { s3: …, format: csv } (or jsonl, json, parquet; listing for the objects under a prefix)",
        )
    return found


def read_elements(
    stream: Readable, format: RowFormat, what: str, params: Params | None, context: TaskContext
) -> Iterator[Any]:
    """Read the elements of a stream of rows or values, a chunk of them in memory.

    Raises TaskError as ``elements``.
    """
    if format in ("jsonl", "json"):
        member = params.member if params is not None else "rows"
        yield from read_values(stream, format, what=what, member=member)
        return
    delimiter = params.delimiter if params is not None else ","
    for rows in read_rows(stream, format, what=what, delimiter=delimiter, folder=context.settings.work_dir):
        yield from rows
