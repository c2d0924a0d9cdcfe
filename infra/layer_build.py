"""Lambda layers without Docker: `core` (this library) and one per file in layers/deps (`deps`, and what single kinds need).

    python -m infra.layer_build --python 3.13 --arch arm64

A layer is a folder build/layers/<name>-<arch>-<python>/ with `python/` in it, `layer.zip` with the same files, and the digest of
what it was made from; it is made again when the digest changed. Wheels for the target platform come from PyPI, checked against
the hashes of the lock, so the machine that builds needs neither the platform nor the Python version of the functions.
"""

from __future__ import annotations

import argparse
import compileall
import fcntl
import hashlib
import os
import platform
import py_compile
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

import noetl

from .places import BUILDS, HOME

LIBRARY = Path(noetl.__file__).resolve().parent
LOCKS = HOME / "layers/deps"
BUILT = BUILDS / "layers"
LEFT_OUT = ("cli", "local", "testing")
"""Parts of the library that never run in a function."""
MACHINES = {"arm64": "aarch64", "x86_64": "x86_64"}
GLIBC = ("manylinux_2_34", "manylinux_2_28", "manylinux_2_17", "manylinux2014")
"""Amazon Linux 2023, on which Lambda's Pythons from 3.12 run, has glibc 2.34. Python 3.11 runs on Amazon Linux 2: glibc 2.26."""
MEBIBYTE = 1024 * 1024
ARCHIVE = "layer.zip"
ABOUT_INSTALLER = ("INSTALLER", "RECORD", "REQUESTED", "uv_cache.json")
"""Files beside the metadata of a package that say who installed it."""
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date of every entry of an archive, so that equal files make equal archives."""
COMPRESSION = 6
HOST_COMPRESSION = 1
"""An emulator on the same machine unpacks what it gets at once: half of the time, 9 % more bytes."""


class LayerError(Exception):
    """A layer cannot be built; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Target:
    """The platform of the functions: ``python`` as "3.13", ``arch`` as Lambda names it (arm64, x86_64).

    ``host``: an emulator on this machine runs them, so the wheels that pip chooses for this machine are right.
    """

    python: str
    arch: str
    host: bool = False

    @classmethod
    def of_host(cls) -> Target:
        """This machine and its Python."""
        arch = "arm64" if platform.machine() in ("arm64", "aarch64") else "x86_64"
        return cls(_host_python(), arch, host=True)

    @property
    def folder(self) -> str:
        """What the folders of its layers end with."""
        return f"{self.arch}-py{self.python.replace('.', '')}{'-host' if self.host else ''}"

    @property
    def pip_options(self) -> list[str]:
        """Which wheels pip takes."""
        if self.host:
            return []
        options = ["--implementation", "cp", "--python-version", self.python]
        return options + [part for tag in self.platforms for part in ("--platform", tag)]

    @property
    def uv_options(self) -> list[str]:
        """Which wheels uv takes."""
        if self.host:
            return ["--python", sys.executable]
        newest = self.platforms[0].removesuffix(f"_{MACHINES[self.arch]}")
        return ["--python-version", self.python, "--python-platform", f"{MACHINES[self.arch]}-{newest}"]

    @property
    def platforms(self) -> tuple[str, ...]:
        """Wheel platforms pip may take, for this machine's kind of processor."""
        glibc = GLIBC if _version(self.python) >= (3, 12) else GLIBC[2:]
        return tuple(f"{tag}_{MACHINES[self.arch]}" for tag in glibc)

    def markers(self) -> dict[str, str]:
        """The environment in which the markers of a lock are judged."""
        return {
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
            "os_name": "posix",
            "sys_platform": sys.platform if self.host else "linux",
            "platform_system": platform.system() if self.host else "Linux",
            "platform_machine": MACHINES[self.arch],
            "python_version": self.python,
            "python_full_version": f"{self.python}.0",
            "extra": "",
        }


def layer_names() -> tuple[str, ...]:
    """`core`, then the layers that have a lock."""
    return ("core", *sorted(path.stem for path in LOCKS.glob("*.lock")))


def build_layer(name: str, target: Target) -> Path:
    """The layer's folder, built when it is missing or stale. Raises LayerError."""
    if name not in layer_names():
        raise LayerError(
            f"there is no layer {name!r}: layers/deps/{name}.lock does not exist (see `make lock`)"
        )
    folder = BUILT / f"{name}-{target.folder}"
    digest = _digest(name, target)
    if _is_fresh(folder, digest):
        return folder
    BUILT.mkdir(parents=True, exist_ok=True)
    with _locked(BUILT / f".{folder.name}.lock"):
        if not _is_fresh(folder, digest):
            _rebuild(name, target, folder, digest)
    return folder


def digest_of(folder: Path) -> str:
    """What the layer in this folder was made from."""
    return (folder / "digest").read_text()


def archive_of(folder: Path) -> Path:
    """The zip of the layer in this folder, with `python/` at its top."""
    return folder / ARCHIVE


def size_of(folder: Path) -> int:
    """Bytes, unpacked."""
    return sum(path.stat().st_size for path in (folder / "python").rglob("*") if path.is_file())


def _is_fresh(folder: Path, digest: str) -> bool:
    return (folder / "digest").is_file() and digest_of(folder) == digest


