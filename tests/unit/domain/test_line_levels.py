"""Levels of lines: only what a program prints as one counts, and words of a sentence do not."""

from __future__ import annotations

from noetl.domain.task_logs import TaskLine, level_of, shown_line
from tests.parts import over


@over(
    ("line", "level"),
    [
        ("WARNING:root:the disk is full", "warning"),
        ("ERROR:orders:no customer", "error"),
        ("INFO connected", "info"),
        ("DEBUG", "debug"),
        ("CRITICAL | it ends", "critical"),
        ("Error: no such file", "error"),
        ("warning: unused", "warning"),
        ("[warn] slow", "warning"),
        ("[ Info ] slow", "info"),
        ("level=error msg=x", "error"),
        ('level="fatal" msg=x', "critical"),
        ("2026-11-29 10:00:00,123 - WARNING - slow", "warning"),
        ("2026-11-29T10:00:00.5Z NOTICE x", "info"),
        ("2026-11-29T10:00:00+01:00 TRACE x", "debug"),
        ("Warning signs are everywhere", None),
        ("info about orders", None),
        ("ERRORS: 3", None),
        ("INFO-7 is done", None),
        ("no ERROR here", None),
        ("", None),
        ("  File 'x', line 9", None),
        ("\x1b[31mERROR\x1b[0m red", None),
    ],
)
def test_level(line, level):
    assert level_of(line) == level


def test_a_shown_line_is_the_stored_one_with_its_level():
    stored = TaskLine("2026-11-29T10:00:00Z", "load", "load", "ERROR x", run=2, attempt=3, index=4)
    shown = shown_line(stored)
    assert (shown.level, shown.line, shown.run, shown.attempt, shown.index) == ("error", "ERROR x", 2, 3, 4)
