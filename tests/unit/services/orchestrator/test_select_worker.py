"""Which worker a command goes to."""

from __future__ import annotations

import pytest

from noetl.domain.commands import Command
from noetl.domain.errors import InvalidInputError
from noetl.dsl.compiler import compile_playbook
from noetl.kinds.registry import default_registry
from noetl.services.orchestrator.select_worker import worker_of
from tests.parts import over

WORKERS = {"noop": "io", "http": "io", "postgres": "io", "python": "python", "duckdb": "duckdb"}
HTTP = "kind: http, url: 'https://example.org'"
PYTHON = "kind: python, code: 'result = 1'"


def worker(step: str, workers: dict[str, str] = WORKERS, name: str = "start") -> str:
    text = f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: t }}\nworkflow:\n  - step: start\n{step}"
    program = compile_playbook(text, source_name="t.yaml", kinds=default_registry()).program
    return worker_of(Command(1, "1", 1, name, program.hash, "io"), program, workers)


@over(
    ("step", "to"),
    [
        (f"    tool: {{ {HTTP} }}\n", "io"),
        (f"    tool: {{ {PYTHON} }}\n", "python"),
        (f"    tool: [{{ a: {{ {HTTP} }} }}, {{ b: {{ {HTTP} }} }}]\n", "io"),
        (f"    tool: [{{ a: {{ {HTTP} }} }}, {{ b: {{ kind: noop }} }}]\n", "io"),
        (f"    tool: [{{ a: {{ {HTTP} }} }}, {{ b: {{ {PYTHON} }} }}]\n", "mixed"),
        (f"    tool: [{{ a: {{ kind: iterator, in: [1], element: x, task: {{ {PYTHON} }} }} }}]\n", "python"),
        (
            f"    tool: [{{ a: {{ kind: iterator, in: [1], element: x, task: {{ {PYTHON} }} }} }}, {{ b: {{ {HTTP} }} }}]\n",
            "mixed",
        ),
        (
            f"    tool: {{ {PYTHON} }}\n"
            "    case: [{ when: '{{ event.name == \"call.done\" }}', then: [{ a: { kind: duckdb, query: SELECT 1 } }] }]\n",
            "mixed",
        ),
    ],
)
def test_all_kinds_of_a_pipeline_decide(step: str, to: str):
    assert worker(step) == to


def test_a_task_that_says_it_is_long_takes_its_step_to_a_worker_without_an_end_where_there_is_one():
    long = (
        f"    tool: [{{ a: {{ {PYTHON}, spec: {{ long: true, timeout: 7200 }} }} }}, {{ b: {{ {HTTP} }} }}]\n"
    )
    nested = f"    tool: [{{ a: {{ kind: iterator, in: [1], element: x, task: {{ {PYTHON}, spec: {{ long: true }} }} }} }}]\n"
    for step in (long, nested):
        assert worker(step, {**WORKERS, "long": "long"}) == "long"
    assert worker(long) == "mixed"
    assert (
        worker(f"    tool: {{ {PYTHON}, spec: {{ long: false }} }}\n", {**WORKERS, "long": "long"})
        == "python"
    )


def test_a_kind_that_no_worker_is_named_for_goes_where_it_is_refused():
    assert worker(f"    tool: {{ {HTTP} }}\n", {"noop": "io"}) == "mixed"


def test_a_step_that_the_program_lacks_goes_where_nothing_is_run():
    assert worker(f"    tool: {{ {PYTHON} }}\n", name="gone") == "io"


def test_without_workers_there_is_nowhere_to_go():
    with pytest.raises(InvalidInputError) as refused:
        worker(f"    tool: {{ {HTTP} }}\n", {})
    assert refused.value.code == "no_worker"
