"""Libraries of playbooks: one installed folder for each lock, shared by all executions.

Only wheels are installed, by pip, and only with the hashes of the lock. That unpacks files; no code of a package runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext
from noetl.domain.sizes.table import LIBRARIES_BYTES, LIBRARIES_KEPT, LIBRARIES_SECONDS
from noetl.domain.text.lock_text import LockError, pins_text, read_lock
from noetl.kinds.sandbox.environment import scrubbed_environment
from noetl.kinds.sandbox.layers import GUEST_FOLDER
from noetl.kinds.sandbox.noetl_guest.removal import remove_tree

BOOT = """
import os, runpy, sys
guest, parent = sys.argv[1:3]
del sys.argv[1:3]
if sys.platform == "linux":
    sys.path.insert(0, guest)
    from noetl_guest.kernel import PR_SET_PDEATHSIG, prctl
    prctl(PR_SET_PDEATHSIG, 9)
    sys.path.remove(guest)
    if os.getppid() != int(parent):
        sys.exit(1)
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
"""Pip that ends with the thread that waits for it, also where this process is killed."""
PIP = (
    *("install", "--require-hashes", "--no-deps", "--only-binary", ":all:", "--no-input"),
    *("--disable-pip-version-check", "--no-warn-script-location", "--progress-bar", "off", "--no-cache-dir"),
)
PASSED = ("HOME", "XDG_CONFIG_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
"""What pip gets of this process's environment, with its own settings and those of proxies."""
PROXIES = ("http_proxy", "https_proxy", "no_proxy")
LOOK_SECONDS = 0.2
SIZE_SECONDS = 2.0
_BUILDING = ".building-"
_IN_USE = ".used"


@contextlib.contextmanager
def use_libraries(context: TaskContext) -> Iterator[str]:
    """Give the folder of the libraries that a task may import.

    It is empty for a playbook that requires none. It is installed first if it is not there, and stays there as long as the body runs.

    Raises TaskError: kind ``unsupported`` where no libraries are installed, ``libraries_not_installed``, ``libraries_too_large``,
    kind ``cancelled``.
    """
    if not context.lock:
        yield ""
        return
    if not context.settings.libraries_dir:
        raise TaskError(
            "this playbook requires libraries, and workers of this kind install none",
            kind="unsupported",
            code="libraries_unavailable",
            hint="run it on a machine of its own or with `noetl serve` (docs/modules.md), or remove `executor.spec.requirements`",
        )
    root = Path(context.settings.libraries_dir)
    try:
        pins = pins_text(read_lock(context.lock).pins)
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _held(root, pins, context) as folder:
            yield folder
    except LockError as error:
        raise TaskError(
            f"the lock cannot be used: {error}", kind="unsupported", code="lock_invalid"
        ) from None
    except OSError as error:
        raise _failed(f"{error.strerror or error}: {root}") from error


def key_of(pins: str) -> str:
    """Return the name of the folder of these pins, for this interpreter and platform."""
    here = (sys.implementation.cache_tag, sysconfig.get_platform())
    return hashlib.sha256("\0".join([pins, *map(str, here)]).encode()).hexdigest()


@contextlib.contextmanager
def _held(root: Path, pins: str, context: TaskContext) -> Iterator[str]:
    key = key_of(pins)
    lock = _open_lock(root, key, fcntl.LOCK_SH, context)
    try:
        while (folder := _installed(root, key)) is None:
            os.close(lock)
            lock = -1
            lock = _open_lock(root, key, fcntl.LOCK_EX, context)
            if _installed(root, key) is None:
                _evict(root, key)
                _install_held(root, key, pins, context, lock)
            os.close(lock)
            lock = -1
            lock = _open_lock(root, key, fcntl.LOCK_SH, context)
        os.utime(folder)
        yield str(folder)
    finally:
        if lock >= 0:
            os.close(lock)


def _lock_file(root: Path, key: str) -> Path:
    return root / f"{key}{_IN_USE}"


def _open_lock(root: Path, key: str, mode: int, context: TaskContext) -> int:
    """Hold the lock file of a folder.

    It is shared while the folder is used, and held alone while that is made or removed.
    A file that its holder removed meanwhile is no lock: a new one is made.
    """
    place = _lock_file(root, key)
    announced = False
    while True:
        opened = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(opened, mode | fcntl.LOCK_NB)
            if place.exists() and os.path.samestat(os.fstat(opened), place.stat()):
                return opened
        except BlockingIOError:
            if not announced:
                context.log("waiting for the libraries of this playbook, which are being installed")
                announced = True
            _refuse_cancelled(context)
            time.sleep(LOOK_SECONDS)
        except BaseException:
            os.close(opened)
            raise
        os.close(opened)


def _installed(root: Path, key: str) -> Path | None:
    """Return the folder of libraries.

    Each installation has a name of its own, so that no process takes a new folder for one that was removed.
    """
    return next(iter(sorted(root.glob(f"{key}-*"))), None)


def _install_held(root: Path, key: str, pins: str, context: TaskContext, lock: int) -> None:
    try:
        _install(root, key, pins, context, lock)
    except BaseException:
        _lock_file(root, key).unlink(missing_ok=True)  # a failed installation leaves nothing
        raise


def _install(root: Path, key: str, pins: str, context: TaskContext, lock: int) -> None:
    context.log(f"installing {pins.count('==')} libraries of this playbook, once for all executions")
    scratch = Path(tempfile.mkdtemp(prefix=f"{_BUILDING}{key}-", dir=root))
    try:
        (scratch / "lock.txt").write_text(pins + "\n")
        (scratch / "tmp").mkdir()
        _run_pip(scratch, context, lock)
        libraries = scratch / "libraries"
        libraries.mkdir(exist_ok=True)  # a lock without pins
        libraries.chmod(0o755)
        os.sync()
        libraries.rename(root / f"{key}-{secrets.token_hex(16)}")
    finally:
        remove_tree(scratch)
    context.log("the libraries of this playbook are installed")


def _run_pip(scratch: Path, context: TaskContext, lock: int) -> None:
    wheels = context.settings.wheels_dir
    offline = ("--no-index", "--find-links", wheels) if wheels else ()
    command = (
        *(sys.executable, "-I", "-c", BOOT, GUEST_FOLDER, str(os.getpid()), *PIP, *offline),
        *("--target", str(scratch / "libraries"), "--requirement", str(scratch / "lock.txt")),
    )
    output = scratch / "output.txt"
    with output.open("wb") as written, output.open("rb") as shown:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
            cwd=scratch,
            env=pip_environment(scratch / "tmp"),
            pass_fds=(lock,),  # the lock is held as long as pip writes
            start_new_session=True,
        )
        try:
            _wait(process, scratch, lambda: _show(shown.readlines(), context))
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
    if process.returncode != 0:
        raise _failed(reason_of(output.read_text(errors="replace")))


