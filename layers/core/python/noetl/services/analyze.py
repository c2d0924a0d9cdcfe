"""Why an execution stands where it stands, and what to try next. Deterministic: only what is stored is looked at. Reads only.

Follow a finding from here: ``_over`` tells of executions that ended, ``_Live`` of those that should go on: what each token waits for, and
commands that no token stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from noetl.domain import codec
from noetl.domain.callbacks import Awaited
from noetl.domain.owners import QUEUE, pool_of
from noetl.domain.state import TERMINAL, ExecutionState, Token
from noetl.domain.waiting import iso
from noetl.dsl.program import Program
from noetl.ports.execution_store import ExecutionInfo, ExecutionStore, LoopProgress, StoredEvent
from noetl.ports.inspection import Inspection, OpenCommand
from noetl.services.awaited import awaited_by_command
from noetl.services.execution_state import read_state
from noetl.services.external_changes import ExternalChange, change_of
from noetl.services.findings import Analysis as Analysis
from noetl.services.findings import Finding as Finding
from noetl.services.findings import limited, not_begun, unreadable_row
from noetl.services.history import facts_of
from noetl.services.manage_limits import waits
from noetl.services.progress import PAGE, Progress, read_progress
from noetl.services.read_execution import (
    error_of,
    find,
    parked_steps,
    summarize,
    view_status,
)

LATE = 60.0
"""Seconds that a command may be due without anybody taking it before that is called a problem."""
LONG = 600.0
"""Seconds that a call may take before it is worth a look."""
MOST_COMMANDS = 500
BESIDE = -1
"""Lane of what came too late, or was refused."""
CHANGES = 20


class AnalyzeDeps(msgspec.Struct, frozen=True):
    """``programs``: hash → Program (raises NotFoundError). ``clock``: epoch seconds."""

    store: ExecutionStore
    inspection: Inspection
    programs: Callable[[str], Program]
    clock: Callable[[], float]


def analyze(execution_id: int, deps: AnalyzeDeps) -> Analysis:
    """Raises NotFoundError, InfrastructureError."""
    info = find(deps.store, execution_id)
    outstanding = dict(deps.store.open_work(execution_id))
    told, now, queued = _Told(), deps.clock(), []
    if not info.version and info.status not in TERMINAL:
        queued = waits(deps.store, execution_id)
        findings = [limited(wait) for wait in queued] or [
            not_begun(info.started_at, ahead=info.ahead, in_outbox=outstanding.get("outbox", 0) > 0)
        ]
    else:
        told = _told(deps.store, execution_id)
        if info.status in TERMINAL:
            findings = list(_over(info, told))
        else:
            state, unreadable = read_state(info)
            if unreadable is None:
                findings = list(_Live(info, state, told.progress, outstanding, deps).findings())
            else:
                findings = [unreadable_row(unreadable)]
        findings += map(unreadable_row, told.progress.unreadable)
    order = {"error": 0, "warning": 1, "info": 2}
    findings.sort(key=lambda one: order[one.severity])
    return Analysis(
        str(execution_id),
        summarize(info, now, queued=bool(queued)).status,
        stuck=any(one.severity != "info" for one in findings) and info.status not in TERMINAL,
        verdict=findings[0].message if findings else "nothing is wrong: it goes on by itself",
        findings=findings,
        changes=told.changes[-CHANGES:],
        outstanding=outstanding,
    )


@dataclass(slots=True)
class _Told:
    """What history says. ``worked``: step runs whose work was done well; ``changes``: what was asked for from outside."""

    progress: Progress = field(default_factory=Progress)
    worked: set[int] = field(default_factory=set)
    changes: list[ExternalChange] = field(default_factory=list)

    def add(self, row: StoredEvent) -> None:
        self.progress.add(row)
        for fact in facts_of(row):
            name = str(fact.get("name", ""))
            if name == "call.done" or (name == "loop.done" and not fact.get("error")):
                self.worked.add(int(fact.get("run", 0)))
            if (change := change_of(row, name, fact)) is not None:
                self.changes.append(change)


def _told(store: ExecutionStore, execution_id: int) -> _Told:
    told = _Told()
    while page := store.events(execution_id, after=told.progress.seq, limit=PAGE):
        for row in page:
            told.add(row)
    # What was accepted and could not be done: rows of one place come in one page.
    for row in store.item_events(execution_id, BESIDE, limit=1):
        told.changes += [change for fact in facts_of(row) if (change := change_of(row, row.type, fact))]
    told.changes.sort(key=lambda change: change.at)
    read_progress(store, execution_id, told.progress)
    return told


# --- what ended -------------------------------------------------------------------------------------


def _over(info: ExecutionInfo, told: _Told) -> Iterator[Finding]:
    progress = told.progress
    if info.status == "failed":
        yield _failure(info, told)
    elif info.status == "cancelled":
        yield Finding("cancelled", "info", f"it was cancelled: {progress.reason or 'no reason was given'}")
    for run in progress.runs.values():
        if run.loop is not None and run.loop.failed and run.status == "done":
            yield Finding(
                "items_failed",
                "info",
                f"{run.loop.failed} of {run.loop.total} items of step {run.step} failed, which it tolerates",
                run.step,
                run.run,
            )


def _failure(info: ExecutionInfo, told: _Told) -> Finding:
    progress = told.progress
    error = progress.error or error_of(info) or {}
    step = progress.error_step
    runs = [run for run in progress.runs.values() if run.step == step]
    where = f" at {error['position']}" if error.get("position") else ""
    code = error.get("code") or error.get("kind") or "unknown"
    steps = [f"`noetl redrive {info.execution_id}` runs it again from there"]
    if error.get("hint"):
        steps.insert(0, str(error["hint"]))
    run = runs[-1].run if runs else 0
    arc = run in told.worked
    what = "did its work, and what follows failed" if arc else "failed"
    return Finding(
        "failed_arc" if arc else "failed_step",
        "error",
        f"step {step or '(none)'} {what}{where}: {error.get('message', '')} ({code})",
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
        progress: Progress,
        outstanding: Mapping[str, int],
        deps: AnalyzeDeps,
    ) -> None:
        self.info, self.state, self.progress, self.deps = info, state, progress, deps
        self.outstanding = outstanding
        execution_id = info.execution_id
        found = deps.inspection.open_commands(execution_id, MOST_COMMANDS)
        self.commands = {one.command_id: one for one in found}
        self.complete = len(found) < MOST_COMMANDS
        self.waits = waits(deps.store, execution_id)
        self.limited = {wait.run for wait in self.waits}
        self.awaited = awaited_by_command(deps.store, execution_id, state)
        self.loops: dict[int, LoopProgress] = {
            one.run: one for one in deps.store.loop_progress(execution_id) if one.gate != "closed"
        }

    def findings(self) -> Iterator[Finding]:
        if self.info.status == "paused":
            yield Finding(
                "paused",
                "warning",
                "it is paused: nothing new is issued",
                next=(f"`noetl resume {self.info.execution_id}`",),
            )
        yield from self._events()
        yield from self._parked()
        yield from map(limited, self.waits)
        for token in self.state.tokens.values():
            yield from self._token(token)
        yield from self._orphans()

    def _events(self) -> Iterator[Finding]:
        waiting = self.outstanding.get("outbox", 0)
        if waiting and self.info.status != "paused":
            yield Finding(
                "undelivered",
                "warning",
                f"{waiting} event{'s are' if waiting > 1 else ' is'} on the way to the engine",
                next=("ask again in a moment; if that stays, no engine is running: `noetl resume`",),
            )

    def _parked(self) -> Iterator[Finding]:
        """Steps that are not admitted, with the values that their guards read now."""
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
            f"step {token.step} waits for the lock {token.lock!r}, held by {', '.join(holders) or 'nobody'}",
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
        if ended < (loop.total if loop.gate == "open" else loop.issued):
            yield Finding(
                "orphan_loop",
                "error",
                f"step {token.step} has {ended} of {loop.total} items, {loop.issued} issued, and no command for the others",
                token.step,
                token.run,
                (f"`noetl replay {self.info.execution_id}` tells whether its history agrees",),
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
        what = f"step {token.step}: command {command.command_id} (attempt {command.attempt}, turn {command.turn})"
        if command.waiting and command.command_id in self.awaited:
            yield self._callback(token, self.awaited[command.command_id])
            return
        if command.waiting and token.run in self.limited:
            return
        if command.waiting:
            run = self.progress.runs.get(token.run)
            child = run.child if run is not None else None
            yield self._waiting(token, what, child)
        elif command.due_for < 0 and token.run not in self.limited:
            text = f"{what} is tried again in {-command.due_for:.0f} s"
            yield Finding("delayed", "info", text, token.step, token.run)
        elif not command.alive or pool_of(command.owner) is not None:
            yield self._free(token, what, command)
        elif self.info.status != "paused":
            yield self._held(token, what, command)

    def _waiting(self, token: Token, what: str, child: int | None) -> Finding:
        found = self.deps.store.info(child) if child else None
        if found is None:
            return Finding("waits_for_child", "info", f"{what} waits for the outside", token.step, token.run)
        over = found.status in TERMINAL
        return Finding(
            "waits_for_child",
            "warning" if over else "info",
            f"{what} waits for execution {child}, which is {view_status(found)}",
            token.step,
            token.run,
            ("its end is on the way: ask again in a moment",) if over else (f"`noetl analyze {child}`",),
        )

    def _callback(self, token: Token, found: Awaited) -> Finding:
        until = "however long it takes" if found.until is None else f"until {iso(found.until)}"
        about = f" ({found.message})" if found.message else ""
        return Finding(
            "waits_for_callback",
            "info",
            f"step {token.step}: task {found.task} waits for a callback since {iso(found.since)}, {until}{about}",
            token.step,
            token.run,
            (f"`noetl callback {self.info.execution_id}` shows what answers it",),
        )

    def _free(self, token: Token, what: str, command: OpenCommand) -> Finding:
        pool = pool_of(command.owner)
        lost = bool(command.owner) and pool is None
        lapsed = f"{command.owner} had it and gave no sign of life" if lost else "nobody has taken it"
        lapsed += "" if pool is None else f"; it is offered to workers of the pool {pool}"
        return Finding(
            "orphan_command" if lost else "not_taken",
            "warning" if lost or command.due_for > LATE else "info",
            f"{what} has been due for {command.due_for:.0f} s; {lapsed}",
            token.step,
            token.run,
            (
                "a worker of its pool takes it: `noetl resume`, `noetl serve` or `noetl worker start`",
                "`GET /api/queue` shows what waits by pool",
            ),
        )

    def _held(self, token: Token, what: str, command: OpenCommand) -> Finding:
        who = "the queue has it, or a worker that reads it" if command.owner == QUEUE else command.owner
        long = command.due_for > LONG
        tries = ("give the step a timeout: `spec.timeout`", f"`noetl cancel {self.info.execution_id}`")
        return Finding(
            "long_running" if long else "running",
            "warning" if long else "info",
            f"{what} is being run for {command.due_for:.0f} s ({who})",
            token.step,
            token.run,
            tries if long else (),
        )

    def _orphans(self) -> Iterator[Finding]:
        """Commands whose step run has no token: nobody will hear their answer."""
        for command in self.commands.values():
            if command.run not in self.state.tokens:
                yield Finding(
                    "orphan_command",
                    "info",
                    f"command {command.command_id} belongs to step run {command.run}, which is over",
                    run=command.run,
                )


def _shown(slots: Mapping[tuple[str, str], Any], key: str) -> str:
    """What ``ctx.<key>`` is now, short."""
    for scope in ("ctx", "vars"):
        if (scope, key) in slots:
            text = codec.encode(slots[scope, key]).decode("utf-8", "replace")
            return text if len(text) <= 80 else f"{text[:80]}…"
    return "not set"
