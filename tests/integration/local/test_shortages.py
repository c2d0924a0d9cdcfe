"""Commands on a machine that is short of disk, memory, processes or files: the limits are those of the kernel.

Each names the cause and a remedy, prints no traceback, and loses nothing that it has accepted.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psycopg
import pytest

from noetl.adapters.embedded import processes, roles
from tests.parts import parted
from tests.waiting import PATIENCE, wait_until

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(sys.platform != "linux", reason="other systems have other limits"),
]
MIB = 1024 * 1024
DISK, MEMORY, PROCESSES, FILES, SIZE = "df -h", "ulimit -v", "ulimit -u", "ulimit -n", "ulimit -f"
LIMITED = """
import os, resource, sys
name, number = sys.argv[1], int(sys.argv[2])
resource.setrlimit(getattr(resource, name), (number, number))
os.execv(sys.executable, [sys.executable, *sys.argv[3:]])
"""
PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: short, path: demo/short }
workflow:
  - step: start
    tool: { kind: noop, args: { text: "{{ 'x' * 30000 }}" } }
"""


class Done(NamedTuple):
    code: int
    out: str
    err: str


class Place:
    """A folder of one user, with a home folder in it, and how that user runs ``noetl``."""

    def __init__(self, root: Path, user: int) -> None:
        self.root, self.user, self.home = root, user, root / "home"
        self.playbook = root / "short.yaml"
        self.playbook.write_text(PLAYBOOK)
        temporary = root / "tmp"
        temporary.mkdir(exist_ok=True)
        if os.geteuid() == 0:
            for path in (root, temporary, self.playbook):
                os.chown(path, user, user)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "TMPDIR": str(temporary),
            "NOETL_HOME": str(self.home),
        }

    def started(
        self, *words: str, limit: tuple[str, int] | None = None, **more: Any
    ) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "noetl.cli", *words]
        if limit is not None:
            command = [sys.executable, "-c", LIMITED, limit[0], str(limit[1]), *command[1:]]
        if self.user != os.geteuid():
            more |= {"user": self.user, "group": self.user, "extra_groups": []}
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            command, env=self.environment, cwd=self.root, text=True, **{**streams, **more}
        )

    def noetl(self, *words: str, limit: tuple[str, int] | None = None, **more: Any) -> Done:
        process = self.started(*words, limit=limit, **more)
        try:
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
        return Done(process.returncode, out or "", err or "")


def is_told(done: Done, remedy: str) -> None:
    assert done.code == 3, done
    assert remedy in done.err, done
    assert "Traceback" not in done.err and "unexpected" not in done.err, done
    assert "error: " in done.err and "hint: " in done.err and len(done.err.splitlines()) <= 3, done


def ordinary_user() -> int:
    """A user that runs nothing: the kernel counts all processes of a user. Skips the test when there is none."""
    if os.geteuid():
        return os.geteuid()
    busy = set()
    for path in processes_of_all():
        with contextlib.suppress(FileNotFoundError):  # it has ended meanwhile
            busy.add(path.stat().st_uid)
    for entry in pwd.getpwall():
        if 0 < entry.pw_uid < 1000 and entry.pw_uid not in busy and entry.pw_name != "postgres":
            return entry.pw_uid
    pytest.skip("every ordinary user of this machine runs something")


def processes_of_all() -> list[Path]:
    return [path for path in Path("/proc").iterdir() if path.name.isdecimal() and path.exists()]


@pytest.fixture(scope="module")
def user() -> int:
    found = ordinary_user()
    if found != os.geteuid():
        try:
            subprocess.run([sys.executable, "-c", "import noetl.cli.app"], user=found, group=found, extra_groups=[],
                check=True, capture_output=True, timeout=PATIENCE, cwd="/", env={"PATH": os.environ["PATH"]})  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            pytest.skip("an ordinary user cannot read this interpreter, or its libraries")
    return found


@contextmanager
def folder() -> Iterator[Path]:
    """A folder whose name is short, that every user reaches."""
    made = Path(tempfile.mkdtemp(prefix="short-", dir="/tmp"))
    made.chmod(0o755)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def small_disk(size: int) -> Iterator[Path]:
    """Yield a disk of ``size`` MiB. Skips the test where none may be mounted."""
    with folder() as made:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}m,mode=755", "none", str(made)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"no disk may be mounted here: {done.stderr.partition(chr(10))[0]}")
        try:
            yield made
        finally:
            processes.stop(made / "home" / "postgres")
            subprocess.run(["umount", "--lazy", str(made)], check=True)


