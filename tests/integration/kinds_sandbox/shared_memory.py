"""Measure two tasks of four processes: one that read the same pages, one that have written their own. Prints JSON for each of them:
whether their sizes pass a limit of two of these, and whether the memory that they have does.
"""

from __future__ import annotations

import json

from noetl.kinds.sandbox import memory
from noetl.kinds.sandbox.child import Child, Owner
from noetl.kinds.sandbox.process import TaskLimits
from tests.integration.kinds_sandbox.leaks import watch

SIZE = 48 * 1024**2
FORK = """
import os, time
kept = bytearray(b"x") * SIZE
reading, writing = os.pipe()
for _ in range(3):
    if os.fork() == 0:
        for place in range(0, WRITTEN, 4096):
            kept[place] = 1
        os.write(writing, b".")
        time.sleep(3600)
for _ in range(3):
    os.read(reading, 1)
result = True
"""


def main() -> None:
    found = []
    for written in (0, SIZE):
        child = Child(Owner(1, TaskLimits(1 << 30, 1 << 20)))
        answer = child.call(FORK.replace("SIZE", str(SIZE)).replace("WRITTEN", str(written)), {}, watch())
        assert "result" in answer, answer
        processes = memory.processes_below(child._confined.process.pid)
        assert len(processes) >= 4
        found.append(
            {
                "sizes": sum(map(memory._size, processes)) > 2 * SIZE,
                "exceeds": memory.memory_exceeds(processes, 2 * SIZE),
            }
        )
        child.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
