"""A process for the tests of a playbook, which the server ends when their time is over.

The process has a clean environment and an empty folder: what a playbook under test does can reach neither the
server's memory nor its secrets. Its tasks are confined as all tasks are.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec

from noetl.domain import codec
from noetl.domain.errors import InfrastructureError, OverloadedError
from noetl.kinds.sandbox.environment import scrubbed_environment
from noetl.kinds.sandbox.layers import WITHOUT
from noetl.kinds.sandbox.noetl_guest.removal import remove_tree
from noetl.ports.test_runs import TestedBranch, TestedCase, TestProblem, TestRun

MODULE = "noetl.testing.serve_run"
SECONDS = 30.0
"""How long the tests of one request may take."""
AT_ONCE = 2
AGAIN_SECONDS = 5
MOST_LINE = 256 * 1024
MOST_BYTES = 4 * 1024 * 1024
"""Bytes of outcomes that are read; the rest is left out."""
KEPT = ("PYTHONPATH", WITHOUT)
"""Variables of the server that decide which code runs and how it is confined."""
_FILES, _TEMPORARY = "files", "tmp"
"""The files of the request, which every task may read, and what tasks write. DuckDB runs beside the confinement: in a folder that code
writes to, code could exchange a file for a link between the moment that DuckDB checks it and the moment that it reads it."""


class _Line(msgspec.Struct, frozen=True):
    total: int = 0
    case: TestedCase | None = None
    branches: list[TestedBranch] = []
    problems: list[TestProblem] = []
    source: str = ""


_LINE = codec.decoder(_Line)


class TestProcesses:
    """At most ``AT_ONCE`` processes that run tests.

    ``lend``: the caller's thread waits inside of it, and another request may use a thread meanwhile.
    """

    __test__ = False  # pytest

    def __init__(
        self,
        lend: Callable[[], AbstractContextManager[Any]],
        seconds: float = SECONDS,
        at_once: int = AT_ONCE,
    ) -> None:
        self._lend, self._seconds, self._at_once = lend, seconds, at_once
        self._places = threading.BoundedSemaphore(at_once)

    def run(self, files: Mapping[str, str]) -> TestRun:
        """See ``TestRunner``."""
        if not self._places.acquire(blocking=False):
            raise OverloadedError(
                f"{self._at_once} requests run tests already",
                code="too_many_tests",
                hint="ask again later",
                details={"retry_after": AGAIN_SECONDS},
            )
        try:
            with self._lend(), _folder() as folder:
                return self._run(files, folder)
        finally:
            self._places.release()

    def _run(self, files: Mapping[str, str], folder: Path) -> TestRun:
        with _started(folder) as process:
            overdue = threading.Event()
            clock = threading.Timer(self._seconds, _give_up, (process, overdue))
            clock.daemon = True
            clock.start()
            try:
                assert process.stdin is not None and process.stdout is not None
                _send(process.stdin, msgspec.json.encode(dict(files)))
                lines = list(_lines(process.stdout))
            finally:
                clock.cancel()
                _end(process)
            process.wait()
        return _outcome(lines, f"their {self._seconds:g} seconds are over" if overdue.is_set() else "")


def _outcome(lines: list[_Line], stopped: str) -> TestRun:
    cases = [line.case for line in lines if line.case is not None]
    branches = next((line.branches for line in lines if line.branches), [])
    problems = next((line.problems for line in lines if line.problems), [])
    total = max((line.total for line in lines), default=0)
    if not problems and not stopped and (total == 0 or len(cases) < total):
        stopped = "their process ended: it may need more memory or processor time than tests may have"
    return TestRun(cases, branches, problems, max(total, len(cases)), stopped)


def _send(pipe: IO[bytes], data: bytes) -> None:
    try:
        pipe.write(data)
        pipe.close()
    except BrokenPipeError:
        return


def _lines(pipe: IO[bytes]) -> Iterator[_Line]:
    """Yield what can be read; a line that was cut, or is no outcome, ends it."""
    left = MOST_BYTES
    while left > 0 and (data := pipe.readline(MOST_LINE)):
        left -= len(data)
        try:
            yield codec.decode_as(_LINE, data)
        except ValueError:
            return


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="noetl-tests-"))
    try:
        for name in (_FILES, _TEMPORARY):
            (folder / name).mkdir(mode=0o700)
        yield folder
    finally:
        remove_tree(str(folder))


@contextmanager
def _started(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    temporary = str(folder / _TEMPORARY)
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder / _FILES,
            env={**scrubbed_environment(), **kept, "HOME": temporary, "TMPDIR": temporary},
            start_new_session=True,
        )
    except OSError as error:
        raise InfrastructureError(
            f"the process of the tests cannot be started: {error.strerror or error}", code="tests_not_started"
        ) from error
    with process:
        yield process


def _give_up(process: subprocess.Popen[bytes], overdue: threading.Event) -> None:
    overdue.set()
    _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and its session; tasks end with their worker."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
