"""Commands that change a running execution: patch its context, inject a token."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from noetl.cli.actions.context_patch import read_patch
from noetl.cli.actions.execute import follow
from noetl.cli.actions.payload import read_payload
from noetl.cli.client.connect import open_running
from noetl.cli.client.protocol import Running, resolve_id
from noetl.cli.options import CommandTarget
from noetl.cli.render.event_stream import TaskLog


def patch(
    name: str,
    *,
    source: str | None,
    sets: Sequence[str],
    reason: str,
    correlation_id: str,
    as_json: bool,
    quiet: bool,
    at: CommandTarget,
) -> int:
    """Change an execution's context, and follow it; run it here unless another process does."""
    changes = read_patch(source, sets)

    def change(place: Running, execution_id: int) -> None:
        place.patch(execution_id, changes, reason, correlation_id=correlation_id)

    return _changed(name, change, as_json=as_json, quiet=quiet, at=at)


def inject(
    name: str,
    step: str,
    *,
    sets: Sequence[str],
    reason: str,
    correlation_id: str,
    as_json: bool,
    quiet: bool,
    at: CommandTarget,
) -> int:
    """Let a step run (once more) with these arguments, and stay with the execution."""
    args = read_payload(None, sets)

    def change(place: Running, execution_id: int) -> None:
        place.inject(execution_id, step, args, reason, correlation_id=correlation_id)

    return _changed(name, change, as_json=as_json, quiet=quiet, at=at)


def _changed(
    name: str, change: Callable[[Running, int], None], *, as_json: bool, quiet: bool, at: CommandTarget
) -> int:
    log = TaskLog()
    with open_running(at, on_log=log.add, takes="sound") as place:
        execution_id = resolve_id(place, name)
        change(place, execution_id)
        return follow(place, [execution_id], as_json=as_json, quiet=quiet, log=log, at=at)
