"""Tests of playbooks over the API: run them in virtual time, make one of an execution."""

from __future__ import annotations

from typing import Annotated

import msgspec

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.bodies import PlaybookDiagnostic
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.problems import BadRequestError, diagnostic
from noetl.api.http.route import ONE, Parameter, Route
from noetl.api.nouns.graphs import GraphEdgeView, GraphNodeView, graph_views
from noetl.domain import codec
from noetl.domain.long_work import begin_long_work
from noetl.dsl.diagnostics import Diagnostic
from noetl.dsl.editors.graph import graph_of
from noetl.ports.test_runs import TestedBranch, TestedCase, TestProblem
from noetl.services.catalog.register_playbook import playbook_text

_LONG = 16 * 1024
"""Characters of a playbook that takes long to compile."""


class TestBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The texts of a playbook, registered or not, and of its test file."""

    __test__ = False  # pytest

    content: Annotated[str, msgspec.Meta(min_length=1)]
    tests: Annotated[str, msgspec.Meta(min_length=1)]


class TestsAnswer(msgspec.Struct, frozen=True):
    """The outcome of a playbook's tests.

    ``problems``: why the test file cannot be run. ``stopped``: why not all of its ``total`` cases were run; empty
    when all were. ``branches``: of the playbook, with those that a case reached; ``covered``: percent of them.
    ``nodes``, ``edges``: the playbook's graph, whose places are those of the branches.
    """

    __test__ = False  # pytest

    passed: int
    failed: int
    total: int
    stopped: str
    covered: float
    cases: list[TestedCase]
    problems: list[PlaybookDiagnostic]
    branches: list[TestedBranch]
    entry: str | None
    final: str | None
    nodes: list[GraphNodeView]
    edges: list[GraphEdgeView]


class RecordedTestAnswer(msgspec.Struct, frozen=True):
    """A test file that repeats an execution. ``notes``: what it leaves out.

    ``version``: of the playbook; null when the catalog has none with the execution's program.
    """

    execution_id: str
    path: str
    version: int | None
    program: str
    tests: str
    notes: list[str]


def run_tests(deps: ApiDeps, request: Request) -> Answer:
    """Run the tests of a text; nothing is stored."""
    from noetl.services.catalog import run_playbook_tests as service

    body = parse.body(request, deps, TestBody)
    text, tests = playbook_text(body.content), playbook_text(body.tests)
    if len(text) + len(tests) > _LONG:
        begin_long_work()
    program = deps.compile(text, service.PLAYBOOK).program
    run = service.run_playbook_tests(
        text, tests, program, catalog=deps.catalog, programs=deps.programs, runner=deps.test_runner
    )
    graph = graph_of(program)
    nodes, edges = graph_views(graph)
    passed = sum(case.passed for case in run.cases)
    taken = sum(branch.taken for branch in run.branches)
    return Answer(
        200,
        TestsAnswer(
            passed,
            len(run.cases) - passed,
            run.total,
            run.stopped,
            round(100 * taken / len(run.branches), 1) if run.branches else 0.0,
            run.cases,
            [_problem(one, service.TESTS) for one in run.problems],
            run.branches,
            graph.entry,
            graph.final,
            nodes,
            edges,
        ),
    )


def _problem(found: TestProblem, name: str) -> PlaybookDiagnostic:
    return codec.convert(diagnostic(Diagnostic(**msgspec.structs.asdict(found)), name), PlaybookDiagnostic)


def record_test(deps: ApiDeps, request: Request) -> Answer:
    """Answer a test file that repeats an execution."""
    from noetl.services.history.recorded_test import make_test

    execution_id = parse.execution_id(request.params["execution_id"])
    code = request.query.get("code", "run")
    if code not in ("run", "recorded"):
        raise BadRequestError(f"code={code[:40]!r} is neither run nor recorded", code="invalid_parameter")
    made = make_test(deps.store, deps.results, deps.programs, execution_id, code=code == "run")
    entry = deps.catalog.by_program(made.program)
    version = None if entry is None else entry.version
    return Answer(
        200, RecordedTestAnswer(str(execution_id), made.path, version, made.program, made.tests, made.notes)
    )


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/api/catalog/test",
        "testPlaybook",
        "Run the tests of a playbook's text in virtual time, with replies in the place of services, and measure which branches they reach.",
        "write",
        run_tests,
        {200: TestsAnswer},
        "catalog",
        body=TestBody,
        refuses=(404, 422, 429),
    ),
    Route(
        "GET",
        f"{ONE}/test",
        "recordTest",
        "A test file that repeats an execution: its input, recorded results as replies, and its end.",
        "read",
        record_test,
        {200: RecordedTestAnswer},
        "history",
        query=(
            Parameter(
                "code",
                "Whether the test runs the playbook's code, or has its recorded results as replies, too.",
                {"type": "string", "enum": ["run", "recorded"], "default": "run"},
            ),
        ),
        refuses=(409, 422, 429),
    ),
)
