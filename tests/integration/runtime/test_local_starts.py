"""Starts of one machine: each payload gets an execution of its own, whatever chance gives."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from noetl.runtime import local_starts
from noetl.runtime.local import LocalRuntime
from noetl.runtime.settings import Settings
from tests.waiting import PATIENCE

pytestmark = pytest.mark.postgres

TEXT = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: one, path: one }
workflow:
  - step: start
    tool: { kind: noop, args: { n: "{{ workload.n }}" } }
"""


@pytest.mark.parametrize("limit", ["", "executor: { spec: { concurrency: { key: k, limit: 50 } } }\n"])
def test_starts_that_draw_the_same_id_become_executions_of_their_own(
    limit: str, tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = itertools.chain([5, 5, 5, 9, 5, 9], itertools.count(10))
    monkeypatch.setattr(local_starts, "random_bits", lambda: next(drawn))
    monkeypatch.setattr(local_starts.time, "time_ns", lambda: 1_800_000_000_000_000_000)
    with LocalRuntime(Settings.from_env({}, home=tmp_path, database_url=database)) as runtime:
        entry = runtime.register(TEXT + limit, source_name="one.yaml")
        found = runtime.start_many(entry, [{"n": number} for number in range(3)])
        found.append(runtime.start(entry, {"n": 3}))
        runtime.run_until(found, timeout=PATIENCE)
        assert len(set(found)) == 4
        slots = [runtime.store.slots(one) for one in found]
        assert [one["workload", "n"] for one in slots] == [0, 1, 2, 3]
