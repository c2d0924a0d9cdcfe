"""Compiled programs that somebody changed in the home folder, met by real processes of ``noetl``: what was registered is what runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from noetl.domain.capability_tokens import KeyRing, sign_program
from tests.forked import Forked
from tests.integration.api.test_serve import Client
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
NOT_OURS = "was not written by this home folder's noetl"


def playbook(name: str, said: str = "honest") -> str:
    return (
        f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: {name}, path: demo/{name} }}\n"
        f"workflow: [{{ step: start, tool: {{ kind: noop, args: {{ said: '{said} {name}' }} }} }}]\n"
    )


@contextmanager
def serving(home: Path, database: str, told: Path) -> Iterator[Client]:
    """A server in a process of its own; ``told``: the file that takes its log."""
    environ = {**os.environ, "NOETL_DATABASE_URL": database, "NOETL_HOME": str(home)}
    process = Forked("noetl.cli.main", argv=("serve", "--port", "0", "--json"), env=environ, errors=told)
    try:
        address = json.loads(process.stdout.readline())["address"]
        yield Client(address, (home / "token").read_text().strip())
        process.terminate()
        process.wait(PATIENCE)
    finally:
        process.kill()


def entry(home: Path, mark: str) -> Path:
    """The cached program that says ``mark``."""
    (found,) = [
        one for one in (home / "cache/programs").iterdir() if f"'{mark}'" in one.read_text().replace('"', "'")
    ]
    return found


Attack = Callable[[Path, str], None]


def rewrite(change: Callable[[bytes], bytes]) -> Attack:
    def attack(home: Path, name: str) -> None:
        path = entry(home, f"honest {name}")
        before = path.read_bytes()
        path.write_bytes(change(before))
        assert path.read_bytes() != before

    return attack


def swap(home: Path, name: str) -> None:
    """Both are signed by this home folder, each for another playbook."""
    one, other = entry(home, f"honest {name}"), entry(home, "honest second")
    kept = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(kept)


def replay(home: Path, name: str) -> None:
    """An older version of the same playbook, in the place of the newer one."""
    entry(home, f"honest {name}").write_bytes(entry(home, f"older {name}").read_bytes())


def sign_again(home: Path, name: str) -> None:
    """Signed as it should be, with the key of another home folder."""
    path = entry(home, f"honest {name}")
    data = path.read_bytes().partition(b"\n")[2].replace(b"honest", b"forged")
    path.write_bytes(sign_program(path.name, data, KeyRing.of(["ab" * 32])).encode() + b"\n" + data)


ATTACKS: dict[str, Attack] = {
    "altered": rewrite(lambda data: data.replace(b"honest", b"forged, and longer")),
    "same_length": rewrite(lambda data: data.replace(b"honest", b"forged")),
    "unsigned": rewrite(lambda data: data.partition(b"\n")[2].replace(b"honest", b"forged")),
    "without_a_token": rewrite(lambda data: b"\n" + data.partition(b"\n")[2].replace(b"honest", b"forged")),
    "first": swap,
    "replayed": replay,
    "other_key": sign_again,
}
MEANT = [*ATTACKS, "second"]


def test_a_server_runs_what_was_registered(database, tmp_path):
    home, told = tmp_path / "home", tmp_path / "log"
    with serving(home, database, told) as client:
        client.register(playbook("replayed", "older"))
        for name in MEANT:
            client.register(playbook(name))
    assert NOT_OURS not in told.read_text()
    places = {name: entry(home, f"honest {name}") for name in MEANT}
    for name, attack in ATTACKS.items():
        attack(home, name)
    with serving(home, database, told) as client:
        for name in MEANT:
            execution_id = client.start(f"demo/{name}")
            client.until(execution_id, "completed", "failed")
            assert client("GET", f"/api/executions/{execution_id}/result")[1]["result"] == {
                "said": f"honest {name}"
            }
    lines = [line for line in told.read_text().splitlines() if NOT_OURS in line]
    for name, path in places.items():
        (line,) = [one for one in lines if str(path) in one]
        assert "compiled again" in line and "noetl doctor" in line, name
        assert f"honest {name}" in path.read_text(), "the honest program is in its place again"
    assert len(lines) == len(places)


@pytest.mark.full
def test_a_run_of_a_file_runs_the_file(database, tmp_path):
    home, file = tmp_path / "home", tmp_path / "flow.yaml"
    file.write_text(playbook("alone"))
    environment = {**os.environ, "NOETL_DATABASE_URL": database, "NOETL_HOME": str(home)}

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "noetl.cli", "run", str(file), "--json"],
            env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip

    assert NOT_OURS not in run().stderr
    path = entry(home, "honest alone")
    ATTACKS["same_length"](home, "alone")
    done = run()
    assert done.returncode == 0 and "honest alone" in done.stdout and "forged" not in done.stdout
    (line,) = [one for one in done.stderr.splitlines() if NOT_OURS in one]
    assert str(path) in line and "noetl doctor" in line
