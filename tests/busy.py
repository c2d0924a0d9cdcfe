"""Run a command beside busy processes: ``python -m tests.busy 8 make test``. They end with it, or with this process."""

from __future__ import annotations

import os
import subprocess
import sys

SPIN = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(10**6):
        pass
"""


def main(number: int, command: list[str]) -> int:
    busy = [subprocess.Popen([sys.executable, "-c", SPIN, str(os.getpid())]) for _ in range(number)]
    print(f"{number} busy processes: {' '.join(str(one.pid) for one in busy)}", file=sys.stderr)
    try:
        return subprocess.run(command, check=False).returncode
    finally:
        for one in busy:
            one.kill()
            one.wait()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
