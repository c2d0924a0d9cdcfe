"""Lines about callbacks that executions wait for, and the watch that prints them as they open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from noetl.cli.client.protocol import Place
from noetl.cli.options import Where
from noetl.cli.render.event_stream import Feed, TaskLog, Throttle
from noetl.cli.render.output import clock, one_line, out
from noetl.domain.errors import NoetlError
from noetl.services.callbacks.open_callbacks import AwaitedCallback, OpenCallback

if TYPE_CHECKING:
    from noetl.services.queries.read_execution import ExecutionView


def tell_callbacks(found: Sequence[OpenCallback], at: Where) -> None:
    """What is awaited, and how it is answered."""
    for line in lines_of(found, at):
        out(f"  {line}")


def lines_of(found: Sequence[OpenCallback], at: Where) -> list[str]:
    lines = []
    for one in found:
        lines.append(about(one.callback))
        lines.append(
            f"to answer: noetl callback {one.token} {example_answer(one.callback.approve)}{at.option}"
        )
        lines.append(f"{'a page for it' if one.callback.approve else 'or POST to'}: {one.url}")
    return lines


def about(found: AwaitedCallback) -> str:
    """``ask[2]: answer waits for a callback until 12:00:00: Refund 40 EUR?``"""
    item = "" if found.index is None else f"[{found.index}]"
    until = "" if found.until is None else f" until {clock(found.until)}"
    message = f": {one_line(found.message, 200)}" if found.message else ""
    return f"{found.step}{item}: {found.task} waits for a callback since {clock(found.since)}{until}{message}"


def example_answer(approve: bool) -> str:
    return "--set approved=true" if approve else "--set NAME=VALUE"


class Teller:
    """Tells of callbacks as they begin to be awaited, while a command stays with executions. ``log``: where lines go."""

    def __init__(self, place: Place, feed: Feed, ids: Sequence[int], log: TaskLog, at: Where) -> None:
        self._place, self._feed, self._ids, self._log, self._at = place, feed, tuple(ids), log, at
        self._due = Throttle(1.5)
        self._told: set[str] = set()

    def tick(self) -> None:
        if not self._due():
            return
        for execution_id in self._ids:
            if any(run.awaits for run in self._feed.progress(execution_id).runs.values()):
                self._tell(execution_id)

    def _tell(self, execution_id: int) -> None:
        try:
            found = [one for one in self._place.callbacks(execution_id) if one.token not in self._told]
        except NoetlError:
            # Told at the next look: whoever only reads may not see the addresses, and nothing else depends on it.
            return
        self._told.update(one.token for one in found)
        for line in lines_of(found, self._at):
            self._log.add(line)


def last_words(place: Place, execution_id: int) -> list[dict[str, Any]]:
    """What a machine that ran an execution is told about callbacks it waits for."""
    import msgspec

    found: list[dict[str, Any]] = msgspec.to_builtins(list(place.callbacks(execution_id)))
    return found


def tell_parked(view: ExecutionView, execution_id: int, at: Where) -> None:
    """How the gates that an execution waits at can be opened."""
    out(f"waiting: execution {execution_id} goes on when its context allows it")
    for parked in view.parked:
        out(f"  {parked.step} is admitted when: {parked.guard or 'its admission rules say so'}")
        sets = " ".join(f"--set {key}=true" for key in parked.keys) or "--set NAME=VALUE"
        out(f"  to approve: noetl ctx patch {execution_id} {sets}{at.option}")
