"""What a machine has run out of is said in one line with its remedy, on whatever command, and without a traceback."""

import errno
import os
import subprocess
import sys

import pytest

from noetl.adapters.embedded.processes import failed
from noetl.cli import errors
from tests.parts import over

CAUSES = [
    (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data"), "the disk is full (/data)", "df -h"),
    (MemoryError(), "no more memory", "ulimit -v"),
    (RuntimeError("can't start new thread"), "no more processes", "ulimit -u"),
    (BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)), "no more processes", "ulimit -u"),
    (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), "no more files", "ulimit -n"),
    (OSError(errno.EFBIG, os.strerror(errno.EFBIG)), "a file may not become", "ulimit -f"),
    (ImportError("x.so: failed to map segment from shared object"), "no more memory", "ulimit -v"),
    (
        FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']"),
        "temporary",
        "TMPDIR",
    ),
]


@pytest.mark.parametrize(("cause", "reason", "remedy"), CAUSES)
def test_a_shortage_is_named_with_its_remedy(cause, reason, remedy, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))

    def command():
        try:
            raise cause
        except Exception as error:
            raise ValueError("what it broke") from error

    assert errors.guarded(command) == errors.ENVIRONMENT
    told = capsys.readouterr().err
    assert reason.partition(" (")[0] in told and remedy in told
    assert "Traceback" not in told and "unexpected" not in told and len(told.splitlines()) == 2


@over(
    ("log", "reason"),
    [
        ('FATAL:  could not write lock file "postmaster.pid": No space left on device', "the disk is full"),
        (
            'PANIC:  could not extend file "base/1/2691": wrote only 4096 of 8192 bytes at block 9',
            "the disk is full",
        ),
        ("FATAL:  could not create shared memory segment: Cannot allocate memory", "no more memory"),
        (
            "LOG:  could not fork new process for connection: Resource temporarily unavailable",
            "no more processes",
        ),
        ("FATAL:  insufficient file descriptors available to start server process", "no more files"),
        ('FATAL:  could not write to file "pg_wal/xlogtemp.7": File too large', "a file may not become"),
        ("FATAL: it was ended by SIGXFSZ", "a file may not become"),
        ('FATAL:  could not execute command "locale -a": Cannot allocate memory', "no more processes, or"),
        ("sh: 1: Cannot fork", "no more processes"),
        (
            "LOG: a\nFATAL:  data directory has wrong ownership\nHINT: b",
            "FATAL:  data directory has wrong ownership",
        ),
        ("", "without a message"),
    ],
)
def test_what_the_database_complains_about_is_told(log, reason):
    error = failed("the embedded Postgres did not start", log, "postgres_start")
    assert error.message.startswith("the embedded Postgres did not start: ") and reason in error.message
    assert "\n" not in error.message


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
@pytest.mark.parametrize("arguments", [["version"], ["--help"]])
def test_an_output_that_cannot_be_written_is_an_error(arguments):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-m", "noetl.cli", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == errors.ENVIRONMENT
    assert "the output cannot be written" in done.stderr or "the disk is full" in done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) == 2
