"""The analysis of an execution: why it does not progress, and what to try next.

It is deterministic and reads stored data only. To follow a finding, start here: ``_over`` explains executions that have ended. ``_Live``
explains those that should continue: what each token waits for, and commands that have no token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from noetl.domain import codec
from noetl.domain.state import TERMINAL, ExecutionState, Token
from noetl.domain.text.excerpt import excerpt
from noetl.dsl.program import Program
from noetl.ports.deliveries import Deliveries
from noetl.ports.executions.execution_store import ExecutionInfo, ExecutionStore, LoopProgress, StoredEvent
from noetl.ports.executions.inspection import Inspection, OpenCommand, OpenWork
from noetl.services.callbacks.open_callbacks import awaited_by_command
from noetl.services.history.execution_state import read_state
from noetl.services.history.external_changes import ExternalChange, change_of
from noetl.services.history.failed_items import FailedItems, failed_items
from noetl.services.history.progress import PAGE, Progress, read_progress
from noetl.services.history.read_history import facts_of
from noetl.services.queries.command_findings import CommandFindings
from noetl.services.queries.diagnosis import Analysis as Analysis
from noetl.services.queries.diagnosis import Finding as Finding
from noetl.services.queries.diagnosis import (
    compensating,
    ending,
    limited,
    not_begun,
    paused,
    processes_died,
    progressing,
    undelivered,
    unreadable_row,
    verdict,
)
from noetl.services.queries.limits import waits
from noetl.services.queries.queue_findings import dead_letters
from noetl.services.queries.read_execution import error_of, find, parked_steps, summarize

MOST_COMMANDS = 500
BESIDE = -1
"""Lane of what came too late, or was refused."""
CHANGES = 20
MOST_LOOKS = 3
UNCONFIRMED = frozenset({"orphan_token", "orphan_loop"})
"""Kinds of findings that compare what two reads have returned."""


class AnalyzeDeps(msgspec.Struct, frozen=True):
    """The dependencies of an analysis.

    ``programs``: hash → Program (raises NotFoundError). ``clock``: epoch seconds. ``deliveries``: where there are queues.
    """

    store: ExecutionStore
    inspection: Inspection
    programs: Callable[[str], Program]
    clock: Callable[[], float]
    deliveries: Deliveries | None = None


def analyze(execution_id: int, deps: AnalyzeDeps) -> Analysis:
    """Analyze an execution. Raises NotFoundError, InfrastructureError.

    An execution that continues between two reads can look damaged, so damage counts when a second look confirms it.
    """
    look = _look(execution_id, deps)
    confirmed, looks = False, 1
    while look.doubts and not confirmed and looks < MOST_LOOKS:
        before, look = look, _look(execution_id, deps)
        confirmed, looks = look.doubts == before.doubts, looks + 1
    findings = look.findings
    if look.doubts and not confirmed:
        findings = [one for one in findings if one.kind not in UNCONFIRMED] or [progressing()]
    over = look.status in TERMINAL
    if not over:
        findings += dead_letters(execution_id, deps.deliveries)
    order = {"error": 0, "warning": 1, "info": 2}
    findings.sort(key=lambda one: order[one.severity])
    return Analysis(
        str(execution_id),
        look.status,
        stuck=any(one.severity != "info" for one in findings) and not over,
        verdict=verdict(look.status, findings),
        findings=findings,
        changes=look.changes[-CHANGES:],
        outstanding=look.outstanding,
    )


class _Look(msgspec.Struct, frozen=True):
    """One look at an execution, without its queues.

    ``doubts``: what an execution cannot have unless it changed meanwhile or is damaged, with its version. Empty: there is no doubt.
    """

    status: str
    findings: list[Finding]
    changes: list[ExternalChange]
    outstanding: dict[str, int]
    doubts: tuple[Any, ...] = ()


def _look(execution_id: int, deps: AnalyzeDeps) -> _Look:
    info = find(deps.store, execution_id)
    outstanding = deps.inspection.open_work(execution_id)
    history, queued = _HistoryPart(), []
    if not info.version and info.status not in TERMINAL:
        queued = waits(deps.store, execution_id)
        in_outbox = outstanding.counts["outbox"] > 0
        waited = deps.clock() - info.started_at
        if in_outbox:  # an earlier version did not write there that a Start is for later
            waited = min(waited, outstanding.oldest)
        findings = [limited(wait) for wait in queued] or [not_begun(info, in_outbox=in_outbox, waited=waited)]
    else:
        history = _read_history(deps.store, execution_id)
        if info.status in TERMINAL:
            findings = list(_over(info, history, deps.store))
        else:
            state, unreadable = read_state(info)
            if unreadable is None:
                findings = list(_Live(info, state, history, outstanding, deps).findings())
            else:
                findings = [unreadable_row(unreadable)]
        findings += map(unreadable_row, history.progress.unreadable)
    status = summarize(info, deps.clock(), queued=bool(queued)).status
    doubtful = [one for one in findings if one.kind in UNCONFIRMED]
    doubts = (info.version, *doubtful) if status not in TERMINAL and (doubtful or not findings) else ()
    return _Look(status, findings, history.changes, dict(outstanding.counts), doubts)


@dataclass(slots=True)
class _HistoryPart:
    """The part of history that an analysis needs.

    ``worked``: step runs whose work succeeded. ``changes``: requests from outside.
    ``paused``: the fact of the last pause. ``undoing``: why the execution compensates.
    """

    progress: Progress = field(default_factory=Progress)
    worked: set[int] = field(default_factory=set)
    changes: list[ExternalChange] = field(default_factory=list)
    paused: Mapping[str, Any] = field(default_factory=dict)
    undoing: Finding = field(default_factory=lambda: compensating({}))

    def add(self, row: StoredEvent) -> None:
        self.progress.add(row)
        for fact in facts_of(row):
            name = str(fact.get("name", ""))
            if name == "call.done" or (name == "loop.done" and not fact.get("error")):
                self.worked.add(int(fact.get("run", 0)))
            elif name == "execution.paused":
                self.paused = fact
            elif name == "compensation.started":
                self.undoing = compensating(fact)
            if (change := change_of(row, name, fact)) is not None:
                self.changes.append(change)


def _read_history(store: ExecutionStore, execution_id: int) -> _HistoryPart:
    history = _HistoryPart()
    while page := store.step_events(execution_id, after=history.progress.seq, limit=PAGE):
        for row in page:
            history.add(row)
        if len(page) < PAGE:
            break
    # What was accepted and could not be done: rows of one place come in one page.
    for row in store.item_events(execution_id, BESIDE, limit=1):
        history.changes += [change for fact in facts_of(row) if (change := change_of(row, row.type, fact))]
    history.changes.sort(key=lambda change: change.at)
    read_progress(store, execution_id, history.progress)
    return history


# --- what ended -------------------------------------------------------------------------------------


def _over(info: ExecutionInfo, history: _HistoryPart, store: ExecutionStore) -> Iterator[Finding]:
    progress = history.progress
    failed = failed_items(store, info.execution_id, list(progress.runs.values()))
    if info.status == "failed":
        yield _failure(info, history)
    elif info.status == "cancelled":
        yield Finding("cancelled", "info", f"it was cancelled: {progress.reason or 'no reason was given'}")
    for run in progress.runs.values():
        if run.loop is not None and run.loop.failed and run.status == "done" and not run.replaced:
            yield Finding(
                "items_failed",
                "info",
                f"{run.loop.failed} of {run.loop.total} items of step {run.step} failed, which it tolerates{_causes(failed.get(run.run))}",
                run.step,
                run.run,
                (f'`noetl redrive {info.execution_id} --from "{run.step}[failed]"` runs them again',),
            )


def _causes(found: FailedItems | None) -> str:
    """``: 3 × ValueError (item 7 is broken)`` for each error, the most frequent first."""
    if found is None or not found.errors:
        return ""
    return ": " + "; ".join(f"{one.count} × {one.code} ({one.message})" for one in found.errors[:3])


def _failure(info: ExecutionInfo, history: _HistoryPart) -> Finding:
    progress = history.progress
    error = progress.error or error_of(info) or {}
    step = progress.error_step
    runs = [run for run in progress.runs.values() if run.step == step]
    where = f" at {error['position']}" if error.get("position") else ""
    code = error.get("code") or error.get("kind") or "no code"
    steps = [f"`noetl redrive {info.execution_id}` runs it again from there"]
    if error.get("hint"):
        steps.insert(0, str(error["hint"]))
    run = runs[-1].run if runs else 0
    arc = run in history.worked
    what = "did its work, and what follows failed" if arc else "failed"
    return Finding(
        "failed_arc" if arc else "failed_step",
        "error",
        f"{f'step {step}' if step else 'the execution'} {what}{where}: {error.get('message') or 'no message'} ({code})",
        step,
        run,
        tuple(steps),
    )


# --- what should go on ------------------------------------------------------------------------------


class _Live:
    def __init__(
        self,
        info: ExecutionInfo,
        state: ExecutionState,
        history: _HistoryPart,
        outstanding: OpenWork,
        deps: AnalyzeDeps,
    ) -> None:
        self.info, self.state, self.history, self.progress, self.deps = (
            info,
            state,
            history,
            history.progress,
            deps,
        )
        self.outstanding, self.oldest_event = outstanding.counts, outstanding.oldest
        execution_id = info.execution_id
        found = deps.inspection.open_commands(execution_id, MOST_COMMANDS)
        self.commands = {one.command_id: one for one in found}
        self.complete = len(found) < MOST_COMMANDS
        self.waits = waits(deps.store, execution_id)
        self.of_commands = CommandFindings(
            info,
            deps.store,
            deps.deliveries,
            awaited_by_command(
                deps.store, execution_id, state, [one.command_id for one in found if one.waiting]
            ),
            frozenset(wait.run for wait in self.waits),
            deps.clock(),
        )
        self.loops: dict[int, LoopProgress] = {
            one.run: one for one in deps.store.loop_progress(execution_id) if one.gate != "closed"
        }

    def findings(self) -> Iterator[Finding]:
        if self.info.status == "paused":
            yield paused(self.info, self.history.paused)
        if self.state.verdict is not None:
            yield ending(self.state.verdict)
        elif self.state.undoing:
            yield self.history.undoing
        yield from self._events()
        if lost := self.outstanding.get("lost", 0):
            yield processes_died(lost)
        yield from self._parked()
        yield from map(limited, self.waits)
        for token in self.state.tokens.values():
            yield from self._token(token)
        yield from self._orphans()

    def _events(self) -> Iterator[Finding]:
        waiting = self.outstanding.get("outbox", 0)
        if waiting and self.info.status != "paused":
            yield undelivered(waiting, self.oldest_event)

    def _parked(self) -> Iterator[Finding]:
        """Report steps that are not admitted, with the values that their guards read now."""
        slots = self.deps.store.slots(self.info.execution_id) if self._waits() else {}
        for parked in parked_steps(self.state, self.deps.programs):
            now = ", ".join(f"ctx.{key} is {_shown(slots, key)}" for key in parked.keys)
            guard = parked.guard or "its admission rules say so"
            sets = " ".join(f"--set {key}=true" for key in parked.keys) or "--set NAME=VALUE"
            yield Finding(
                "parked",
                "warning",
                f"step {parked.step} is admitted when {guard}" + (f"; {now}" if now else ""),
                parked.step,
                next=(f"`noetl ctx patch {self.info.execution_id} {sets}`",),
            )

    def _waits(self) -> bool:
        return any(token.phase == "parked" for token in self.state.tokens.values())

    def _token(self, token: Token) -> Iterator[Finding]:
        if token.phase == "parked":
            if token.lock:
                yield self._locked(token)
        elif token.phase == "arrived":
            yield self._joining(token)
        elif token.phase == "loop":
            yield from self._looping(token)
        elif token.command is not None and token.phase in ("body", "case", "compensate", "collection"):
            yield from self._working(token, token.command)

    def _locked(self, token: Token) -> Finding:
        holders = [
            one.step for one in self.state.tokens.values() if one.lock == token.lock and one.phase != "parked"
        ]
        return Finding(
            "waits_for_lock",
            "info" if holders else "warning",
            f"step {token.step} waits for the lock {token.lock!r}, held by {', '.join(holders) or 'no step run'}",
            token.step,
            token.run,
        )

    def _joining(self, token: Token) -> Finding:
        others = sorted(
            {one.step for one in self.state.tokens.values() if one.phase != "arrived" and one is not token}
        )
        return Finding(
            "waits_at_join",
            "info" if others else "warning",
            f"step {token.step} waits for tokens that can still reach it"
            + (f"; live are: {', '.join(others)}" if others else ", but none is live"),
            token.step,
            token.run,
        )

    def _looping(self, token: Token) -> Iterator[Finding]:
        loop = self.loops.get(token.run)
        own = [one for one in self.commands.values() if one.run == token.run]
        if loop is None or own or not self.complete:
            for command in own[:3]:
                yield from self._command(token, command)
            return
        ended = loop.done + loop.failed
        # A loop that has told of a failure gives nothing out until its event is handled.
        on_the_way = self.outstanding.get("outbox", 0) > 0
        if ended < (loop.total if loop.gate == "open" else loop.issued) and not on_the_way:
            yield Finding(
                "orphan_loop",
                "error",
                f"step {token.step} has {ended} of {loop.total} items, {loop.issued} issued, and no command for the others",
                token.step,
                token.run,
                (f"`noetl replay {self.info.execution_id}` shows whether its history agrees",),
            )

    def _working(self, token: Token, command_id: str) -> Iterator[Finding]:
        command = self.commands.get(command_id)
        if command is not None:
            yield from self._command(token, command)
        elif self.complete and not self.outstanding.get("outbox"):
            yield Finding(
                "orphan_token",
                "error",
                f"step {token.step} waits for command {command_id}, which does not exist",
                token.step,
                token.run,
                (
                    "its outcome may be on the way: ask again in a moment",
                    f"`noetl inject {self.info.execution_id} {token.step}` runs the step once more",
                ),
            )

    def _command(self, token: Token, command: OpenCommand) -> Iterator[Finding]:
        found = self.of_commands.of(token, self.progress.runs.get(token.run), command)
        if found is not None:
            yield found

    def _orphans(self) -> Iterator[Finding]:
        """Yield commands whose step run is over: their outcome changes nothing."""
        for command in self.commands.values():
            if command.run not in self.state.tokens:
                yield Finding(
                    "orphan_command",
                    "info",
                    f"command {command.command_id} belongs to step run {command.run}, which is over",
                    run=command.run,
                )


def _shown(slots: Mapping[tuple[str, str], Any], key: str) -> str:
    """Return the current value of ``ctx.<key>``, shortened."""
    for scope in ("ctx", "vars"):
        if (scope, key) in slots:
            return excerpt(codec.encode(slots[scope, key]).decode("utf-8", "replace"), 80)
    return "not set"
