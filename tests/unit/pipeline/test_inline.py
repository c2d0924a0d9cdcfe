"""Pipelines that the engine runs itself: what its tasks cannot read is answered like a failure at a worker."""

from __future__ import annotations

import pytest

from noetl.domain.commands import Command, FrozenScope
from noetl.domain.errors import TaskError
from noetl.domain.results.references import make_ref, ref_uri
from noetl.pipeline import run_inline
from tests.unit.pipeline.conftest import compile_text

GONE = make_ref(ref_uri(1, "load", "value:1"), store="file", size=40_000, sha256="0" * 64, value=[1])
RULED = """workload: { path: a, payload: {} }
workflow:
  - step: start
    tool:
      - sub:
          kind: playbook
          path: "{{ workload.path }}"
          payload: "{{ workload.payload }}"
          spec:
            policy:
              rules:
                - when: "{{ outcome.error.code == 'REFERENCE_NOT_AVAILABLE' }}"
                  then: { do: continue, set_ctx: { told: "{{ outcome.error.code }}" } }
      - after: { kind: noop, args: { n: 1 } }
"""


def gone(ref):
    raise TaskError("the object is gone", kind="storage_access", code="REFERENCE_NOT_AVAILABLE")


@pytest.mark.parametrize("name", ["path", "payload"])
def test_a_parameter_whose_value_is_gone_is_a_failure_that_rules_answer(name: str) -> None:
    program = compile_text(RULED)
    scope = FrozenScope(workload={"path": "a/b", "payload": {}, name: GONE})
    command = Command(1, "1", 1, "start", program.hash, "control", scope=scope)
    outcome = run_inline(program, program.step("start"), command, hydrate=gone)
    assert (outcome.status, outcome.result) == ("ok", {"n": 1})
    assert [(patch.name, patch.value) for patch in outcome.patches] == [("told", "REFERENCE_NOT_AVAILABLE")]
