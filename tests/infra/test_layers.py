"""Layers: complete, small enough, built again when what they are made from changed."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from infra import layer_build as build
from infra.layer_build import (
    MEBIBYTE,
    LayerError,
    Target,
    archive_of,
    build_layer,
    digest_of,
    layer_names,
    size_of,
)

LIMIT = 250 * MEBIBYTE
"""What Lambda takes, all layers and the code of a function together, unpacked."""
CORE = 15 * MEBIBYTE
"""What our own modules and their bytecode take: more of it means that a file came in that is no module."""
CLOUD = Target("3.13", "arm64")
HOST = Target.of_host()

IMPORT_ALL = """
import importlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
skipped = (
    "noetl.adapters.embedded",
    "noetl.kinds.sandbox.noetl_guest",
    "noetl.runtime.local.process",
    "noetl.runtime.bootstrap",
    "noetl.runtime.server",
)
for path in sorted(root.rglob("*.py")):
    name = ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
    if not name.startswith(skipped):
        importlib.import_module(name)
print(importlib.import_module("noetl").__file__)
"""


@pytest.mark.parametrize("target", [CLOUD, HOST], ids=lambda target: target.folder)
def test_layers_fit_into_a_function(target: Target) -> None:
    sizes = {name: size_of(build_layer(name, target)) for name in layer_names()}
    print({name: f"{size / MEBIBYTE:.1f} MiB" for name, size in sizes.items()})
    assert set(sizes) == {"core", "deps", "duckdb"}
    assert sum(sizes.values()) < LIMIT
    assert sizes["core"] < CORE


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("target", [CLOUD, HOST], ids=lambda target: target.folder)
def test_the_archive_of_a_layer_has_its_files(target: Target, tmp_path: Path) -> None:
    folder = build_layer("core", target)
    with zipfile.ZipFile(archive_of(folder)) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {build.EPOCH}
        archive.extractall(tmp_path)
    assert contents(tmp_path / "python") == contents(folder / "python")


def test_layers_for_the_cloud_hold_its_binaries_and_no_command_line() -> None:
    core = build_layer("core", CLOUD) / "python/noetl"
    assert (core / "services/orchestrator/handle_events.py").is_file()
    assert list(core.glob("adapters/postgres/sql/migrations/*.sql"))
    assert not any((core / part).exists() for part in ("cli", "local", "testing"))
    deps = build_layer("deps", CLOUD) / "python"
    binaries = {path.name for path in deps.rglob("*.so")}
    assert any("cpython-313-aarch64-linux-gnu" in name for name in binaries)
    assert not [name for name in binaries if "x86_64" in name]


def test_the_library_runs_on_its_layers_alone() -> None:
    """Every module that a function may import, in a Python that sees the layers and nothing else."""
    paths = [str(build_layer(name, HOST) / "python") for name in layer_names()]
    done = subprocess.run(
        [sys.executable, "-S", "-c", IMPORT_ALL, f"{paths[0]}/noetl"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(paths), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{paths[0]}/noetl/__init__.py"


def test_a_layer_is_built_again_when_its_sources_change(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library = tmp_path / "noetl"
    (library / "cli").mkdir(parents=True)
    (library / "__init__.py").write_text("one = 1\n")
    monkeypatch.setattr(build, "LIBRARY", library)
    monkeypatch.setattr(build, "BUILT", tmp_path / "built")
    first = build_layer("core", HOST)
    made, digest = (first / "digest").stat().st_mtime_ns, digest_of(first)
    (library / "cli/new.py").write_text("left out\n")
    assert (build_layer("core", HOST) / "digest").stat().st_mtime_ns == made, "nothing that is in it changed"
    (library / "__init__.py").write_text("one = 2\n")
    second = build_layer("core", HOST)
    assert second == first and digest_of(second) != digest
    with zipfile.ZipFile(archive_of(second)) as archive:
        assert archive.read("python/noetl/__init__.py") == b"one = 2\n"
    assert (second / "python/noetl/__init__.py").read_text() == "one = 2\n"
    assert not list((tmp_path / "built").glob(".core-*-*-*[!k]")), "no scratch folder stays behind"


def test_a_lock_is_judged_for_the_target_and_not_for_this_machine(tmp_path: Path) -> None:
    lock = tmp_path / "x.lock"
    lock.write_text(
        "old==1 ; python_version < '3.12' \\\n    --hash=sha256:aa\n"
        "new==2 ; python_full_version >= '3.12' and platform_machine == 'aarch64' \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"
        "mac==3 ; sys_platform == 'darwin'\n"
    )
    assert list(build._pins(lock, CLOUD)) == ["new==2 --hash=sha256:bb --hash=sha256:cc"]
    assert list(build._pins(lock, Target("3.11", "arm64"))) == ["old==1 --hash=sha256:aa"]


def test_an_unknown_layer_is_refused() -> None:
    with pytest.raises(LayerError, match=r"layers/deps/nothing\.lock does not exist"):
        build_layer("nothing", HOST)


@pytest.mark.parametrize("name", ["deps", "duckdb"])
def test_functions_run_with_the_versions_that_are_tested(name: str) -> None:
    def pins(path: str) -> dict[str, str]:
        text = (build.HOME / path).read_text()
        return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, flags=re.MULTILINE))

    tested = pins("requirements.lock")
    deployed = pins(f"layers/deps/{name}.lock")
    assert deployed.items() <= tested.items(), deployed.items() - tested.items()


@pytest.mark.parametrize(
    ("python", "platform"), [("3.13", "aarch64-manylinux_2_34"), ("3.11", "aarch64-manylinux_2_17")]
)
def test_pip_installs_for_the_same_platform_where_uv_cannot(
    python: str, platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        into = Path(command[command.index("--target") + 1])
        assert list(into.iterdir()) == [], "nothing of a try that failed is left"
        (into / "half.py").touch()
        return subprocess.CompletedProcess(command, "uv" in Path(command[0]).name, "", "")

    (tmp_path / "uv").touch()
    monkeypatch.setattr(build.sys, "executable", str(tmp_path / "python3"))
    monkeypatch.setattr(build.subprocess, "run", run)
    target = Target(python, "arm64")
    build._install("deps", target, tmp_path / "layer")
    by_uv, by_pip = ran
    assert by_uv[by_uv.index("--python-platform") + 1] == platform
    assert by_uv[by_uv.index("--python-version") + 1] == python
    assert by_pip[by_pip.index("--platform") + 1] == target.platforms[0]
    assert by_pip[by_pip.index("--no-deps") :][:4] == by_uv[by_uv.index("--no-deps") :][:4]