def _wait(process: subprocess.Popen[bytes], scratch: Path, look: Callable[[], None]) -> None:
    """Wait for pip, within the limits of time and size."""
    end = time.monotonic() + LIBRARIES_SECONDS.value
    sized = 0.0
    ended = False
    while not ended:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_SECONDS)
        ended = process.returncode is not None
        look()
        now = time.monotonic()
        if now > end and not ended:
            raise _failed(f"pip took more than {LIBRARIES_SECONDS.value} seconds")
        if ended or now >= sized + SIZE_SECONDS:
            sized = now
            if _size_of(scratch) > LIBRARIES_BYTES.value:
                raise TaskError(
                    f"the libraries of this playbook take more than {LIBRARIES_BYTES.value} bytes",
                    kind="storage_quota",
                    code="libraries_too_large",
                    hint="require fewer or smaller libraries, and lock again",
                )


def _show(lines: list[bytes], context: TaskContext) -> None:
    _refuse_cancelled(context)
    for line in lines:
        text = line.decode(errors="replace").strip()
        if text.startswith(("Collecting", "Downloading", "Processing", "Installing")):
            context.log(f"pip: {text[:200]}")


def _refuse_cancelled(context: TaskContext) -> None:
    if context.cancelled():
        raise TaskError("cancelled while libraries were installed", kind="cancelled", code="cancelled")


def pip_environment(temporary: Path | None = None) -> dict[str, str]:
    """Return the environment of pip: its own settings and those of proxies.

    It has no secret of the engine.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in PASSED or name.startswith("PIP_") or name.lower() in PROXIES
    }
    own = {} if temporary is None else {"TMPDIR": str(temporary)}
    return {**scrubbed_environment(), **kept, **own}


def reason_of(output: str) -> str:
    """Return what pip says of its failure, shortened."""
    errors = [line.strip() for line in output.splitlines() if line.startswith("ERROR:")]
    if not errors:
        errors = output.strip().splitlines()[-1:]
    return " ".join(one.removeprefix("ERROR:").strip() for one in errors)[:600] or "pip names no reason"


def _failed(reason: str) -> TaskError:
    return TaskError(
        f"the libraries of this playbook cannot be installed: {reason}",
        kind="connection",
        code="libraries_not_installed",
        hint="check pip's settings of the index; without one, put the wheels of the lock into a folder and set NOETL_WHEELS to it."
        " Wheels with other hashes, or for another platform: `noetl lock` the playbook again",
    )


def _size_of(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 - once for each of many files
    return total


def _evict(root: Path, own: str) -> None:
    """Remove what was used longest ago, and what interrupted installations left.

    What is in use stays.
    """
    for left in root.glob(f"{_BUILDING}*"):
        _remove(root, left.name.removeprefix(_BUILDING).partition("-")[0], left, own)
    kept = sorted(root.glob("[0-9a-f]*-*"), key=_used_at)
    for folder in kept[: max(0, len(kept) - LIBRARIES_KEPT.value + 1)]:
        _remove(root, folder.name.partition("-")[0], folder, own)


def _used_at(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0


def _remove(root: Path, key: str, folder: Path, own: str) -> None:
    """Remove a folder unless a process uses it. ``own``: the key whose lock the caller holds."""
    if key == own:
        remove_tree(folder)
        return
    place = _lock_file(root, key)
    opened = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if place.exists() and os.path.samestat(os.fstat(opened), place.stat()):
            # Renamed first: what a process that dies meanwhile leaves of it must not count as installed.
            leaving = root / f"{_BUILDING}{key}-{secrets.token_hex(16)}"
            folder.rename(leaving)
            remove_tree(leaving)
            place.unlink()
    except OSError:
        return  # it is in use
    finally:
        os.close(opened)
