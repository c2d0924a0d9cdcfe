"""The template of docs/own-kind.md, installed as anybody would install it, and used by a playbook."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[3]
PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: visits, path: visits }
workflow:
  - step: count
    loop: { in: [5, 6], iterator: n, spec: { mode: sequential } }
    tool: { kind: redis, auth: cache, command: [INCRBY, visits, "{{ iter.n }}"] }
    next: { arcs: [{ step: read }] }
  - step: read
    tool: { kind: redis, auth: cache, cmd: [GET, visits] }
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package is installed: a folder of its own, so that no other test meets the kind."""
    folder = tmp_path_factory.mktemp("own")
    shutil.copytree(ROOT / "docs" / "own-kind", folder / "package")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
    ]
    place = ["--disable-pip-version-check", "--target", str(folder / "site"), str(folder / "package")]
    done = subprocess.run([*command, *place], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def redis() -> Iterator[int]:
    """The port of a server that knows AUTH, INCRBY and GET."""
    values: dict[bytes, int] = {}

    def answer(words: list[bytes]) -> bytes:
        if words[0] == b"AUTH":
            return b"+OK\r\n" if words[1] == b"sesame-open" else b"-WRONGPASS invalid password\r\n"
        if words[0] == b"INCRBY":
            values[words[1]] = values.get(words[1], 0) + int(words[2])
            return b":%d\r\n" % values[words[1]]
        if words[0] == b"GET":
            text = str(values[words[1]]).encode()
            return b"$%d\r\n%s\r\n" % (len(text), text)
        return b"-ERR unknown command\r\n"

    def talk(peer: socket.socket) -> None:
        with peer, peer.makefile("rb") as told:
            while line := told.readline():
                words = []
                for _ in range(int(line[1:])):
                    words.append(told.read(int(told.readline()[1:]) + 2)[:-2])
                peer.sendall(answer(words))

    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(peer,), daemon=True).start()

    accepting = threading.Thread(target=serve, daemon=True)
    accepting.start()
    yield listener.getsockname()[1]
    # Closed alone, it would go on to listen while the thread waits, and take connections of later tests.
    listener.shutdown(socket.SHUT_RDWR)
    accepting.join(PATIENCE)
    listener.close()


@pytest.fixture(scope="module")
def noetl(site: Path, redis: int, module_database: str, tmp_path_factory: pytest.TempPathFactory):
    home = tmp_path_factory.mktemp("home")
    credential = {"type": "generic", "data": {"host": "127.0.0.1", "port": redis, "password": "sesame-open"}}
    (home / "credentials.json").write_text(json.dumps({"cache": credential}))
    (home / "visits.yaml").write_text(PLAYBOOK)
    (home / "wrong.yaml").write_text(PLAYBOOK.replace("cmd:", "cmmand:"))
    (home / "refused.yaml").write_text(PLAYBOOK.replace("cmd: [GET, visits]", "cmd: [FLUSHALL]"))
    paths = os.pathsep.join([str(site), str(ROOT / "layers" / "core" / "python")])
    settings = {
        "PYTHONPATH": paths,
        "NOETL_HOME": str(home / "noetl"),
        "NOETL_DATABASE_URL": module_database,
        "NOETL_CREDENTIALS": str(home / "credentials.json"),
    }

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "noetl.cli", *words]
        return subprocess.run(
            command,
            cwd=home,
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    return run


@pytest.mark.postgres
def test_a_playbook_uses_it(noetl):
    done = noetl("run", "visits.yaml", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    ended = json.loads(done.stdout.splitlines()[-1])
    assert (ended["status"], ended["result"]) == ("completed", "11")
    assert "sesame-open" not in done.stdout + done.stderr


@pytest.mark.full
@pytest.mark.postgres
def test_its_errors_are_the_tasks(noetl):
    done = noetl("run", "refused.yaml", "--json")
    assert done.returncode == 1
    error = json.loads(done.stdout.splitlines()[-1])["error"]
    assert (error["kind"], error["code"]) == ("client_error", "redis_error")


@pytest.mark.full
def test_its_parameters_are_checked_where_they_stand(noetl):
    done = noetl("validate", "wrong.yaml")
    assert done.returncode == 2
    assert "wrong.yaml:10:" in done.stdout + done.stderr and "cmmand" in done.stdout + done.stderr
    assert "Sends a command to Redis." in noetl("schema").stdout
