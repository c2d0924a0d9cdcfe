"""Objects of S3 as an end of a transfer: read as a stream, written in parts.

An object that is written is there whole or not at all. What a worker that died had sent of it is never seen, and a transfer that was cut off
begins again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext
from noetl.domain.results.references import MEDIA_TYPES
from noetl.kinds.cloud.aws_client import answering, client
from noetl.kinds.rows.formats import CHUNK_ROWS, FORMATS, RowFormat, format_of
from noetl.kinds.rows.parquet import read_parquet
from noetl.kinds.rows.reading import read_rows
from noetl.kinds.support.task_workspace import private_folder
from noetl.kinds.transfer.endpoint_base import IntoFile, RowFile, SourceEnd
from noetl.kinds.transfer.endpoints import Chunk, Counted, Position, Row, Source, changed, in_chunks
from noetl.kinds.transfer.params import S3Object, S3Source, S3Target

PART_BYTES = 8 * 1024 * 1024
"""A part of an upload; S3 takes 10,000 of them, so they grow."""
GROWING = 1000
_BLOCK = 1024 * 1024


def _client(params: S3Object, context: TaskContext) -> Any:
    if params.place[0] in context.settings.own_buckets:
        raise TaskError(
            f"{params.place[0]} holds the results of this deployment; a task may not reach into it",
            kind="auth",
            code="bucket_refused",
            hint='read another step\'s result by its name: `source: {kind: artifact, ref: "{{ step }}"}`',
        )
    return client("s3", params, context)


def _format(params: S3Object) -> RowFormat:
    found = params.format or format_of(params.place[1])
    if found is None:
        raise TaskError(
            f"the format of {params.uri} is not known from its name",
            kind="schema",
            code="object_format",
            hint=f"say `format: {' | '.join(FORMATS)}`",
        )
    return found


class _Body:
    """The content of an object; its errors are reported as a task's."""

    def __init__(self, answer: Mapping[str, Any], what: str) -> None:
        self._body = answer["Body"]
        self._what = what

    def read(self, size: int, /) -> bytes:
        with answering("s3", self._what):
            found: bytes = self._body.read(size)
            return found

    def close(self) -> None:
        self._body.close()


class FromS3(SourceEnd[S3Source]):
    """An object as a source, as it was when the transfer began (by its entity tag).

    Rows are skipped up to the place where the transfer was.
    """

    def chunks(self, position: Position | None) -> Iterator[Chunk]:
        bucket, key = self._params.place
        form = _format(self._params)
        wanted = {"VersionId": self._params.version_id} if self._params.version_id else {}
        with answering("s3", self._params.uri):
            answer = _client(self._params, self._context).get_object(Bucket=bucket, Key=key, **wanted)
        body = _Body(answer, self._params.uri)
        self._stack.callback(body.close)
        etag = str(answer.get("ETag", "")).strip('"')
        if position and position.get("etag") != etag:
            raise changed(self._params.uri, "was written again")
        skip = int(position["rows"]) if position else 0
        counted = Counted({"etag": etag}, skip)
        for chunk in in_chunks(self._pieces(body, form, skip), self._chunk_rows):
            yield counted.chunk(chunk)

    def _pieces(self, body: _Body, form: RowFormat, skip: int) -> Iterator[Sequence[Row]]:
        size = min(self._chunk_rows, CHUNK_ROWS)
        if form == "parquet":
            path = self._stack.enter_context(private_folder(self._context)) / "source.parquet"
            with path.open("wb") as file:
                while block := body.read(_BLOCK):
                    file.write(block)
            yield from read_parquet(path, what=self._params.uri, chunk_rows=size, skip=skip)
            return
        yield from read_rows(
            body,
            form,
            what=self._params.uri,
            chunk_rows=size,
            delimiter=self._params.delimiter,
            nulls=True,
            skip=skip,
        )


class Upload:
    """An object that is being written, in parts; small ones in one."""

    def __init__(self, s3: Any, bucket: str, key: str, content_type: str) -> None:
        self._s3 = s3
        self._place = {"Bucket": bucket, "Key": key}
        self._type = content_type
        self._what = f"s3://{bucket}/{key}"
        self._id = ""
        self._held = bytearray()
        self._parts: list[dict[str, Any]] = []
        self.size = 0

    def write(self, data: bytes) -> None:
        self._held += data
        self.size += len(data)
        while len(self._held) >= self._part_bytes():
            self._send(self._part_bytes())

    def finish(self) -> str:
        """Complete the object, as large as what was sent; return its entity tag."""
        with answering("s3", self._what):
            if not self._id:
                answer = self._s3.put_object(**self._place, Body=bytes(self._held), ContentType=self._type)
                return str(answer.get("ETag", "")).strip('"')
            if self._held:
                self._send(len(self._held))
            parts = {"Parts": self._parts}
            answer = self._s3.complete_multipart_upload(
                **self._place, UploadId=self._id, MultipartUpload=parts
            )
            self._id = ""
            return str(answer.get("ETag", "")).strip('"')

    def abort(self) -> None:
        """Discard what was sent; nothing happens when it is complete."""
        from botocore.exceptions import BotoCoreError, ClientError

        if self._id:
            with suppress(BotoCoreError, ClientError):
                self._s3.abort_multipart_upload(**self._place, UploadId=self._id)
            self._id = ""

    def _part_bytes(self) -> int:
        return PART_BYTES * (1 + len(self._parts) // GROWING)

    def _send(self, size: int) -> None:
        with answering("s3", self._what):
            if not self._id:
                made = self._s3.create_multipart_upload(**self._place, ContentType=self._type)
                self._id = str(made["UploadId"])
            number = len(self._parts) + 1
            data = bytes(memoryview(self._held)[:size])
            answer = self._s3.upload_part(**self._place, UploadId=self._id, PartNumber=number, Body=data)
        self._parts.append({"PartNumber": number, "ETag": answer["ETag"]})
        del self._held[:size]


class IntoS3(IntoFile[S3Target]):
    def __enter__(self) -> Self:
        form = _format(self._params)
        self._upload = Upload(_client(self._params, self._context), *self._params.place, MEDIA_TYPES[form])
        self._stack.callback(self._upload.abort)
        folder = self._stack.enter_context(private_folder(self._context))
        self._rows = RowFile(
            form, self._upload.write, self._plan, self._params.types, folder, self._params.delimiter
        )
        return self

    def finish(self, source: Source) -> dict[str, Any]:
        written = self._rows.close(source, self._params.uri)
        etag = self._upload.finish()
        return {"rows_written": written, "uri": self._params.uri, "bytes": self._upload.size, "etag": etag}
