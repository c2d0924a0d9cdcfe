"""``noetl test --live``: a kind that may reach outside does, with the credentials of a local run; nothing else does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from noetl.cli import main
from tests import forked
from tests.integration.examples.api import EXAMPLES, Api, ApiServer

SIGNED = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: signed }
workload: { base: "" }
workflow:
  - step: start
    tool: { kind: http, url: "{{ workload.base }}/me", auth: me }
"""


@pytest.fixture
def api():
    with ApiServer(Api()) as api:
        yield api


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """``noetl test`` in this process: what it returns, and what it printed."""
    monkeypatch.chdir(tmp_path)

    def test(*words: str, **environment: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["noetl", "test", *words])
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        code = main.main()
        return code, "".join(capsys.readouterr())

    return test


def run(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return forked.noetl("test", *words, env={**os.environ, **environment}, cwd=folder)


def test_an_example_against_its_service(api: Api, tmp_path: Path, here) -> None:
    api.serve("weather_loop")
    tests = tmp_path / "weather_loop.test.yaml"
    tests.write_text(
        f"playbook: {EXAMPLES}/weather_loop/weather_loop.yaml\n"
        f"defaults: {{ payload: {{ base: {api.base}, first_delay: 600 }} }}\n"
        "cases: [{ name: real, expect: { path: [start, report], result_has: { cities: 3 } } }]\n"
    )

    code, printed = here()
    live = run(tmp_path, "--live", "http")

    assert code == 1
    assert "or run it for real: --live http" in printed
    assert live.returncode == 0, live.stdout + live.stderr
    assert len(api.asked("/weather/")) > 3


def test_live_calls_sign_in(api: Api, tmp_path: Path, here) -> None:
    api.on("/me", lambda asked: (200, {"authorization": asked.headers.get("authorization")}))
    (tmp_path / "signed.yaml").write_text(SIGNED)
    (tmp_path / "signed.test.yaml").write_text(
        f"cases: [{{ name: real, payload: {{ base: {api.base} }} }}]\n"
    )
    credentials = tmp_path / "credentials.yaml"
    credentials.write_text("me: { type: bearer, data: { token: not-a-real-one } }\n")
    credentials.chmod(0o600)

    code, printed = here("--live", "http", NOETL_CREDENTIALS=str(credentials))

    assert code == 0, printed
    assert api.asked("/me")[0].headers["authorization"] == "Bearer not-a-real-one"
    assert here("--live", "http", NOETL_CREDENTIALS="")[0] == 1, "without credentials it cannot sign in"
