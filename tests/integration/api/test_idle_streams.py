"""What 200 idle streams of changes cost the program ``noetl serve``: at most a hundredth of a processor, and no thread."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.api.test_serve import Client
from tests.waiting import PATIENCE, wait_until

pytestmark = [
    pytest.mark.full,
    pytest.mark.postgres,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs the counts of processes in /proc"),
]

STREAMS = 200
MOST = 0.01
"""Of a processor, beside what the server takes without streams."""
SECONDS = 5.0
ROUNDS = 4
"""Other work on the machine makes a round dearer (cold caches), and never cheaper: the first that is cheap enough is enough."""
TICKS = os.sysconf("SC_CLK_TCK")
HELLO = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: hello, path: demo/hello }
workflow: [{ step: start, tool: { kind: noop } }]
"""


class Program:
    """The program in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], home: Path) -> None:
        assert process.stdout is not None
        self.pid, self.address = process.pid, json.loads(process.stdout.readline())["address"]
        self.token = (home / "token").read_text().strip()

    def threads(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/task").iterdir()))

    def processor_seconds(self) -> float:
        """Read how long the process has run, its threads that ended included."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def share(self) -> float:
        """Measure which share of a processor it takes."""
        began, before = time.monotonic(), self.processor_seconds()
        time.sleep(SECONDS)
        return (self.processor_seconds() - before) / (time.monotonic() - began)

    def watch(self, topics: str, held: ExitStack) -> socket.socket:
        """Open a stream."""
        host, _, port = self.address.removeprefix("http://").rpartition(":")
        connection = held.enter_context(socket.create_connection((host, int(port)), timeout=PATIENCE))
        head = f"GET /api/stream?topics={topics} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.token}\r\n\r\n"
        connection.sendall(head.encode())
        return connection


@pytest.fixture
def program(database: str, tmp_path: Path) -> Iterator[Program]:
    home = tmp_path / "home"
    process = subprocess.Popen(
        [sys.executable, "-m", "noetl.cli", "serve", "--port", "0", "--json"],
        env={**os.environ, "NOETL_HOME": str(home), "NOETL_DATABASE_URL": database},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield Program(process, home)
    finally:
        process.terminate()
        process.wait(PATIENCE)
        assert process.stdout is not None
        process.stdout.close()


def test_two_hundred_idle_streams_take_a_hundredth_of_a_processor_and_no_thread(program):
    client = Client(program.address, program.token)
    client.register(HELLO)
    ids = [client.start("demo/hello") for _ in range(20)]
    for one in ids:
        client.until(one, "completed")
    without, threads = min(program.share() for _ in range(2)), program.threads()
    with ExitStack() as held:
        topics = [f"executions,execution:{ids[number % len(ids)]}" for number in range(STREAMS)]
        for connection in [program.watch(one, held) for one in topics]:
            read = b""
            while read.count(b'"topic"') < 2:
                part = connection.recv(65536)
                assert part, read
                read += part
        wait_until(lambda: program.threads() <= threads + 1, "no thread but the one that asks the database")
        shares: list[float] = []
        while len(shares) < ROUNDS and min(shares, default=1.0) - without > MOST:
            shares.append(program.share())
        assert program.threads() <= threads + 1
    print(f"without streams {without:.2%}, with {STREAMS} {', '.join(f'{one:.2%}' for one in shares)}")
    assert min(shares) - without <= MOST, (without, shares)
