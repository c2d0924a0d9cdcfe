"""Exactly the processes that were started are stopped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from noetl.domain.errors import InfrastructureError
from noetl.local import state
from noetl.local.layout import Layout
from tests.waiting import wait_until

SLEEP = "import time; time.sleep(60)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])
print(child.pid, flush=True)
time.sleep(60)
"""


def _spawn(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE, text=True
    )


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "local")


def test_a_process_is_its_number_and_its_beginning() -> None:
    with _spawn(SLEEP) as started:
        found = state.process(started.pid)
        assert found is not None and state.runs(found)
        assert not state.runs(msgspec.structs.replace(found, started="1"))
        assert not state.end(msgspec.structs.replace(found, started="1"))
        assert started.poll() is None, "another process with the same number was stopped"
        assert state.end(found)
        assert not state.runs(found)
        assert not state.end(found)
    assert state.process(started.pid) is None
    assert not state.runs(None)


def test_a_process_that_does_not_listen_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "GRACE_SECONDS", 0.3)
    with _spawn(STUBBORN) as started:
        assert started.stdout is not None
        started.stdout.readline()
        assert state.end(state.process(started.pid))
        assert not state.runs(state.process(started.pid))


def test_the_group_goes_with_its_leader() -> None:
    with _spawn(PARENT) as started:
        assert started.stdout is not None
        child = state.process(int(started.stdout.readline()))
        assert state.runs(child)
        assert state.end(state.process(started.pid))
        wait_until(lambda: not state.runs(child), "the child's end")


def test_what_is_saved_is_read_again(layout: Layout) -> None:
    assert state.load(layout) is None
    saved = state.State(
        environment="local",
        project="/somewhere",
        endpoint="http://127.0.0.1:1",
        port=1,
        emulator=state.process(os.getpid()),
        outputs={"Stack": {"Url": "http://x"}},
    )
    state.save(layout, saved)
    assert state.load(layout) == saved
    assert layout.state.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"environment": 1}', "\xff"])
def test_a_file_that_is_no_state_is_told(layout: Layout, text: str) -> None:
    layout.root.mkdir()
    layout.state.write_text(text, encoding="latin-1")
    with pytest.raises(InfrastructureError, match=r"state\.json cannot be read"):
        state.load(layout)
