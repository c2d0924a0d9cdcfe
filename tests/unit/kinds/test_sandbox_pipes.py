"""Pipes of a task's process when descriptors run out."""

from __future__ import annotations

import errno
import os

import pytest

from noetl.domain.errors import InfrastructureError
from noetl.domain.kinds import TaskContext, TaskSettings
from noetl.kinds.sandbox.child import Child, Owner
from noetl.kinds.sandbox.places import Places
from noetl.kinds.sandbox.process import TaskLimits
from noetl.kinds.sandbox.program import Program, run_program
from noetl.kinds.sandbox.watch import Watch

LIMITS = TaskLimits(1 << 30, 1 << 20)


def start_child() -> None:
    Child(Owner(1, LIMITS))


def start_program() -> None:
    context = TaskContext(1, "s", "t", 1, "k", 60.0, TaskSettings(), lambda name: pytest.fail(name))
    run_program(Program(["/bin/true"], b"", {}), LIMITS, Places(), Watch.start(context))


@pytest.mark.parametrize("start", [start_child, start_program])
def test_an_attempt_without_enough_descriptors_keeps_none(monkeypatch, start):
    """A worker at its limit of open files recovers when others are closed."""
    open_pipe, close = os.pipe, os.close
    opened: list[int] = []
    closed: list[int] = []

    def pipe() -> tuple[int, int]:
        if len(opened) == 4:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        ends = open_pipe()
        opened.extend(ends)
        return ends

    def closing(descriptor: int) -> None:
        closed.append(descriptor)
        close(descriptor)

    monkeypatch.setattr(os, "pipe", pipe)
    monkeypatch.setattr(os, "close", closing)
    with pytest.raises((OSError, InfrastructureError)):
        start()
    assert len(opened) == 4 and set(opened) <= set(closed)
