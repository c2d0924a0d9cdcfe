"""An export of many megabytes through HTTP, the result store, DuckDB and Postgres: complete, and with little memory whatever its size."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

FLOW = runpy.run_path(str(Path(__file__).parents[2] / "bench" / "large_flow.py"))
MEGABYTES = 24
MOST = 160


@pytest.mark.postgres
def test_what_flows_is_not_held(local) -> None:
    """Held as rows, as text or as JSON, so much would take several times ``MOST``."""
    rows = FLOW["rows_of"](MEGABYTES)
    with FLOW["export_server"]() as base:
        found = FLOW["measure"](local.runtime, base, rows)
    assert found["result"] == FLOW["expected"](rows)
    assert found["peak_memory_above_start_mb"] <= MOST
