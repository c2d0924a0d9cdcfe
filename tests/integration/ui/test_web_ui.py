"""The web UI: its units, and all of it in Chromium against a real `noetl serve`.

Skipped where Node or Chromium is missing; with ``NOETL_UI_TESTS=required``, as in CI, that fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts import WHOLE

UI = Path(__file__).parents[3] / "ui"
KEPT = UI / "dist" / ".vite" / "sources.sha256"
REQUIRED = os.environ.get("NOETL_UI_TESTS") == "required"
LONGEST = 800
"""Seconds; the suite takes a fraction of that on a quiet machine."""
PLAIN = ("--workers", "1", "--trace", "off")
"""Options of the run within `make test`, whose processes leave no processor idle: a second browser with a server of its own, and a recording
of each page, are half of the work. A test that fails is played with its recording by `npm run e2e` in `ui`."""
OLDEST_NODE = (20, 19)


def _missing() -> str | None:
    """Say what this machine lacks for the suite."""
    chromium = os.environ.get("CHROMIUM", "/usr/bin/chromium")
    if not Path(chromium).exists():
        return f"there is no Chromium at {chromium} (apt-get install chromium, or name one in CHROMIUM)"
    if shutil.which("npm") is None or shutil.which("node") is None:
        return "there is no Node with npm in PATH"
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    found = tuple(int(part) for part in version.lstrip("v").split(".")[:2])
    if found < OLDEST_NODE:
        return f"Node is {version}, and the UI is built with {'.'.join(map(str, OLDEST_NODE))} or newer"
    return None


@pytest.fixture(scope="module")
def built() -> None:
    """Build the UI as `make ui` does, unless the build is that of its sources."""
    if reason := _missing():
        if REQUIRED:
            pytest.fail(reason)
        pytest.skip(reason)
    if not (UI / "node_modules" / ".package-lock.json").exists():
        _npm("ci", "--ignore-scripts", "--no-audit", "--no-fund")
    made_from = _sources()
    if not KEPT.exists() or KEPT.read_text().strip() != made_from:
        _npm("run", "build")
        _sources(made_from)


def _sources(*words: str) -> str:
    """Ask the digest of the sources, or write one into the build, as `make ui` does."""
    program = [sys.executable, str(UI / "sources.py"), *words]
    return subprocess.run(program, capture_output=True, text=True, check=True).stdout.strip()


def _npm(*words: str, **environ: str) -> None:
    done = subprocess.run(
        ["npm", "--silent", *words],
        cwd=UI,
        env={**os.environ, "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD": "1", "CI": "1", **environ},
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )
    if done.returncode:
        pytest.fail(
            f"npm {' '.join(words)} failed\n{done.stdout[-20_000:]}\n{done.stderr[-5_000:]}", pytrace=False
        )


def test_units(built: None) -> None:
    _npm("run", "test")


@pytest.mark.timeout(LONGEST + 60)
def test_what_people_do_first_in_chromium(built: None) -> None:
    """Do what people do first, and hold axe to each kind of page, on some in both themes and at two widths."""
    _npm("run", "e2e", "--", *PLAIN, "--grep", "@gate", **({} if WHOLE else {"NOETL_UI_LOOKS": "sample"}))


@pytest.mark.full
@pytest.mark.timeout(LONGEST + 60)
def test_the_rest_in_chromium(built: None) -> None:
    """Hold the targets of sizes and times; play drafts, two tabs, bulk actions, charts, logs, letters, restarts, and axe in dialogs."""
    _npm("run", "e2e", "--", "--grep-invert", "@gate")
