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
from noetl.kinds.sandbox.output import LogLines
from noetl.kinds.sandbox.process import Confined, start_confined
from noetl.kinds.sandbox.watch import Watch

CHUNK = 1 << 20
CHECK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one run: address space, size of one file, and of what it prints altogether, in bytes."""

    memory_bytes: int
    output_bytes: int


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended. ``returncode`` is negative for a signal."""

    returncode: int
    stdout: bytes
    stderr: bytes


def run_program(
    command: Sequence[str], stdin: bytes, env: Mapping[str, str], limits: Limits, watch: Watch
) -> Finished:
    """Run ``command`` (absolute program first) with ``env`` over the scrubbed environment.

    Whatever it leaves running in its process group is ended with it. Raises TaskError ``timeout``, ``cancelled``
    or ``output_limit``, and InfrastructureError when no process can be started.
    """
    order = {"memory": limits.memory_bytes, "file_size": limits.output_bytes, "command": list(command)}
    pipe = subprocess.PIPE
    try:
        confined = start_confined("launch", json.dumps(order), stdin=pipe, stdout=pipe, stderr=pipe, env=env)
    except OSError as error:
        raise InfrastructureError(f"{command[0]} cannot be started: {error}") from error
    try:
        return _Run(confined, stdin, limits, watch).to_the_end()
    finally:
        confined.kill()
        for stream in (confined.process.stdin, confined.process.stdout, confined.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


class _Run:
    """The descriptors of one run and what came through them."""

    def __init__(self, confined: Confined, stdin: bytes, limits: Limits, watch: Watch) -> None:
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
        self._watch = watch
        self._poller = select.poll()
        for descriptor in self._streams:
            os.set_blocking(descriptor, False)
            self._poller.register(descriptor, select.POLLIN)
        os.set_blocking(self._stdin.fileno(), False)
        self._poller.register(self._stdin.fileno(), select.POLLOUT)
        self._open = set(self._streams)

    def to_the_end(self) -> Finished:
        """Serve the program until it has ended; what it started may hold its output open, and is not waited for."""
        while self._process.poll() is None:
            self._watch.refuse_late("the script")
            self._watch.refuse_cancelled("the script")
            for descriptor, _ in self._poller.poll(int(CHECK_SECONDS * 1000)):
                if descriptor in self._streams:
                    self._take(descriptor)
                else:
                    self._give(descriptor)
        for descriptor in tuple(self._open):
            self._take(descriptor)
        for log in self._logs.values():
            log.close()
        stdout, stderr = (bytes(data) for data in self._streams.values())
        return Finished(self._process.returncode, stdout, stderr)

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
