"""What tasks reach of the machine they run on: with every layer, with each alone, and without any, as root and as an ordinary user."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

import noetl
from noetl.kinds.sandbox.layers import WITHOUT, Detected, Layers, choose_layers, detect
from tests import forked
from tests.integration.kinds_sandbox import shared_memory
from tests.integration.kinds_sandbox.attack import UNCOUNTED
from tests.parts import parted
from tests.waiting import PATIENCE, wait_until

HERE = Path(__file__).parent
ATTACK = (HERE / "attack.py").read_text()
AS_TASK = ATTACK.partition('if __name__ == "__main__"')[0] + "\nresult = attack(input_data)\n"
ORDINARY = 65534

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="nothing confines code there")


@cache
def interpreter_of(user: int) -> str | None:
    """A Python of this version that ``user`` may run."""
    for found in (sys.executable, f"/usr/bin/python3.{sys.version_info[1]}"):
        if not user:
            return found
        try:
            subprocess.run([found, "-c", "import msgspec"], user=user, group=user, extra_groups=[], env=libraries(),
                check=True, capture_output=True, timeout=PATIENCE, cwd="/")  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            continue
        return found
    return None


def libraries() -> dict[str, str]:
    """Where the product and what it needs are, for another interpreter of the same version."""
    folders = (Path(noetl.__file__).parents[1], Path(msgspec.__file__).parents[1])
    return {"PYTHONPATH": os.pathsep.join(str(folder) for folder in folders), "PATH": os.environ["PATH"]}


@cache
def detected(user: int) -> Detected:
    """As that user finds it. The namespaces of an ordinary user are those of root's tasks."""
    return replace(detect(), other_user="" if os.geteuid() == 0 == user else "not root")


Calls = list[dict[str, Any]]


class Ground:
    """Folders of one worker, which runs as ``user``."""

    def __init__(self, root: Path, user: int) -> None:
        self.root, self.user = root, user
        self.program = interpreter_of(user)
        self.playbooks, self.shared = root / "playbooks", root / "shared"
        for folder in (self.playbooks, self.shared, root / "library"):
            folder.mkdir()
        shutil.copy(HERE / "attack.py", self.playbooks)
        (root / "library" / "installed.py").write_text("installed = True\n")
        if os.geteuid() == 0:
            for path in (root, *root.rglob("*")):
                os.chown(path, user, user)

    def run(
        self,
        calls: Calls,
        layers: Layers | None,
        *,
        target: bool = False,
        left_out: str = "",
        **settings: Any,
    ) -> Calls:
        """What each call gave: ``result``, or ``error`` and ``code``. ``left_out``: of the machine's own layers."""
        environment = libraries()
        environment["PYTHONPATH"] += f"{os.pathsep}{self.root / 'library'}"
        environment[WITHOUT] = left_out
        environment["HOME"] = str(self.root / "user")
        order = {
            "layers": None if layers is None else asdict(layers),
            "ground": str(self.root),
            "calls": calls,
            "target": target,
            "settings": {"task_folders": [str(self.shared)], **settings},
        }
        found: Calls = self._printed([str(HERE / "worker.py")], environment, json.dumps(order))
        return found

    def outcome_of(self, script: str, *arguments: str, left_out: str = "") -> Any:
        """The JSON that ``script`` prints when it is run in place of a worker."""
        # A task's folder lies in /tmp, which it has to itself, also where the machine's temporary folder is another one.
        environment = {**os.environ, **libraries(), WITHOUT: left_out, "TMPDIR": "/tmp"}
        environment["PYTHONPATH"] += f"{os.pathsep}{HERE.parents[2]}"
        return self._printed([script, *arguments], environment)

    def _printed(self, command: list[str], environment: dict[str, str], stdin: str = "") -> Any:
        assert self.program is not None
        options: dict[str, Any] = {}
        if os.geteuid() != self.user:
            options = {"user": self.user, "group": self.user, "extra_groups": []}
        done = subprocess.run([self.program, *command], input=stdin, env=environment, text=True, capture_output=True,
            timeout=PATIENCE, cwd=self.root, check=False, **options)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


USERS = [pytest.param(0, id="root"), pytest.param(ORDINARY, id="ordinary")]


