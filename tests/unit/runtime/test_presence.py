"""Processes that were killed are found at once; processes that live or left are not."""

import os
import signal
import subprocess
import sys

from noetl.runtime.presence import Presence
from tests.waiting import PATIENCE

HOLD = """
import sys, time
from pathlib import Path
from noetl.runtime.presence import Presence
Presence(Path(sys.argv[1]), sys.argv[2]).announce()
print("here", flush=True)
time.sleep(3600)
"""


def test_a_killed_process_is_found_once(tmp_path):
    mine = Presence(tmp_path, "mine")
    mine.announce()
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path), "host:1:ab"], stdout=subprocess.PIPE)
    with other:
        assert other.stdout.readline() == b"here\n"
        try:
            assert mine.dead() == [], "it lives"
        finally:
            os.kill(other.pid, signal.SIGKILL)
        other.wait(PATIENCE)
        assert mine.dead() == ["host:1:ab"]
        assert mine.dead() == []


def test_who_leaves_properly_is_not_dead(tmp_path):
    mine, other = Presence(tmp_path, "mine"), Presence(tmp_path, "other")
    other.announce()
    other.leave()
    other.leave()
    assert mine.dead() == []
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_has_not_written_its_name_yet_is_left_alone(tmp_path):
    (tmp_path / "new").touch()
    assert Presence(tmp_path, "mine").dead() == []
    assert (tmp_path / "new").exists()


def test_no_folder_means_nobody(tmp_path):
    assert Presence(tmp_path / "none", "mine").dead() == []
