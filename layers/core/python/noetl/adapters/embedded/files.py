"""Large values as local files: a folder per execution, a file per object.

A file is written whole or not at all.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Literal

from noetl.adapters.result_uri import result_key
from noetl.domain.errors import ConflictError, InfrastructureError, NotFoundError
from noetl.ports.results import OneTier

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class FileResultStore(OneTier):
    """A result store of local files.

    ``root`` is made when the first object is written. Names in URIs never become paths: files are called by their hash.

    As the tier ``pvc``, ``root`` is a folder that every process of a deployment has mounted (EFS, NFS, a volume).

    Readable by this user only. Checksums are the reader's business (they stand in the reference).
    """

    def __init__(self, root: Path, name: Literal["file", "pvc"] = "file") -> None:
        self._root = root
        self.name: str = name

    def put(self, uri: str, data: bytes) -> None:
        """Keep an object.

        Raises ConflictError(code="result_exists") when the object exists with other bytes, InfrastructureError when it cannot be kept.
        """
        path = self._path(uri)
        try:
            _make_folder(path.parent)
            created = write_once(path, data)
            same = created or path.read_bytes() == data
        except OSError as error:
            raise unusable(uri, error) from error
        if not same:
            raise ConflictError(f"{uri} exists with other content", code="result_exists")

    def get(self, uri: str) -> bytes:
        path = self._path(uri)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise self._missing(uri) from None
        except OSError as error:
            raise unusable(uri, error) from error

    def writer(self, uri: str) -> _Writer:
        return _Writer(self._path(uri), uri)

    def reader(self, uri: str, start: int = 0) -> _Reader:
        try:
            stream = self._path(uri).open("rb")
        except FileNotFoundError:
            raise self._missing(uri) from None
        except OSError as error:
            raise unusable(uri, error) from error
        stream.seek(start)
        return _Reader(stream, uri)

    def path(self, uri: str) -> Path | None:
        path = self._path(uri)
        if not path.is_file():
            raise self._missing(uri)
        return path

    def _missing(self, uri: str) -> NotFoundError:
        return NotFoundError(
            f"{uri} is not among the results in {self._root}",
            code="REFERENCE_NOT_AVAILABLE",
            hint="its execution was deleted, or it ran with another "
            + ("NOETL_HOME" if self.name == "file" else "folder (NOETL_STORAGE_PVC_DIR)"),
        )

    def delete(self, uris: Sequence[str]) -> None:
        for uri in uris:
            try:
                self._path(uri).unlink(missing_ok=True)
            except OSError as error:
                raise unusable(uri, error) from error

    def delete_execution(self, execution_id: int) -> int:
        folder = self._root / str(int(execution_id))
        try:
            count = sum(1 for path in folder.iterdir() if not path.name.endswith(".part"))
            remove_folder(folder)
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise unusable(f"the results of execution {execution_id}", error) from error
        return count

    def _path(self, uri: str) -> Path:
        execution_id, key = result_key(uri)
        return self._root / str(execution_id) / key


class _Reader:
    def __init__(self, stream: BinaryIO, uri: str) -> None:
        self._stream = stream
        self._uri = uri

    def read(self, size: int) -> bytes:
        try:
            return self._stream.read(size)
        except OSError as error:
            raise unusable(self._uri, error) from error

    def close(self) -> None:
        self._stream.close()


class _Writer:
    """The folder is made with the first byte, so that what is never written leaves none."""

    def __init__(self, path: Path, uri: str) -> None:
        self._path = path
        self._uri = uri
        self._file: PartFile | None = None

    def write(self, data: bytes) -> None:
        try:
            if self._file is None:
                _make_folder(self._path.parent)
                self._file = PartFile(self._path)
            self._file.write(data)
        except OSError as error:
            raise unusable(self._uri, error) from error

    def commit(self) -> None:
        self.write(b"")
        assert self._file is not None
        try:
            made = self._file.publish()
        except OSError as error:
            raise unusable(self._uri, error) from error
        if not made:
            raise ConflictError(f"{self._uri} exists already", code="result_exists")

    def abort(self) -> None:
        if self._file is not None:
            self._file.drop()


class PartFile:
    """A file that gets its name when it is complete and durable. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
        self._out = os.fdopen(os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")

    def write(self, data: bytes) -> None:
        self._out.write(data)

    def blocks(self, size: int) -> Iterator[bytes]:
        """What was written so far, at most ``size`` bytes at a time."""
        self._out.flush()
        with self._part.open("rb") as stream:
            while block := stream.read(size):
                yield block

    def publish(self) -> bool:
        """Whether this one got the name; False when there is a file already."""
        try:
            self._out.flush()
            os.fsync(self._out.fileno())
            try:
                os.link(self._part, self._path)
            except FileExistsError:
                return False
        finally:
            self.drop()
        sync_folder(self._path.parent)
        return True

    def replace(self) -> None:
        """In the place of a file of this name, if there is one."""
        self._out.flush()
        os.fsync(self._out.fileno())
        self._part.replace(self._path)
        sync_folder(self._path.parent)

    def drop(self) -> None:
        """Nothing of what has no name stays."""
        with contextlib.suppress(OSError):
            self._out.close()
        with contextlib.suppress(FileNotFoundError):
            self._part.unlink()


def write_once(path: Path, data: bytes) -> bool:
    """Write a file unless it exists; True when this call made it.

    It is complete and durable under its name, or not there at all.
    """
    if path.exists():
        return False
    part = PartFile(path)
    try:
        part.write(data)
        return part.publish()
    finally:
        part.drop()


def _make_folder(folder: Path) -> None:
    """Make a folder, and those above it, for its owner alone.

    ``parents`` of ``mkdir`` gives them the mode of the umask.
    """
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True, mode=0o700)
        sync_folder(folder.parent)


def remove_folder(folder: Path) -> None:
    """Remove a folder with its content, also while another process removes it. Raises OSError."""
    while folder.exists():
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)


def sync_folder(folder: Path) -> None:
    """Make names that were given or taken in it durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def unusable(what: str, error: OSError) -> InfrastructureError:
    full = error.errno in _FULL
    return InfrastructureError(
        f"{what}: {error.strerror or error}",
        code="result_store_full" if full else "result_store_failed",
        hint="make room on the disk that holds it" if full else None,
    )
