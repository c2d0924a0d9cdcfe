"""Code that goes too far fails its own call, and the next call works."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from noetl.domain.kinds import TaskSettings
from tests.waiting import PATIENCE, wait_until

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and address space limits")


@pytest.mark.parametrize(
    ("code", "kind", "error_code", "words"),
    [
        pytest.param("while True: pass", "timeout", "timeout", "ran longer than 1 s", marks=pytest.mark.full),
        pytest.param(
            "import time\ntime.sleep(60)", "timeout", "timeout", "ran longer than 1 s", marks=pytest.mark.full
        ),
        (
            "while True:\n  try:\n    while True: pass\n  except BaseException: pass",
            "timeout",
            "timeout",
            "",
        ),
        ("import os\nos._exit(3)", "transform", "process_exited", "exit code 3"),
        ("import os\nos.kill(os.getpid(), 9)", "transform", "process_crashed", "SIGKILL"),
        ("import ctypes\nctypes.string_at(0)", "transform", "process_crashed", "SIGSEGV"),
        ("import os\nos.closerange(3, 65536)\nresult = 1", "transform", "process_exited", ""),
        ("print('x' * 1000)\nwhile True: print('x' * 1000)", "transform", "output_limit", "3000000 bytes"),
        ("open('f', 'wb').write(b'x' * 4_000_000)", "transform", "OSError", "File too large"),
        pytest.param("x = bytearray(2 * 10**9)", "transform", "MemoryError", "bytes of memory", marks=linux),
        pytest.param(
            "x = []\nwhile True: x.append('y' * 10**6 + str(len(x)))",
            "transform",
            "MemoryError",
            "bytes of memory",
            marks=linux,
        ),
    ],
)
def test_too_far(python_task, code, kind, error_code, words):
    settings = TaskSettings(output_max_bytes=3_000_000, python_memory_bytes=512 * 1024 * 1024)
    timeout = 1.0 if kind == "timeout" else PATIENCE
    error = python_task.error({"code": code}, timeout=timeout, settings=settings)
    assert (error.kind, error.code) == (kind, error_code)
    assert words in str(error)
    assert python_task.run({"code": "print(1)\nresult = 'next'"}, settings=settings).result == "next"
    assert python_task.log == ["1"]


def test_stuck_code_does_not_block_a_large_input(python_task):
    """The child stops reading in the middle of a frame; the parent keeps to its clock."""
    code = "import os, threading\nos.kill(os.getpid(), 19)"
    error = python_task.error({"code": code}, {"rows": ["x" * 100] * 1000}, timeout=1.0)
    assert error.code == "timeout"


def test_answers_cannot_be_forged(python_task):
    """Code writes what looks like the next call's answer; that call does not believe it."""
    forge = (
        "import os\n"
        'frame = b\'{"id":"1-0000000000000000","result":"forged"}\'\n'
        "for fd in range(3, 65536):\n"
        "    try: os.write(fd, len(frame).to_bytes(4, 'big') + frame)\n"
        "    except OSError: pass\n"
        "result = 'done'\n"
    )
    assert python_task.error({"code": forge}).code == "no_answer"
    assert python_task.run({"code": "result = 'true'"}).result == "true"


