"""The upload of objects from the disk to the cloud tier, in the background."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import BinaryIO

from noetl.adapters.disk.pools import BLOCK, Key, Pools, is_block
from noetl.adapters.result_uri import result_key
from noetl.domain.errors import ConflictError, InfrastructureError, NoetlError
from noetl.ports.results import ObjectReader, ObjectWriter, ResultStore

LONGEST_PAUSE = 30.0


class Spill:
    """A thread that uploads pending objects.

    The next process that starts with the same folder uploads what this one left: the marks name the pending objects.
    """

    def __init__(self, pools: Pools, cloud: ResultStore, log: Callable[[str], None]) -> None:
        self._pools = pools
        self._cloud = cloud
        self._log = log
        self._waiting: queue.SimpleQueue[tuple[Key, str] | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._idle = threading.Condition()
        self._open = 0
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._commits = threading.Lock()
        self._logged: set[str] = set()

    def start(self) -> None:
        """Continue the uploads that an earlier process left. Further calls do nothing."""
        with self._lock:
            if self._thread is not None or self._stop.is_set():
                return
            self._thread = threading.Thread(target=self._run, name="noetl-spill", daemon=True)
        for key, uri in self._pools.pending():
            self._put(key, uri)
        self._thread.start()

    def add(self, key: Key, uri: str) -> None:
        self.start()
        self._put(key, uri)

    def forget(self, execution_id: int) -> int:
        """Delete what this machine has of an execution. Raises OSError.

        Returns how many objects had not reached the cloud.

        An object is committed and loses its mark under one lock: it counts here or in the cloud, never twice, and is not committed after
        this.
        """
        with self._commits:
            return self._pools.delete_execution(execution_id)

    def delete(self, uris: Sequence[str]) -> None:
        """Delete objects here and in the cloud.

        Under the lock of commits: what is being uploaded is not committed after this, and an object that is written under the same name
        meanwhile reaches the cloud after it.
        """
        with self._commits:
            for uri in uris:
                key = result_key(uri)
                self._pools.unmark(key)
                self._pools.drop(key)
            self._cloud.delete(uris)

    def drain(self, seconds: float) -> bool:
        """Wait until every object is in the cloud; return False when that took too long."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._open, seconds)

    def close(self, seconds: float) -> None:
        """Wait some time for uploads, then leave the rest to the next process."""
        if self._thread is None or self._stop.is_set():
            return
        if not self.drain(seconds):
            self._log(
                f"{self._open} results have not reached the tier {self._cloud.name}: the next start continues with them"
            )
        self._stop.set()
        self._waiting.put(None)
        self._thread.join(5.0)

    def bring(self, key: Key, uri: str) -> None:
        """Upload one object; its mark is deleted when it is in the cloud.

        Raises InfrastructureError (and the object stays pending).
        """
        if not self._pools.is_pending(key):
            return  # another process of this machine has brought it, or its execution was deleted
        stream = self._pools.open(key)
        if stream is None:
            # Its writer died before its bytes were written, so no reference tells of it. One that lives looks for its mark when they
            # are, and this looks for them when the mark is gone: the one that looks last sets the mark again.
            self._pools.unmark(key)
            if self._pools.body(key).exists():
                self._pools.mark(key, uri)
            return
        with stream:
            writer = self._cloud.writer(uri)
            try:
                whole = self._copied(key, stream, writer)
                with self._commits:
                    # It was not deleted meanwhile, nor written again: what has its name now has its own turn.
                    if self._pools.is_pending(key) and self._pools.is_body(key, stream):
                        self._settle(key, uri, writer if whole else None)
                        self._pools.unmark(key)
            finally:
                writer.abort()

    def _settle(self, key: Key, uri: str, writer: ObjectWriter | None) -> None:
        """Commit a copy, or drop the object.

        An object is dropped when its bytes are damaged (no writer), or when the cloud has other bytes.
        """
        if writer is None:
            self._pools.drop(key)
            self._log(f"{uri} is lost: its bytes on this disk are damaged, and there is no other copy")
            return
        try:
            writer.commit()
        except ConflictError:
            if not self._same(key, uri):
                self._pools.drop(key)
                self._log(f"{uri} exists in the tier {self._cloud.name} with other content, which stays")

    def _copied(self, key: Key, stream: BinaryIO, writer: ObjectWriter) -> bool:
        """Copy a stream; return whether all bytes are those that had been written."""
        known, number = self._pools.known(key), 0
        while block := stream.read(BLOCK):
            if known is not None and not is_block(block, number, known):
                return False
            writer.write(block)
            number += 1
        return known is None or number == len(known.sums)

    def _same(self, key: Key, uri: str) -> bool:
        """Return whether the cloud has these bytes already.

        That happens when a process died after an upload and before it deleted the mark.
        """
        stream = self._pools.open(key)
        if stream is None:
            return True
        reader = self._cloud.reader(uri)
        try:
            with stream:
                while block := stream.read(BLOCK):
                    if _exactly(reader, len(block)) != block:
                        return False
                return not reader.read(1)
        finally:
            reader.close()

    def _put(self, key: Key, uri: str) -> None:
        with self._idle:
            self._open += 1
        self._waiting.put((key, uri))

    def _run(self) -> None:
        self._pools.warm()
        while (item := self._waiting.get()) is not None and not self._stop.is_set():
            self._persist(*item)
            with self._idle:
                self._open -= 1
                self._idle.notify_all()

    def _persist(self, key: Key, uri: str) -> None:
        """Upload an object until it succeeds or the process ends.

        The cloud tier may be unavailable for long.
        """
        pause = 0.2
        while not self._stop.is_set():
            try:
                self.bring(key, uri)
            except (NoetlError, OSError) as error:
                self._log_once(error)
                self._stop.wait(pause)
                pause = min(LONGEST_PAUSE, 2 * pause)
            else:
                return

    def _log_once(self, error: Exception) -> None:
        code = error.code if isinstance(error, InfrastructureError) else type(error).__name__
        if code not in self._logged:
            self._logged.add(code)
            self._log(f"results wait on this disk for the tier {self._cloud.name}: {error}")


def _exactly(reader: ObjectReader, size: int) -> bytes:
    found = bytearray()
    while len(found) < size and (piece := reader.read(size - len(found))):
        found += piece
    return bytes(found)
