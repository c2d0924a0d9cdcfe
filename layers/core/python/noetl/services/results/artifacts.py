"""Artifacts: results that tasks stream, so that no process holds them whole."""

from __future__ import annotations

import contextlib
import io
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Self, cast

import msgspec

from noetl.domain.errors import NotFoundError, TaskError
from noetl.domain.kinds import ArtifactFormat, Redaction, ResultOptions
from noetl.domain.results.references import (
    MEDIA_TYPES,
    PREVIEW_LIMIT,
    artifact_ref,
    canonical,
    is_ref,
    result_name,
    unavailable,
)
from noetl.domain.results.result_bytes import compression_of
from noetl.domain.results.retention import KeptResult, lifetime
from noetl.ports.results import ObjectReader, ObjectWriter, ResultStore
from noetl.services.redaction.redacting_stream import StreamMask
from noetl.services.results.compressed_streams import PackedWriter, Verified
from noetl.services.results.stored_bytes import store_calls

CHUNK = 1024 * 1024
SMALL = 1024 * 1024
"""An artifact of at most this many bytes is held until it is complete."""
BINARY = frozenset({"parquet", "bytes"})
"""Formats that say where in them something is: what is taken out of these leaves a gap of its size."""
Masking = Callable[[bool], StreamMask | None]
"""Whether lengths are kept → what takes the secrets out that the task has read; None when it has read none."""


def _no_secrets(keep_length: bool) -> StreamMask | None:
    return None


def fresh_name() -> str:
    """Return a new, unique name: a repeated attempt may write other bytes."""
    return uuid.uuid4().hex


class TaskArtifacts:
    """``domain.kinds.Artifacts`` of one task.

    ``folder``: where copies are made that tools need as files (None: the system's). ``note`` is called with results whose retention
    differs from their execution's.
    """

    def __init__(
        self,
        results: ResultStore,
        execution_id: int,
        step: str,
        *,
        max_bytes: int,
        folder: str | None = None,
        options: ResultOptions | None = None,
        name: Callable[[], str] = fresh_name,
        masking: Masking = _no_secrets,
        run: int = 0,
        note: Callable[[KeptResult], None] = lambda kept: None,
    ) -> None:
        self._results = results
        self._execution_id = execution_id
        self._step = step
        self._max_bytes = max_bytes
        self._folder = folder
        self._options = options
        self._name = name
        self._masking = masking
        self._run = run
        self._note = note

    def create(
        self, format: ArtifactFormat, content_type: str = "", options: ResultOptions | None = None
    ) -> _Writer:
        options = options or self._options or ResultOptions()
        life = lifetime(options.scope, options.ttl)
        uri, meta = result_name(self._execution_id, self._step, self._run, f"artifact/{self._name()}", life)
        place = _Place(self._results, uri, options.store)
        ref: dict[str, Any] = {
            "uri": uri,
            "format": format,
            "content_type": content_type or MEDIA_TYPES[format],
            "scope": options.scope or "execution",
            "ttl": life[1] if life else None,
            "extra_meta": meta,
        }
        kept = KeptResult(uri, "", self._step, 0, *life) if life is not None else None
        return _Writer(place, ref, options.compression, self._max_bytes, self._masking, kept, self._note)

    @contextlib.contextmanager
    def open(self, ref: Mapping[str, Any]) -> Iterator[BinaryIO]:
        with contextlib.closing(_reader(self._results, ref)) as reader:
            yield cast(BinaryIO, io.BufferedReader(Verified(reader, canonical(ref), self._max_bytes), CHUNK))

    @contextlib.contextmanager
    def file(self, ref: Mapping[str, Any], suffix: str = "") -> Iterator[Path]:
        with self.open(ref) as stream:
            try:
                known = canonical(ref)
                own = self._results.at(known.get("store")).path(str(known["ref"]))
            except NotFoundError as error:
                raise unavailable(canonical(ref)) from error
            if own is not None and compression_of(ref) is None:
                while stream.read(CHUNK):
                    pass
                yield own
                return
            from noetl.kinds.support.task_workspace import copies_folder

            # Not in the work folder, which every task may read.
            place = copies_folder(self._folder)
            with tempfile.NamedTemporaryFile(dir=place, prefix="noetl-", suffix=suffix) as copy:
                while data := stream.read(CHUNK):
                    copy.write(data)
                copy.flush()
                yield Path(copy.name)

    def redaction(self) -> Redaction | None:
        mask = self._masking(True)
        return None if mask is None else partial(_redact_file, mask)


