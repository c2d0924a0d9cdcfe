"""Work that a report states: how many calls of tools, and how long they took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.domain.kinds import CONTROL_KINDS


def calls_made(meta: Mapping[str, Any]) -> int:
    """Return how many calls an outcome reports.

    Those that a stored result answered do not count.
    """
    made = meta.get("calls", meta.get("attempts", 0 if "cached" in meta else 1))
    return made if isinstance(made, int) else 1


def work_of(report: Mapping[str, Any], *, final: bool) -> tuple[int, float]:
    """Return the calls of a report and their milliseconds.

    ``report``: an outcome, or a fact of history, as plain JSON. Its ``trace`` has an entry for each call; that of a single call is empty, and
    ``meta`` describes it. ``final``: the report ends a run or an item; one that suspends it has no call but those of its trace.
    """
    made = _calls(report.get("trace"))
    if made is not None:
        return len(made), sum(map(milliseconds, made))
    meta = _mapping(report.get("meta"))
    return (calls_made(meta), milliseconds(meta)) if final else (0, 0.0)


def _calls(trace: Any) -> list[Mapping[str, Any]] | None:
    """Return the calls of tools in a trace; None where it has no entry of a task."""
    entries = [_mapping(one) for one in trace] if isinstance(trace, list) else []
    tasks = [one for one in entries if str(one.get("name")).startswith("task.")]
    if not tasks:
        return None
    done = [_mapping(one.get("payload")) for one in tasks if one["name"] == "task.done"]
    return [one for one in done if one.get("kind") not in CONTROL_KINDS]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def milliseconds(about: Mapping[str, Any]) -> float:
    """Return ``duration_ms``; 0 where it is no number."""
    found = about.get("duration_ms", 0)
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else 0.0
