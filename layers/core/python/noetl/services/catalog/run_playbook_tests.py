"""Run the tests of a playbook's text, with the registered playbooks that it calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from noetl.domain.errors import NotFoundError
from noetl.dsl.program import LiteralNode, Map, Node, Program
from noetl.dsl.work import tasks_in
from noetl.ports.catalog import Catalog, CatalogEntry
from noetl.ports.test_runs import TestRun, TestRunner

PLAYBOOK, TESTS = "playbook.yaml", "playbook.test.yaml"
MOST_CALLED = 50
"""Playbooks that a tested one may call, and those call."""


def run_playbook_tests(
    text: str,
    tests: str,
    program: Program,
    *,
    catalog: Catalog,
    programs: Callable[[str], Program],
    runner: TestRunner | None,
) -> TestRun:
    """Run the cases of ``tests`` against ``text``, whose ``program`` it is.

    Raises NotFoundError(code="tests_unavailable") where no process may run code, and what the runner raises.
    """
    if runner is None:
        raise NotFoundError(
            "this server runs no tests",
            code="tests_unavailable",
            hint="run `noetl test` with the playbook and its test file on your machine",
        )
    files = {PLAYBOOK: text, TESTS: tests}
    for number, entry in enumerate(_called(program, catalog, programs)):
        files[f"called_{number}.yaml"] = entry.content
    return runner.run(files)


def _called(program: Program, catalog: Catalog, programs: Callable[[str], Program]) -> Iterator[CatalogEntry]:
    """Yield the playbooks that a program calls by a fixed path, and what those call."""
    seen, waiting = {program.path or program.name}, [program]
    while waiting:
        for path, version in _paths(waiting.pop()):
            if path in seen or len(seen) > MOST_CALLED:
                continue
            seen.add(path)
            entry = catalog.get(path, version)
            if entry is not None:
                yield entry
                waiting.append(programs(entry.program))


def _paths(program: Program) -> Iterator[tuple[str, int | None]]:
    for task in tasks_in(program.steps):
        if task.kind == "playbook":
            path, version = (_plain(task.params, name) for name in ("path", "version"))
            if isinstance(path, str):
                yield path.removeprefix("/"), version if isinstance(version, int) else None


def _plain(params: Node, name: str) -> object:
    """Return a parameter that needs no template; None for others."""
    if isinstance(params, LiteralNode):
        return params.value.get(name) if isinstance(params.value, dict) else None
    found = dict(params.entries).get(name) if isinstance(params, Map) else None
    return found.value if isinstance(found, LiteralNode) else None
