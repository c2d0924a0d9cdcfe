"""System calls that return at once, made without releasing the interpreter's lock.

``os`` releases the lock for each call. When other threads want it, one of them is woken and takes it, and the caller waits until that
one waits for something itself: two changes of threads for a call of a microsecond. A worker makes a dozen such calls for each
command. So use these where a call never waits: for a descriptor that is set not to block, or a file of ``/proc``. A file on a disk may
wait: its file system may be frozen, or full of what others write.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any


class Buffer:
    """Memory that a call fills. Its owner uses it in one thread at a time."""

    __slots__ = ("_memory", "_view", "size")

    def __init__(self, size: int) -> None:
        self._memory = ctypes.create_string_buffer(size)
        self._view = memoryview(self._memory)
        self.size = size

    def read(self, descriptor: int) -> bytes:
        """Read what is there, as ``os.read`` does. Raises OSError."""
        return bytes(self._view[: _made(_read, descriptor, self._memory, self.size)])

    def read_at(self, descriptor: int, offset: int = 0) -> bytes:
        """Read from a place of a file, as ``os.pread`` does. Raises OSError."""
        return bytes(self._view[: _made(_pread, descriptor, self._memory, self.size, offset)])

    def receive(self, descriptor: int) -> bytes:
        """Receive one message of a socket, as ``recv`` does, and do not wait. Raises OSError."""
        return bytes(self._view[: _made(_recv, descriptor, self._memory, self.size, socket.MSG_DONTWAIT)])


def write(descriptor: int, data: bytes) -> int:
    """Write as ``os.write`` does, and return the number of bytes. Raises OSError."""
    return _made(_write, descriptor, data, len(data))


def send(descriptor: int, data: bytes) -> int:
    """Send over a socket what it takes at once, and return the number of bytes.

    0: it takes none now. Raises OSError.
    """
    try:
        return _made(_send, descriptor, data, len(data), socket.MSG_DONTWAIT)
    except BlockingIOError:
        return 0


def random_bytes(size: int) -> bytes:
    """Draw bytes of the system, as ``os.urandom`` does: at most 256."""
    drawn = ctypes.create_string_buffer(size)
    with suppress(OSError):  # a container may forbid the call
        if _getrandom is not None and _made(_getrandom, drawn, size, 0) == size:
            return drawn.raw
    return os.urandom(size)


class Readable:
    """Whether a descriptor has something to read, or has been closed by the other side."""

    __slots__ = ("_about",)

    def __init__(self, descriptor: int) -> None:
        self._about = _Polled(descriptor, select.POLLIN, 0)

    def __call__(self) -> bool:
        return _made(_poll, ctypes.byref(self._about), 1, 0) > 0


def links(descriptor: int) -> int:
    """Return how many links a file or folder has. Raises OSError."""
    if _statx is None:
        return os.fstat(descriptor).st_nlink
    about = ctypes.create_string_buffer(_STATX_BYTES)
    _made(_statx, descriptor, b"", _EMPTY_PATH, _STATX_NLINK, about)
    return int.from_bytes(about.raw[_NLINK], sys.byteorder)


class _Polled(ctypes.Structure):
    _fields_ = (("descriptor", ctypes.c_int), ("wanted", ctypes.c_short), ("found", ctypes.c_short))


def _call(name: str, result: Any, *arguments: Any) -> Any:
    found = _libc[name]
    found.argtypes, found.restype = arguments, result
    return found


def _made(call: Callable[..., int], *arguments: Any) -> int:
    """Make a call, again when a signal interrupted it. Raises OSError."""
    while (result := call(*arguments)) < 0:
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))
    return result


_libc = ctypes.PyDLL(None, use_errno=True)
_read = _call("read", ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
_pread = _call("pread", ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_longlong)
_recv = _call("recv", ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_write = _call("write", ctypes.c_ssize_t, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)
_send = _call("send", ctypes.c_ssize_t, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int)
_poll = _call("poll", ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_int)
_getrandom = (
    _call("getrandom", ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint)
    if hasattr(_libc, "getrandom")
    else None
)
_STATX_BYTES, _NLINK = 256, slice(16, 20)
_EMPTY_PATH, _STATX_NLINK = 0x1000, 4
_statx = (
    _call("statx", ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)
    if hasattr(_libc, "statx")
    else None
)
