"""Tools of the local stack: two Python environments and the CDK command line.

Each is made once per lock file and shared by every home.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from noetl.domain.errors import InfrastructureError
from noetl.local.layout import cache

REQUIREMENTS = Path(__file__).parent / "requirements"
OLDEST_NODE = 20
"""Past its end of life, and still good enough; the documents ask for 22."""
KEPT_LINES = 30
KEPT_ERRORS = 3
ERROR = "ERROR "
"""What the CDK begins a finding with. The next line names the place; more warnings may follow than lines are kept."""

Progress = Callable[[str], None]
"""Called with what is done next, a short phrase."""


def emulator_python(progress: Progress) -> Path:
    """The interpreter of the emulator's environment.

    Raises InfrastructureError when it cannot be made.
    """
    return _environment("emulator", progress)


def functions_python(progress: Progress) -> Path:
    """The interpreter that functions run under: it has what Lambda's managed runtime has.

    Raises InfrastructureError.
    """
    return _environment("functions", progress)


def cdk(project: Path, progress: Progress) -> Path:
    """The folder of Node packages with the CDK command line, as locked by the project.

    Raises InfrastructureError.
    """
    check_node()
    manifest, lock = project / "infra" / "package.json", project / "infra" / "package-lock.json"
    for path in (manifest, lock):
        if not path.is_file():
            raise InfrastructureError(
                f"{path} is missing", code="project_missing", hint="restore it", retryable=False
            )
    folder = cache() / f"cdk-{_digest(manifest.read_bytes(), lock.read_bytes())}"
    with _making(folder) as missing:
        if missing:
            progress("installing the CDK command line (once)")
            shutil.copy(manifest, folder)
            shutil.copy(lock, folder)
            run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], "npm ci", cwd=folder)
    return folder / "node_modules"


def check_node() -> str:
    """Node's version. Raises InfrastructureError when node or npm is missing or too old."""
    for name in ("node", "npm"):
        if shutil.which(name) is None:
            raise InfrastructureError(
                f"{name} is not installed; the CDK command line needs Node {OLDEST_NODE} or newer, with npm",
                code="node_missing",
                hint="install Node 22 from your system's packages or nodejs.org, then try again",
                retryable=False,
            )
    shown = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    match = re.match(r"v(\d+)\.", shown)
    if match is None or int(match[1]) < OLDEST_NODE:
        raise InfrastructureError(
            f"Node is {shown or 'broken'}; the CDK command line needs {OLDEST_NODE} or newer",
            code="node_too_old",
            hint="install Node 22 from your system's packages or nodejs.org, then try again",
            retryable=False,
        )
    return shown


def run(
    command: Sequence[str],
    name: str,
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    log: Path | None = None,
    watch: Callable[[str], None] | None = None,
) -> None:
    """Run a tool to its end.

    ``watch`` is called with each line of its output, ``log`` gets all of it.
    Raises InfrastructureError with the end of the output when it fails, and with the first errors that came before it.
    """
    kept: deque[str] = deque(maxlen=KEPT_LINES)
    errors: list[str] = []
    with log.open("a") if log else contextlib.nullcontext() as out:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        try:
            for line in process.stdout or ():
                if len(kept) == KEPT_LINES and kept[0].startswith(ERROR) and len(errors) < 2 * KEPT_ERRORS:
                    errors += [kept[0], kept[1]]
                kept.append(line)
                if out is not None:
                    out.write(line)
                    out.flush()
                if watch is not None:
                    watch(line.rstrip())
            code = process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if code:
        before = f"; errors:\n{''.join(errors).strip()}\n" if errors else "; "
        raise InfrastructureError(
            f"{name} failed (exit {code}){before}the end of its output:\n{''.join(kept).strip()}",
            code="tool_failed",
            hint=f"the whole output is in {log}" if log else "see the output above",
            retryable=False,
        )


def _environment(name: str, progress: Progress) -> Path:
    """A virtual environment with exactly what ``requirements/<name>.txt`` locks."""
    lock = REQUIREMENTS / f"{name}.txt"
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    folder = cache() / f"{name}-py{version}-{_digest(lock.read_bytes(), sys.base_prefix.encode())}"
    python = folder / "bin" / "python"
    with _making(folder) as missing:
        if missing:
            progress(f"installing the environment of the {name} (once)")
            run([sys.executable, "-m", "venv", str(folder)], "python -m venv", cwd=folder)
            pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
            run([*pip, "--require-hashes", "-r", str(lock)], "pip install", cwd=folder)
    return python


def _digest(*parts: bytes) -> str:
    joined = hashlib.sha256()
    for part in parts:
        joined.update(hashlib.sha256(part).digest())
    return joined.hexdigest()[:16]


@contextlib.contextmanager
def _making(folder: Path) -> Iterator[bool]:
    """One process at a time; yields whether the folder has to be filled.

    One that was left half full is emptied first.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    done = folder / ".complete"
    handle = os.open(folder.with_name(f"{folder.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if done.exists():
            yield False
            return
        fcntl.flock(handle, fcntl.LOCK_EX)
        if done.exists():
            yield False
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        yield True
        done.touch()
    finally:
        os.close(handle)
