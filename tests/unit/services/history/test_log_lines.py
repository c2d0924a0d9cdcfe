"""Filters over what tasks print: they find every line that fits, and one look is bounded."""

from __future__ import annotations

import pytest

from noetl.domain.errors import InvalidInputError
from noetl.domain.task_logs import TaskLine
from noetl.ports.task_logs import PAGE_BYTES
from noetl.services.history import log_lines
from noetl.services.history.log_lines import LineFilter, LineReader, make_line_filter
from tests.doubles.task_logs import MemoryTaskLogs
from tests.parts import over


def line(text: str, step: str = "load", **more: int) -> TaskLine:
    return TaskLine("2026-11-21T10:00:00.000Z", step, step, text, **more)


KEPT = [
    line("Connected", run=1),
    line("row 1", run=1, index=0),
    line("row 1 again", run=1, index=0, attempt=2),
    line("ROW of straße", run=2, index=1),
    line("row 100%_", "other", run=3),
]


def logs_with(*lines: TaskLine) -> MemoryTaskLogs:
    logs = MemoryTaskLogs()
    logs.append(7, lines)
    return logs


@over(
    ("wanted", "fit"),
    [
        (make_line_filter(), [0, 1, 2, 3, 4]),
        (make_line_filter("row"), [1, 2, 3, 4]),
        (make_line_filter("STRASSE"), [3]),
        (make_line_filter("100%_"), [4]),
        (make_line_filter(".*"), []),
        (make_line_filter("row", "load"), [1, 2, 3]),
        (make_line_filter(run=1), [0, 1, 2]),
        (make_line_filter(index=0), [1, 2]),
        (make_line_filter(attempt=1), [0, 1, 3, 4]),
        (make_line_filter("row", attempt=2), [2]),
        (make_line_filter(step="none"), []),
    ],
)
@over("limit", [1, 2, 100])
def test_all_lines_that_fit_are_found_in_both_orders(wanted: LineFilter, fit: list[int], limit: int):
    reader = LineReader(logs_with(*KEPT), 7, wanted)
    found, after = [], ""
    while True:
        page = reader.oldest(after, limit, everything=True)
        assert len(page.lines) <= limit
        found += page.lines
        after = page.next
        if not page.more:
            break
    assert found == [KEPT[place] for place in fit]
    newest, before = [], None
    while True:
        page = reader.newest(before, limit, everything=True)
        assert (page.end is None) is (before is not None)
        newest += page.lines
        before = page.next
        if not page.more:
            break
    assert newest == found[::-1]
    last, end = reader.last(limit, everything=True)
    assert last == found[-limit:] and not reader.oldest(end, 9, everything=True).lines


def test_a_look_ends_after_so_many_lines_and_the_next_one_goes_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(log_lines, "SCANNED", 40)
    monkeypatch.setattr(log_lines, "_PAGE", 20)
    reader = LineReader(
        logs_with(*[line(f"{n}") for n in range(99)], line("needle")), 7, make_line_filter("NEEDLE")
    )
    looks = [reader.oldest("", 10, everything=True)]
    while looks[-1].more:
        looks.append(reader.oldest(looks[-1].next, 10, everything=True))
    assert [look.scanned for look in looks] == [40, 40, 20]
    assert [len(look.lines) for look in looks] == [0, 0, 1]
    assert looks[0].scanned_until == "2026-11-21T10:00:00.000Z"


def test_a_look_ends_after_a_second(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(log_lines, "_PAGE", 1)
    times = iter([0.0, 0.5, 0.9, 1.1])
    reader = LineReader(logs_with(*KEPT), 7, make_line_filter("none"), clock=lambda: next(times))
    look = reader.newest(None, 10, everything=True)
    assert look.more and look.scanned == 3


def test_what_one_look_finds_is_bounded_in_bytes():
    wide = [line("x" * 60_000) for _ in range(40)]
    reader = LineReader(logs_with(*wide), 7, make_line_filter("x"))
    look = reader.oldest("", 1000, everything=True)
    assert look.more and PAGE_BYTES <= sum(len(one.line) for one in look.lines) < PAGE_BYTES + 120_000


def test_a_long_text_is_not_searched_for():
    with pytest.raises(InvalidInputError, match="text to search for"):
        make_line_filter("x" * 1001)


@over(("level", "found"), [("debug", [0, 1, 2]), ("warning", [1, 2]), ("error", [2]), ("critical", [])])
def test_a_level_chooses_lines_that_begin_with_it_or_a_graver_one(level, found):
    texts = ["INFO a", "WARNING:root:b", "Error: c", "an ERROR", "plain"]
    reader = LineReader(logs_with(*map(line, texts)), 7, make_line_filter(level=level))
    page = reader.oldest("", 10, everything=True)
    assert [texts.index(one.line) for one in page.lines] == found
    assert all(one.level for one in page.lines)


def test_what_is_no_level_is_refused():
    with pytest.raises(InvalidInputError) as refused:
        make_line_filter(level="loud")
    assert refused.value.code == "invalid_level"
