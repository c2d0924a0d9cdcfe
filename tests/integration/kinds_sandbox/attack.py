"""What code of a playbook tries against the machine it runs on. Runs as a python task, as a script, and from a shell.

Every attempt gives what it reached, or raises. The last line printed is JSON: attempt → what was reached, or the error.
"""

import ctypes
import json
import os
import socket
import sys
from pathlib import Path

UNCOUNTED = {
    "memfd_create": ((319, 279), (b"kept", 0)),
    "memfd_secret": ((447, 447), (0,)),
    "shmget": ((29, 194), (0, 4096, 0o1600)),
    "semget": ((64, 190), (0, 1, 0o1600)),
    "msgget": ((68, 186), (0, 0o1600)),
    "vmsplice": ((278, 75), (1, None, 0, 0)),
    "bpf": ((321, 280), (0, b"\2\0\0\0\4\0\0\0\10\0\0\0\1\0\0\0" + bytes(112), 128)),
    "io_uring_setup": ((425, 425), (1, bytes(120))),
}
"""Calls that keep memory which no process has mapped: their numbers (x86-64, ARM64) and arguments for the least of it."""


def attempts(target):
    home, victim, worker = Path(target["home"]), target["victim"], target["worker"]
    for name in target["secrets"]:
        yield f"files: read {name}", lambda name=name: (home / name).read_text()
    yield "files: list the home folder", lambda: os.listdir(home)
    yield "files: read the user's own keys", lambda: Path(target["keys"]).read_text()
    yield "files: follow a link", lambda: through_link(os.symlink, home / "token", "symbolic")
    yield "files: a second name", lambda: through_link(os.link, home / "token", "hard")
    yield "files: by /proc/self/root", lambda: Path(f"/proc/self/root/{home}/token").read_text()
    yield "files: by /proc/1/root", lambda: Path(f"/proc/1/root/{home}/token").read_text()
    yield "files: by the worker's root", lambda: Path(f"/proc/{worker}/root/{home}/token").read_text()
    yield "files: in a namespace of its own", lambda: in_new_namespace(home / "token")
    yield "files: change a compiled program", lambda: write(home / "cache/programs/p.json")
    yield "files: change an installed package", lambda: write(target["library"])
    yield "files: remove an installed package", lambda: os.unlink(target["library"])
    yield "files: read another task's file", lambda: Path(target["other"]).read_text()
    yield "files: list other tasks", lambda: others(target["other"])
    yield "files: leave something in /dev/shm", lambda: leave(f"/dev/shm/{target['mark']}", target)
    yield "files: leave something in /tmp", lambda: leave(f"/tmp/{target['mark']}", target)
    yield "sockets: the engine's database", lambda: connect(target["socket"])
    yield "sockets: an abstract one", lambda: connect("\0" + target["abstract"])
    for who, pid in (("database", victim), ("worker", worker)):
        yield f"signals: the {who}", lambda pid=pid: (os.kill(pid, 0), "reached")[1]
    yield "memory: environment", lambda: Path(f"/proc/{victim}/environ").read_bytes().decode()
    yield "memory: mem", lambda: str(os.open(f"/proc/{victim}/mem", os.O_RDONLY))
    yield "memory: descriptors", lambda: str(os.listdir(f"/proc/{victim}/fd"))
    yield "memory: working folder", lambda: os.readlink(f"/proc/{victim}/cwd")
    yield "memory: arguments", lambda: Path(f"/proc/{victim}/cmdline").read_bytes().decode()
    yield "memory: ptrace", lambda: attach(victim)
    yield "memory: another task's own", lambda: str(os.open(f"/proc/{target['other_pid']}/mem", os.O_RDONLY))
    yield "memory: another task's descriptors", lambda: str(os.listdir(f"/proc/{target['other_pid']}/fd"))
    yield "memory: ptrace of another task", lambda: attach(target["other_pid"])
    for name in UNCOUNTED:
        yield f"hidden memory: {name}", lambda name=name: keep_uncounted(name)
    yield "keys: keep one", add_key
    yield "keys: the user's own", lambda: key_control(0, -4, 0)
    yield "keys: those of the session", lambda: key_control(0, -3, 0)


def through_link(make, path, name):
    make(path, name)
    return Path(name).read_text()


def write(path):
    with open(path, "a") as stream:
        stream.write("# changed\n")
    return "written"


def others(path):
    found = os.listdir(Path(path).parent)
    if not found:
        raise FileNotFoundError(path)
    return str(found)


def leave(path, target):
    """It counts if the machine sees it, which the test looks at."""
    Path(path).write_text("left")
    return "left here"


def connect(address):
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(address)
    return "connected"


def in_new_namespace(path):
    """A user namespace gives rights over mounts, which must uncover nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.unshare(0x10000000 | 0x20000)
        libc.umount2(b"/tmp", 2)
        libc.mount(b"none", b"/", None, 0x20 | 0x1000, None)
        try:
            os.write(writing, path.read_bytes())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    found = os.read(reading, 1000)
    os.close(reading)
    if not found:
        raise PermissionError(path)
    return found.decode()


def attach(pid):
    libc = ctypes.CDLL(None, use_errno=True)
    helper = os.fork()  # seizes without stopping, and lets go as it ends
    if helper == 0:
        os._exit(0 if libc.ptrace(0x4206, pid, None, None) == 0 else 1)
    if os.waitpid(helper, 0)[1] != 0:
        raise PermissionError(pid)
    return "attached"


def keep_uncounted(name):
    numbers, arguments = UNCOUNTED[name]
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    libc = ctypes.CDLL(None, use_errno=True)
    if name == "vmsplice":
        given[0] = ctypes.c_long(os.pipe()[1])
    kept = libc.syscall(ctypes.c_long(numbers[os.uname().machine == "aarch64"]), *given)
    if kept < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    remove = {"shmget": libc.shmctl, "semget": libc.semctl, "msgget": libc.msgctl}.get(name)
    if remove is not None:  # it would outlive this process
        remove(kept, 0, 0, None) if name == "semget" else remove(kept, 0, None)
    return "kept"


def add_key():
    """In a keyring that ends with this process."""
    return key_call(0, b"user", b"attack", b"value", ctypes.c_size_t(5), ctypes.c_int(-2))


def key_control(*arguments):
    return key_call(2, *map(ctypes.c_int, arguments))


def key_call(place, *arguments):
    """``add_key``, ``request_key`` or ``keyctl``."""
    first = {"x86_64": 248, "aarch64": 217}[os.uname().machine]
    libc = ctypes.CDLL(None, use_errno=True)
    found = libc.syscall(ctypes.c_long(first + place), *arguments)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return f"key {found}"


def attack(target):
    found = {}
    for name, attempt in attempts(target):
        try:
            found[name] = f"reached: {attempt()}"[:300]
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


if __name__ == "__main__":
    print(json.dumps(attack(json.load(sys.stdin))))
