"""What one execution leaves for the next one in the same cell, by each way there is.

Prints JSON: way → [the cell was used again, something was found, it was refused].

Argument: a folder with another guest, or nothing for the one that is shipped.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from noetl.domain.kinds import TaskContext, TaskSettings
from noetl.kinds.sandbox import template
from noetl.kinds.sandbox.cell import Cell, Tenant
from noetl.kinds.sandbox.child import Child, Owner
from noetl.kinds.sandbox.process import TaskLimits
from noetl.kinds.sandbox.watch import Watch

PRIORITY = os.getpriority(os.PRIO_PROCESS, 0)
"""What this process has; only root may take a lower number."""
CALL = """
import array, ctypes, fcntl, os, resource, socket, stat, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
x86 = os.uname().machine == 'x86_64'
def refuse(answer):
    if answer < 0:
        raise OSError(ctypes.get_errno(), 'refused')
def temporary(place):
    made = os.open(place, os.O_TMPFILE | os.O_RDWR)
    number = os.fstat(made).st_ino
    os.close(made)
    return number
def keep_in_flight(file, links=100):
    # The kernel closes what nobody can receive any more, one link at a time.
    def send(over, *files):
        while True:
            try:
                return over.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', files))])
            except OSError as error:
                # The kernel counts for the user: another test may have as many in flight at this moment.
                if error.errno != 109:
                    raise
                time.sleep(0.01)
    here, there = socket.socketpair()
    send(here, file)
    for _ in range(links):
        last, (here, there) = (here, there), socket.socketpair()
        send(here, *(one.fileno() for one in last))
    send(here, here.fileno(), there.fileno())
def locked(place):
    file = os.open(place, os.O_RDONLY)
    fcntl.flock(file, fcntl.LOCK_EX)
    return file
