"""``noetl callback``: answer what an execution waits for, or look at it; and what other commands tell about callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from noetl.cli import errors
from noetl.cli.actions.payload import read_payload
from noetl.cli.client.protocol import Place, open_place, open_running, resolve_id
from noetl.cli.options import Where
from noetl.cli.render.event_stream import Feed, TaskLog, Throttle
from noetl.cli.render.output import clock, note, one_line, out, out_json
from noetl.domain.callbacks import PATH
from noetl.domain.errors import NoetlError
from noetl.services.callbacks.open_callbacks import AwaitedCallback, OpenCallback, only_one

if TYPE_CHECKING:
    from noetl.services.callbacks.complete_callback import AskedFor
    from noetl.services.queries.read_execution import ExecutionView


def callback(
    target: str,
    *,
    sets: Sequence[str],
    payload: str | None,
    as_json: bool,
    quiet: bool,
    at: Where,
) -> int:
    """Answer a callback and stay with its execution; without an answer, show what is asked for."""
    from noetl.cli.actions import execute

    if not sets and payload is None:
        return _look(target, as_json, at)
    body = read_payload(payload, sets)
    log = TaskLog()
    with open_running(at, on_log=log.add, takes="sound") as place:
        token = _token(place, target)
        execution_id, duplicate = place.answer(token, body)
        if duplicate and not as_json:
            note("this was answered with the same words before")
        return execute.follow(place, [execution_id], as_json=as_json, quiet=quiet, log=log, at=at)


def _look(target: str, as_json: bool, at: Where) -> int:
    with open_place(at) as place:
        if _is_execution(target):
            execution_id = resolve_id(place, target)
            found = place.callbacks(execution_id)
            if as_json:
                for one in found:
                    out_json(one)
            elif found:
                tell_callbacks(found, at)
            else:
                note(f"execution {execution_id} waits for no callback")
            return errors.DONE
        asked = place.asked(_bare(target))
    if as_json:
        out_json(asked)
    else:
        _tell_asked(asked, _bare(target), at)
    return errors.DONE


def _token(place: Place, target: str) -> str:
    """The token itself, in an address or alone; or that of the only callback an execution waits for."""
    if not _is_execution(target):
        return _bare(target)
    execution_id = resolve_id(place, target)
    return only_one(list(place.callbacks(execution_id)), execution_id).token


def _is_execution(target: str) -> bool:
    return target == "latest" or target.isdigit()


def _bare(target: str) -> str:
    return target.rpartition(PATH)[2].partition("?")[0].strip()


def _tell_asked(asked: AskedFor, token: str, at: Where) -> None:
    when = f" since {clock(asked.since)}" if asked.since is not None else ""
    state = f"waits for it{when}" if asked.waiting else "will wait for it"
    out(f"execution {asked.execution_id}: step {asked.step}, task {asked.task or '(one of several)'} {state}")
    if asked.until is not None:
        out(f"  until {clock(asked.until)}")
    if asked.message:
        out(f"  {one_line(asked.message, 400)}")
    out(f"  to answer: noetl callback {token} {_example(asked.approve)}{at.option}")


def tell_callbacks(found: Sequence[OpenCallback], at: Where) -> None:
    """What is awaited, and how it is answered."""
    for line in lines_of(found, at):
        out(f"  {line}")


def lines_of(found: Sequence[OpenCallback], at: Where) -> list[str]:
    lines = []
    for one in found:
        lines.append(about(one.callback))
        lines.append(f"to answer: noetl callback {one.token} {_example(one.callback.approve)}{at.option}")
        lines.append(f"{'a page for it' if one.callback.approve else 'or POST to'}: {one.url}")
    return lines


def about(found: AwaitedCallback) -> str:
    """``ask[2]: answer waits for a callback until 12:00:00: Refund 40 EUR?``"""
    item = "" if found.index is None else f"[{found.index}]"
    until = "" if found.until is None else f" until {clock(found.until)}"
    message = f": {one_line(found.message, 200)}" if found.message else ""
    return f"{found.step}{item}: {found.task} waits for a callback since {clock(found.since)}{until}{message}"


def _example(approve: bool) -> str:
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
