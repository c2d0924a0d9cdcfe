"""A wheel carries the build of the sources that are there, or is not made."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with a few sources, whose build was made by what `make ui` does."""
    for name in ("ui/src/main.tsx", "ui/public/favicon.svg", "ui/package-lock.json", "docs/openapi.json"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    for name in ("wheel_hook.py", "sources.py"):
        shutil.copy(ROOT / "ui" / name, tmp_path / "ui" / name)
    build(tmp_path)
    return tmp_path


def build(checkout: Path) -> None:
    program = [sys.executable, checkout / "ui/sources.py"]
    made_from = subprocess.run(program, capture_output=True, text=True, check=True).stdout.strip()
    (checkout / "ui/dist/.vite").mkdir(parents=True, exist_ok=True)
    (checkout / "ui/dist/index.html").write_text("built")
    subprocess.run([*program, made_from], check=True)


def play(checkout: Path, version: str = "standard") -> dict[str, str]:
    """Play the hook as hatchling does, and return what it includes."""
    included: dict[str, Any] = {"force_include": {}}
    hook = load(checkout / "ui/wheel_hook.py").UiBuildHook(str(checkout), {}, None, None, "", "wheel")
    hook.initialize(version, included)
    return {value: key for key, value in included["force_include"].items()}


def test_the_build_of_these_sources_is_taken(checkout: Path) -> None:
    assert play(checkout)["noetl/ui_static"] == str(checkout / "ui/dist")


@pytest.mark.parametrize(
    "name", ["ui/src/main.tsx", "ui/src/added.ts", "ui/package-lock.json", "docs/openapi.json"]
)
def test_a_build_of_other_sources_is_refused(checkout: Path, name: str) -> None:
    (checkout / name).write_text("changed")
    with pytest.raises(RuntimeError, match="made from other sources than these: run `make ui` first"):
        play(checkout)
    build(checkout)
    assert "noetl/ui_static" in play(checkout)


def test_a_source_that_is_gone_or_renamed_counts(checkout: Path) -> None:
    (checkout / "ui/src/main.tsx").rename(checkout / "ui/src/other.tsx")
    with pytest.raises(RuntimeError, match="other sources"):
        play(checkout)


def test_a_build_that_does_not_say_its_sources_is_refused(checkout: Path) -> None:
    (checkout / "ui/dist/.vite/sources.sha256").unlink()
    with pytest.raises(
        RuntimeError, match="does not say which sources it was made from: run `make ui` first"
    ):
        play(checkout)


def test_what_the_build_writes_among_its_sources_does_not_count(checkout: Path) -> None:
    (checkout / "ui/src/api").mkdir()
    (checkout / "ui/src/api/schema.d.ts").write_text("generated")
    assert "noetl/ui_static" in play(checkout)


def test_no_build_is_refused_unless_none_is_wanted(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(checkout / "ui/dist")
    with pytest.raises(RuntimeError, match="the web UI is not built: run `make ui` first"):
        play(checkout)
    assert play(checkout, "editable") == {}
    monkeypatch.setenv("NOETL_WHEEL_WITHOUT_UI", "1")
    assert "noetl/ui_static" not in play(checkout)


def test_all_that_the_build_reads_is_a_source() -> None:
    sources = load(ROOT / "ui/sources.py")
    assert all((ROOT / name).exists() for name in sources.SOURCES)
    beside = {f"ui/{path.name}" for path in (ROOT / "ui").glob("*.*") if path.is_file()}
    of_others = {"ui/README.md", "ui/playwright.config.ts", "ui/wheel_hook.py", "ui/sources.py", "ui/.npmrc"}
    assert beside - of_others <= set(sources.SOURCES)
