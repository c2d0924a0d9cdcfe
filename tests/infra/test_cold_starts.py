"""What a function imports when it starts cold stays within its budget: callers wait for it."""

from __future__ import annotations

import pytest

from tests.bench.cold_starts import budgets, functions, measure
from tests.parts import parted


def test_every_function_has_a_budget() -> None:
    assert list(budgets()) == functions()


@pytest.mark.parametrize("function", parted(functions(), ["api", "engine", "worker"]))
def test_a_cold_start_imports_no_more_than_its_budget(function: str) -> None:
    found, most = measure(function).modules, budgets()[function]
    assert found <= most, (
        f"{function} imports {found} modules, and may import {most}: import what one request needs where it is needed, "
        "or raise the budget (make cold-starts PAGE=1)"
    )
