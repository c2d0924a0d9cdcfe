"""Messages between a process with an engine and its worker process.

Each is JSON with its length before it, over a pair of sockets.
"""

from __future__ import annotations

import pickle
import select
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec

from noetl.domain import codec
from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError
from noetl.domain.events import Event
from noetl.runtime.settings import Settings
from noetl.system_calls.short_calls import send

_LENGTH = struct.Struct(">I")
_RECEIVED = 1 << 18


class Begin(msgspec.Struct, frozen=True, tag="begin", array_like=True):
    """The first message: what the worker process is made of.

    ``settings``: as ``encode_settings`` makes them. ``owner``: the name of its record of what it runs. ``kinds``: modules of further kinds.
    ``path``: where this process looks for modules. ``sizes``: commands of each pool that run at once.
    """

    settings: str
    owner: str
    data_dirs: list[str]
    kinds: list[str]
    sizes: dict[str, int]
    callback_base: str
    path: list[str]


class Run(msgspec.Struct, frozen=True, tag="run", array_like=True):
    """Commands to run, each with its number."""

    commands: list[tuple[int, Command]]


class Size(msgspec.Struct, frozen=True, tag="size", array_like=True):
    """How many commands of a pool may run at once from now on."""

    pool: str
    size: int


class TakeBack(msgspec.Struct, frozen=True, tag="take_back", array_like=True):
    """Return at most ``limit`` commands of a pool that no thread has begun.

    Another process has a free thread.
    """

    pool: str
    limit: int


class Over(msgspec.Struct, frozen=True, tag="over", array_like=True):
    """Executions that have ended, and step runs that were dropped.

    What still runs of them is not wanted. ``last``: the number of the last command that was sent before these
    executions ended. One of which a later command was sent lives again.
    """

    executions: list[int]
    runs: list[tuple[int, int]]
    last: int


class Ready(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The worker process takes commands."""


class Report(msgspec.Struct, frozen=True, tag="report", array_like=True):
    """Events of a command. ``done``: it has been run."""

    number: int
    events: list[Event]
    done: bool


class Failed(msgspec.Struct, frozen=True, tag="failed", array_like=True):
    """A command that could not be run. ``outage``: something that it needs is unavailable."""

    number: int
    text: str
    code: str
    outage: bool
    retryable: bool

    def error(self) -> Exception:
        """Return what the worker process met."""
        if self.outage:
            return InfrastructureError(self.text, code=self.code, retryable=self.retryable)
        return RuntimeError(self.text)


class Returned(msgspec.Struct, frozen=True, tag="returned", array_like=True):
    """The answer to ``TakeBack``: numbers of commands that will not run here, maybe none."""

    pool: str
    numbers: list[int]


class Line(msgspec.Struct, frozen=True, tag="line", array_like=True):
    """A line for the log."""

    text: str


ToWorker = Begin | Run | Size | TakeBack | Over
FromWorker = Ready | Report | Failed | Returned | Line


class Channel:
    """One end of the sockets. One thread receives; any may send.

    ``shape``: the messages that arrive.
    """

    def __init__(self, end: socket.socket, shape: Any) -> None:
        self._end = end
        self._decoder = codec.decoder(shape)
        self._sending = threading.Lock()
        self._unsent: deque[bytes] = deque()
        """Pieces that the sockets had no room for. A thread sends them, and is there as long as there are some."""
        self._received = bytearray()

    def send(self, *messages: Any) -> None:
        """Send messages, and do not wait for the other process, which may be stopped.

        Raises OSError when it has ended.
        """
        parts = []
        for message in messages:
            data = codec.encode(message)
            parts += [_LENGTH.pack(len(data)), data]
        whole = b"".join(parts)
        with self._sending:
            if self._unsent:
                self._unsent.append(whole)
                return
            sent = send(self._end.fileno(), whole)
            if sent < len(whole):
                self._unsent.append(whole[sent:])
                threading.Thread(
                    target=self._send_rest, name="noetl-worker-process-send", daemon=True
                ).start()

    def receive(self, seconds: float | None = None) -> list[Any] | None:
        """Return the messages that have arrived, at least one.

        None: the other process has ended. Returns no message after ``seconds``.
        """
        found = list(self._whole())
        while not found:
            # A time-out of the socket would be one of ``send``, too.
            if seconds is not None and not self._waits(seconds):
                return []
            try:
                data = self._end.recv(_RECEIVED)
            except OSError:
                return None
            if not data:
                return None
            self._received += data
            found = list(self._whole())
        return found

    def _send_rest(self) -> None:
        piece = self._unsent[0]
        while piece:
            try:
                self._end.sendall(piece)
            except OSError:
                return  # it has ended: its commands are taken back
            with self._sending:
                self._unsent.popleft()
                piece = self._unsent[0] if self._unsent else b""

    def close(self) -> None:
        """Let the other process see the end of this one."""
        try:
            self._end.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def _waits(self, seconds: float) -> bool:
        """Wait for what arrives. ``select`` takes no descriptor from 1024 on."""
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        return bool(poll.poll(1000 * seconds))

    def _whole(self) -> Iterator[Any]:
        """Take the messages that have arrived as a whole."""
        start, data = 0, self._received
        while len(data) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(data, start)
            stop = start + _LENGTH.size + length
            if len(data) < stop:
                break
            yield codec.decode_as(self._decoder, bytes(data[start + _LENGTH.size : stop]))
            start = stop
        del data[:start]


def encode_settings(settings: Settings) -> str:
    """Encode settings for another process of this machine."""
    return pickle.dumps(settings).hex()


def decode_settings(text: str) -> Settings:
    """Decode settings that the process which started this one has encoded."""
    found: Settings = pickle.loads(bytes.fromhex(text))
    return found
