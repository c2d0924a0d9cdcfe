"""Processes under test, forked from one that has loaded what all of them use: loading it is most of the work of a short life."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[1]
LOADED = (
    "tests.faults.runner",
    "tests.faults.serving",
    "noetl.cli.app",
    "noetl.cli.commands.worker",
    "noetl.dsl.compiler",
)
"""Modules that start no thread and open nothing when they are loaded."""
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(list(LOADED))


class Forked:
    """A process that runs ``main`` of a module, with the part of ``subprocess.Popen`` that tests use.

    ``words``: its arguments. ``argv``: the command line after the name. ``errors``: the file of its stderr. ``stdout`` is read.
    """

    def __init__(
        self,
        module: str,
        *words: Any,
        errors: Path,
        argv: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
        cwd: Path = ROOT,
    ) -> None:
        self._lock = threading.Lock()
        read, write = SERVER.Pipe(duplex=False)
        with read, write:
            self.stdout = os.fdopen(os.dup(read.fileno()), "rb")
            given = (module, words, argv, write, errors, dict(os.environ if env is None else env), cwd)
            self._process = SERVER.Process(target=_main, args=given, daemon=True)
            self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        with self._lock:
            return self._process.exitcode

    def kill(self) -> None:
        """Send SIGKILL, if it lives."""
        with self._lock:
            if self._process.exitcode is None:
                self._process.kill()

    def terminate(self) -> None:
        """Send SIGTERM, if it lives."""
        with self._lock:
            if self._process.exitcode is None:
                self._process.terminate()

    def wait(self, timeout: float) -> int:
        # Its end is seen without reading its code, which is there to be read once: under the lock.
        wait([self._process.sentinel], timeout)
        code = self.poll()
        assert code is not None, f"it has not ended in {timeout} s"
        return code


def noetl(*words: str, env: Mapping[str, str], cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run the ``noetl`` command to its end."""
    with tempfile.TemporaryDirectory() as folder:
        errors = Path(folder) / "stderr"
        process = Forked("noetl.cli.main", errors=errors, argv=words, env=env, cwd=cwd)
        with process.stdout:
            out = process.stdout.read().decode()
        code = process.wait(PATIENCE)
        return subprocess.CompletedProcess(words, code, out, errors.read_text())


def _main(
    module: str,
    words: tuple[Any, ...],
    argv: tuple[str, ...],
    out: Connection,
    errors: Path,
    environ: Mapping[str, str],
    cwd: Path,
) -> None:
    os.dup2(out.fileno(), 1)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
    sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(cwd)
    sys.argv = [module, *argv]
    sys.exit(importlib.import_module(module).main(*words))
