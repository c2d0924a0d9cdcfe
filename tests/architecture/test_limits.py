"""Every limit of the table is tested one below, at, and one above it: a limit that is new there needs a case first."""

from __future__ import annotations

from importlib import import_module

import pytest

from noetl.domain.sizes.table import SIZES
from tests.parts import over

SUITES = {
    "tests.unit.api.test_sizes": "documents at the API, and at what fires by itself",
    "tests.unit.api.test_named_sizes": "requests",
    "tests.unit.cli.test_sizes": "the command line",
    "tests.unit.dsl.test_sizes": "playbooks",
    "tests.unit.templating.test_sizes": "templates",
    "tests.unit.services.test_sizes": "what workers run and report",
    "tests.unit.kinds.test_libraries": "libraries of playbooks",
    "tests.contract.test_engine_sizes": "the engine",
    "tests.unit.runtime.server.test_http_server": "the server of `noetl serve`",
}


def covered(suite: str) -> set[str]:
    """Names of the limits that a suite has cases for."""
    return {size.name for size in import_module(suite).sizes_under_test()}


def test_every_limit_has_a_case() -> None:
    found = {suite: covered(suite) for suite in SUITES}
    assert {size.name for size in SIZES} == set().union(*found.values())


@over("suite", SUITES)
def test_every_suite_has_cases(suite: str) -> None:
    assert covered(suite)


DOORS = {
    "name": {
        "api.test_sizes",
        "cli.test_sizes",
        "dsl.test_sizes",
        "services.test_sizes",
        "contract.test_engine_sizes",
    },
    "document_keys": {"api.test_sizes", "cli.test_sizes", "contract.test_engine_sizes"},
    "document_depth": {
        "api.test_sizes",
        "cli.test_sizes",
        "services.test_sizes",
        "contract.test_engine_sizes",
    },
    "integer_digits": {
        "api.test_sizes",
        "cli.test_sizes",
        "dsl.test_sizes",
        "services.test_sizes",
        "contract.test_engine_sizes",
    },
    "document_bytes": {"api.test_sizes", "cli.test_sizes", "contract.test_engine_sizes"},
    "schema_operations": {"api.test_sizes", "cli.test_sizes", "dsl.test_sizes"},
    "schema_nesting": {"api.test_sizes", "cli.test_sizes", "dsl.test_sizes"},
    "ahead_seconds": {"api.test_named_sizes", "cli.test_sizes"},
    "identifier": {"api.test_named_sizes", "dsl.test_sizes", "services.test_sizes"},
    "path": {"api.test_named_sizes", "cli.test_sizes", "dsl.test_sizes"},
    "schema_depth": {"dsl.test_sizes", "services.test_sizes"},
    "steps": {"cli.test_sizes", "dsl.test_sizes"},
    "priority": {"api.test_named_sizes", "cli.test_sizes", "contract.test_engine_sizes"},
    "limit_key": {"api.test_named_sizes", "cli.test_sizes", "contract.test_engine_sizes"},
    "reason": {"api.test_named_sizes", "cli.test_sizes"},
    "correlation_id": {"api.test_named_sizes", "cli.test_sizes"},
    "trigger_name": {"api.test_named_sizes", "cli.test_sizes"},
    "credential_name": {"api.test_named_sizes", "cli.test_sizes"},
    "credential_bytes": {"api.test_named_sizes", "cli.test_sizes"},
    "patch_operations": {"api.test_named_sizes", "cli.test_sizes"},
    "trigger_text": {"api.test_named_sizes", "cli.test_sizes"},
    "trigger_template": {"api.test_named_sizes", "cli.test_sizes"},
    "schedule_name": {"api.test_named_sizes", "dsl.test_sizes"},
    "catch_up": {"api.test_named_sizes", "dsl.test_sizes"},
}
"""Limits that hold at several doors, and the suites that try these."""


NAMED_DOORS = {
    "the API": {"tests.unit.api.test_sizes", "tests.unit.api.test_named_sizes"},
    "the command line": {"tests.unit.cli.test_sizes"},
    "`noetl serve`": {"tests.unit.runtime.server.test_http_server"},
}
"""What the table calls a public door, and the suites that try it."""


@pytest.mark.parametrize("door", NAMED_DOORS)
def test_a_limit_has_a_case_at_each_public_door_that_it_names(door: str) -> None:
    named = {size.name for size in SIZES if door in size.where}
    assert named and named <= set().union(*map(covered, NAMED_DOORS[door]))


@over("name", DOORS)
def test_a_limit_of_several_doors_has_a_case_at_each(name: str) -> None:
    assert {suite for suite in SUITES if name in covered(suite)} >= {
        suite for suite in SUITES for short in DOORS[name] if suite.endswith(f".{short}")
    }