def fill(disk: Path) -> Path:
    """Take what is left, so that no other process gets a block."""
    path = disk / "filler"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        while os.write(handle, bytes(64 * 1024)):
            pass
    except OSError:
        return path
    finally:
        os.close(handle)
    raise AssertionError("the disk does not end")


@pytest.fixture(scope="module")
def used(user: int) -> Iterator[Place]:
    """A home folder that has been used already, by an ordinary user, on a large disk."""
    with folder() as made:
        place = Place(made, user)
        assert place.noetl("run", str(place.playbook)).code == 0
        yield place
        processes.stop(place.home / "postgres")


LIMITS = [
    ("RLIMIT_NOFILE", 6, FILES),
    ("RLIMIT_NOFILE", 40, FILES),
    ("RLIMIT_FSIZE", 0, SIZE),
    ("RLIMIT_FSIZE", 4096, SIZE),
    ("RLIMIT_AS", 40 * MIB, MEMORY),
    ("RLIMIT_AS", 60 * MIB, MEMORY),
    ("RLIMIT_NPROC", 1, PROCESSES),
    ("RLIMIT_NPROC", 6, PROCESSES),
]
"""Of each limit one that strikes early, and one that strikes later."""


@pytest.mark.parametrize(("limit", "number", "remedy"), parted(LIMITS, [("RLIMIT_AS", 60 * MIB, MEMORY)]))
def test_a_limit_that_keeps_the_database_from_starting_is_named(used, limit, number, remedy):
    if limit == "RLIMIT_NPROC" and used.user == os.geteuid():
        pytest.skip("this needs a user that runs nothing, which only root can become")
    is_told(used.noetl("list", limit=(limit, number)), remedy)
    assert used.noetl("version", limit=(limit, max(number, 6 if limit == "RLIMIT_NOFILE" else 0))).code == 0


@pytest.mark.parametrize("size", parted(range(20, 100, 20), [80]))
def test_a_lack_of_memory_is_told_wherever_it_strikes(used, size):
    """A library may fail to load, a thread to start, a file to be parsed: none of it looks like a lack of memory."""
    done = used.noetl("run", str(used.playbook), limit=("RLIMIT_AS", size * MIB))
    if done.code == -signal.SIGABRT:
        assert "memory allocation" in done.err, done  # a library in Rust ends the process itself
    elif done.code:
        is_told(done, MEMORY)


def test_the_doctor_names_the_limit(used):
    done = used.noetl("doctor", limit=("RLIMIT_NOFILE", 40))
    assert done.code == 3 and FILES in done.out and "Traceback" not in done.err, done


@pytest.mark.parametrize("words", parted([["list"], ["logs", "latest"]], [["list"]]))
def test_streams_that_cannot_be_written_leave_the_exit_code(used, words):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        assert used.noetl(*words, stdout=full, stderr=full).code == 3
        told = used.noetl(*words, stdout=full).err
    assert "Traceback" not in told


USERS = parted([True, False], [], ids=["root", "ordinary"])


@pytest.fixture(params=USERS)
def owner(request, user: int) -> int:
    if request.param and os.geteuid():
        pytest.skip("this needs root")
    return 0 if request.param else user


@pytest.mark.parametrize("size", parted([2, 45, 60], [2]))
def test_a_disk_too_small_for_a_new_home_is_named(user, size):
    with small_disk(size) as disk:
        place = Place(disk, user)
        is_told(place.noetl("run", str(place.playbook)), DISK)
        assert not list(disk.glob("home/postgres.new*"))


def test_a_full_disk_is_named_and_what_was_there_is_there_afterwards(owner):
    with small_disk(140) as disk:
        place = Place(disk, owner)
        assert place.noetl("run", str(place.playbook)).code == 0
        filler = fill(disk)
        for words in (["list"], ["run", str(place.playbook)]):
            is_told(place.noetl(*words), DISK)
        is_told(place.noetl("server", "start", "--detach", "--port", "0"), DISK)
        doctor = place.noetl("doctor")
        assert doctor.code == 3 and DISK in doctor.out and "Traceback" not in doctor.err, doctor
        init = place.noetl("init")
        assert init.code == 2 and DISK in init.err and not (disk / "hello.yaml").exists(), init
        filler.unlink()
        assert len(json_lines(place.noetl("list", "--json"))) == 1


def json_lines(done: Done) -> list[Any]:
    assert done.code == 0, done
    return [json.loads(line) for line in done.out.splitlines()]