def _redact_file(mask: StreamMask, file: Path, copy: Path) -> None:
    with file.open("rb") as read, copy.open("wb") as write:
        while data := read.read(CHUNK):
            write.write(mask.feed(data))
        write.write(mask.end())


class _Place:
    """The destination of an artifact, chosen by its size while it is written.

    What stays small is held in memory, and is stored in the tier of small values.
    """

    def __init__(self, results: ResultStore, uri: str, options: str | None) -> None:
        self._results = results
        self._uri = uri
        self._options = options
        self._held = bytearray()
        self._tier: ResultStore | None = None
        self._writer: ObjectWriter | None = None
        self.store = ""
        """The tier's name, once it is committed."""

    def write(self, data: bytes) -> None:
        if self._writer is None and len(self._held) + len(data) <= SMALL:
            self._held += data
            return
        self._begin(None).write(data)

    def commit(self) -> None:
        writer = self._writer or self._begin(len(self._held))
        writer.commit()
        assert self._tier is not None
        self.store = self._tier.name

    def abort(self) -> None:
        self._held.clear()
        if self._writer is not None:
            self._writer.abort()

    def _begin(self, size: int | None) -> ObjectWriter:
        """Open the writer of the tier chosen now, with the bytes that were held.

        ``size``: of the whole artifact, when that is known.
        """
        if self._writer is None:
            self._tier = self._results.choose(size, self._options)
            self._writer = self._tier.writer(self._uri)
            self._writer.write(bytes(self._held))
            self._held.clear()
        return self._writer


class _Writer:
    def __init__(
        self,
        writer: _Place,
        ref: dict[str, Any],
        compression: str | None,
        max_bytes: int,
        masking: Masking,
        kept: KeptResult | None,
        note: Callable[[KeptResult], None],
    ) -> None:
        self._writer = writer
        self._packed = PackedWriter(writer, compression)
        self._ref = ref
        self._max_bytes = max_bytes
        self._masking: Masking | None = masking
        self._mask: StreamMask | None = None
        self._kept = kept
        self._note = note
        self._sample = bytearray()
        self._size = 0

    @property
    def size(self) -> int:
        return self._size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.abort()

    def write(self, data: bytes) -> None:
        if self._masking is not None:
            self._mask, self._masking = self._masking(self._ref["format"] in BINARY), None
        self._keep(data if self._mask is None else self._mask.feed(data))

    def _keep(self, data: bytes) -> None:
        if not data:
            return
        self._size += len(data)
        if self._size > self._max_bytes:
            raise TaskError(
                f"the result is larger than {self._max_bytes} bytes, which is the most that is kept",
                kind="storage_quota",
                code="result_too_large",
                details={"limit": self._max_bytes},
            )
        if len(self._sample) < PREVIEW_LIMIT:
            self._sample += data[: PREVIEW_LIMIT - len(self._sample)]
        self._packed.write(data)

    def close(self, extracted: Mapping[str, Any] | None = None) -> dict[str, Any]:
        if self._mask is not None:
            self._keep(self._mask.end())
        digest = self._packed.commit()
        if self._packed.compression is not None:
            self._ref["extra_meta"] |= {
                "compression": self._packed.compression,
                "stored_bytes": self._packed.stored,
            }
        if self._kept is not None:
            self._note(msgspec.structs.replace(self._kept, size=self._size, store=self._writer.store))
        return artifact_ref(
            store=self._writer.store,
            size=self._size,
            sha256=digest,
            sample=bytes(self._sample),
            extracted=extracted or {},
            **self._ref,
        )


def _reader(results: ResultStore, ref: Mapping[str, Any]) -> ObjectReader:
    if not is_ref(ref):
        raise TaskError(
            f"{str(ref)[:60]!r} is not the reference of a result",
            kind="schema",
            code="not_a_reference",
            hint="pass the result of a step as it is: {{ step }}",
        )
    known = canonical(ref)
    try:
        with store_calls():
            return results.at(known.get("store")).reader(str(known["ref"]))
    except NotFoundError as error:
        raise unavailable(known) from error
