"""Limits of the process of a query, where the server has narrower ones already."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from noetl.adapters.embedded.query_memory import GROWTH, NICE, bound

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="there is no such limit")
NARROW = 128 * 1024 * 1024

Made = Callable[[Callable[[], object]], int]


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Made]:
    """Make a process that stands for one of a server, after it has called a function."""
    (tmp_path / "postmaster.pid").write_text(f"{os.getpid()}\n")
    children: list[subprocess.Popen[bytes]] = []

    def make(before: Callable[[], object]) -> int:
        command = [sys.executable, "-c", "print(flush=True); input()"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        children.append(child := subprocess.Popen(command, preexec_fn=before, **pipes))
        assert child.stdout is not None
        child.stdout.readline()
        return child.pid

    yield make
    for child in children:
        child.communicate(b"\n")


def test_a_process_gets_both_limits(process, tmp_path):
    one = process(lambda: None)
    bound(one, tmp_path)
    soft, hard = resource.prlimit(one, resource.RLIMIT_DATA)
    assert GROWTH < soft == hard < 2 * GROWTH
    assert os.getpriority(os.PRIO_PROCESS, one) == max(NICE, os.nice(0))


def test_a_server_that_runs_behind_others_stays_there(process, tmp_path):
    """`nice -n 15 noetl serve`: root alone may bring a process forward, so every query was refused."""
    one = process(lambda: os.nice(NICE + 5))
    before = os.getpriority(os.PRIO_PROCESS, one)
    bound(one, tmp_path)
    assert os.getpriority(os.PRIO_PROCESS, one) == before


@pytest.mark.parametrize("limits", [(NARROW, NARROW), (NARROW, resource.RLIM_INFINITY)])
def test_a_narrower_limit_of_the_server_stays(process, tmp_path, limits):
    """`ulimit -d`: root alone may raise the hard limit, so every query was refused."""
    one = process(lambda: resource.setrlimit(resource.RLIMIT_DATA, limits))
    bound(one, tmp_path)
    assert resource.prlimit(one, resource.RLIMIT_DATA) == limits
    assert os.getpriority(os.PRIO_PROCESS, one) == max(NICE, os.nice(0))
