"""Let two tasks take all that they get of what the kernel counts for their user, the second one beside the first.

Prints JSON: way → [how much the first one got, how much the second one got]. A third one tells how many links its own places of memory
take (``links``), and how soon the kernel would end it without memory, after it has asked to be spared (``ended first``).
"""

from __future__ import annotations

import json

from noetl.kinds.sandbox.child import Child, Owner
from noetl.kinds.sandbox.noetl_guest.namespaces import SCRATCH
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
ROOM = """
def links_that_fit(place):
    about = os.statvfs(place)
    try:
        for number in range(about.f_ffree + 1 if about.f_ffree < 100_000 else 0):
            os.symlink('x', f'{place}/{number}')
    except OSError:
        return number
def first_to_end():
    about = '/proc/self/oom_score_adj'
    try:
        with open(about, 'w') as stream:
            stream.write('0')
    except OSError:
        pass
    with open(about) as stream:
        return int(stream.read())
"""


def main() -> None:
    found = {}
    for way, take in WAYS.items():
        children = [Child(Owner(number, TaskLimits(1 << 30, 1 << 20))) for number in (1, 2)]
        answers = [child.call(f"{CALL}{TAKE}result = {take}", {}, watch()) for child in children]
        found[way] = [answer["result"] for answer in answers]
        for child in children:
            child.close()
    child = Child(Owner(3, TaskLimits(1 << 30, 1 << 20)))
    code = f"{CALL}{ROOM}result = [links_that_fit(place) for place in {SCRATCH}], first_to_end()"
    found["links"], found["ended first"] = child.call(code, {}, watch())["result"]
    child.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
