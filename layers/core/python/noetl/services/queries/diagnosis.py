"""Findings about an execution, and the analysis that they make up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from noetl.domain.callbacks import Awaited
from noetl.domain.state import TERMINAL, Verdict
from noetl.domain.unreadable import Unreadable
from noetl.domain.wait_request import iso
from noetl.domain.workers.lost_owners import MOST
from noetl.ports.executions.execution_store import ExecutionInfo
from noetl.services.history.external_changes import ExternalChange
from noetl.services.queries.limits import WaitView

DELIVERY_SECONDS = 120.0
"""Longest that an event is on its way while the system works as it should, after a crash, too: what a killed invocation had is its own
for a minute, and maintenance publishes it within one more; a process that takes over needs less. The alarm `events-age` waits as long."""

Severity = Literal["error", "warning", "info"]


class Finding(msgspec.Struct, frozen=True):
    """``kind``: what it is, a stable word. ``next``: what to try, commands or words."""

    kind: str
    severity: Severity
    message: str
    step: str = ""
    run: int = 0
    next: tuple[str, ...] = ()


class Analysis(msgspec.Struct, frozen=True):
    """The analysis of one execution.

    ``verdict``: one sentence. ``findings``: the most serious first. ``stuck``: the execution will not continue without help.
    """

    execution_id: str
    status: str
    stuck: bool
    verdict: str
    findings: list[Finding]
    changes: list[ExternalChange]
    outstanding: dict[str, int]


def verdict(status: str, findings: list[Finding]) -> str:
    """Return the most serious finding as a sentence, or that nothing is wrong.

    ``findings``: sorted.
    """
    if findings:
        return findings[0].message
    return (
        "nothing is wrong: it has ended" if status in TERMINAL else "nothing is wrong: it is making progress"
    )


def processes_died(commands: int) -> Finding:
    """Report that processes of this machine died while they ran the execution's commands."""
    what = "a command was" if commands == 1 else f"{commands} commands were"
    return Finding(
        "processes_died",
        "info",
        f"{what} under way in a process that died; one that {MOST} processes die of fails as `worker_lost`",
        next=("docs/operations.md: a task that kills its process",),
    )


def progressing() -> Finding:
    """Report that the execution changed each time it was read."""
    return Finding("progressing", "info", "it is making progress: it changed while it was read")


def limited(wait: WaitView) -> Finding:
    """Something waits for a key that executions share."""
    return Finding(
        "waits_for_limit",
        "info",
        f"{f'step {wait.step}' if wait.step else 'the execution'} {wait.reason}",
        wait.step,
        wait.run,
        (f"`noetl limit list {wait.key}` shows who holds it", f"`noetl limit set {wait.key} …` changes it"),
    )


def waits_for_callback(execution_id: int, step: str, run: int, found: Awaited) -> Finding:
    """Report that a task waits for its callback."""
    until = "without a timeout" if found.until is None else f"until {iso(found.until)}"
    about = f" ({found.message})" if found.message else ""
    return Finding(
        "waits_for_callback",
        "info",
        f"step {step}: task {found.task} waits for a callback since {iso(found.since)}, {until}{about}",
        step,
        run,
        (f"`noetl callback {execution_id}` shows what answers it",),
    )


def paused(info: ExecutionInfo, fact: Mapping[str, Any]) -> Finding:
    """Report who paused an execution, and how to resume it.

    ``fact``: its last pause in history.
    """
    parent = info.parent_execution_id if fact.get("word") else None
    who = f" by {fact['principal']}" if fact.get("principal") else ""
    why = f" (reason: {fact['reason']})" if fact.get("reason") else ""
    above = "" if parent is None else f" with execution {parent}, which started it"
    return Finding(
        "paused",
        "warning",
        f"the execution was paused{above}{who}{why}; the engine begins nothing new",
        next=(f"`noetl unpause {info.execution_id if parent is None else parent}` continues it",),
    )


def compensating(fact: Mapping[str, Any]) -> Finding:
    """Report why the execution compensates.

    ``fact``: ``compensation.started``, as history has it.
    """
    error = fact.get("error") or {}
    step = str(fact.get("step", ""))
    return Finding(
        "compensating",
        "info",
        f"{f'step {step}' if step else 'it'} failed ({error.get('message') or 'see its history'}); "
        "what was done before is being undone, then it ends as failed",
        step,
    )


def ending(verdict: Verdict) -> Finding:
    """Report that the outcome is decided, and the last steps of the playbook run."""
    step = verdict.step
    return Finding(
        "ending",
        "info",
        f"its outcome is decided: {verdict.status}{f' at step {step}' if step else ''}; "
        "on_success, on_failure and finally run before it ends",
        step,
        next=("`noetl cancel` ends it with that outcome",),
    )


def unreadable_row(row: Unreadable) -> Finding:
    """Report that a row of the execution cannot be read."""
    return Finding(
        "unreadable_row", "error", str(row), next=("docs/operations.md: rows that cannot be read",)
    )


def undelivered(events: int, oldest: float) -> Finding:
    """Report events that the engine has not handled.

    ``oldest``: seconds that the first of them has been on its way. It is a problem only where that is longer than delivery takes.
    """
    what = "1 event is" if events == 1 else f"{events} events are"
    late = oldest > DELIVERY_SECONDS
    return Finding(
        "undelivered",
        "warning" if late else "info",
        f"{what} on the way to the engine, {'for' if events == 1 else 'the oldest for'} {max(0, oldest):.0f} s",
        next=(
            ("no engine is running, or it is behind: `noetl resume` or `noetl serve` runs one here",)
            if late
            else ("ask again in a moment",)
        ),
    )


def not_begun(info: ExecutionInfo, *, in_outbox: bool, waited: float) -> Finding:
    """Report why an execution has not begun.

    Its time is to come, or no engine has handled its Start, for ``waited`` seconds.
    """
    if info.ahead:
        return Finding(
            "scheduled",
            "info",
            f"it starts at {iso(info.started_at)}",
            next=("`noetl cancel` takes it back",),
        )
    where = "no engine has taken its start yet" if in_outbox else "its start is with the queue of the engine"
    late = waited > DELIVERY_SECONDS or info.status == "paused"
    return Finding(
        "not_started",
        "warning" if late else "info",
        f"it has not begun for {max(0, waited):.0f} s: {where}",
        next=("`noetl resume` or `noetl serve` runs an engine here", "look at `GET /api/queue`: events"),
    )
