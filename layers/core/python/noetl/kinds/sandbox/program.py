"""Runs a program to its end in a confined process, within its time and output."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from noetl.domain.errors import InfrastructureError, TaskError
from noetl.kinds.sandbox.disk import DiskUse
from noetl.kinds.sandbox.output import LogLines
from noetl.kinds.sandbox.places import Places
from noetl.kinds.sandbox.process import (
    Confined,
    TaskLimits,
    as_message,
    confinement,
    start_confined,
    task_folder,
)
from noetl.kinds.sandbox.watch import Watch

CHUNK = 1 << 20
CHECK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended. ``returncode`` is negative for a signal."""

    returncode: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True, slots=True)
class Program:
    """What is to run. ``command``: the absolute path of the program first. ``env`` comes over the scrubbed environment.

    ``own``: files or folders that this one may read and others may not.
    """

    command: Sequence[str]
    stdin: bytes
    env: Mapping[str, str]
    own: Sequence[str] = ()


def run_program(program: Program, limits: TaskLimits, places: Places, watch: Watch) -> Finished:
    """Run a program to its end. Whatever it leaves running is ended with it.

    Raises TaskError ``timeout``, ``cancelled``, ``output_limit`` or ``disk_limit``, and InfrastructureError when no
    process can be started.
    """
    pipe = subprocess.PIPE
    try:
        folder = task_folder()
        wanted = confinement(folder, limits, places, program.own)
        order = json.dumps({"confinement": as_message(wanted), "command": list(program.command)})
        confined = start_confined(
            "launch", order, folder, stdin=pipe, stdout=pipe, stderr=pipe, env=program.env
        )
    except OSError as error:
        raise InfrastructureError(f"{program.command[0]} cannot be started: {error}") from error
    run = _Run(confined, program.stdin, limits, watch)
    try:
        return run.to_the_end()
    finally:
        run.close()
        confined.kill()
        for stream in (confined.process.stdin, confined.process.stdout, confined.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


class _Run:
    """The descriptors of one run and what came through them."""

    def __init__(self, confined: Confined, stdin: bytes, limits: TaskLimits, watch: Watch) -> None:
        process = confined.process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._stdin = process.stdin
        self._unsent = memoryview(stdin)
        self._streams = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
        self._logs = {descriptor: LogLines(watch.log) for descriptor in self._streams}
        self._limit = limits.output_bytes
        self._disk = DiskUse(confined.folder, limits.disk_bytes)
        self._watch = watch
        self._poller = select.poll()
        for descriptor in self._streams:
            os.set_blocking(descriptor, False)
            self._poller.register(descriptor, select.POLLIN)
        os.set_blocking(self._stdin.fileno(), False)
        self._poller.register(self._stdin.fileno(), select.POLLOUT)
        self._open = set(self._streams)
        self._end = -1
        with contextlib.suppress(AttributeError, OSError):
            self._end = os.pidfd_open(process.pid)
            self._poller.register(self._end, select.POLLIN)

    def to_the_end(self) -> Finished:
        """Serve the program until it has ended; what it started may hold its output open, and is not waited for."""
        while self._process.poll() is None:
            self._watch.refuse_late("the script")
            self._watch.refuse_cancelled("the script")
            self._disk.refuse_full("the script")
            for descriptor, _ in self._poller.poll(int(CHECK_SECONDS * 1000)):
                if descriptor in self._streams:
                    self._take(descriptor)
                elif descriptor != self._end:
                    self._give(descriptor)
        for descriptor in tuple(self._open):
            self._take(descriptor)
        for log in self._logs.values():
            log.close()
        stdout, stderr = (bytes(data) for data in self._streams.values())
        return Finished(self._process.returncode, stdout, stderr)

    def close(self) -> None:
        """Give up the handle of the process."""
        if self._end >= 0:
            os.close(self._end)

    def _take(self, descriptor: int) -> None:
        while self._watch.left > 0:
            try:
                chunk = os.read(descriptor, CHUNK)
            except BlockingIOError:
                return
            if not chunk:
                self._poller.unregister(descriptor)
                self._open.discard(descriptor)
                return
            self._streams[descriptor] += chunk
            self._logs[descriptor].feed(chunk)
            if sum(len(data) for data in self._streams.values()) > self._limit:
                raise TaskError(
                    f"the script printed more than {self._limit} bytes and was stopped", code="output_limit"
                )

    def _give(self, descriptor: int) -> None:
        with contextlib.suppress(BlockingIOError):
            try:
                self._unsent = (
                    self._unsent[os.write(descriptor, self._unsent) :] if self._unsent else self._unsent
                )
            except BrokenPipeError:
                self._unsent = self._unsent[:0]
        if not self._unsent:
            self._poller.unregister(descriptor)
            self._stdin.close()
