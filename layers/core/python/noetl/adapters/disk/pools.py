"""Pools of the disk cache, each with its own budget: object bytes, and descriptions.

Files are the truth, so that several processes may share a folder. The memory of this process only decides what to drop first. An object
that is pending (has not reached the cloud tier) is never dropped.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from noetl.adapters.embedded.files import PartFile, remove_folder
from noetl.domain import codec

BLOCK = 1024 * 1024
"""Bytes that one checksum is of."""
Key = tuple[int, str]
"""(execution id, SHA-256 of the URI)."""


class ObjectDescription(msgspec.Struct, frozen=True):
    """The description of an object: its size, and a checksum of every ``BLOCK`` of it."""

    size: int
    sums: list[str]


ABOUT = codec.decoder(ObjectDescription)


class StreamChecksums:
    """The checksums of a stream."""

    def __init__(self) -> None:
        self.size = 0
        self._done: list[str] = []
        self._block = hashlib.blake2b(digest_size=8)

    def update(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            room = BLOCK - self.size % BLOCK
            piece, view = view[:room], view[room:]
            self._block.update(piece)
            self.size += len(piece)
            if self.size % BLOCK == 0:
                self._done.append(self._block.hexdigest())
                self._block = hashlib.blake2b(digest_size=8)

    def about(self) -> ObjectDescription:
        rest = [self._block.hexdigest()] if self.size % BLOCK else []
        return ObjectDescription(self.size, self._done + rest)


def about(data: bytes) -> ObjectDescription:
    sums = StreamChecksums()
    sums.update(data)
    return sums.about()


def is_block(data: bytes, number: int, known: ObjectDescription) -> bool:
    """Return whether ``data`` are the bytes of block ``number``, by its checksum."""
    return number < len(known.sums) and hashlib.blake2b(data, digest_size=8).hexdigest() == known.sums[number]


class Rate:
    """A limit of bytes inserted per second, with a burst of one second's worth.

    Inserts are refused while the limit is overdrawn.
    """

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._left = per_second
        self._at = clock()
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        with self._lock:
            now = self._clock()
            self._left = min(self._per_second, self._left + (now - self._at) * self._per_second)
            self._at = now
            if self._left <= 0:
                return False
            self._left -= size
            return True


class Pools:
    """The two pools, with budgets of bytes.

    ``data_bytes``: budget of objects. ``meta_bytes``: budget of their descriptions.
    """

    def __init__(self, folder: Path, data_bytes: int, meta_bytes: int) -> None:
        self._folder = folder
        self._data_bytes = data_bytes
        self._meta_bytes = meta_bytes
        self._data: OrderedDict[Key, int] = OrderedDict()
        self._meta: OrderedDict[Key, int] = OrderedDict()
        self._data_held = self._meta_held = 0
        self._lock = threading.Lock()

    # --- pending ------------------------------------------------------------------------------------

    def mark(self, key: Key, uri: str) -> None:
        """Record durably that the object has to go to the cloud tier. Raises OSError."""
        path = self._mark(key)
        if not path.exists():
            _make(path.parent)
            _publish(path, uri.encode("utf-8", "surrogatepass"))

    def unmark(self, key: Key) -> None:
        self._mark(key).unlink(missing_ok=True)

    def is_pending(self, key: Key) -> bool:
        return self._mark(key).exists()

    def pending(self) -> Iterator[tuple[Key, str]]:
        """Yield (key, URI) of the objects that have not reached the cloud tier, oldest first."""
        folder = self._folder / "pending"
        found = sorted(_entries(folder), key=lambda entry: entry.stat().st_mtime_ns)
        for entry in found:
            execution, _, name = entry.name.partition("-")
            if execution.isdigit() and len(name) == 64:
                with contextlib.suppress(FileNotFoundError):
                    uri = Path(entry.path).read_bytes().decode("utf-8", "surrogatepass")
                    yield (int(execution), name), uri

    # --- objects ------------------------------------------------------------------------------------

    def fits(self, size: int) -> bool:
        """Return whether there is room for ``size`` bytes, or room can be made."""
        with self._lock:
            return self._room(size)

    def part(self, key: Key) -> PartFile:
        """Open a file that becomes the object's bytes. Raises OSError."""
        path = self.body(key)
        _make(path.parent)
        return PartFile(path)

    def body(self, key: Key) -> Path:
        return self._folder / "data" / str(key[0]) / key[1]

    def keep(self, key: Key, known: ObjectDescription, data: bytes | None = None) -> None:
        """Insert an object (``data`` None: its bytes are in the pool already). Raises OSError."""
        if data is not None:
            part = self.part(key)
            try:
                part.write(data)
                part.publish()
            finally:
                part.drop()
        if self.known(key) not in (None, known):
            with self._lock:
                self._drop_meta(key)
        encoded = codec.encode(known)
        path = self._about(key)
        _make(path.parent)
        _publish(path, encoded)
        self._note(key, known.size, len(encoded))

    def known(self, key: Key) -> ObjectDescription | None:
        """Return the description of an object; None when it is missing or damaged."""
        try:
            found = codec.decode_as(ABOUT, self._about(key).read_bytes())
        except (OSError, ValueError):
            return None
        with self._lock:
            for pool in (self._data, self._meta):
                if key in pool:
                    pool.move_to_end(key)
        return found

    def open(self, key: Key) -> BinaryIO | None:
        try:
            return self.body(key).open("rb")
        except OSError:
            return None

    def is_body(self, key: Key, stream: BinaryIO) -> bool:
        """Return whether an open stream reads the file that the object has now."""
        try:
            return os.path.samestat(os.fstat(stream.fileno()), self.body(key).stat())
        except OSError:
            return False

    def drop(self, key: Key) -> None:
        """Forget an object that turned out to be damaged."""
        with self._lock:
            self._drop_data(key)
            self._drop_meta(key)

    def delete_execution(self, execution_id: int) -> int:
        """Delete everything of an execution.

        Returns how many of its objects had not reached the cloud tier. Raises OSError.
        """
        pending = list((self._folder / "pending").glob(f"{execution_id}-*"))
        for path in pending:
            path.unlink(missing_ok=True)
        for pool in ("data", "meta"):
            remove_folder(self._folder / pool / str(execution_id))
        with self._lock:
            for key in [key for key in self._data if key[0] == execution_id]:
                self._data_held -= self._data.pop(key)
            for key in [key for key in self._meta if key[0] == execution_id]:
                self._meta_held -= self._meta.pop(key)
        return len(pending)

    # --- a new process ------------------------------------------------------------------------------

    def warm(self) -> None:
        """Register the files that an earlier process left, oldest first.

        Bytes are not read, and unusable files are deleted without a report.
        """
        found: list[tuple[int, Key, int, int]] = []
        for folder in _entries(self._folder / "data"):
            for entry in _entries(Path(folder.path)) if folder.name.isdigit() else ():
                with contextlib.suppress(OSError):
                    key, about = (int(folder.name), entry.name), entry.stat()
                    described = self._about(key)
                    if described.exists():
                        found.append((about.st_mtime_ns, key, about.st_size, described.stat().st_size))
                    elif not self.is_pending(key) and about.st_mtime < time.time() - 3600:
                        # A part that somebody is writing right now is younger.
                        Path(entry.path).unlink(missing_ok=True)
        for _, key, size, described_size in sorted(found):
            self._note(key, size, described_size)

    # --- budgets ------------------------------------------------------------------------------------

    def _note(self, key: Key, size: int, described: int) -> None:
        with self._lock:
            self._data_held += size - self._data.pop(key, 0)
            self._meta_held += described - self._meta.pop(key, 0)
            self._data[key], self._meta[key] = size, described
            self._room(0)
            for old in self._droppable(self._meta, lambda: self._meta_held > self._meta_bytes):
                self._drop_data(old)  # without what is known of them, bytes cannot be believed
                self._drop_meta(old)

    def _room(self, size: int) -> bool:
        """Drop the bytes of the least recently used objects; return whether there is room then.

        Their descriptions stay, and verify the bytes when they come back.
        """
        if size > self._data_bytes:
            return False
        for old in self._droppable(self._data, lambda: self._data_held + size > self._data_bytes):
            self._drop_data(old)
        return self._data_held + size <= self._data_bytes

    def _droppable(self, pool: OrderedDict[Key, int], more: Callable[[], bool]) -> Iterator[Key]:
        for key in list(pool) if more() else ():
            if not more():
                return
            if not self.is_pending(key):
                yield key

    def _drop_data(self, key: Key) -> None:
        self._data_held -= self._data.pop(key, 0)
        with contextlib.suppress(OSError):
            self.body(key).unlink(missing_ok=True)

    def _drop_meta(self, key: Key) -> None:
        self._meta_held -= self._meta.pop(key, 0)
        with contextlib.suppress(OSError):
            self._about(key).unlink(missing_ok=True)

    def _about(self, key: Key) -> Path:
        return self._folder / "meta" / str(key[0]) / key[1]

    def _mark(self, key: Key) -> Path:
        return self._folder / "pending" / f"{key[0]}-{key[1]}"


def _make(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)


def _publish(path: Path, data: bytes) -> None:
    part = PartFile(path)
    try:
        part.write(data)
        part.publish()
    finally:
        part.drop()


def _entries(folder: Path) -> Iterable[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return ()