def _rebuild(name: str, target: Target, folder: Path, digest: str) -> None:
    """Build a layer beside its place and move it there, so that no reader sees half a layer."""
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=BUILT))
    try:
        scratch.chmod(0o755)
        python = scratch / "python"
        if name == "core":
            _copy_library(python / "noetl")
        else:
            _install(name, target, python)
        if target.python == _host_python():
            _compile(python)
        _pack(scratch, HOST_COMPRESSION if target.host else COMPRESSION)
        (scratch / "digest").write_text(digest)
        shutil.rmtree(folder, ignore_errors=True)
        scratch.rename(folder)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def _copy_library(into: Path) -> None:
    def left_out(folder: str, names: list[str]) -> set[str]:
        top = LEFT_OUT if Path(folder) == LIBRARY else ()
        return {name for name in names if name in top or name == "__pycache__"}

    shutil.copytree(LIBRARY, into, ignore=left_out)


def _install(name: str, target: Target, into: Path) -> None:
    """Fill a folder with uv, or with pip where uv cannot. Raises LayerError.

    uv reads none of pip's settings (a mirror, a certificate), and takes a sixth of its time.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".txt", dir=into.parent) as pinned:
        pinned.write("\n".join(_pins(LOCKS / f"{name}.lock", target)) + "\n")
        pinned.flush()
        failures = []
        for installer in _installers(target):
            # Of a try that failed nothing may be left: pip takes a folder that is there for the package.
            shutil.rmtree(into, ignore_errors=True)
            into.mkdir()
            wanted = ["--no-deps", "--require-hashes", "--only-binary", ":all:"]
            command = [*installer, *wanted, "--target", str(into), "-r", pinned.name]
            done = subprocess.run(command, capture_output=True, text=True)
            if not done.returncode:
                break
            failures.append(done.stderr.strip())
        else:
            raise LayerError(
                f"the layer {name} for {target.folder} cannot be installed:\n" + "\n".join(reversed(failures))
            )
    for unused in [into / "bin", *into.rglob("__pycache__")]:
        shutil.rmtree(unused, ignore_errors=True)
    for about in (".lock", *(f"*.dist-info/{name}" for name in ABOUT_INSTALLER)):
        for unused in into.glob(about):
            unused.unlink()  # the layer of uv and that of pip are the same


def _installers(target: Target) -> Iterator[list[str]]:
    uv = Path(sys.executable).with_name("uv")
    if uv.exists():
        yield [str(uv), "pip", "install", "--quiet", "--link-mode", "copy", *target.uv_options]
    quiet = ["--quiet", "--disable-pip-version-check", "--no-compile"]
    yield [sys.executable, "-m", "pip", "install", *quiet, *target.pip_options]


def _pins(lock: Path, target: Target) -> Iterator[str]:
    """The lines of a lock that hold for the target, without their markers: pip would judge those for this machine."""
    for line in lock.read_text().replace("\\\n", " ").splitlines():
        text, *hashes = line.split(" --hash=")
        if not text.strip() or text.startswith("#"):
            continue
        requirement = Requirement(text.strip())
        if requirement.marker is None or requirement.marker.evaluate(target.markers()):
            requirement.marker = None
            yield " ".join([str(requirement), *(f"--hash={found.strip()}" for found in hashes)])


def _compile(python: Path) -> None:
    """Compile byte code that stays valid regardless of the files' dates.

    A layer is read-only, so a cold start would compile it each time.
    """
    compileall.compile_dir(
        python,
        quiet=2,
        stripdir=str(python),
        prependdir="/opt/python",
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )


def _pack(folder: Path, level: int) -> None:
    """Zip the files of a layer, once.

    The CDK would copy a folder at each synthesis and zip it at each first deployment.
    """
    with zipfile.ZipFile(archive_of(folder), "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for path in sorted((folder / "python").rglob("*")):
            if path.is_file():
                entry = zipfile.ZipInfo(str(path.relative_to(folder)), EPOCH)
                entry.external_attr = (0o100755 if os.access(path, os.X_OK) else 0o100644) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, path.read_bytes(), compresslevel=level)


def _digest(name: str, target: Target) -> str:
    found = hashlib.sha256(f"{target.folder} {target.python == _host_python()}\n".encode())
    found.update(Path(__file__).read_bytes())
    for path in _sources(name):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        found.update(f"{path.relative_to(LIBRARY if name == 'core' else LOCKS)}\0{content}\n".encode())
    return found.hexdigest()


def _sources(name: str) -> Iterable[Path]:
    if name != "core":
        return [LOCKS / f"{name}.lock"]
    return sorted(
        path
        for path in LIBRARY.rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and path.relative_to(LIBRARY).parts[0] not in LEFT_OUT
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _host_python() -> str:
    return ".".join(platform.python_version_tuple()[:2])


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def main() -> int:
    """Build layers and print their sizes; 3 when one cannot be built."""
    parser = argparse.ArgumentParser(description="Build the Lambda layers.")
    host = Target.of_host()
    parser.add_argument("names", nargs="*", help="which layers (all)")
    parser.add_argument("--python", default=host.python, help="Python of the functions (this one's version)")
    parser.add_argument("--arch", default=host.arch, choices=sorted(MACHINES), help="processor (this one)")
    parser.add_argument("--host", action="store_true", help="for an emulator on this machine")
    wanted = parser.parse_args()
    target = Target(wanted.python, wanted.arch, wanted.host)
    try:
        for name in wanted.names or layer_names():
            folder = build_layer(name, target)
            print(f"{size_of(folder) / MEBIBYTE:7.1f} MiB  {os.path.relpath(folder)}")  # noqa: T201
    except LayerError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 3
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
