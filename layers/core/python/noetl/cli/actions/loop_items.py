"""``noetl items``: the items of a loop."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from noetl.cli import errors
from noetl.cli.client.connect import open_place
from noetl.cli.client.protocol import resolve_id
from noetl.cli.options import CommandTarget
from noetl.cli.render.output import clock, duration, note, one_line, out, out_json, table
from noetl.domain.errors import NotFoundError
from noetl.services.history.loop_items import LoopItem
from noetl.services.queries.read_execution import ExecutionView, StepView

_LOOPS_NAMED = 5
_SHOWN = 100


@dataclass(frozen=True, slots=True)
class LoopChoice:
    """Which loop of an execution: of a step, of a step run, or the last one."""

    step: str | None
    run: int | None

    def of(self, view: ExecutionView) -> StepView:
        """Return the newest step run that fits. Raises NotFoundError(code="loop_not_found")."""
        loops = [step for step in view.steps if step.loop is not None]
        fitting = [step for step in loops if self.step in (None, step.step) and self.run in (None, step.run)]
        if fitting:
            return fitting[-1]
        names = [f"{loop.step} (run {loop.run})" for loop in loops[-_LOOPS_NAMED:]]
        raise NotFoundError(
            f"execution {view.summary.execution_id} has no such loop",
            code="loop_not_found",
            hint=f"it has {', '.join(names)}" if names else "none of its steps is a loop that began",
        )


def show_items(
    name: str, choice: LoopChoice, *, failed: bool, limit: int, as_json: bool, at: CommandTarget
) -> int:
    """Print the items of a loop."""
    with open_place(at) as place:
        execution_id = resolve_id(place, name)
        loop = choice.of(place.describe(execution_id))
        found = list(islice(place.items(execution_id, loop.run, failed=failed), limit + 1))
    items, more = found[:limit], len(found) > limit
    if as_json:
        for item in items:
            out_json(item)
    elif items:
        out(f"{loop.step} (run {loop.run})")
        out(table(("ITEM", "STATUS", "ENDED", "CALLS", "TIME", "RESULT"), [_row(item) for item in items]))
    else:
        note(f"no item of {loop.step} has {'failed' if failed else 'ended yet'}")
    if more:
        note(f"there are more: --limit {10 * limit} shows them")
    return errors.DONE


def _row(item: LoopItem) -> tuple[str, str, str, str, str, str]:
    shown = item.unreadable or (item.error.message if item.error is not None else item.preview)
    took = duration(item.tool_ms) if item.tool_ms else ""
    return str(item.index), item.status, clock(item.at), str(item.attempts), took, one_line(shown, _SHOWN)
