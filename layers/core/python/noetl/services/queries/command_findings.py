"""Findings about a command without an outcome: what it waits for, or which worker has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from noetl.domain.callbacks import Awaited
from noetl.domain.state import TERMINAL, Token
from noetl.domain.wait_request import iso
from noetl.domain.workers.lease_owners import HELD, QUEUE, is_aside, leaseholder, pool_of, shown, until
from noetl.ports.deliveries import Deliveries
from noetl.ports.executions.answers import ExecutionFilter
from noetl.ports.executions.execution_store import ExecutionInfo, ExecutionStore
from noetl.ports.executions.inspection import OpenCommand
from noetl.services.history.progress import StepRun
from noetl.services.queries.diagnosis import DELIVERY_SECONDS, Finding, waits_for_callback
from noetl.services.queries.queue_findings import delivered
from noetl.services.queries.read_execution import view_status

LATE = 60.0
"""Seconds that a command may be due without a worker taking it before that is called a problem."""
LONG = 600.0
"""Seconds that a call may take before it is worth a look."""
ANSWERED = "a worker that got it in an answer of the engine"
CHILDREN = 3


@dataclass(frozen=True, slots=True)
class CommandFindings:
    """The findings about an execution's open commands.

    ``awaited``: command → the callback it waits for. ``limited``: step runs that wait for a concurrency key; another finding reports them.
    ``now``: epoch seconds.
    """

    info: ExecutionInfo
    store: ExecutionStore
    deliveries: Deliveries | None
    awaited: Mapping[str, Awaited]
    limited: frozenset[int]
    now: float

    def of(self, token: Token, run: StepRun | None, command: OpenCommand) -> Finding | None:
        """Explain why this command has no outcome; None when another finding explains it."""
        what = f"step {token.step}: command {command.command_id} (attempt {command.attempt}, turn {command.turn})"
        if command.waiting and command.command_id in self.awaited:
            found = self.awaited[command.command_id]
            return waits_for_callback(self.info.execution_id, token.step, token.run, found)
        if token.run in self.limited and (command.waiting or command.due_for < 0):
            return None
        if command.waiting:
            return self._waiting(token, what, run.child if run is not None else None)
        if is_aside(command.owner) and command.alive:
            return _aside(token, what, command)
        if command.due_for < 0:
            return _delayed(token, what, run, command)
        if not command.alive or pool_of(command.owner) is not None:
            return _free(token, what, command)
        return None if command.owner == HELD else self._held(token, what, command)

    def _waiting(self, token: Token, what: str, child: int | None) -> Finding:
        if child is None:
            return self._some_children(token, what)
        found = self.store.info(child)
        over = found is None or found.status in TERMINAL
        status = "which is gone" if found is None else f"which is {view_status(found)}"
        return Finding(
            "waits_for_child",
            "warning" if over and not (found and self._has_just_ended(found)) else "info",
            f"{what} waits for execution {child}, {status}",
            token.step,
            token.run,
            ("its end is on the way: ask again in a moment",) if over else (f"`noetl analyze {child}`",),
        )

    def _some_children(self, token: Token, what: str) -> Finding:
        """An item of a loop waits: history does not tell for which of the children."""
        parent = self.info.execution_id
        live = ExecutionFilter(parent=parent, statuses=("running", "paused"))
        children = [one.execution_id for one in self.store.executions(limit=CHILDREN + 1, wanted=live)]
        if children:
            named = ", ".join(map(str, children[:CHILDREN])) + (
                " and others" if len(children) > CHILDREN else ""
            )
            words = f"{what} waits for one of its sub-executions, of which {named} have not ended"
            return Finding(
                "waits_for_child", "info", words, token.step, token.run, (f"`noetl analyze {children[0]}`",)
            )
        newest = self.store.executions(limit=CHILDREN, wanted=ExecutionFilter(parent=parent))
        return Finding(
            "waits_for_child",
            "info" if any(map(self._has_just_ended, newest)) else "warning",
            f"{what} waits for a sub-execution whose end is on the way",
            token.step,
            token.run,
            ("ask again in a moment; if that stays, no engine is running: `noetl resume`",),
        )

    def _has_just_ended(self, child: ExecutionInfo) -> bool:
        """Return whether the end of a child may still be on its way to the parent."""
        return child.ended_at is not None and self.now - child.ended_at < DELIVERY_SECONDS

    def _held(self, token: Token, what: str, command: OpenCommand) -> Finding:
        if command.owner == QUEUE:
            found = delivered(self.info.execution_id, what, token.step, command, self.deliveries)
            if found is not None:
                return found
        long = command.due_for > LONG
        tries = ("give the step a timeout: `spec.timeout`", f"`noetl cancel {self.info.execution_id}`")
        return Finding(
            "long_running" if long else "running",
            "warning" if long else "info",
            f"{what} has been running for {command.due_for:.0f} s ({who_has(command.owner)})",
            token.step,
            token.run,
            tries if long else (),
        )


def who_has(owner: str) -> str:
    """Name the owner of a command for people."""
    if owner == QUEUE:
        return "the queue has it, or a worker that reads it"
    if (found := leaseholder(owner)) is None:
        return owner
    return ANSWERED if shown(owner) != owner else f"worker {found[1]} of the pool {found[0]}"


def _aside(token: Token, what: str, command: OpenCommand) -> Finding:
    """Report that a process could not read the row of this command."""
    again = until(command.owner)
    return Finding(
        "unreadable_row",
        "error",
        f"{what} cannot be read, so it is set aside" + ("" if again is None else f" until {iso(again)}"),
        token.step,
        token.run,
        ("docs/operations.md: rows that cannot be read",),
    )


def _delayed(token: Token, what: str, run: StepRun | None, command: OpenCommand) -> Finding:
    """Report what a command waits for that is not due yet."""
    soon = f"in {-command.due_for:.0f} s" if command.due_for <= -1 else "in a moment"
    if command.lost:
        died = "a process" if command.lost == 1 else f"{command.lost} processes"
        kind, why = "after_deaths", f"runs again {soon}, alone: {died} died while running it"
    elif command.remote:
        kind, why = "waits_for_work", f"waits for an external job; it asks again {soon}"
    elif run is not None and run.status == "waiting" and run.until is not None:
        kind, why = "waits_for_time", f"waits until {iso(run.until)}"
    elif run is not None and run.loop is not None:
        kind, why = "delayed", f"continues {soon}: its item waits, or is tried again"
    else:
        kind, why = "delayed", f"is tried again {soon}"
    return Finding(kind, "info", f"{what} {why}", token.step, token.run)


def _free(token: Token, what: str, command: OpenCommand) -> Finding:
    """Report that no live worker has a command that is due."""
    pool = pool_of(command.owner)
    lost = bool(command.owner) and pool is None
    lapsed = f"{who_has(command.owner)} had it and sends no heartbeats" if lost else "no worker has taken it"
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
