"""A large result that is gone: the step that needs it fails and says who made it, and what runs again makes it anew."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.domain.kinds import KindSpec, TaskContext, TaskResult
from noetl.kinds.support.base import KindParams

STEPS = """
workflow:
  - step: start
    tool: { kind: double, value: "{{ 'x' * 40000 }}" }
    next: { arcs: [{ step: lose }] }
  - step: lose
    tool: { kind: lose }
    next: { arcs: [{ step: use }] }
  - step: use
    tool: { kind: double, value: "{{ start | length }}" }
"""
PIPELINE = """
workflow:
  - step: start
    tool:
      - made: { kind: brittle }
      - read:
          kind: double
          value: "{{ made.rows }}"
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'error' and outcome.error.code == 'REFERENCE_NOT_AVAILABLE' }}"
                  then: { do: jump, to: previous }
                - else: { then: { do: continue } }
"""


@pytest.fixture
def kinds(database) -> list[str]:
    """Kinds that lose objects, the first time they run."""
    lost: list[str] = []

    class Lose:
        SPEC = KindSpec(name="lose", summary="Loses the results of its execution once.", pool="io")
        Params = KindParams

        @staticmethod
        def run(params: Any, context: TaskContext) -> TaskResult:
            if not lost:
                lost.append(str(database.results.delete_execution(context.execution_id)))
            return TaskResult(None)

    class Brittle:
        SPEC = KindSpec(name="brittle", summary="Gives a reference, at first of what is gone.", pool="io")
        Params = KindParams

        @staticmethod
        def run(params: Any, context: TaskContext) -> TaskResult:
            with context.artifacts.create("json") as writer:
                writer.write(b'{"rows": 21}')
                ref = writer.close()
            if not lost:
                lost.append(ref["ref"])
                database.results.delete([ref["ref"]])
            return TaskResult(ref)

    database.kinds.add(Lose)
    database.kinds.add(Brittle)
    return lost


def test_a_lost_result_is_made_anew_by_a_redrive_of_the_step_that_made_it(noetl, write, kinds, monkeypatch):
    monkeypatch.setattr(
        "noetl.cli.client.local_transport.CANCEL_SECONDS", 0.0
    )  # nothing goes on here before it is followed
    failed = noetl("run", write("story.yaml", STEPS), "--json").json[-1]
    assert kinds == ["1"] and failed["status"] == "failed"
    error, execution = failed["error"], failed["execution_id"]
    assert (error["code"], error["kind"]) == ("REFERENCE_NOT_AVAILABLE", "storage_access")
    assert error["details"]["step"] == "start" and error["details"]["execution_id"] == execution
    assert error["details"]["run"] == 1
    assert f"noetl redrive {execution} --from start" in error["hint"]
    again = noetl("redrive", execution)
    assert again.code == 1, "what was under way alone does not bring it back"
    assert "--from start" in again.err
    healed = noetl("redrive", execution, "--from", "start")
    assert healed.code == 0, healed.err
    assert noetl("result", execution).json == [80_000 * 2]


def test_a_pipeline_jumps_back_to_the_task_that_made_what_is_gone(noetl, write, kinds):
    ran = noetl("run", write("jump.yaml", PIPELINE), "-q")
    assert ran.code == 0, ran.err
    assert len(kinds) == 1 and ran.json == [42]