@pytest.fixture(params=USERS)
def ground(request) -> Iterator[Ground]:
    if os.geteuid() != 0:
        if request.param == 0:
            pytest.skip("this needs root")
        request.param = os.geteuid()
    if interpreter_of(request.param) is None:
        pytest.skip("no interpreter that an ordinary user may run")
    root = Path(tempfile.mkdtemp(prefix="confinement-"))
    root.chmod(0o755)
    yield Ground(root.resolve(), request.param)
    shutil.rmtree(root, ignore_errors=True)


def combined(gate: Collection[str], **values: Sequence[str]) -> pytest.MarkDecorator:
    """Run a test as each user with each of the values; ``make test`` plays what ``gate`` names, as in ``root-all``."""
    rows = list(product((0, ORDINARY), *values.values()))
    ids = ["-".join(("ordinary" if user else "root", *others)) for user, *others in rows]
    assert set(gate) < set(ids)
    played = [row for row, name in zip(rows, ids, strict=True) if name in gate]
    return pytest.mark.parametrize(("ground", *values), parted(rows, played, ids), indirect=["ground"])


def layers_for(shape: str, user: int) -> Layers:
    """``shape``: which of this machine's layers are there. Skips a test that needs what is not."""
    found = detected(user)
    without = {
        "all": found,
        "a root of its own": replace(found, common_root="left out"),
        "landlock": replace(found, namespaces="left out"),
        "namespaces": replace(found, landlock=0),
        "another user": replace(found, landlock=0, namespaces="left out", socket_filter="left out"),
        "none": Detected("linux"),
    }[shape]
    chosen = choose_layers(without)
    missing = {
        "all": not chosen.confines_files,
        "a root of its own": not chosen.namespaces,
        "landlock": chosen.landlock < 6 or not chosen.socket_filter,
        "namespaces": not chosen.namespaces,
        "another user": not chosen.other_user,
        "none": False,
    }[shape]
    if missing:
        pytest.skip(f"this machine has no such layers: {found}")
    return chosen


