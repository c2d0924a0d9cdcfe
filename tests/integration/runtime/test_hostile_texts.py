"""Texts that JSON can hold and Postgres' operators cannot, in every place where a playbook's data meets the store."""

from __future__ import annotations

import time

import pytest

from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from noetl.services.queries.read_execution import list_executions
from tests.waiting import wait_until

pytestmark = pytest.mark.postgres
HOSTILE = {"nul": "x\0y", "half": "x\ud800y", "digits": 10**3999, "\udfff\0": "\u202e"}
CHILD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: child, path: hostile/child }
executor: { spec: { concurrency: { key: "one", limit: 1 } } }
workflow:
  - step: start
    spec: { mutex: "seat {{ workload.half }}" }
    tool: { kind: wait, callback: true }
"""
PARENT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: parent, path: hostile/parent }
workflow:
  - step: start
    tool: { kind: playbook, path: hostile/child, args: "{{ workload }}" }
"""


def test_families_that_hold_hostile_texts_are_cancelled_whole(database, tmp_path):
    """One child waits at its lock's step, the other is queued: both end with their parents, and all are listed."""
    settings = Settings(home=tmp_path, database_url=database)
    lines: list[str] = []
    with LocalRuntime(settings, on_log=lines.append) as runtime:
        runtime.register(CHILD, source_name="child.yaml")
        entry = runtime.register(PARENT, source_name="parent.yaml")
        parents = runtime.start_many(entry, [HOSTILE, HOSTILE])

        def shown():
            return {
                int(one.execution_id): one
                for one in list_executions(runtime.store, limit=10, now=time.time())
            }

        children = wait_until(lambda: len(shown()) == 4 and shown().keys() - set(parents))
        wait_until(lambda: {shown()[child].status for child in children} == {"waiting", "queued"})
        for parent in parents:
            runtime.cancel(parent, "enough \0 \ud800", "me")
        everyone = {*parents, *children}
        wait_until(lambda: {runtime.status(one) for one in everyone} == {"cancelled"})
        assert all(one.unreadable is None for one in shown().values())
    assert not [line for line in lines if "could not be handled" in line], lines