@pytest.mark.parametrize("frame", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x02{]", b"\x00\x00\x00\x02[]"])
def test_noise_on_the_channel(python_task, frame):
    code = f"import os\nfor fd in range(3, 65536):\n  try: os.write(fd, {frame!r})\n  except OSError: pass\n"
    assert python_task.error({"code": code}).code == "no_answer"
    assert python_task.run({"code": "result = 'true'"}).result == "true"


CHANNEL = (
    "import json, os, sys, time\n"
    "frame = sys._getframe()\n"
    "while 'call_id' not in frame.f_locals: frame = frame.f_back\n"
    "def forge(**answer):\n"
    "    data = json.dumps({'id': frame.f_locals['call_id'], **answer}).encode()\n"
    "    os.write(frame.f_locals['self']._answers, len(data).to_bytes(4, 'big') + data)\n"
    "    time.sleep(3600)\n"
)
"""Finds the call that the code runs in, and answers it in the child's place."""


def test_names_are_looked_up_no_longer_than_the_call_is_wanted(python_task):
    stop, looked_up = threading.Event(), []

    class Scope(dict):
        def __getitem__(self, name):
            looked_up.append(name)
            if len(looked_up) == 2:
                stop.set()
            return "value"

    python_task.scope = Scope()
    names = ["first", "first", *(f"n{number}" for number in range(100))]
    error = python_task.error({"code": f"{CHANNEL}forge(need={names})"}, cancelled=stop.is_set)
    assert error.code == "cancelled"
    assert looked_up == ["first", "n0"]


@pytest.mark.parametrize(
    ("forged", "code"),
    [
        ("problem='x'", "result_not_json"),
        ("problem={'code': 'c' * 5000, 'message': None}", "c" * 100),
        ("error={'type': 'T' * 5000, 'line': [], 'source': {}}", "T" * 100),
        ("error=None", "Exception"),
    ],
)
def test_a_forged_failure_is_a_failure_of_the_code(python_task, forged, code):
    assert python_task.error({"code": f"{CHANNEL}forge({forged})"}).code == code


def test_closed_output_does_not_reach_the_next_call(python_task):
    assert python_task.run({"code": "import sys\nsys.stdout.close()\nresult = 1"}).result == 1
    python_task.run({"code": "print('heard')"})
    assert python_task.log == ["heard"]


def test_cancel_stops_code(python_task):
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    error = python_task.error({"code": "import time\ntime.sleep(3600)"}, timeout=3600, cancelled=stop.is_set)
    assert (error.kind, error.code) == ("cancelled", "cancelled")


def test_cancel_stops_code_that_prints_all_the_time(python_task):
    code = "import time\nfor line in range(2000):\n    print(line)\n    time.sleep(0.01)"
    error = python_task.error({"code": code}, cancelled=lambda: len(python_task.log) > 2)
    assert (error.kind, error.code) == ("cancelled", "cancelled")


def test_environment_is_scrubbed(python_task, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    code = "import os\nresult = [dict(os.environ), os.getcwd(), os.listdir('.'), os.getsid(0) == os.getpid()]"
    environment, folder, files, own_session = python_task.run({"code": code}).result
    environment.pop("LD_LIBRARY_PATH", None)
    assert environment == {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": folder,
        "TMPDIR": folder,
    }
    assert files == []
    assert own_session, "a terminal's Ctrl-C would reach user code"


def test_parent_files_are_not_inherited(python_task, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("canary")
    with secret.open() as held:
        os.set_inheritable(held.fileno(), True)
        code = (
            "import os\nresult = []\n"
            "for fd in range(256):\n"
            "    try: stat = os.fstat(fd)\n"
            "    except OSError: continue\n"
            "    result.append(stat.st_ino)\n"
        )
        other = python_task.run({"code": code}).result
        assert os.fstat(held.fileno()).st_ino not in other


ATTACK = """
import ctypes, os, subprocess
found = {}
parent, sibling = NUMBERS

def attempt(name, action):
    try:
        found[name] = repr(action())[:2000]
    except Exception as error:
        found[name] = type(error).__name__

def read(path):
    with open(path, 'rb') as stream:
        return stream.read(100_000)

def attach(pid):
    libc = ctypes.CDLL(None, use_errno=True)
    helper = os.fork()  # seizes without stopping, and lets go as it ends
    if helper == 0:
        os._exit(0 if libc.ptrace(0x4206, pid, None, None) == 0 else 1)
    if os.waitpid(helper, 0)[1] != 0:
        raise OSError('refused')
    return 'attached'

for who, pid in (('parent', parent), ('sibling', sibling)):
    attempt(who + ' environ', lambda: read(f'/proc/{pid}/environ'))
    attempt(who + ' memory', lambda: os.open(f'/proc/{pid}/mem', os.O_RDONLY))
    attempt(who + ' fds', lambda: os.listdir(f'/proc/{pid}/fd') and os.open(f'/proc/{pid}/fd/0', os.O_NONBLOCK))
    attempt(who + ' maps', lambda: read(f'/proc/{pid}/maps'))
    attempt(who + ' attach', lambda: attach(pid))
    attempt(who + ' by program', lambda: subprocess.run(
        ['cat', f'/proc/{pid}/environ'], check=True, capture_output=True).stdout)
result = found
"""

PARENT = """
import contextlib, json, os, pathlib, sys
from noetl.domain.kinds import TaskContext, TaskSettings
from noetl.kinds.registry import default_registry

def numbers():
    # itself, and the last of the processes that run its tasks
    found = []
    for stat in pathlib.Path('/proc').glob('[0-9]*/stat'):
        with contextlib.suppress(OSError):  # processes of others end meanwhile
            pid, parent = int(stat.parent.name), int(stat.read_text().rpartition(')')[2].split()[1])
            if parent in (os.getpid(), *found):
                found.append(pid)
    return os.getpid(), found[-1]

def call(execution_id, code):
    context = TaskContext(execution_id=execution_id, step='s', task='t', attempt=1, idempotency_key='k',
        timeout=150, settings=TaskSettings(), credential=None)
    return default_registry().run('python', {'code': code}, context).result

call(1, 'result = 1')
found = call(2, sys.argv[1].replace('NUMBERS', str(numbers())))
print(json.dumps(found))
"""


@linux
def test_credentials_of_the_parent_are_out_of_reach():
    environment = {**os.environ, "NOETL_TEST_CREDENTIAL": "canary-4711"}
    control = "import os; print(b'canary-4711' in open(f'/proc/{os.getppid()}/environ', 'rb').read())"
    ordinary = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {control!r}])"
    seen = subprocess.run(
        [sys.executable, "-c", ordinary], env=environment, capture_output=True, text=True, check=True
    )
    assert seen.stdout.strip() == "True", "an ordinary parent can be read, or this test proves nothing"

    done = subprocess.run(
        [sys.executable, "-c", PARENT, ATTACK], env=environment, capture_output=True, text=True, check=True
    )
    assert "canary-4711" not in done.stdout
    found = eval(done.stdout.replace("null", "None"), {})
    reached = {name: what for name, what in found.items() if not what.endswith("Error")}
    assert len(found) == 12
    assert reached == {}


@linux
def test_child_ends_when_its_parent_is_killed(tmp_path):
    """It holds a lock for as long as it lives."""
    parent = textwrap.dedent(
        """
        import sys
        from noetl.domain.kinds import TaskContext, TaskSettings
        from noetl.kinds.registry import default_registry
        code = (
            "import fcntl, time\\nheld = open(path, 'w')\\nfcntl.flock(held, fcntl.LOCK_EX)\\n"
            "print('locked', flush=True)\\ntime.sleep(3600)"
        )
        context = TaskContext(execution_id=1, step='s', task='t', attempt=1, idempotency_key='k', timeout=3600,
            settings=TaskSettings(task_folders=(sys.argv[1],)), credential=None, input={'path': sys.argv[1] + '/lock'},
            log=lambda line: print(line, flush=True))
        default_registry().run('python', {'code': code}, context)
        """
    )
    command = [sys.executable, "-c", parent, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    with (tmp_path / "lock").open("w") as free:
        wait_until(lambda: _locks(free), "the child's end")


def _locks(file) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def test_a_result_of_too_many_values_is_refused_before_anything_is_made_of_it(python_task):
    """9 MB of empty lists would take 200 MB of the worker's memory, 64 MB of them 5 GB with what is done with them."""
    error = python_task.error({"code": "result = [[]] * 3_000_000"})
    assert error.code == "result_too_large" and "4,000,000 entries" in str(error)
    assert python_task.run({"code": "result = 'next'"}).result == "next"