def reached(results: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Of each call the attempts that went through. What was left in a folder of its own does not count."""
    found = []
    for one in results:
        assert "error" not in one, one
        outcome = one["result"]["data"] if "stdout" in one["result"] else one["result"]
        assert len(outcome) > 20
        went = {name: what for name, what in outcome.items() if what.startswith("reached")}
        seen = {name: what for name, what in went.items() if "leave" not in name}
        seen |= {name: what for name, what in went.items() if name.rpartition(" ")[2] in one["left"]}
        found.append(seen)
    return found


def attacks(ground: Ground) -> list[dict[str, Any]]:
    """The same by each kind that runs code."""
    python = ground.program
    shell = {
        "command": 'exec "$PYTHON" "$FILE"',
        "env": {"PYTHON": python, "FILE": str(ground.playbooks / "attack.py")},
    }
    return [
        {"kind": "python", "params": {"code": AS_TASK}, "input": "TARGET"},
        {"kind": "script", "params": {"uri": "attack.py"}, "input": "TARGET"},
        {"kind": "shell", "params": shell, "input": "TARGET"},
    ]


@combined(
    ["root-all", "ordinary-landlock"],
    shape=["all", "a root of its own", "landlock", "namespaces"],
)
def test_nothing_is_reached(ground, shape):
    layers = layers_for(shape, ground.user)
    assert reached(ground.run(attacks(ground), layers, target=True)) == [{}, {}, {}]
    assert (ground.root / "library" / "installed.py").read_text() == "installed = True\n"
    assert (ground.root / "home/cache/programs/p.json").read_text() == "canary of cache/programs/p.json"


def test_another_user_reaches_nothing_that_has_an_owner(ground):
    """The last resort of a worker that is root: what everybody may read stays readable."""
    layers = layers_for("another user", ground.user)
    ground.program = interpreter_of(ORDINARY)
    if ground.program is None:
        pytest.skip("no interpreter that another user may run")
    (ground.root / "home").mkdir(mode=0o700)
    (ground.root / "user").mkdir(mode=0o700)
    found = ground.run(attacks(ground), layers, target=True)
    open_to_all = {
        "files: leave something in /tmp",
        "files: leave something in /dev/shm",
        "memory: arguments",
    }
    open_to_all |= {"files: list other tasks", "sockets: an abstract one"}
    open_to_all |= {f"hidden memory: {name}" for name in UNCOUNTED}
    open_to_all |= {"keys: keep one", "keys: the user's own", "keys: those of the session"}
    assert [set(one) - open_to_all for one in reached(found)] == [set(), set(), set()]


@combined(["ordinary"])
def test_without_layers_everything_is_reached(ground):
    """Or the tests above prove nothing."""
    outcome = reached(ground.run(attacks(ground)[:1], layers_for("none", ground.user), target=True))[0]
    kinds = {name.split(":")[0] for name in outcome}
    assert kinds | {"keys"} == {"files", "sockets", "signals", "memory", "hidden memory", "keys"}, (
        "containers may forbid keys"
    )
    held = {"memory: mem", "memory: ptrace", "signals: the worker", "files: by the worker's root"}
    names = {"files: by /proc/1/root", "files: a second name", "files: in a namespace of its own", *held}
    assert len(outcome) >= 30 - len(names), outcome


STANDING = """
import os
about = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
mounts = [line.split() for line in open("/proc/self/mountinfo")]
result = {
    "namespaces": {name: os.readlink(f"/proc/self/ns/{name}") for name in ("user", "mnt", "pid", "ipc")},
    "rights": {name: about[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs")},
    "mounts": {mount[4].replace(os.environ["HOME"], "HOME"): sorted(mount[5].split(",")) for mount in mounts},
    "root": sorted(os.listdir("/")),
    "signal": open("/proc/sys/kernel/pid_max").read(),
}
"""


@combined(["root"])
def test_a_root_in_common_leaves_a_task_what_a_root_of_its_own_does(ground):
    """The same mounts with the same flags, no rights, and namespaces that no other task is in."""
    calls = [{"kind": "python", "params": {"code": STANDING}}] * 2
    found = {}
    for shape in ("all", "a root of its own"):
        first, second = (one["result"] for one in ground.run(calls, layers_for(shape, ground.user)))
        assert all(first["namespaces"][name] != other for name, other in second["namespaces"].items())
        del first["namespaces"], second["namespaces"]
        assert first == second
        found[shape] = first
    assert layers_for("all", ground.user).common_root
    shared, own = found.values()
    assert set(shared["rights"].values()) == {"0000000000000000", "1"}
    assert set(shared.pop("root")) - set(own.pop("root")) <= {".old"}
    assert "ro" in shared["mounts"].pop("/proc/1"), "an empty folder covers the first process"
    assert shared == own
    writable = {place for place, flags in shared["mounts"].items() if "rw" in flags}
    assert writable == {"/tmp", "/dev/shm", "HOME", str(ground.shared)}, (
        "the machine's devices keep their mode and owner: a task of root's could close /dev/null to everybody"
    )


KILL = """
import os
for kill, number in ((os.kill, os.getppid()), (os.killpg, os.getppid()), EVERYTHING):
    try:
        kill(number, 9)
    except OSError:
        pass
result = 1
"""


@combined(
    ["root-all"],
    shape=["all", "landlock", "namespaces"],
)
def test_a_task_cannot_end_its_parent(ground, shape):
    """Nor, where it sees no other processes, everything that it may signal; the worker goes on in any case."""
    layers = layers_for(shape, ground.user)
    code = KILL.replace("EVERYTHING", "(os.kill, -1)" if layers.namespaces else "(os.kill, os.getppid())")
    shell = {"command": "kill -9 $PPID || true; echo '{}'"}
    calls = [{"kind": "python", "params": {"code": code}}, {"kind": "shell", "params": shell}]
    found = ground.run([*calls, *calls], layers)
    assert [one.get("error") for one in found] == [None] * 4


SURVIVOR = """
import fcntl, os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setpgid(0, 0)
        held = open(os.environ.get('LOCK') or lock, 'w')
        fcntl.flock(held, fcntl.LOCK_EX)
        for descriptor in (0, 1, 2):
            os.close(descriptor)
        open(held.name + '.ready', 'w').close()
        time.sleep(3600)
    os._exit(0)
os.wait()
while not os.path.exists((os.environ.get('LOCK') or lock) + '.ready'):
    time.sleep(0.01)
result = 'left running'
"""


@combined(
    ["ordinary-none"],
    shape=["all", "landlock", "namespaces", "another user", "none"],
)
def test_what_a_task_leaves_running_ends_with_it(ground, shape):
    """Detached twice, in a session and a group of its own: it holds a lock for as long as it lives."""
    layers = layers_for(shape, ground.user)
    ground.program = interpreter_of(ORDINARY) if shape == "another user" else ground.program
    ground.shared.chmod(0o777)
    (ground.playbooks / "leave.py").write_text(SURVIVOR)
    shell = {"command": 'setsid -f "$PYTHON" "$FILE" & while ! [ -e "$LOCK.ready" ]; do sleep 0.01; done'}
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("python", {"code": SURVIVOR}),
        ("script", {"uri": "leave.py"}),
        ("shell", shell),
    ]
    calls = []
    for kind, params in kinds:
        lock = str(ground.shared / kind)
        variables = {"LOCK": lock, "PYTHON": ground.program, "FILE": str(ground.playbooks / "leave.py")}
        if kind == "python":
            calls.append({"kind": kind, "params": params, "input": {"lock": lock}})
        else:
            calls.append({"kind": kind, "params": {**params, "env": variables}})
    found = ground.run(calls, layers)
    assert [one.get("error") for one in found] == [None] * 3
    for kind, _ in kinds:
        with (ground.shared / kind).open("a") as free:
            wait_until(lambda free=free: _locks(free), f"the end of what {kind} left")


def _locks(file: Any) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


BOMB = """
import os, time
count = 0
while True:
    try:
        if os.fork() == 0:
            time.sleep(3600)
    except OSError:
        break
    count += 1
result = count
"""


@combined(
    ["ordinary-landlock"],
    shape=["all", "landlock", "namespaces", "another user"],
)
def test_processes_are_bounded(ground, shape):
    """Refused at the limit, or the whole task is ended above it. The next task works."""
    layers = layers_for(shape, ground.user)
    ground.program = interpreter_of(ORDINARY) if shape == "another user" else ground.program
    calls = [
        {"kind": "python", "params": {"code": BOMB}},
        {"kind": "shell", "params": {"command": "f() { f | f & }; f; sleep 3600"}, "timeout": 2.0},
        {"kind": "python", "params": {"code": "result = 'next'"}},
    ]
    if not layers.process_limit or not layers.namespaces:
        # A process that forks as fast as it can is ended by its supervisor, or it is not: that is no test for a machine that others use.
        calls[1] = {"kind": "shell", "params": {"command": "exit 1"}}
    bomb, shell, following = ground.run(calls, layers, task_processes=64)
    assert bomb.get("result", 0) <= 64 + 300, bomb
    # None at all is right, too: the limit counts the processes of a user, who may run other tasks beside this one.
    assert "result" in bomb or bomb["code"] == "process_crashed", bomb
    assert "error" in shell
    assert following["result"] == "next"


MIB = 1024**2
GROW = """
import os, socket, time
def pages():
    return bytearray(b"x") * (80 * 2**20)
def sockets():
    return [socket.socketpair() for _ in range(240)]
for _ in range(4):
    if os.fork() == 0:
        kept = WAY()
        time.sleep(3600)
time.sleep(3600)
"""
"""Each of four processes stays far below the limit of one. What the sockets take is nothing, until they are written to."""


@combined(
    ["root-all-sockets", "ordinary-landlock-pages"],
    shape=["all", "a root of its own", "landlock", "namespaces", "another user"],
    way=["pages", "sockets"],
)
def test_the_memory_of_all_processes_together_is_bounded(ground, shape, way):
    """The task is ended, whichever kind started them; the next one works."""
    if way == "sockets" and not Path("/proc/self/fd").stat().st_size:
        pytest.skip("this kernel does not count open files")
    layers = layers_for(shape, ground.user)
    ground.program = interpreter_of(ORDINARY) if shape == "another user" else ground.program
    code = GROW.replace("WAY", way)
    (ground.playbooks / "grow.py").write_text(code)
    (ground.playbooks / "grow.py").chmod(0o644)
    shell = {"command": 'exec "$PYTHON" "$FILE"',
        "env": {"PYTHON": ground.program, "FILE": str(ground.playbooks / "grow.py")}}  # fmt: skip
    calls: Calls = [
        {"kind": "python", "params": {"code": code}},
        {"kind": "script", "params": {"uri": "grow.py"}},
        {"kind": "shell", "params": shell},
        {"kind": "python", "params": {"code": "result = 'next'"}},
    ]
    *grown, following = ground.run(calls, layers, python_memory_bytes=256 * MIB)
    assert [one.get("code") for one in grown] == ["out_of_memory"] * 3, grown
    assert following["result"] == "next"


@combined(
    ["ordinary-"],
    left_out=["", "common_root", "namespaces", "landlock", "landlock,namespaces"],
)
def test_memory_that_processes_share_counts_once(ground, left_out):
    """A worker that is no root may look, or a pool of processes would count what all of them read for each."""
    if ground.user and left_out == "landlock,namespaces":
        pytest.skip("nothing keeps other tasks out: no process may be looked into")
    shared, own = ground.outcome_of(shared_memory.__file__, left_out=left_out)
    assert shared == {"sizes": True, "exceeds": False}
    assert own == {"sizes": True, "exceeds": True}


@combined(["ordinary-none"], shape=["all", "landlock", "none"])
def test_a_task_that_crashes_is_handed_to_no_collector_of_dumps(ground, shape):
    """The kernel calls one for a limit of 0 bytes, too, and for none of 1."""
    code = "import resource\nresult = resource.getrlimit(resource.RLIMIT_CORE)"
    (found,) = ground.run([{"kind": "python", "params": {"code": code}}], layers_for(shape, ground.user))
    assert found["result"] == [min(1, resource.getrlimit(resource.RLIMIT_CORE)[1] % 2**64)] * 2


FILLER = "n = 0\nwhile True:\n    open(f'f{n}', 'wb').write(b'x' * 2**20)\n    n += 1\n"


@combined(["ordinary-python"], kind=["python", "shell"])
def test_the_disk_is_bounded(ground, kind):
    shell = "while :; do head -c 1048576 /dev/zero > f$((n = ${n:-0} + 1)); done"
    params = {"code": FILLER} if kind == "python" else {"command": shell}
    found = ground.run([{"kind": kind, "params": params}], None, task_disk_bytes=8 * 2**20, task_folders=[])[
        0
    ]
    assert found["code"] == "disk_limit"


HIDERS = {
    "small files": "while :; do : > f$((n = ${n:-0} + 1)); done",
    "deep folders": f"i=0; while [ $i -lt 20 ]; do mkdir {'n' * 250}; cd -P {'n' * 250}; i=$((i+1)); done; sleep 3600",
}
"""What writes without filling blocks, or where nobody looks."""


@combined(["root-deep folders", "ordinary-small files"], way=list(HIDERS))
def test_the_disk_is_bounded_where_a_task_hides(ground, way):
    params = {"interpreter": "bash", "command": HIDERS[way]}
    found = ground.run(
        [{"kind": "shell", "params": params}], None, task_disk_bytes=8 * 2**20, task_folders=[]
    )[0]
    assert found["code"] == "disk_limit", found


@combined(["ordinary"])
def test_folders_are_removed_whatever_their_modes_and_depth(ground):
    hide = "import os\nos.makedirs('a/b')\nopen('a/b/c', 'w').close()\nos.chmod('a/b', 0)\nos.chmod('a', 0)\n"
    deep = "for _ in range(1500):\n    os.mkdir('d')\n    os.chdir('d')\nresult = os.environ['HOME']"
    calls = [
        {"kind": "python", "params": {"code": hide + deep}},
        {"kind": "shell", "params": {"command": "mkdir -p a/b; chmod 0 a/b a; pwd"}},
    ]
    python, shell = ground.run(calls, None, task_folders=[])
    for folder in (python["result"], shell["result"]["stdout"].strip()):
        wait_until(lambda folder=folder: not os.path.lexists(folder), "the removal of a task's folder")


def test_what_a_task_may_use(ground):
    """Its folder, shared memory of its own, the operator's folders, files beside the playbook, and the network's names."""
    (ground.playbooks / "beside.txt").write_text("beside")
    code = f"""
import multiprocessing, os, socket, ssl, subprocess, tempfile
lock = multiprocessing.get_context('fork').Lock()
with lock, tempfile.TemporaryFile() as file:
    file.write(b'1')
open({str(ground.shared / "out.txt")!r}, 'w').write('out')
ssl.create_default_context()
result = [
    open({str(ground.playbooks / "beside.txt")!r}).read(),
    subprocess.run(['sh', '-c', 'cat /proc/self/comm'], capture_output=True, text=True, check=True).stdout,
    socket.gethostbyname('localhost'),
    open('/dev/null').read(),
    open('/dev/null', 'w').write('1'),
    os.cpu_count() > 0,
]
"""
    found = ground.run([{"kind": "python", "params": {"code": code}}], layers_for("all", ground.user))
    assert found[0].get("error") is None
    assert found[0]["result"] == ["beside", "cat\n", "127.0.0.1", "", 1, True]
    assert (ground.shared / "out.txt").read_text() == "out"


@combined(["root"])
def test_descriptors_of_the_worker_are_closed(ground):
    """A python task has its streams and its two channels, a shell its streams; none is a file or a socket of the worker."""
    code = """
import os
links = [f'/proc/self/fd/{n}' for n in range(256)]
result = sorted(os.readlink(link).split(':')[0] for link in links if os.path.islink(link))
"""
    shell = {"command": "ls /proc/self/fd | wc -l"}
    found = ground.run(
        [{"kind": "python", "params": {"code": code}}, {"kind": "shell", "params": shell}], None, target=True
    )
    assert set(found[0]["result"]) <= {"pipe", "/dev/null"}
    assert len(found[0]["result"]) == 5
    assert found[1]["result"]["stdout"].strip() == "4", "the last is that of the folder that ls reads"


@combined(
    ["ordinary-landlock,namespaces,other_user,socket_filter,subreaper"],
    left_out=[
        "",
        "landlock",
        "namespaces",
        "common_root",
        "socket_filter",
        "landlock,namespaces",
        "namespaces,subreaper",
        "landlock,namespaces,other_user",
        "landlock,namespaces,other_user,socket_filter,subreaper",
    ],
)
def test_code_runs_right_with_layers_left_out(ground, left_out):
    """The playbooks of the conformance kit that call code without a script of answers, and a task of each other kind."""
    if os.geteuid() == 0 and left_out == "landlock,namespaces":
        ground.program = interpreter_of(ORDINARY)
    (ground.playbooks / "double.py").write_text(
        "import json, sys\nprint(json.dumps({'n': 2 * int(sys.argv[1])}))\n"
    )
    kit = Path(__file__).parents[3] / "playbooks/conformance/results/python-shapes/playbook.yaml"
    tasks = [
        step["tool"]
        for step in yaml.safe_load(kit.read_text())["workflow"]
        if step["tool"]["kind"] == "python"
    ]
    calls: Calls = [
        {"kind": "python", "params": {"code": one["code"]}, "input": one["args"]} for one in tasks
    ]
    script = {"uri": "double.py", "args": ["4"]}
    shell = {"command": "cat /etc/passwd | wc -l > count; test -s count; echo '{\"n\": 5}'"}
    calls += [
        {"kind": "script", "params": script},
        {"kind": "shell", "params": shell},
        {"kind": "python", "params": {"code": "raise ValueError('no')"}},
        {"kind": "shell", "params": {"command": "exit 3"}},
    ]
    found = ground.run(calls, None, left_out=left_out, task_folders=[])
    assert len(tasks) == 3
    assert [one.get("error") for one in found[:5]] == [None] * 5
    assert [one["result"] for one in found[:3]] == [{"n": one["args"]["n"]} for one in tasks]
    assert [one["result"]["data"] for one in found[3:5]] == [{"n": 8}, {"n": 5}]
    assert ["no" in found[5]["error"], found[6]["code"]] == [True, "exit_3"]


@pytest.mark.full
def test_the_command_line_names_a_layer_that_is_unknown(tmp_path):
    environment = {**os.environ, WITHOUT: "landlok", "NOETL_HOME": str(tmp_path / "home")}
    wrong = forked.noetl("serve", "--port", "0", env=environment)
    assert wrong.returncode != 0 and "'landlok' is no layer" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_the_command_line_tells_which_layers_hold_and_refuses_without_any(tmp_path):
    """``doctor`` warns, and ``serve`` refuses a narrow token before it opens anything; ``serve`` accepts it when told to (unit tests)."""
    without = {WITHOUT: "landlock,namespaces,other_user", "NOETL_HOME": str(tmp_path / "home")}

    def noetl(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return forked.noetl(*words, env={**os.environ, **without, **more})

    added = noetl("token", "add", "ci", "--scopes", "write")
    assert added.returncode == 0 and "nothing confines code" in added.stderr, added
    refused = noetl("serve", "--port", "0")
    assert refused.returncode != 0 and "--accept-unconfined-code" in refused.stderr, refused
    assert "Traceback" not in refused.stderr
    lines = [
        json.loads(line)
        for line in noetl(
            "doctor", "--json", NOETL_DATABASE_URL="postgresql://127.0.0.1:1/none"
        ).stdout.splitlines()
    ]
    found = {line["name"]: line for line in lines}
    assert found["confinement"]["status"] == "warning" and WITHOUT in found["confinement"]["fix"]
    assert found["code: files"]["status"] == "warning" and found["code: leftovers"]["status"] == "ok", found
