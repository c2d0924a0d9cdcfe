"""A loop over rows of a file takes no more memory and state than a part of them does."""

from pathlib import Path

from noetl.kinds.registry import Registry
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from tests.bench import tick
from tests.bench.million import measure, placed

ROWS = 20_000


def test_twenty_thousand_rows_leave_memory_and_state_flat(tmp_path: Path, database: str) -> None:
    registry = Registry()
    registry.add(tick)
    source, value = placed(tmp_path, "csv", ROWS)
    settings = Settings.from_env({"NOETL_DATABASE_URL": database}, home=tmp_path / "home")
    with LocalRuntime(settings, data_dirs=(str(tmp_path),), registry=registry) as runtime:
        figures = measure(runtime, source, value, ROWS)
    assert figures["peak_memory_above_start_mb"] < 64
    assert figures["state_bytes"] < 1024 and figures["slot_bytes"] < 2048
    assert figures["event_rows"] <= ROWS + 5
