"""What a process that executions share finds used up, on machines that lack some of what it looks at."""

from __future__ import annotations

import os

import pytest

from noetl.kinds.sandbox.noetl_guest import namespaces, used
from noetl.kinds.sandbox.noetl_guest.used import Used


@pytest.mark.parametrize("lacking", ["no folder", "no memory", "another system"])
def test_what_a_machine_lacks_is_not_used_up(monkeypatch, lacking):
    if lacking == "no folder":
        monkeypatch.setattr(namespaces, "SCRATCH", ("/tmp", "/nothing/here"))
    elif lacking == "no memory":
        opened = os.open
        monkeypatch.setattr(os, "open", lambda path, flags: opened(f"/nothing{path}", flags))
    else:
        monkeypatch.setattr(used.sys, "platform", "darwin")
    look = Used()
    assert [look.is_too_much() for _ in range(3)] == [False, False, False]


def test_where_no_look_is_possible_there_is_no_room(monkeypatch):
    look = Used()
    assert not look.is_too_much()

    def refuse(number: int) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "dup", refuse)
    assert look.is_too_much()
