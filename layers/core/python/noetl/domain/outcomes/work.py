"""Work that a report states: how many calls of tools, and how long they took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.domain.kinds import UNCALLED_KINDS

MOST_CALLS = 10**9
"""The first number of calls that no report can have."""
MOST_MS = 10**15
"""The first number of milliseconds that no call can take."""


def calls_made(meta: Mapping[str, Any]) -> int:
    """Return how many calls an outcome reports.

    Those that a stored result answered do not count.
    """
    for name in ("calls", "attempts"):
        made = meta.get(name)
        if isinstance(made, int) and not isinstance(made, bool) and 0 <= made < MOST_CALLS:
            return made
    return 0 if "cached" in meta else 1


def work_of(report: Mapping[str, Any], *, final: bool, before: int = 0) -> tuple[int, float]:
    """Return the calls of a report and their milliseconds.

    ``report``: an outcome, or a fact of history, as plain JSON. Its ``trace`` has an entry for each call of its turn; that of a single call
    is empty, and ``meta`` describes it. ``final``: the report ends a run or an item; one that suspends it has no call but those of its
    trace. ``before``: calls of the turns before this one, which ``meta`` counts as well.
    """
    report = _mapping(report)
    made = _calls(report.get("trace"))
    if made is not None:
        return len(made), sum(map(milliseconds, made))
    meta = _mapping(report.get("meta"))
    calls = max(0, calls_made(meta) - before) if final else 0
    return calls, milliseconds(meta) if calls else 0.0


def _calls(trace: Any) -> list[Mapping[str, Any]] | None:
    """Return the calls of tools in a trace; None where it has no entry of a task."""
    entries = [_mapping(one) for one in trace] if isinstance(trace, list) else []
    tasks = [one for one in entries if str(one.get("name")).startswith("task.")]
    if not tasks:
        return None
    done = [_mapping(one.get("payload")) for one in tasks if one["name"] == "task.done"]
    return [one for one in done if str(one.get("kind")) not in UNCALLED_KINDS]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def milliseconds(about: Mapping[str, Any]) -> float:
    """Return ``duration_ms``; 0 where it is no number that a time can be."""
    found = about.get("duration_ms", 0)
    known = isinstance(found, (int, float)) and not isinstance(found, bool) and 0 <= found < MOST_MS
    return float(found) if known else 0.0
