"""A worker that installs no libraries refuses the tasks that import them."""

from __future__ import annotations

from noetl.dsl.compiler import compile_playbook
from noetl.kinds.registry import default_registry
from tests.unit.services.worker.test_run_command import ONE, Worker

TEXT = f"""\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: t }}
executor: {{ spec: {{ requirements: [colours] }} }}
workflow:
  - step: s
    tool: {{ kind: python, code: result = 1 }}
--- # files of this version
requirements.lock: |
  # noetl lock 1
  # requires: colours
  colours==1.0 --hash=sha256:{"0" * 64}
"""


def test_a_task_with_libraries_is_refused_with_its_place_and_a_remedy() -> None:
    worker = Worker(ONE, registry=default_registry())
    worker.program = compile_playbook(TEXT, source_name="t.yaml", kinds=default_registry()).program
    error = worker.outcome().error
    assert error is not None
    assert (error.kind, error.code) == ("unsupported", "libraries_unavailable")
    assert error.position == "t.yaml:7:13" and "executor.spec.requirements" in (error.hint or "")
