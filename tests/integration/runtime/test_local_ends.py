"""What is kept for an execution goes as it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.kinds.sandbox.pool import shared_pool
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.postgres

TEXT = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: one, path: one }
workflow:
  - step: start
    tool: { kind: python, code: "result = 1" }
    next: { arcs: [{ step: then }] }
  - step: then
    tool: { kind: python, code: "result = 2" }
"""


def test_the_process_of_an_execution_ends_with_it(tmp_path: Path, database: str) -> None:
    with LocalRuntime(Settings.from_env({}, home=tmp_path, database_url=database)) as runtime:
        entry = runtime.register(TEXT, source_name="one.yaml")
        found = set(runtime.start_many(entry, [{}, {}, {}]))
        runtime.run_until(found, timeout=PATIENCE)
        wait_until(
            lambda: not [idle for idle in shared_pool()._idle if idle.child.owner.execution_id in found],
            "the end of their processes",
        )
