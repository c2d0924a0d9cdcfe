"""`noetl local up --endpoint`: the stacks on an emulator that is started by hand and that nothing was added to, with a database of one's own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl.local.emulator import free_port
from noetl.local.tools import emulator_python
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: hi, path: hi }
workflow:
  - step: start
    tool: { kind: python, code: "result = {'n': 6 * 7}" }
"""
START = "import ministack.app; ministack.app.main()"
UP_SECONDS = 800


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[str]:
    """The emulator as its package has it, and its address."""
    port = free_port()
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "MINISTACK_HOST": "127.0.0.1",
        "MINISTACK_REGION": "us-east-1",
        "MINISTACK_ACCOUNT_ID": "000000000000",
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    with (tmp_path / "emulator.log").open("wb") as log:
        process = subprocess.Popen(
            [str(emulator_python(lambda phrase: None)), "-c", START],
            env=variables,
            stdout=log,
            stderr=log,
            cwd=tmp_path,
            start_new_session=True,
        )
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, 9)
            process.wait()


def call(url: str, body: bytes | None = None, kind: str = "application/json") -> Any:
    request = urllib.request.Request(url, data=body, headers={"Content-Type": kind})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node for the CDK command line")
def test_the_stacks_run_on_an_emulator_as_its_package_has_it(
    emulator: str, database: str, tmp_path: Path
) -> None:
    wait_until(lambda: _answers(emulator), seconds=60)
    command = [sys.executable, "-m", "noetl.cli", "local", "up", "--json", "--project", str(ROOT)]
    command += ["--home", str(tmp_path / "home"), "--endpoint", emulator, "-c", f"database_url={database}"]
    up = subprocess.run(command, capture_output=True, text=True, timeout=UP_SECONDS, check=False)
    assert up.returncode == 0, up.stdout[-1500:] + up.stderr[-4000:]
    api = json.loads(up.stdout.splitlines()[-1])["api"]
    call(f"{api}/api/catalog/register", PLAYBOOK.encode(), "application/yaml")
    started = call(f"{api}/api/executions", b'{"path": "hi"}')["execution_id"]
    wait_until(lambda: call(f"{api}/api/executions/{started}/status")["ended"], seconds=180)
    assert call(f"{api}/api/executions/{started}/result")["result"] == {"n": 42}


def _answers(endpoint: str) -> bool:
    try:
        urllib.request.urlopen(endpoint, timeout=5).close()
    except OSError as error:
        return hasattr(error, "code")  # it answers, if only with a refusal
    return True
