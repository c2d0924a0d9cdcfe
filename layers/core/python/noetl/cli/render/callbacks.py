"""Lines about callbacks that executions wait for.

The watch prints them as they open.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from noetl.cli.client.protocol import Place
from noetl.cli.options import CommandTarget
from noetl.cli.render.event_stream import Feed, TaskLog, Throttle
from noetl.cli.render.output import clock, one_line, out
from noetl.domain import codec
from noetl.domain.errors import NoetlError
from noetl.services.callbacks.open_callbacks import AwaitedCallback, OpenCallback

if TYPE_CHECKING:
    from noetl.services.queries.read_execution import ExecutionView


def print_callbacks(
    found: Sequence[OpenCallback], execution_id: int, at: CommandTarget, *, requested: bool
) -> None:
    """What is awaited, and how it is answered.

    ``requested``: a person requested for it, so that tokens are shown anywhere.
    """
    for line in lines_of(found, execution_id, at, requested=requested):
        out(f"  {line}")


def lines_of(
    found: Sequence[OpenCallback], execution_id: int, at: CommandTarget, *, requested: bool = False
) -> list[str]:
    """Return the lines about open callbacks.

    Every holder of a token can answer. So without a terminal, where logs are kept, lines name the execution instead.
    """
    shown = requested or sys.stdout.isatty()
    lines = []
    for one in found:
        lines.append(about(one.callback))
        name = one.token if shown else str(execution_id)
        lines.append(f"to answer: noetl callback {name} {example_answer(one.callback.approve)}{at.option}")
        if shown:
            lines.append(
                f"{'a page for it' if one.callback.approve else 'or POST to'}: {one.url}{_served(one.url)}"
            )
    if found and not shown:
        lines.append(f"its token and address: noetl callback {execution_id}{at.option}")
    return lines


def _served(url: str) -> str:
    """Say what to do before an address of this machine works.

    Empty when a server listens there.
    """
    place = urlsplit(url)
    if place.hostname not in ("127.0.0.1", "localhost"):
        return ""
    try:
        with socket.create_connection((place.hostname, place.port or 80), timeout=0.5):
            return ""
    except OSError:
        return "  (once `noetl server start --detach` runs: no server listens there now)"


def about(found: AwaitedCallback) -> str:
    """``ask[2]: answer waits for a callback until 12:00:00: Refund 40 EUR?``"""
    item = "" if found.index is None else f"[{found.index}]"
    until = "" if found.until is None else f" until {clock(found.until)}"
    message = f": {one_line(found.message, 200)}" if found.message else ""
    return f"{found.step}{item}: {found.task} waits for a callback since {clock(found.since)}{until}{message}"


def example_answer(approve: bool) -> str:
    return "--set approved=true" if approve else "--set NAME=VALUE"


class CallbackReporter:
    """The reporter of callbacks that begin to be awaited while a command follows executions.

    ``log``: receives the lines.
    """

    def __init__(self, place: Place, feed: Feed, ids: Sequence[int], log: TaskLog, at: CommandTarget) -> None:
        self._place, self._feed, self._ids, self._log, self._at = place, feed, tuple(ids), log, at
        self._due = Throttle(1.5)
        self._printed: set[str] = set()

    def tick(self) -> None:
        if not self._due():
            return
        for execution_id in self._ids:
            if any(run.awaits for run in self._feed.progress(execution_id).runs.values()):
                self._print(execution_id)

    def _print(self, execution_id: int) -> None:
        try:
            found = [one for one in self._place.callbacks(execution_id) if one.token not in self._printed]
        except NoetlError:
            # Reported at the next look: a caller that may only read does not see the addresses, and nothing else depends on it.
            return
        self._printed.update(one.token for one in found)
        for line in lines_of(found, execution_id, self._at):
            self._log.add(line)


def last_words(place: Place, execution_id: int) -> list[dict[str, Any]]:
    """Build the part of the last line of JSON about callbacks.

    Their tokens are shown by ``noetl callback ID --json`` alone.
    """
    return [codec.plain(one.callback) for one in place.callbacks(execution_id)]


def print_parked(view: ExecutionView, execution_id: int, at: CommandTarget) -> None:
    """How the gates that an execution waits at can be opened."""
    out(f"waiting: execution {execution_id} continues when its context allows it")
    for parked in view.parked:
        out(f"  {parked.step} is admitted when: {parked.guard or 'its admission rules say so'}")
        sets = " ".join(f"--set {key}=true" for key in parked.keys) or "--set NAME=VALUE"
        out(f"  to approve: noetl ctx patch {execution_id} {sets}{at.option}")
