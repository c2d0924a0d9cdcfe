"""Many threads use a type for the first time at once; in a process of its own, because what this is about is a crash."""

import subprocess
import sys

from tests.waiting import PATIENCE

ROUNDS = """
import sys, threading
from typing import Any
import msgspec
from noetl.domain import codec

sys.setswitchinterval(1e-6)

def fresh() -> Any:
    inner = msgspec.defstruct("Inner", [(f"f{n}", dict[str, list[int]], {}) for n in range(20)])
    return msgspec.defstruct("Outer", [(f"o{n}", list[inner], []) for n in range(5)])

for _ in range(60):
    shape, together = fresh(), threading.Barrier(4)
    def use() -> None:
        together.wait()
        codec.convert({"o1": [{"f1": {"a": [1]}}]}, shape)
    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
print("done")
"""


def test_threads_that_meet_at_a_new_type():
    done = subprocess.run([sys.executable, "-c", ROUNDS], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
