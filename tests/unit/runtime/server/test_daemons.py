"""Processes that stay: seen while they live, started when they are ready, ended in time; and a number that somebody else has is left alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from noetl.cli.client.runtime_access import callbacks_of
from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.runtime.bootstrap import LOCAL_SERVER
from noetl.runtime.server import daemons
from noetl.runtime.server.daemons import Processes
from tests.waiting import PATIENCE, wait_until

HOLDS = """
import signal, sys, time
from pathlib import Path
from noetl.runtime.server.daemons import Processes
deaf = sys.argv[3] == "deaf"
def end(*_):
    raise SystemExit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN if deaf else end)
with Processes(Path(sys.argv[1])).hold("worker", sys.argv[2], "a log") as ready:
    if sys.argv[3] == "broken":
        sys.exit("the address is taken")
    if sys.argv[3] != "slow":
        ready({"pool": "io"})
    time.sleep(3600)
"""


def command(folder: Path, name: str, how: str = "") -> list[str]:
    return [sys.executable, "-c", HOLDS, str(folder), name, how]


@pytest.fixture
def running(tmp_path: Path):
    made = Processes(tmp_path / "processes")
    yield made
    for one in made.running("worker"):
        if one.pid != os.getpid():
            os.kill(one.pid, signal.SIGKILL)


def test_one_in_the_background_is_seen_and_ended(running: Processes, tmp_path: Path):
    log = tmp_path / "logs" / "w.log"
    made = running.start("worker", "w", command(running.folder, "w"), log, os.environ)
    assert (made.kind, made.name, made.about, made.log, made.ready) == (
        "worker",
        "w",
        {"pool": "io"},
        "a log",
        True,
    )
    assert running.running("worker") == [made] and running.running("server") == []
    with pytest.raises(InvalidInputError, match=f"process {made.pid}"), running.hold("worker", "w"):
        pass
    with running.hold("worker", ""), running.hold("worker", "") as ready:
        ready({})
        assert [one.name for one in running.running("worker")] == ["w", "worker", "worker-2"]
    assert (
        running.stop(made, PATIENCE)
        and running.running("worker") == []
        and not list(running.folder.iterdir())
    )
    assert running.stop(made, PATIENCE), "it is over already"


def test_one_that_does_not_end_is_killed_and_what_was_killed_is_forgotten(running: Processes, tmp_path: Path):
    made = running.start("worker", "w", command(running.folder, "w", "deaf"), tmp_path / "log", os.environ)
    assert not running.stop(made, 0.2)
    assert running.running("worker") == [] and not list(running.folder.iterdir())


@pytest.mark.parametrize(
    ("how", "told"),
    [("broken", r"ended with code 1; it said:\s+the address is taken"), ("slow", "not ready within")],
)
def test_one_that_cannot_begin_is_told_with_its_words(
    running: Processes, tmp_path: Path, monkeypatch, how, told
):
    monkeypatch.setattr(daemons, "READY_SECONDS", 1.0 if how == "slow" else PATIENCE)
    (tmp_path / "log").write_text("of an earlier one\n")
    with pytest.raises(InfrastructureError, match=told) as error:
        running.start("worker", "w", command(running.folder, "w", how), tmp_path / "log", os.environ)
    assert "earlier" not in error.value.message and str(tmp_path / "log") in str(error.value.hint)
    assert running.running("worker") == []


def test_a_number_that_belongs_to_somebody_else_by_now_is_never_signalled(running: Processes, tmp_path: Path):
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    try:
        made = running.start("worker", "w", command(running.folder, "w"), tmp_path / "log", os.environ)
        os.kill(made.pid, signal.SIGKILL)
        path = running.folder / "worker.w.json"
        wait_until(lambda: not running.find("worker", "w"), "the worker's end")
        path.write_text(json.dumps({**vars_of(made), "pid": stranger.pid}))
        assert running.stop(type(made)(**{**vars_of(made), "pid": stranger.pid}), 0.5)
        assert running.running("worker") == [] and stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def vars_of(one: daemons.Process) -> dict:
    return {name: getattr(one, name) for name in one.__struct_fields__}


@pytest.mark.parametrize("name", ["../x", "a/b", ".", "", "x" * 65, "a b"])
def test_names_are_no_paths(running: Processes, name: str):
    with pytest.raises(InvalidInputError, match="cannot name"):
        running.find("worker", name) or running._path("worker", name)


def test_links_of_this_machine_lead_to_the_server_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    monkeypatch.delenv("NOETL_PUBLIC_URL", raising=False)
    assert callbacks_of(None)[1] == LOCAL_SERVER, "no server runs"
    with Processes.of_home(tmp_path).hold("server", "") as ready:
        assert callbacks_of(None)[1] == LOCAL_SERVER, "it does not listen yet"
        ready({"address": "http://0.0.0.0:8799"})
        assert callbacks_of(None)[1] == "http://127.0.0.1:8799"
        monkeypatch.setenv("NOETL_PUBLIC_URL", "https://noetl.example.com")
        assert callbacks_of(None)[1] == "https://noetl.example.com"