def is_locked(place):
    try:
        fcntl.flock(os.open(place, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
def open_file_lock(place, command, kind):
    file = os.open(place, os.O_RDONLY)
    found = fcntl.fcntl(file, command, struct.pack('hhqqi4x', kind, 0, 0, 0, 0))
    return file, struct.unpack_from('h', found)[0]
def is_told(clock):
    try:
        return time.clock_gettime(clock) > 0
    except OSError:
        return False
"""
WAYS = {
    "nothing": ("pass", "False"),
    "a file in its folder": ("open('left', 'w').close()", "os.path.exists('left')"),
    "a file in /tmp": ("open('/tmp/left', 'w').close()", "os.path.exists('/tmp/left')"),
    "a file in /dev/shm": ("open('/dev/shm/left', 'w').close()", "os.path.exists('/dev/shm/left')"),
    "a file above its folder": ("open('../left', 'w').close()", "os.path.exists('../left')"),
    "a file that is removed again": (
        "open('/tmp/left', 'w').close(); os.unlink('/tmp/left')",
        "os.stat('/tmp').st_atime_ns - os.stat('/tmp').st_mtime_ns != 10**9",
    ),
    "files without a name": ("[temporary('/tmp') for _ in range(200)]", "temporary('/tmp') > 200"),
    "files without a name in /dev/shm": ("[temporary('/dev/shm') for _ in range(200)]", "temporary('/dev/shm') > 200"),
    "the mode of its folder": ("os.chmod('.', 0o750)", "stat.S_IMODE(os.stat('.').st_mode) == 0o750"),
    "the mode of /tmp": ("os.chmod('/tmp', 0o750)", "stat.S_IMODE(os.stat('/tmp').st_mode) == 0o750"),
    "times of its folder": ("os.utime('.', ns=(5, 5))", "os.stat('.').st_mtime_ns == 5"),
    "times of /dev/shm": ("os.utime('/dev/shm', ns=(5, 5))", "os.stat('/dev/shm').st_mtime_ns == 5"),
    "an attribute of its folder": ("os.setxattr('.', 'user.left', b'1')", "'user.left' in os.listxattr('.')"),
    "limits": (
        "resource.prlimit(1, resource.RLIMIT_NOFILE, (500, 500))",
        "resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 500",
    ),
    "a priority": (f"os.setpriority(os.PRIO_PROCESS, 1, {PRIORITY + 5})", f"os.getpriority(os.PRIO_PROCESS, 0) == {PRIORITY + 5}"),
    "the priorities of all": (
        f"os.setpriority(os.PRIO_USER, os.getuid(), {PRIORITY + 6})",
        f"os.getpriority(os.PRIO_PROCESS, 0) == {PRIORITY + 6}",
    ),
    "a class of scheduling": (
        "os.sched_setscheduler(1, os.SCHED_BATCH, os.sched_param(0))",
        "os.sched_getscheduler(0) == os.SCHED_BATCH",
    ),
    "a processor": ("os.sched_setaffinity(1, {min(os.sched_getaffinity(0))})", "len(os.sched_getaffinity(0)) == 1"),
    "a class of input and output": (
        "refuse(libc.syscall(251 if x86 else 30, 1, 1, 2 << 13 | 7))",
        "libc.syscall(252 if x86 else 31, 1, 0) == 2 << 13 | 7",
    ),
    "the number of its processes": (
        "[os.waitpid(os.fork() or os._exit(0), 0) for _ in range(50)]",
        "os.getpid() > 40",
    ),
    "a lock of its folder": ("keep_in_flight(locked('.'))", "is_locked('.')"),
    "the number of its threads": (
        "import threading; [(t.start(), t.join()) for t in [threading.Thread(target=int) for _ in range(50)]]",
        "os.getpid() > 40",
    ),
    "what its processes used": ("sum(range(10**6))", "os.path.exists('/proc/1/stat')"),
    "the processor time of the first process": ("pass", "is_told(~1 << 3 | 2) or is_told(~1 << 3)"),
    "a queue of POSIX": ("refuse(libc.mq_open(b'/left', 0o102, 0o600, None))", "libc.mq_open(b'/left', 2) >= 0"),
    "a lock of an open folder": (
        "keep_in_flight(open_file_lock('/tmp', 37, fcntl.F_RDLCK)[0])",
        "open_file_lock('/tmp', 36, fcntl.F_WRLCK)[1] != fcntl.F_UNLCK",
    ),
    "its environment": ("os.environ['LEFT'] = '1'", "'LEFT' in os.environ"),
    "its modules": ("sys.modules['left'] = sys", "'left' in sys.modules"),
    "its open files": ("os.dup2(os.open('/dev/zero', 0), 200)", "os.path.exists('/proc/self/fd/200')"),
    "a process that runs on": (
        "os.fork() or (os.setsid(), [os.close(n) for n in range(20) if os.path.exists(f'/proc/self/fd/{n}')], libc.pause())",
        "len([name for name in os.listdir('/proc') if name.isdigit()]) > 2",
    ),
}  # fmt: skip


def watch() -> Watch:
    return Watch.start(
        TaskContext(
            execution_id=1,
            step="s",
            task="t",
            attempt=1,
            idempotency_key="k",
            timeout=120.0,
            settings=TaskSettings(),
            credential=None,  # type: ignore[arg-type]
        )
    )


def run(code: str, number: int = 1) -> tuple[Any, Cell]:
    """The result of an execution of its own, which has ended, and the cell that it was in."""
    child = Child(Owner(number, TaskLimits(1 << 30, 1 << 20)))
    try:
        answer = child.call(CALL + code, {}, watch())
        assert "result" in answer, answer
        tenant = child._confined.process
        assert isinstance(tenant, Tenant)
        return answer["result"], tenant.cell
    finally:
        child.close()


def forget_cells() -> None:
    """Those that are idle: the next execution makes one."""
    for one in template.templates()._current.values():
        for _, cell in one._idle:
            cell.leave()
        one._idle.clear()


def main() -> None:
    if len(sys.argv) > 1:
        template.GUEST_FOLDER = sys.argv[1]
    template.identities_at = lambda ground: ()  # others may mount something meanwhile
    found = {}
    for way, (leave, look) in WAYS.items():
        forget_cells()
        left, first = run(
            f"try:\n    {leave}\n    result = 1\nexcept PermissionError:\n    result = 'refused'"
        )
        seen, second = run(f"result = bool({look})")
        found[way] = [second is first, seen, left == "refused"]
    forget_cells()
    assert all(not Path(cell.folder).exists() for cell in (first, second))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
