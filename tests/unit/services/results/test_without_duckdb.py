"""A Parquet artifact in a result is shown by its reference where DuckDB is not installed."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from noetl.domain.errors import TaskError
from noetl.services.queries.read_execution import resolve_with
from noetl.services.results import hydration

REF = {"ref": "noetl://execution/7/result/s/x", "size": 3, "store": "object", "sha256": "0" * 64}


def test_a_result_never_depends_on_the_library_of_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    reader: Any = hydration.make_hydrate(None, cache_bytes=0)  # type: ignore[arg-type]
    inner = reader.__self__ if hasattr(reader, "__self__") else reader
    monkeypatch.setattr(inner, "_read", lambda ref: b"PAR1")
    with pytest.raises(TaskError) as refused:
        inner._content(REF, "parquet")
    assert refused.value.code == "result_not_a_value"

    def hydrate(ref: Any) -> Any:
        return inner._content(ref, "parquet")[0]

    monkeypatch.setattr("noetl.services.queries.read_execution.is_ref", lambda value: value is REF)
    assert resolve_with({"file": REF}, hydrate) == {"file": REF}
