"""The parent's side of a warm Python child: one call at a time, within its limits.

The limits are of time, memory and output.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from noetl.domain import codec
from noetl.domain.errors import InfrastructureError, TaskError
from noetl.kinds.sandbox.disk import LOOK_SECONDS, DiskUse, disk_fits
from noetl.kinds.sandbox.memory import LOOKING_SHARE
from noetl.kinds.sandbox.noetl_guest.serve import READY
from noetl.kinds.sandbox.output import LogLines
from noetl.kinds.sandbox.pipes import open_pipes
from noetl.kinds.sandbox.places import Places
from noetl.kinds.sandbox.process import Task, TaskLimits, describe_end, found_at, serving, start_confined
from noetl.kinds.sandbox.request import LENGTH, call_frame, frame_of
from noetl.kinds.sandbox.watch import Watch
from noetl.kinds.support.foreign_json import foreign_value
from noetl.system_calls import short_calls

CHUNK = 1 << 16
"""Bytes that are read at a time; more of an answer that announces more. A larger buffer would be mapped and unmapped for each."""
SHORT = 4096
"""Bytes that most requests, answers and outputs have at most: these take a short call."""
MARK_BYTES, MARKS = 8, 32
"""Random bytes of the id of a call, and for how many calls the system is asked at a time."""
FRAME_OVERHEAD = 64 * 1024
"""What an answer may be larger than its result: the envelope, or an error with its traceback."""
CANCEL_CHECK_SECONDS = 0.25
END_SECONDS = 2.0
SHARED_CALLS = 1000
"""Calls of a process that executions share."""


class Owner(msgspec.Struct, frozen=True):
    """Whom a child works for. A child is never given to another owner.

    ``program``: of the executions that share it; ``execution_id`` is 0 then. Empty: it is of one execution. ``stateless``: it runs only code
    that can keep nothing (``noetl.kinds.sandbox.stateless``), so that no other code can leave it something.
    """

    execution_id: int
    limits: TaskLimits
    places: Places = msgspec.field(default_factory=Places)
    program: str = ""
    stateless: bool = False


class Child:
    """One process. Not safe for two threads at once; the pool sees to that."""

    def __init__(self, owner: Owner) -> None:
        """Start the process and return before it is ready.

        Raises OSError and InfrastructureError.
        """
        self.owner = owner
        limits = owner.limits
        self._found = found_at(owner.places) if owner.program else ()
        self._found_until = time.monotonic() + LOOK_SECONDS
        pipes = open_pipes(3)
        (stdin, self._requests), (self._output, stdout), (self._answers, answers) = pipes
        try:
            task = Task(limits, owner.places, order=serving(limits, owner.places))
            self._confined = start_confined("serve", task, (stdin, stdout, stdout), own=(answers,))
        except BaseException:
            self._close_own()
            raise
        finally:
            for descriptor in (stdin, stdout, answers):
                os.close(descriptor)
        os.set_blocking(self._requests, False)
        os.set_blocking(self._output, False)
        os.set_blocking(self._answers, False)
        self._short = short_calls.Buffer(SHORT)
        self._marks = _marks()
        self._poller = select.poll()
        self._poller.register(self._answers, select.POLLIN)
        self._poller.register(self._output, select.POLLIN)
        self._buffer = bytearray()
        self._calls = 0
        self._closed = False
        self._modules: Mapping[str, str] = {}
        self._ready = False
        self._cancel_checked = 0.0
        self._disk = DiskUse(self._confined.folder, limits.disk_bytes)
        self._memory = self._confined.memory_use(limits.memory_bytes)
        self._next_look = 0.0
        self.worn = False
        """The last call left the process unfit for another.

        It is out of memory, without its output, or with output that was not read; or half of what calls share is used up.
        """

    @property
    def alive(self) -> bool:
        """False once the process has ended.

        Also when it could not be prepared: its cell reports that once, to the one that asks first.
        """
        try:
            return not self._closed and self._confined.process.poll() is None
        except InfrastructureError:
            return False

    @property
    def sees_places(self) -> bool:
        """Report whether a process that executions share sees what a new one would.

        Its places are looked at now and then.
        """
        if self._found and (now := time.monotonic()) >= self._found_until:
            self._found_until = now + LOOK_SECONDS
            return self._found == found_at(self.owner.places)
        return True

    @property
    def fits_disk(self) -> bool:
        """Report whether its folder is within its limit; any thread may ask.

        Code that has returned its result may still write.
        """
        return self.owner is None or disk_fits(self._confined.folder, self.owner.limits.disk_bytes)

    @property
    def spent(self) -> bool:
        """Whether a process that executions share ends, so that none meets what others used up.

        After ``SHARED_CALLS`` calls, and when it has half of the disk that a process may have. Of all else the process tells itself
        (``noetl_guest.used``).
        """
        if not self.owner.program:
            return False
        if self._calls >= SHARED_CALLS:
            return True
        if (began := time.monotonic()) < self._next_look:
            return False
        fits = disk_fits(self._confined.folder, self.owner.limits.disk_bytes // 2)
        now = time.monotonic()
        self._next_look = now + min(LOOK_SECONDS, (now - began) * LOOKING_SHARE)
        return not fits

    @property
    def left_processes(self) -> bool:
        """Whether calls left processes running (Linux)."""
        return self._confined.left_processes()

    def call(self, code: str, values: Mapping[str, Any], watch: Watch) -> dict[str, Any]:
        """Run ``code`` with ``values``; return its ``result``, ``error`` or ``problem``.

        Raises TaskError when there is no answer (timeout, cancelled, process gone, too much output, an answer
        that is none); the child must be closed then.
        """
        output = LogLines(watch.log)
        self._cancel_checked = time.monotonic()
        call_id = f"{self._calls}-{next(self._marks)}"
        self._calls += 1
        request = call_frame(
            call_id,
            code,
            values,
            watch.context.timeout,
            self._unsent(watch.context.modules),
            shared=bool(self.owner.program),
            stateless=self.owner.stateless,
        )
        try:
            self._send(request, watch, output)
            if not self._ready:
                self._answer_to(READY, watch, output)
                self._ready = True
            answer = self._answer_to(call_id, watch, output)
            while "need" in answer:
                self._send(frame_of(codec.encode(_look_up(answer["need"], watch))), watch, output)
                answer = self._answer_to(call_id, watch, output)
        finally:
            whole = False
            with contextlib.suppress(OSError):
                whole = self._drain(output, watch)
            output.close()
        # What was not read any more would be in the log of another call.
        self.worn = bool(answer.pop("worn", False)) or not whole
        answer["lines"] = output.lines
        return answer

    def _unsent(self, modules: Mapping[str, str]) -> Mapping[str, str] | None:
        """Return the modules of a playbook when the process does not have them yet."""
        if modules == self._modules:
            return None
        self._modules = modules
        return modules

    def let_go(self) -> None:
        """Let the process end, and do not wait for that; ``close`` is still to be called."""
        if not self._closed:
            self._closed = True
            self._confined.let_go()  # first: what sees the end of its channels runs on until it has ended by itself
            self._close_own()

    def close(self) -> None:
        """End the process, also in the middle of a call."""
        self.let_go()
        self._confined.kill()

    def _close_own(self) -> None:
        for descriptor in (self._requests, self._output, self._answers):
            os.close(descriptor)

    def _send(self, data: bytes, watch: Watch, output: LogLines) -> None:
        view = memoryview(data)
        while view:
            try:
                if len(view) <= SHORT:
                    view = view[short_calls.write(self._requests, bytes(view)) :]
                else:
                    view = view[os.write(self._requests, view) :]
            except BlockingIOError:
                self._wait(watch, output, to_write=True)
            except BrokenPipeError:
                raise self._gone() from None

    def _answer_to(self, call_id: str, watch: Watch, output: LogLines) -> dict[str, Any]:
        while len(self._buffer) < (wanted := self._announced()):
            if not self._wait(watch, output):
                continue
            left = wanted - len(self._buffer)
            chunk = (
                self._short.read(self._answers) if left <= SHORT else os.read(self._answers, max(CHUNK, left))
            )
            if not chunk:
                raise self._gone()
            self._buffer += chunk
        with memoryview(self._buffer) as view:
            data = bytes(view[LENGTH:wanted])
        del self._buffer[:wanted]
        try:
            answer = foreign_value(data, "the result of the code")
        except (ValueError, RecursionError) as error:
            raise _no_answer(str(error)) from None
        if not isinstance(answer, dict) or answer.pop("id", None) != call_id:
            raise _no_answer("it belongs to no call")
        return answer

    def _announced(self) -> int:
        """Return the length of the buffer's first frame, as far as the buffer shows it."""
        if len(self._buffer) < LENGTH:
            return LENGTH
        size = int.from_bytes(self._buffer[:LENGTH], "big")
        limit = self.owner.limits.output_bytes + FRAME_OVERHEAD
        if size > limit:
            raise _no_answer(f"it announces {size} bytes")
        return LENGTH + size

    def _wait(self, watch: Watch, output: LogLines, *, to_write: bool = False) -> bool:
        """Wait a moment, and log output on the way. True when an answer can be read."""
        watch.refuse_late("the code")
        self._disk.refuse_full("the code")
        self._memory.refuse_full("the code")
        if to_write:
            self._poller.register(self._requests, select.POLLOUT)
        try:
            events = self._poller.poll(max(1, int(min(watch.left, CANCEL_CHECK_SECONDS) * 1000)))
        finally:
            if to_write:
                self._poller.unregister(self._requests)
        ready = False
        for descriptor, _ in events:
            if descriptor == self._output:
                self._drain(output, watch)
            ready = ready or descriptor == self._answers
        # Not only in silence: code may print all the time.
        if (now := time.monotonic()) - self._cancel_checked >= CANCEL_CHECK_SECONDS:
            self._cancel_checked = now
            watch.refuse_cancelled("the code")
        return ready

    def _drain(self, output: LogLines, watch: Watch) -> bool:
        """Take the output that is there, within the limit and before the deadline.

        False: there may be more.
        """
        limit = self.owner.limits.output_bytes
        chunk = b""
        while watch.left > 0:
            try:
                chunk = os.read(self._output, CHUNK) if chunk else self._short.read(self._output)
            except BlockingIOError:
                return True
            if not chunk:
                with contextlib.suppress(KeyError):
                    self._poller.unregister(self._output)
                return True
            output.feed(chunk)
            if output.total > limit:
                raise TaskError(
                    f"the code printed more than {limit} bytes and was stopped",
                    kind="transform",
                    code="output_limit",
                )
        return False

    def _gone(self) -> TaskError | InfrastructureError:
        process = self._confined.process
        try:
            returncode = process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            return _no_answer("its channel was closed")
        code, words = describe_end(returncode)
        if not self._ready:
            return InfrastructureError(f"a process for python code could not be prepared: {words}")
        return TaskError(
            f"the code ended its own process: {words}",
            kind="transform",
            code=code,
            hint="return a result instead of ending the process" if returncode >= 0 else None,
            details={"returncode": returncode},
        )


def _marks() -> Iterator[str]:
    """Yield what distinguishes calls, which code cannot guess of a call to come."""
    while True:
        drawn = os.urandom(MARK_BYTES * MARKS).hex()
        for first in range(0, len(drawn), 2 * MARK_BYTES):
            yield drawn[first : first + 2 * MARK_BYTES]


def _look_up(names: Any, watch: Watch) -> dict[str, Any]:
    """Return the values of ``names``, each looked up once.

    A forged list may be long and each value large: time and cancellation count meanwhile.
    """
    if not isinstance(names, list):
        raise _no_answer("it asks for something that is not a list of names")
    found = {}
    for name in dict.fromkeys(map(str, names)):
        watch.refuse_late("the code")
        watch.refuse_cancelled("the code")
        with contextlib.suppress(KeyError):
            found[name] = watch.context.lookup(name)
    return found


def _no_answer(why: str) -> TaskError:
    return TaskError(
        f"the code disturbed the channel that carries its result: {why}", kind="transform", code="no_answer"
    )
