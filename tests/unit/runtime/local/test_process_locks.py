"""Processes that were killed are found at once; processes that live or left are not."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from noetl.domain.commands import Command
from noetl.runtime.local.process_locks import ProcessLock, Record
from tests.waiting import PATIENCE

HOLD = """
import sys, time
from pathlib import Path
from noetl.runtime.local.process_locks import ProcessLock
from noetl.domain.commands import Command
mine = ProcessLock(Path(sys.argv[1]), sys.argv[2])
mine.announce()
with mine.running(Command(7, "2", 1, "done", "p", "io")):
    kept = mine.running(Command(7, "1", 1, "load", "p", "io", turn=3))
    kept.__enter__()
print("here", flush=True)
time.sleep(3600)
"""


def dead(presence):
    with presence.dead() as found:
        return list(found)


def test_a_killed_process_is_found_once(tmp_path):
    mine = ProcessLock(tmp_path, "mine")
    mine.announce()
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path), "host:1:ab"], stdout=subprocess.PIPE)
    with other:
        assert other.stdout.readline() == b"here\n"
        try:
            assert dead(mine) == [], "it lives"
        finally:
            os.kill(other.pid, signal.SIGKILL)
        other.wait(PATIENCE)
        with pytest.raises(ZeroDivisionError), mine.dead() as found:
            assert found == [Record("host:1:ab", ((7, "1", 3),))], (
                "what it was running, and not what it had ended"
            )
            assert dead(ProcessLock(tmp_path, "third")) == [], "one process at a time is told"
            raise ZeroDivisionError
        assert len(dead(mine)) == 1, "who failed to free what it held is told again"
        assert dead(mine) == []


def test_who_leaves_properly_is_not_dead(tmp_path):
    mine, other = ProcessLock(tmp_path, "mine"), ProcessLock(tmp_path, "other")
    other.announce()
    other.leave()
    other.leave()
    assert dead(mine) == []
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_has_not_written_its_name_yet_is_left_alone(tmp_path):
    (tmp_path / "new").touch()
    assert dead(ProcessLock(tmp_path, "mine")) == []
    assert (tmp_path / "new").exists()


def test_no_folder_means_nobody(tmp_path):
    assert dead(ProcessLock(tmp_path / "none", "mine")) == []


def test_files_of_earlier_versions_hold_a_name_alone(tmp_path):
    (tmp_path / "old").write_text("host:1:ab")
    assert dead(ProcessLock(tmp_path, "mine")) == [Record("host:1:ab")]


def test_what_runs_twice_is_recorded_until_both_have_ended(tmp_path):
    """A command whose lease was taken anew may run beside its earlier attempt."""
    command = Command(7, "1", 1, "load", "p", "io")
    mine = ProcessLock(tmp_path, "mine")
    mine.announce()
    with mine.running(command):
        with mine.running(command):
            pass
        assert b'[7,"1",0]' in mine._path.read_bytes()
    assert mine._path.read_bytes().startswith(b'{"owner":"mine","running":[]}\n')
    mine.leave()


def test_threads_that_look_at_once_do_not_disturb_each_other(tmp_path):
    mine = ProcessLock(tmp_path, "mine")
    mine.announce()
    (tmp_path / "one").write_bytes(b'{"owner":"one"}\n')
    looked: list[str] = []
    other = threading.Thread(target=lambda: looked.extend(record.owner for record in dead(mine)))
    with mine.dead() as found:
        other.start()
        (tmp_path / "two").write_bytes(b'{"owner":"two"}\n')
        other.join(0.1)
        for record in found:
            mine.counted(record)
    other.join()
    assert [record.owner for record in found] == ["one"] and looked == ["two"]
