"""The reason why a command cannot be claimed, from what a store knows of it."""

from __future__ import annotations

from noetl.domain.state import TERMINAL
from noetl.domain.workers.lease_owners import leaseholder, pool_of, shown, until
from noetl.ports.workers import CommandState


def unclaimed(status: str | None, done: bool) -> CommandState:
    """Return the state of a command without a row. ``status``: of its execution."""
    if status is None:
        return CommandState("unknown")
    if done:
        return CommandState("done")
    return CommandState("over" if status in TERMINAL else "unknown")


def held(
    status: str, owner: str, waiting: bool, due_in: float, alive: bool, lease: float | None, now: float
) -> CommandState:
    """Return the state of a command that has a row.

    ``due_in``: seconds until it may run. ``lease``: seconds left of a process's lease.
    """
    if status == "paused":
        return CommandState("paused")
    if waiting:
        return CommandState("suspended")
    if due_in > 0:
        return CommandState("early", due_in)
    if pool_of(owner) is not None or not alive:
        return CommandState("offered", holder=pool_of(owner) or "")
    named = until(owner)
    left = lease if named is None else named - now
    holder = (leaseholder(owner) or ("", owner))[1] if shown(owner) == owner else "a worker"
    return CommandState("leased", left, holder)
