"""Let two tasks take all that they get of what the kernel counts for their user, the second one beside the first.

Prints JSON: way → [how much the first one got, how much the second one got].
"""

from __future__ import annotations

import json

from noetl.kinds.sandbox.child import Child, Owner
from noetl.kinds.sandbox.process import TaskLimits
from tests.integration.kinds_sandbox.leaks import CALL, watch

TAKE = """
def take_all(act):
    taken = 0
    try:
        while taken < 5000:
            refuse(act())
            taken += 1
    except OSError:
        pass
    return taken
"""
WAYS = {
    "inotify": "take_all(lambda: libc.inotify_init1(0))",
    "fanotify": "take_all(lambda: libc.fanotify_init(0x200, 0))",
    "timers": "take_all(lambda: libc.timer_create(1, None, ctypes.create_string_buffer(64)))",
    "signals": "(libc.signal(40, ctypes.c_void_p(1)), __import__('signal').pthread_sigmask(0, [40]),"
    " take_all(lambda: libc.sigqueue(os.getpid(), 40, None)))[2]",
    "user namespaces": "take_all(lambda: libc.unshare(0x10000000))",
}


def main() -> None:
    found = {}
    for way, take in WAYS.items():
        children = [Child(Owner(number, TaskLimits(1 << 30, 1 << 20))) for number in (1, 2)]
        answers = [child.call(f"{CALL}{TAKE}result = {take}", {}, watch()) for child in children]
        found[way] = [answer["result"] for answer in answers]
        for child in children:
            child.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
