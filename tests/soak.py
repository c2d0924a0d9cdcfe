"""What a run played of each part of `make soak`: rounds, failures, and what was done in them, one line a part at the end of the session.

A test belongs to a part by the marker ``soak("<part>")``. What happened in a test is counted by ``happened``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

PART = "soak"
"""Property of a test: the part that it belongs to."""
HAPPENED = "soak: "
"""How properties begin that say what happened in a test."""
ASKED = ("SEEDS", "KILLS", "STOPS", "EXECUTIONS", "OUTAGES", "FUNCTIONS")
"""Ends of the variables that ask for a soak: without one of them no lines are told."""


@dataclass
class Played:
    rounds: int = 0
    failed: int = 0
    counts: Counter[str] = field(default_factory=Counter)


class Tally:
    """Counts the reports of tests, in the process that gathers them."""

    def __init__(self) -> None:
        self._parts: dict[str, Played] = {}
        self._failed: set[str] = set()

    def take(self, report: Any) -> None:
        """Count one report of pytest: a test has up to three, and the last one knows everything that happened."""
        properties = dict(report.user_properties)
        if PART not in properties or report.skipped:
            return
        part = self._parts.setdefault(properties[PART], Played())
        if report.failed and report.nodeid not in self._failed:
            self._failed.add(report.nodeid)
            part.failed += 1
        if report.when == "call":
            part.rounds += 1
        if report.when == "teardown":
            for name, count in report.user_properties:
                if name.startswith(HAPPENED):
                    part.counts[name.removeprefix(HAPPENED)] += count

    def lines(self) -> Iterator[str]:
        for name, part in sorted(self._parts.items()):
            counts = "".join(f", {what} {count:,}" for what, count in sorted(part.counts.items()) if count)
            yield f"soak of {name}: rounds {part.rounds:,}, failed {part.failed:,}{counts}"


TALLY = Tally()


def is_asked(environ: Mapping[str, str] = os.environ) -> bool:
    return any(f"NOETL_SOAK_{name}" in environ for name in ASKED)


def happened(node: Any, what: str, count: int) -> None:
    """Say that ``what`` happened so often in the test of ``node``."""
    node.user_properties.append((HAPPENED + what, count))
