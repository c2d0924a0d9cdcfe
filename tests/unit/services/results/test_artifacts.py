"""Results as streams, from one task to the next."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from noetl.domain.errors import InfrastructureError
from noetl.domain.kinds import KindSpec, TaskContext, TaskResult, TaskSettings
from noetl.domain.outcomes.outcomes import Outcome
from noetl.services.queries.read_execution import resolve
from tests.unit.services.worker.test_run_command import CANARY, Kinds, Worker

LINES = b'{"n":1}\n{"n":2}\n'
BODY = """workflow:
  - step: s
    tool:
      - made: { kind: tool, make: true }
      - read: { kind: tool, source: "{{ made }}", rows: "{{ made }}", second: "{{ made[1].n }}", known: "{{ made.row_count }}" }
"""


class Streaming(Kinds):
    def spec(self, name: str) -> KindSpec:
        return KindSpec(name, "A tool.", "io", ref_fields=("source",))


def played(body: str = BODY, **given: Any) -> tuple[Outcome, Worker]:
    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        if "make" in params:
            with context.artifacts.create(given.get("format", "jsonl")) as writer:
                for line in LINES.splitlines(keepends=True):
                    writer.write(line)
                if given.get("left"):
                    return TaskResult(writer.size)
                ref = writer.close({"row_count": 2})
                return TaskResult(ref | given.get("changed", {}))
        with context.artifacts.open(params["source"]) as stream:
            begun, rest = stream.read(3), stream.read()
        with context.artifacts.file(params["source"], ".jsonl") as path:
            whole = path.read_bytes()
        return TaskResult({**params, "begun": begun.decode(), "whole": (begun + rest == whole == LINES)})

    worker = Worker(body, tool, registry=Streaming(tool), settings=TaskSettings(**given.get("settings", {})))
    if "away" in given:
        worker.results.reader = given["away"]  # type: ignore[method-assign]
    return worker.outcome(), worker


def test_bytes_flow_from_task_to_task_and_templates_see_what_they_stand_for() -> None:
    outcome, worker = played()
    assert outcome.error is None, outcome.error
    read = outcome.labels["read"]
    assert read["whole"] and read["begun"] == '{"n'
    assert (read["rows"], read["second"], read["known"]) == ([{"n": 1}, {"n": 2}], 2, 2)
    ref = read["source"]
    assert ref["meta"] == {
        "content_type": "application/x-ndjson",
        "format": "jsonl",
        "bytes": len(LINES),
        "sha256": hashlib.sha256(LINES).hexdigest(),
        "compression": None,
        "run": 1,
    }
    assert ref["preview"] == {"truncated": False, "bytes": len(LINES), "sample": LINES.decode()}
    assert worker.results.get(ref["ref"]) == LINES


@pytest.mark.parametrize("format", ["bytes", "json"])
def test_an_executions_result_shows_the_reference_of_what_is_no_value(format: str) -> None:
    """Among it what its sender called JSON, and is none."""
    outcome, worker = played(
        BODY.replace(', rows: "{{ made }}", second: "{{ made[1].n }}"', ""), format=format
    )
    ref = outcome.result["source"]
    assert resolve({"file": ref}, worker.results) == {"file": ref}


def test_what_is_left_in_the_middle_is_not_there() -> None:
    _, worker = played("workflow:\n  - step: s\n    tool: { kind: tool, make: true }\n", left=True)
    assert worker.results.delete_execution(7) == 0


@pytest.mark.parametrize(
    ("given", "kind", "code"),
    [
        ({"settings": {"artifact_max_bytes": 10}}, "storage_quota", "result_too_large"),
        ({"changed": {"sha256": "0" * 64}}, "storage_access", "REFERENCE_NOT_AVAILABLE"),
        (
            {"changed": {"ref": "noetl://execution/7/result/s/gone"}},
            "storage_access",
            "REFERENCE_NOT_AVAILABLE",
        ),
        ({"changed": {"size": 2**40}}, "storage_quota", "result_too_large_to_load"),
        ({"format": "bytes"}, "schema", "result_not_a_value"),
        ({"format": "json"}, "parse", "object_format"),
    ],
)
def test_what_cannot_be_read_says_why(given: dict[str, Any], kind: str, code: str) -> None:
    outcome, _ = played(**given)
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.code) == (kind, code)


def test_a_store_that_is_away_is_nobodys_failure() -> None:
    def away(uri: str, start: int = 0) -> Any:
        raise InfrastructureError("s3 does not answer")

    body = BODY.replace('rows: "{{ made }}", second: "{{ made[1].n }}", ', "")
    with pytest.raises(InfrastructureError):
        played(body, away=away)


@pytest.mark.parametrize(
    ("format", "shown"),
    [("text", "one *** two ***"), ("bytes", f"one {'*' * len(CANARY)} two {'*' * 2 * len(CANARY)}")],
)
def test_secrets_of_the_call_are_not_in_what_it_streams(format: str, shown: str) -> None:
    """Cut in two by whoever writes, and in hexadecimal."""
    text = f"one {CANARY} two {CANARY.encode().hex()}".encode()

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        with context.artifacts.create(format) as writer:  # type: ignore[arg-type]
            context.credential("warehouse")
            for at in range(0, len(text), 7):
                writer.write(text[at : at + 7])
            return TaskResult(writer.close())

    worker = Worker("workflow:\n  - step: s\n    tool: { kind: tool }\n", tool)
    ref = worker.outcome().result
    kept = worker.results.get(ref["ref"])
    assert kept.decode() == shown
    assert (ref["size"], ref["sha256"]) == (len(kept), hashlib.sha256(kept).hexdigest())
