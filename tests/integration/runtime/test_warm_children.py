"""Many executions at once share few idle children: each begins with one and keeps it to its end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from noetl.kinds.sandbox import pool as pools
from noetl.kinds.sandbox.child import Child, Owner
from noetl.runtime.local.pools_of_process import kept_children
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from noetl.services.history.replay import replay
from noetl.services.worker import ready_commands
from tests.bench.playbooks import chain
from tests.waiting import PATIENCE

pytestmark = pytest.mark.postgres

LOOP = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: loop, path: loop }
workflow:
  - step: start
    loop: { in: "{{ range(40) | list }}", iterator: item, mode: parallel }
    tool: { kind: python, process: execution, args: { n: "{{ item }}" }, code: "result = n" }
"""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Children made so far, by execution; the pool of this process keeps few, and nobody begins because it has waited for long."""
    found: Counter[int] = Counter()
    start = pools._start

    def counted(owner: Owner) -> Child:
        found[owner.execution_id] += 1
        return start(owner)

    monkeypatch.setattr(pools, "_start", counted)
    monkeypatch.setattr(ready_commands, "PATIENCE", 100 * PATIENCE)
    return found


def test_each_of_64_executions_at_once_makes_one_child(
    tmp_path: Path, database: str, made: Counter[int]
) -> None:
    settings = Settings.from_env({"NOETL_PYTHON_WORKERS": "4"}, home=tmp_path, database_url=database)
    count = max(64, 2 * kept_children())
    with LocalRuntime(settings) as runtime:
        entry = runtime.register(chain(3, "python-own"), source_name="chain.yaml")
        found = runtime.start_many(entry, [{}] * count)
        runtime.run_until(found, timeout=PATIENCE)
        assert {runtime.status(one) for one in found} == {"completed"}
        assert made == dict.fromkeys(found, 1)
        assert replay(runtime.store, found[-1]).agrees


def test_a_loop_does_not_keep_others_from_ending(tmp_path: Path, database: str, made: Counter[int]) -> None:
    settings = Settings.from_env({"NOETL_PYTHON_WORKERS": "2"}, home=tmp_path, database_url=database)
    with LocalRuntime(settings) as runtime:
        loop = runtime.register(LOOP, source_name="loop.yaml")
        small = runtime.register(chain(2, "python-own"), source_name="chain.yaml")
        loops = runtime.start_many(loop, [{}, {}])
        found = runtime.start_many(small, [{}] * 20)
        runtime.run_until([*loops, *found], timeout=PATIENCE)
        assert {runtime.status(one) for one in (*loops, *found)} == {"completed"}
        assert all(made[one] == 1 for one in found)
        assert all(made[one] <= 2 for one in loops), "one for each thread"