class Server:
    """A server over a small disk, and requests to it."""

    def __init__(self, place: Place, log: IO[str]) -> None:
        self._log = log
        self.process = place.started("serve", "--port", "0", "--no-auth", "--json", stderr=log)
        assert self.process.stdout is not None
        self._address = json.loads(self.process.stdout.readline())["address"]

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        data = body.encode() if isinstance(body, str) else None if body is None else json.dumps(body).encode()
        kind = "application/yaml" if isinstance(body, str) else "application/json"
        request = Request(self._address + path, data, {"Content-Type": kind} if data else {}, method=method)
        try:
            with urlopen(request, timeout=PATIENCE) as reply:
                return reply.status, json.loads(reply.read())
        except HTTPError as refused:
            return refused.code, json.loads(refused.read())

    def status(self, execution_id: str) -> str:
        status, answer = self.ask("GET", f"/api/executions/{execution_id}/status")
        return answer["status"] if status == 200 else f"answered {status}"

    def log(self) -> str:
        self._log.seek(0)
        return self._log.read()


@pytest.fixture
def crowded(user: int) -> Iterator[tuple[Server, Path]]:
    """A server, and its disk."""
    with small_disk(120) as disk, tempfile.TemporaryFile("w+") as log:
        server = Server(Place(disk, user), log)
        try:
            assert server.ask("POST", "/api/catalog/register", PLAYBOOK)[0] == 201
            yield server, disk
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(PATIENCE) == 130
            assert "Traceback" not in server.log()
        finally:
            server.process.kill()
            server.process.wait()


def start(server: Server) -> tuple[int, Any]:
    return server.ask("POST", "/api/executions", {"path": "demo/short", "payload": {"text": "z" * 20_000}})


def complete(server: Server, accepted: list[str]) -> None:
    for execution_id in accepted:
        wait_until(lambda: server.status(execution_id) == "completed", lambda: server.status(execution_id))  # noqa: B023


def seen_of_postgres(data: Path) -> str:
    """Return the end of the log of a database, what its processes call themselves, and where each waits."""
    shown = [data.with_name("postgres.log").read_text()[-3000:]]
    shown += sorted(path.name for path in (data / "pg_wal").iterdir())
    for process in processes_of_all():
        with contextlib.suppress(OSError):
            if (process / "cwd").resolve() == data:
                name = (process / "cmdline").read_text().replace("\0", " ").strip()
                shown.append(f"{process.name} {name}: {(process / 'wchan').read_text()}")
    return "\n".join(shown)


@pytest.mark.full
def test_a_server_refuses_while_its_disk_is_full_and_completes_what_it_accepted(crowded):
    server, disk = crowded
    filler = fill(disk)
    accepted = []
    for _ in range(500):
        status, answer = start(server)
        if status != 201:
            break
        accepted.append(answer["execution_id"])
    assert status == 503 and "the disk is full" in answer["detail"] and DISK in answer["hint"], answer
    assert server.ask("POST", "/api/catalog/register", "a: [")[0] == 422
    assert server.ask("POST", "/api/executions", {"path": 7})[0] == 422
    assert server.ask("GET", "/health")[0] == 200
    filler.unlink()
    accepted.append(start(server)[1]["execution_id"])
    complete(server, accepted)
    listed = server.ask("GET", "/api/executions?limit=100")[1]["executions"]
    assert sorted(one["execution_id"] for one in listed) == sorted(accepted)


def test_a_database_that_its_full_disk_has_ended_comes_back_with_everything(crowded):
    """Postgres ends when its log has no room for the next segment."""
    server, disk = crowded
    accepted = [start(server)[1]["execution_id"]]
    login = {
        "host": str(disk / "home" / "postgres"),
        "port": processes.PORT,
        "dbname": roles.WORKSPACE_DATABASE,
    }
    with psycopg.connect(**login, user=roles.WORKSPACE_ROLE, autocommit=True) as connection:
        connection.execute("SELECT pg_logical_emit_message(true, 'x', 'x')")
        filler = fill(disk)
        with pytest.raises(psycopg.OperationalError, match="No space left"):
            for _ in range(200):
                connection.execute("SELECT pg_logical_emit_message(true, 'x', repeat('x', 1000000))")
    wait_until(
        lambda: "cannot be started again" in server.log() and "the disk is full" in server.log(),
        lambda: f"{server.log()[-2000:]}{seen_of_postgres(disk / 'home' / 'postgres')}",
    )
    status, answer = start(server)
    assert status == 503 and "postgres.log" in answer["hint"], answer
    filler.unlink()

    def begun() -> bool:
        status, answer = start(server)
        if status == 201:
            accepted.append(answer["execution_id"])
        return status == 201

    wait_until(begun, server.log)
    complete(server, accepted)
