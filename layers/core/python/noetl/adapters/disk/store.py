"""The tier ``disk``: a cache of the cloud tier.

An object is durable on the disk or in the cloud before the store reports it as written.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from noetl.adapters.disk.pools import (
    BLOCK,
    Key,
    ObjectDescription,
    Pools,
    Rate,
    StreamChecksums,
    about,
    is_block,
)
from noetl.adapters.disk.spill import Spill
from noetl.adapters.embedded.files import PartFile, unusable
from noetl.adapters.result_uri import result_key
from noetl.domain.errors import ConflictError, InfrastructureError, NotFoundError
from noetl.ports.results import ObjectReader, ObjectWriter, OneTier, ResultStore

MIB = 1024 * 1024
FULL_SECONDS = 60.0
"""How long a disk that refused something is left alone."""


class DiskResultStore(OneTier):
    """Large results on the local disk in front of the cloud. ``cloud``: the store behind.

    ``waits``: an object goes to the cloud before ``put`` returns (on Lambda, where the disk disappears with the function); otherwise it
    goes
    there afterwards, and a mark on the disk says that it still has to.

    More than ``insert_rate`` bytes a second, or than there is room for, goes to the cloud alone: the disk is for objects that are read
    again.
    """

    name = "disk"

    def __init__(
        self,
        folder: Path,
        cloud: ResultStore,
        *,
        waits: bool,
        data_bytes: int = 1024 * MIB,
        meta_bytes: int = 16 * MIB,
        insert_rate: float = 256 * MIB,
        log: Callable[[str], None] = lambda line: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cloud = cloud
        self._waits = waits
        self._pools = Pools(folder, data_bytes, meta_bytes)
        self._rate = Rate(insert_rate, clock)
        self._log = log
        self._clock = clock
        self._full_until = 0.0
        self.spill = Spill(self._pools, cloud, log)

    @property
    def cloud(self) -> ResultStore:
        """Return the store of the cloud tier."""
        return self._cloud

    def start(self) -> None:
        """Continue the uploads that an earlier process left in this folder. Returns at once."""
        if self._waits:
            threading.Thread(target=self._pools.warm, name="noetl-warm", daemon=True).start()
        else:
            self.spill.start()

    def close(self, seconds: float = 10.0) -> None:
        """Wait a while for uploads that are in progress."""
        self.spill.close(seconds)

    def put(self, uri: str, data: bytes) -> None:
        """Store an object once.

        Raises ConflictError(code="result_exists") when the object exists with other bytes.
        """
        key = result_key(uri)
        known = about(data)
        if self._held(key) not in (None, known):
            raise ConflictError(f"{uri} exists with other content", code="result_exists")
        if self._waits:
            self._cloud.put(uri, data)
            self._copy(key, known, data)
        elif not self._keep(key, uri, known, data):
            self._cloud.put(uri, data)

    def get(self, uri: str) -> bytes:
        key = result_key(uri)
        stream = self._pools.open(key)
        if stream is not None:
            with stream:
                found = self._whole(key, stream)
            if found is not None:
                return found
            self._damaged(key, uri)
        data = self._cloud.get(uri)
        self._copy(key, about(data), data)
        return data

    def writer(self, uri: str) -> ObjectWriter:
        return self._cloud.writer(uri) if self._waits else _Writer(self, uri)

    def reader(self, uri: str, start: int = 0) -> ObjectReader:
        key = result_key(uri)
        stream, known = self._pools.open(key), self._pools.known(key)
        if stream is None:
            return self._cloud.reader(uri, start)
        if known is None:
            stream.close()
            self._damaged(key, uri)
            return self._cloud.reader(uri, start)
        return _Reader(self, uri, stream, known, start)

    def doubt(self, uri: str) -> bool:
        """Return whether a doubted copy was dropped; a pending object stays.

        A pending object was damaged before it was stored. Its only copy stays, so that an operator can repair it.
        """
        key = result_key(uri)
        if self._pools.is_pending(key):
            return False
        self._pools.drop(key)
        return True

    def path(self, uri: str) -> Path | None:
        """Return None: a copy may be dropped while a reader uses it."""
        return None

    def delete(self, uris: Sequence[str]) -> None:
        self.spill.delete(uris)

    def delete_execution(self, execution_id: int) -> int:
        try:
            pending = self.spill.forget(int(execution_id))
        except OSError as error:
            raise unusable(f"the copies of execution {execution_id}", error) from error
        return pending + self._cloud.delete_execution(execution_id)

    # --- parts --------------------------------------------------------------------------------------

    def _held(self, key: Key) -> ObjectDescription | None:
        """Return the description of an object whose bytes are on the disk."""
        return self._pools.known(key) if self._pools.body(key).exists() else None

    def _whole(self, key: Key, stream: BinaryIO) -> bytes | None:
        """Read the bytes; None when they are not what was written."""
        known = self._pools.known(key)
        try:
            data = stream.read()
        except OSError:
            return None
        return data if known is not None and about(data) == known else None

    def _damaged(self, key: Key, uri: str) -> None:
        """Drop a damaged copy. Raises NotFoundError when it was pending, and so the only copy."""
        if self._pools.is_pending(key):
            raise NotFoundError(
                f"the bytes of {uri} on this disk are damaged, and they had not reached the tier {self._cloud.name}",
                code="REFERENCE_NOT_AVAILABLE",
                hint="run the step again (`noetl redrive`), and look after the disk",
            )
        self._log(f"a damaged copy of {uri} was dropped: it is read from the tier {self._cloud.name}")
        self._pools.drop(key)

    def _copy(self, key: Key, known: ObjectDescription, data: bytes) -> None:
        """Keep a copy of an object of the cloud, when that is cheap. Failures are ignored."""
        if not self.takes(known.size, known.size):
            return
        try:
            self._pools.keep(key, known, data)
        except OSError as error:
            self.refused("a copy", error)

    def _keep(self, key: Key, uri: str, known: ObjectDescription, data: bytes) -> bool:
        """Store an object durably and mark it as pending; False when the cloud must take it."""
        if self._held(key) is not None:
            return True
        if not self.takes(known.size, known.size):
            return False
        try:
            self._pools.mark(key, uri)
            self._pools.keep(key, known, data)
            self._pools.mark(key, uri)  # another process may have removed it meanwhile (Spill.bring)
        except OSError as error:
            self.refused(uri, error)
            with contextlib.suppress(OSError):
                self._pools.unmark(key)
            return False
        self.spill.add(key, uri)
        return True

    def takes(self, size: int, more: int) -> bool:
        """Return whether an object of ``size`` bytes so far may go to the disk.

        ``more`` of these bytes are new.
        """
        return self._clock() >= self._full_until and self._pools.fits(size) and self._rate.take(more)

    def refused(self, what: str, error: OSError) -> InfrastructureError:
        """Report a full or broken disk; for a while every object goes directly to the cloud."""
        if not self._full_until:
            self._log(
                f"the folder of the tier disk takes nothing more ({error.strerror or error}): "
                f"results go to the tier {self._cloud.name} at once"
            )
        self._full_until = self._clock() + FULL_SECONDS
        return unusable(what, error)


class _Writer:
    """A writer to the disk.

    An object over the disk's limit goes to the cloud from its first byte.
    """

    def __init__(self, store: DiskResultStore, uri: str) -> None:
        self._store = store
        self._uri = uri
        self._key = result_key(uri)
        self._sums = StreamChecksums()
        self._part: PartFile | None = None
        self._cloud: ObjectWriter | None = None

    def write(self, data: bytes) -> None:
        if self._cloud is None and not self._store.takes(self._sums.size + len(data), len(data)):
            self._go_over()
        if self._cloud is not None:
            self._cloud.write(data)
            return
        try:
            self._part = self._part or self._store._pools.part(self._key)
            self._part.write(data)
        except OSError as error:
            raise self._store.refused(self._uri, error) from error
        self._sums.update(data)

    def commit(self) -> None:
        if self._cloud is not None:
            self._cloud.commit()
            return
        pools = self._store._pools
        try:
            part = self._part or pools.part(self._key)
            self._part = None
            pools.mark(self._key, self._uri)
            if not part.publish():
                raise ConflictError(f"{self._uri} exists already", code="result_exists")
            pools.keep(self._key, self._sums.about())
            pools.mark(self._key, self._uri)  # as in ``_keep``
        except OSError as error:
            raise self._store.refused(self._uri, error) from error
        self._store.spill.add(self._key, self._uri)

    def abort(self) -> None:
        self._drop()
        if self._cloud is not None:
            self._cloud.abort()

    def _go_over(self) -> None:
        self._cloud = self._store._cloud.writer(self._uri)
        try:
            for block in self._part.blocks(8 * BLOCK) if self._part is not None else ():
                self._cloud.write(block)
        except OSError as error:
            raise self._store.refused(self._uri, error) from error
        self._drop()

    def _drop(self) -> None:
        if self._part is not None:
            self._part.drop()
            self._part = None


class _Reader:
    """A reader by blocks that verifies each block before it returns it.

    From a damaged block on, it reads the cloud's object.
    """

    def __init__(
        self, store: DiskResultStore, uri: str, stream: BinaryIO, known: ObjectDescription, start: int
    ) -> None:
        self._store = store
        self._uri = uri
        self._stream = stream
        self._known = known
        self._at = min(start, known.size)
        self._block = (-1, b"")
        self._cloud: ObjectReader | None = None

    def read(self, size: int) -> bytes:
        if self._cloud is not None:
            return self._cloud.read(size)
        if self._at >= self._known.size or size <= 0:
            return b""
        number, offset = divmod(self._at, BLOCK)
        if self._block[0] != number and not self._load(number):
            self._store._damaged(result_key(self._uri), self._uri)
            self._cloud = self._store._cloud.reader(self._uri, self._at)
            return self._cloud.read(size)
        piece = self._block[1][offset : offset + size]
        self._at += len(piece)
        return piece

    def close(self) -> None:
        self._stream.close()
        if self._cloud is not None:
            self._cloud.close()

    def _load(self, number: int) -> bool:
        try:
            self._stream.seek(number * BLOCK)
            data = self._stream.read(BLOCK)
        except OSError:
            return False
        self._block = (number, data)
        return is_block(data, number, self._known)
