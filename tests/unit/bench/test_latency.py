"""The table of latencies in the docs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import latency

FOUND = {
    "step": [9.0, 7.4, 8.2],
    "short": [50.0],
    "many": [60.0, 90.0, 70.0],
    "loop": [1234.5],
    "wal python": [1170.0, 1180.0],
    "wal http": [1300.0],
}


def test_the_best_is_the_least_time_and_the_most_work() -> None:
    rows = latency.table(FOUND, "2 processors").splitlines()
    assert rows[0] == "| on the emulator (2 processors) | median | best |"
    assert [row.partition(" | ")[2] for row in rows[2:]] == [
        "8 ms | 7 ms |",
        "50 ms | 50 ms |",
        "70 executions/s | 90 executions/s |",
        "1234 items/s | 1234 items/s |",
        "1175 bytes | 1170 bytes |",
        "1300 bytes | 1300 bytes |",
    ]


def test_the_page_has_the_table_and_takes_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = latency.PAGE.read_text("utf-8")
    assert all(f"\n| {about} | " in before for about, _ in latency.MEASURES.values())
    page = tmp_path / "page.md"
    page.write_text(before, "utf-8")
    monkeypatch.setattr(latency, "PAGE", page)
    latency.write(FOUND)
    after = page.read_text("utf-8")
    assert "| 70 executions/s | 90 executions/s |" in after and after.count("| on the emulator ") == 1
    latency.write(FOUND)
    assert page.read_text("utf-8") == after
    page.write_text("no table", "utf-8")
    with pytest.raises(RuntimeError, match="0 tables"):
        latency.write(FOUND)
