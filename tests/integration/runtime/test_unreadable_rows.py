"""One execution of several has rows that cannot be read: a process adopts and completes the others, and the commands show them all."""

from __future__ import annotations

import json
import logging
import sys

import psycopg
import pytest

from noetl.cli.main import main
from noetl.ports.executions.execution_store import CreatedExecution
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from noetl.services.executions.start_execution import start_event
from tests.waiting import PATIENCE

pytestmark = pytest.mark.postgres
PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: hello }
workflow:
  - step: start
    tool: { kind: python, code: "result = 1" }
"""
IDS = 5


def damage(database: str, statement: str, *values: object) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        assert connection.execute(statement, values).rowcount == 1


def test_a_process_completes_what_it_can_read(database, tmp_path, capsys, caplog, monkeypatch):
    settings = Settings(home=tmp_path, database_url=database)
    monkeypatch.setenv("NOETL_DATABASE_URL", database)
    lines: list[str] = []
    with LocalRuntime(settings, on_log=lines.append) as runtime:
        entry = runtime.register(PLAYBOOK, source_name="hello.yaml")
        program = runtime.programs(entry.program)
        made = [start_event(program, {}, now_ms=1_800_000_000_000, random_bits=bits) for bits in range(IDS)]
        ids = [start.execution_id for start in made]
        done = runtime.start(entry, {})
        runtime.run_until([done], timeout=PATIENCE)
        # Left in the outbox by a process that died.
        for start in made:
            runtime.store.create(start, CreatedExecution(entry.path, "hello"), "until:1:dead")
        damage(database, "UPDATE noetl.execution SET state = '[]' WHERE execution_id = %s", done)
        damage(database, "UPDATE noetl.outbox SET payload = '{}' WHERE execution_id = %s", ids[2])
        good = [one for one in ids if one != ids[2]]
        with caplog.at_level(logging.ERROR):
            runtime.recover()
            runtime.run_until(good, timeout=PATIENCE)
        assert {runtime.status(one) for one in good} == {"completed"}
        assert f"event start in the outbox of execution {ids[2]} cannot be read" in caplog.text
        assert runtime.status(ids[2]) == "running"

    def noetl(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["noetl", *arguments, "--home", str(tmp_path)])
        return main(), capsys.readouterr().out

    code, out = noetl("list", "--json")
    shown = {int(one["execution_id"]): one for one in map(json.loads, out.splitlines())}
    assert code == 0 and set(shown) == {*ids, done}
    assert [one for one, summary in shown.items() if summary["unreadable"]] == [done]
    assert "completed (unreadable)" in noetl("list")[1]
    assert f"unreadable: the state of execution {done} cannot be read" in noetl("status", str(done))[1]
    code, out = noetl("replay", "--all")
    assert code == 1 and out.count("agrees") == IDS
    assert f"{IDS + 1} executions replayed, 0 differ, 1 cannot be read" in out
