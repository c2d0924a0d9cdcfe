"""Start and health check of the AWS emulator."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import shutil
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

from noetl.domain.errors import InfrastructureError
from noetl.local import database
from noetl.local.layout import Layout
from noetl.local.state import Process, end, process, runs
from noetl.local.tools import Progress, emulator_python, functions_python

HOST = "127.0.0.1"
REGION = "us-east-1"
ACCOUNT = "000000000000"
PORTS = (20_000, 32_000)
START_SECONDS = 60.0
POLL_SECONDS = 0.05
LONGEST_ANSWER = 4096
LOG_LIMIT = 5 * 1024 * 1024
BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from noetl_emulator.main import main; main()"
GUEST = Path(__file__).parent
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""All that functions see of the caller's environment: they inherit the emulator's."""


def credentials(endpoint: str) -> dict[str, str]:
    """Return the environment in which AWS's tools and libraries talk to the emulator.

    It overrides the user's profile.
    """
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_SESSION_TOKEN": "",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def environment(layout: Layout, port: int, node_modules: Path) -> dict[str, str]:
    """The emulator's own environment variables, and so its functions'."""
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {
        **passed,
        "BIND_HOST": HOST,
        "GATEWAY_PORT": str(port),
        "MINISTACK_HOST": HOST,
        "MINISTACK_REGION": REGION,
        "MINISTACK_ACCOUNT_ID": ACCOUNT,
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "TMPDIR": str(layout.scratch),
        "PERSIST_STATE": "1",
        "STATE_DIR": str(layout.objects / "state"),
        "S3_PERSIST": "1",
        "S3_DATA_DIR": str(layout.objects / "s3"),
        "NODE_PATH": str(node_modules),
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_EC2_METADATA_DISABLED": "true",
        "LOG_LEVEL": "INFO",
        "PYTHONUNBUFFERED": "1",
    }


def spawn(
    layout: Layout,
    port: int,
    postgres_port: int,
    node_modules: Path,
    progress: Progress,
    site: Path | None = None,
) -> Process:
    """Start the emulator in the background, as the leader of its own process group.

    Raises InfrastructureError.
    ``site``: a site folder that every Python function gets (modules it can import, .pth files that are executed).
    Record the returned process before ``wait``: from now on there is something to stop.
    """
    python = emulator_python(progress)
    config = {
        "runtime_python": str(functions_python(progress)),
        "site": None if site is None else str(site),
        "layers": str(layout.unpacked_layers),
        "ignored": str(layout.ignored),
        "postgres": {"host": database.HOST, "port": postgres_port},
        "grant": database.grant_command(layout),
    }
    shutil.rmtree(layout.scratch, ignore_errors=True)
    layout.scratch.mkdir(parents=True, mode=0o700)
    layout.emulator_config.write_text(json.dumps(config, indent=2))
    command = [str(python), "-c", BOOT, str(GUEST), str(layout.emulator_config)]
    if layout.emulator_log.exists() and layout.emulator_log.stat().st_size > LOG_LIMIT:
        layout.emulator_log.replace(layout.emulator_log.with_suffix(".log.1"))
    with layout.emulator_log.open("ab") as log:
        started = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=layout.root,
            env=environment(layout, port, node_modules),
        )
    found = process(started.pid)
    if found is None:
        raise _ended(layout)
    started.returncode = 0  # it outlives us on purpose; nobody waits for it
    return found


def answers(endpoint: str, timeout: float = 2.0) -> bool:
    """Whether an emulator (this one or LocalStack) answers at this URL."""
    return status_of(endpoint, "/_localstack/health", timeout) == 200


def status_of(endpoint: str, path: str, timeout: float) -> int | None:
    """Return the status of a GET; None when no server answers."""
    answer = ask(endpoint, path, timeout)
    return None if answer is None else answer[0]


def ask(endpoint: str, path: str, timeout: float) -> tuple[int, str] | None:
    """Return status and text of a GET; None when no server answers."""
    url = urlsplit(endpoint)
    maker = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = maker(url.hostname or HOST, url.port, timeout=timeout)
    with contextlib.closing(connection):
        try:
            connection.request("GET", f"{url.path.rstrip('/')}{path}")
            answer = connection.getresponse()
            return answer.status, answer.read(LONGEST_ANSWER).decode(errors="replace")
        except (OSError, http.client.HTTPException):
            return None


def port_is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """Return a port without a listener, below those that outgoing connections take."""
    while True:
        port = random.randrange(*PORTS)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port


def wait(started: Process, endpoint: str, layout: Layout) -> None:
    """Return when the emulator answers.

    Raises InfrastructureError when it ended or stays silent.
    """
    deadline = time.monotonic() + START_SECONDS
    while not answers(endpoint):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(started.pid, os.WNOHANG)
        if not runs(started):
            raise _ended(layout)
        if time.monotonic() > deadline:
            end(started)
            raise InfrastructureError(
                f"the emulator does not answer at {endpoint}",
                code="emulator_start",
                hint=f"its log: {layout.emulator_log}",
            )
        time.sleep(POLL_SECONDS)


def _ended(layout: Layout) -> InfrastructureError:
    text = layout.emulator_log.read_text(errors="replace")[-2000:]
    return InfrastructureError(
        f"the emulator did not start; the end of its log:\n{text}",
        code="emulator_start",
        hint=f"the whole log: {layout.emulator_log}",
        retryable=False,
    )
