"""Large values as local files: one folder per execution, one file per object, written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
from pathlib import Path

from noetl.adapters.result_uri import check_uri
from noetl.domain.errors import ConflictError, InfrastructureError, NotFoundError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class FileResultStore:
    """``root`` is made when the first object is written. Names in URIs never become paths: files are called by their hash.

    Readable by this user only. Checksums are the reader's business (they stand in the reference).
    """

    name = "file"

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, uri: str, data: bytes) -> None:
        """Raises ConflictError(code="result_exists") when the object exists with other bytes, InfrastructureError when it cannot be kept."""
        path = self._path(uri)
        try:
            if not path.parent.is_dir():
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                sync_folder(path.parent.parent)
            created = write_once(path, data)
            same = created or path.read_bytes() == data
        except OSError as error:
            raise _unusable(uri, error) from error
        if not same:
            raise ConflictError(f"{uri} exists with other content", code="result_exists")

    def get(self, uri: str) -> bytes:
        path = self._path(uri)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise NotFoundError(
                f"{uri} is not among the results in {self._root}",
                code="REFERENCE_NOT_AVAILABLE",
                hint="its execution was deleted, or it ran with another NOETL_HOME",
            ) from None
        except OSError as error:
            raise _unusable(uri, error) from error

    def delete_execution(self, execution_id: int) -> int:
        folder = self._root / str(int(execution_id))
        try:
            count = sum(1 for path in folder.iterdir() if not path.name.endswith(".part"))
            shutil.rmtree(folder)
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise _unusable(f"the results of execution {execution_id}", error) from error
        return count

    def _path(self, uri: str) -> Path:
        execution_id, _ = check_uri(uri)
        return (
            self._root / str(execution_id) / hashlib.sha256(uri.encode("utf-8", "surrogatepass")).hexdigest()
        )


def write_once(path: Path, data: bytes) -> bool:
    """Whether this call made the file: complete and durable under its name, or not there at all."""
    if path.exists():
        return False
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(part, path)
        except FileExistsError:
            return False
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
    sync_folder(path.parent)
    return True


def sync_folder(folder: Path) -> None:
    """Make names that were given or taken in it durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unusable(what: str, error: OSError) -> InfrastructureError:
    full = error.errno in _FULL
    return InfrastructureError(
        f"{what}: {error.strerror or error}",
        code="result_store_full" if full else "result_store_failed",
        hint="make room on the disk that holds NOETL_HOME" if full else None,
    )
