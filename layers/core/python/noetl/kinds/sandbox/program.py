"""Runs a program to its end in a confined process, within its time and output."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from noetl.domain.errors import InfrastructureError, TaskError
from noetl.kinds.sandbox.cell import Tenant
from noetl.kinds.sandbox.disk import DiskUse
from noetl.kinds.sandbox.output import LogLines
from noetl.kinds.sandbox.pipes import Pipe, close_pipes, open_pipes
from noetl.kinds.sandbox.places import Places
from noetl.kinds.sandbox.process import Confined, Task, TaskLimits, start_confined
from noetl.kinds.sandbox.template import Forked
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
    """A program to run.

    ``command``: the absolute path of the program first. ``env`` comes over the scrubbed environment.

    ``own``: files or folders that this one may read and others may not. ``begins_in``: the folder that it begins in; empty: its own.
    """

    command: Sequence[str]
    stdin: bytes
    env: Mapping[str, str]
    own: Sequence[str] = ()
    begins_in: str = ""


def run_program(program: Program, limits: TaskLimits, places: Places, watch: Watch) -> Finished:
    """Run a program to its end, and end every process that it leaves running.

    Raises TaskError ``timeout``, ``cancelled``, ``output_limit``, ``disk_limit`` or ``out_of_memory``, and InfrastructureError when no
    process can be started.
    """
    pipes: list[Pipe] = []
    try:
        pipes += open_pipes(3)
        (stdin, given), (stdout, written), (stderr, errors) = pipes
        order = {"command": list(program.command), "begins_in": program.begins_in}
        task = Task(limits, places, program.own, program.env, order)
        confined = start_confined("launch", task, (stdin, written, errors))
    except BaseException as error:
        close_pipes(pipes)
        if isinstance(error, OSError):
            raise InfrastructureError(f"{program.command[0]} cannot be started: {error}") from error
        raise
    for descriptor in (stdin, written, errors):
        os.close(descriptor)
    run = _Run(confined, (given, stdout, stderr), program.stdin, limits, watch)
    try:
        return run.to_the_end()
    finally:
        run.close()
        confined.kill()


class _Run:
    """The descriptors of one run and what came through them."""

    def __init__(
        self,
        confined: Confined,
        streams: tuple[int, int, int],
        stdin: bytes,
        limits: TaskLimits,
        watch: Watch,
    ) -> None:
        self._process = confined.process
        self._stdin, *outputs = streams
        self._unsent = memoryview(stdin)
        self._streams = {descriptor: bytearray() for descriptor in outputs}
        self._logs = {descriptor: LogLines(watch.log) for descriptor in outputs}
        self._limit = limits.output_bytes
        self._disk = DiskUse(confined.folder, limits.disk_bytes)
        self._memory = confined.memory_use(limits.memory_bytes)
        self._watch = watch
        self._poller = select.poll()
        for descriptor in outputs:
            os.set_blocking(descriptor, False)
            self._poller.register(descriptor, select.POLLIN)
        os.set_blocking(self._stdin, False)
        self._poller.register(self._stdin, select.POLLOUT)
        self._open = set(outputs)
        if isinstance(self._process, Forked | Tenant):
            self._poller.register(self._process.fileno(), select.POLLIN)

    def to_the_end(self) -> Finished:
        """Serve the program until it has ended.

        What it started may hold its output open, and is not waited for.
        """
        while self._process.poll() is None:
            self._watch.refuse_late("the script")
            self._watch.refuse_cancelled("the script")
            self._disk.refuse_full("the script")
            self._memory.refuse_full("the script")
            for descriptor, _ in self._poller.poll(int(CHECK_SECONDS * 1000)):
                if descriptor in self._streams:
                    self._take(descriptor)
                elif descriptor == self._stdin:
                    self._give(descriptor)
        for descriptor in tuple(self._open):
            self._take(descriptor)
        for log in self._logs.values():
            log.close()
        stdout, stderr = (bytes(data) for data in self._streams.values())
        assert self._process.returncode is not None
        return Finished(self._process.returncode, stdout, stderr)

    def close(self) -> None:
        """Close the streams."""
        self._close_stdin()
        for descriptor in self._streams:
            os.close(descriptor)

    def _close_stdin(self) -> None:
        if self._stdin >= 0:
            self._poller.unregister(self._stdin)
            os.close(self._stdin)
            self._stdin = -1

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
            self._close_stdin()
