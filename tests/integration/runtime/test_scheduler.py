"""Local schedulers over one real database: what is due starts once, and runs to its end."""

from __future__ import annotations

import threading
import time

import pytest
from msgspec.structs import replace

from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from noetl.services.automations.register_schedules import register_schedule
from tests.waiting import wait_until

pytestmark = pytest.mark.postgres
PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: tick
  schedule: { rate: 1 hour, payload: { word: fired } }
workflow:
  - step: start
    tool: { kind: noop, args: { said: "{{ workload.word }}" } }
"""


def test_several_schedulers_fire_a_moment_once(database, tmp_path):
    settings = Settings(home=tmp_path, database_url=database)
    told, lines, lock = [], [], threading.Lock()

    def fired(one):
        with lock:
            told.append(one)

    with (
        LocalRuntime(settings, on_fired=fired, on_log=lines.append) as runtime,
        LocalRuntime(settings, on_fired=fired, on_log=lines.append),
    ):
        entry = runtime.register(PLAYBOOK, source_name="tick.yaml")
        program, table = runtime.programs(entry.program), runtime.opened.schedules
        row = register_schedule(entry.path, program, store=table, schedules=None, now=time.time())

        def executions():
            return runtime.store.executions(limit=20)

        def rows():
            return table.entries(limit=9, after="tick")

        due = float(int(time.time()) - 10)
        for number in range(3):
            table.put(replace(row, name=f"tick-{number}", next_at=due))
        wait_until(lambda: [one.status for one in executions()] == ["completed"] * 3)
        wait_until(lambda: [one.last_at for one in rows()] == [due] * 3)
        assert {one.last_execution for one in rows()} == {one.execution_id for one in executions()}
        assert all(one.next_at > time.time() for one in rows())
        assert sum(one.event is not None for one in told) == 3
        assert table.get("tick").last_at is None, "it is due in an hour"
    assert not lines
