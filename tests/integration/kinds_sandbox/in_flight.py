"""Start an execution while a task of another one keeps all descriptors in flight that it may, and print what became of both as JSON.

Arguments: how many files the worker may have open, and ``held`` or ``ended``: what the task does once the other execution was refused.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from types import SimpleNamespace

from noetl.kinds.sandbox import in_flight
from noetl.kinds.sandbox.child import Child, Owner
from noetl.kinds.sandbox.process import TaskLimits
from tests.integration.kinds_sandbox.leaks import watch

SEND = """
import array, socket
file = open("/dev/null")
pairs = []
while True:
    here, there = socket.socketpair()
    try:
        here.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file.fileno()] * 250))])
    except OSError as error:
        why = error.strerror
        break
    pairs.append((here, there))
result = [len(pairs), why]
"""


def main() -> None:
    files, then = int(sys.argv[1]), sys.argv[2]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    refused = threading.Event()

    def pause(seconds: float) -> None:
        refused.set()
        time.sleep(seconds)

    in_flight.time = SimpleNamespace(monotonic=time.monotonic, sleep=pause)
    sending, other = (Owner(number, TaskLimits(1 << 30, 1 << 20)) for number in (1, 2))
    child = Child(sending)
    sent = child.call(SEND, {}, watch())
    if then == "ended":
        threading.Thread(target=lambda: refused.wait() and child.close(), daemon=True).start()
    second = Child(other)
    answer = second.call("result = 'worked'", {}, watch())
    print(json.dumps([sent["result"], answer["result"], refused.is_set()]))
    second.close()
    child.close()


if __name__ == "__main__":
    main()
