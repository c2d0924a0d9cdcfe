"""The model of who owns a command (``command_ownership.pml``), checked exhaustively within bounds by Spin."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.parts import parted

MODEL = Path(__file__).with_name("command_ownership.pml")
SECONDS = 600
SMALL = {"ENGINES": 1, "WORKERS": 1, "CRASHES": 1, "REPEATS": 1}
BOUNDS = (
    SMALL,
    {"ENGINES": 1, "WORKERS": 1, "CRASHES": 2, "REPEATS": 1},
    {"ENGINES": 1, "WORKERS": 2, "CRASHES": 1, "REPEATS": 1},
    {"ENGINES": 2, "WORKERS": 1, "CRASHES": 1, "REPEATS": 1},
    {"ENGINES": 1, "WORKERS": 1, "CRASHES": 1, "REPEATS": 1, "COMMANDS": 3},
)
MISTAKES = {
    "MISTAKE_NO_FENCE": "applied[c]==1",
    "MISTAKE_HAND_OVER_FIRST": "row[1]==0",
    "MISTAKE_DELETE_FIRST": "ended",
    "MISTAKE_NO_LEASE": "ended",
    "MISTAKE_NO_FALLBACK": "ended",
}
"""Each mistake, and the promise that it breaks."""

pytestmark = pytest.mark.skipif(
    shutil.which("spin") is None or shutil.which("gcc") is None,
    reason="needs Spin and a C compiler (Debian: apt-get install spin gcc)",
)


def check(folder: Path, **macros: int) -> str:
    """Search every state of the model; returns the report of Spin's verifier."""
    defined = [f"-D{name}={value}" for name, value in macros.items()]
    subprocess.run(["spin", "-a", *defined, str(MODEL)], cwd=folder, check=True, capture_output=True)
    compiled = ["gcc", "-w", "-O1", "-DSAFETY", "-DCOLLAPSE", "-DVECTORSZ=2048", "-o", "pan", "pan.c"]
    subprocess.run(compiled, cwd=folder, check=True, capture_output=True)
    search = ["./pan", "-m1000000", "-w22"]
    return subprocess.run(
        search, cwd=folder, check=False, capture_output=True, text=True, timeout=SECONDS
    ).stdout


def spelled(bounds: dict[str, int]) -> str:
    return "-".join(f"{name.lower()}{value}" for name, value in bounds.items())


@pytest.mark.parametrize("bounds", parted(BOUNDS, [SMALL], ids=[spelled(bounds) for bounds in BOUNDS]))
def test_no_crash_repeat_or_cancel_loses_or_doubles_a_command(tmp_path: Path, bounds: dict[str, int]) -> None:
    report = check(tmp_path, **bounds)
    assert "errors: 0" in report, report
    assert "Search not completed" not in report and "max search depth too small" not in report, report


@pytest.mark.parametrize("mistake", parted(MISTAKES, []))
def test_the_check_finds_a_deliberate_mistake(tmp_path: Path, mistake: str) -> None:
    report = check(tmp_path, **SMALL, **{mistake: 1})
    assert f"assertion violated ({MISTAKES[mistake]})" in report or (
        f"assertion violated {MISTAKES[mistake]}" in report
    ), report
