"""Commands that only read: list, status, events, result, replay."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, to_builtins

from noetl.cli import errors
from noetl.cli.client import runtime_access
from noetl.cli.client.connect import open_place
from noetl.cli.client.local_transport import LocalTransport
from noetl.cli.client.protocol import Place, resolve_id
from noetl.cli.options import CommandTarget
from noetl.cli.render.callbacks import about, example_answer, print_parked
from noetl.cli.render.event_stream import run_of, step_line
from noetl.cli.render.failed_items import failed_lines
from noetl.cli.render.output import (
    clock,
    clock_time,
    duration,
    note,
    one_line,
    out,
    out_json,
    out_line,
    out_value,
    printable,
    table,
)
from noetl.domain import codec
from noetl.domain.errors import InvalidInputError
from noetl.domain.event_names import VOCABULARIES
from noetl.domain.task_logs import TaskLine
from noetl.domain.unreadable import UnreadableRowError
from noetl.services.executions.bulk_control import ManyFilter
from noetl.services.history.event_filter import make_filter
from noetl.services.history.log_lines import make_line_filter
from noetl.services.history.read_history import HistoryEvent
from noetl.services.queries.read_execution import STATUSES, ExecutionSummary, ExecutionView

if TYPE_CHECKING:
    from noetl.services.history.replay import ReplayReport


_IDLE_MS = 1000
"""Less time without work is not worth a word."""
_CHILDREN = 10
"""Most sub-executions that a status names."""


def show_list(wanted: ManyFilter, *, limit: int, as_json: bool, at: CommandTarget) -> int:
    """Executions, newest first."""
    status = wanted.status
    if status is not None and status not in STATUSES:
        raise InvalidInputError(
            f"{status!r} is not a status", code="invalid_status", hint=f"one of {', '.join(STATUSES)}"
        )
    with open_place(at) as place:
        found = place.executions(wanted, limit=limit)
    if as_json:
        for summary in found:
            out_json(summary)
        return errors.DONE
    if not found:
        plain = (ManyFilter(status), ManyFilter(status, roots=True))
        if wanted not in (ManyFilter(), ManyFilter(roots=True)):
            note(f"no execution is {status}" if wanted in plain else "no execution fits")
        else:
            note("nothing has been executed yet: try `noetl run FILE`")
        return errors.DONE
    rows = [
        (
            s.execution_id,
            _shown_status(s),
            clock(s.started_at),
            duration(_elapsed_ms(s)),
            duration(s.active_seconds * 1000),
            s.path or s.name,
        )
        for s in found
    ]
    out(table(("EXECUTION", "STATUS", "STARTED", "START TO END", "AT WORK", "PLAYBOOK"), rows))
    return errors.DONE


def _elapsed_ms(summary: ExecutionSummary) -> float:
    """Return the time from start to end; until now while it is not over."""
    end = time.time() if summary.ended_at is None else summary.ended_at
    return max(0.0, (end - summary.started_at) * 1000)


def _work(summary: ExecutionSummary) -> str:
    """Describe its time at work, where that is not all of it, and its redrives."""
    idle = _elapsed_ms(summary) - summary.active_seconds * 1000
    rested = f", at work {duration(summary.active_seconds * 1000)}" if idle >= _IDLE_MS else ""
    return f"{rested}, redriven {summary.rounds}×" if summary.rounds else rested


def _shown_status(summary: ExecutionSummary) -> str:
    return summary.status if summary.unreadable is None else f"{summary.status} (unreadable)"


def show_status(name: str, *, as_json: bool, at: CommandTarget) -> int:
    """One execution with its steps."""
    with open_place(at) as place:
        execution_id = resolve_id(place, name)
        view = place.describe(execution_id)
        if as_json:
            out_json(view.to_dict())
            return errors.DONE
        _print_status(view)
        for step in view.steps:
            out(step_line(run_of(step)))
            for line in failed_lines(step):
                out(line)
        for wait in view.waits:
            out_line(
                f"  {f'step {wait.step} (run {wait.run})' if wait.step else 'the execution'} {wait.reason}"
            )
        if view.error:
            out(errors.describe_failure(view.error))
        for awaited in view.awaiting:
            out(f"  {about(awaited)}")
        if view.awaiting_left_out:
            out(f"  … and {view.awaiting_left_out} more: noetl callback {execution_id}{at.option}")
        if view.awaiting:
            approve = all(awaited.approve for awaited in view.awaiting)
            out(f"  to answer: noetl callback {execution_id} {example_answer(approve)}{at.option}")
        if view.parked:
            print_parked(view, execution_id, at)
        _print_children(place, execution_id, at)
    return errors.DONE


def _print_children(place: Place, execution_id: int, at: CommandTarget) -> None:
    """The newest executions that this one has started."""
    found = place.executions(ManyFilter(parent=str(execution_id)), limit=_CHILDREN + 1)
    for child in found[:_CHILDREN]:
        spent = f"at work {duration(child.active_seconds * 1000)}"
        out(f"  started {child.execution_id}  {child.path or child.name}  {_shown_status(child)}  {spent}")
    if len(found) > _CHILDREN:
        out(f"  … and more: noetl list --filter parent={execution_id}{at.option}")


def _print_status(view: ExecutionView) -> None:
    summary = view.summary
    out(f"execution {summary.execution_id}  {summary.path or summary.name}")
    span = "since then" if summary.ended_at is None else "start to end"
    elapsed = f"{span} {duration(_elapsed_ms(summary))}{_work(summary)}"
    out(f"{summary.status}  started {clock(summary.started_at)}  {elapsed}")
    if summary.parent_execution_id:
        out(f"child of {summary.parent_execution_id}")
    if summary.labels:
        out_line(f"labels: {', '.join(f'{name}={value}' for name, value in summary.labels.items())}")
    if view.reason:
        out_line(f"reason: {view.reason}")
    outstanding = ", ".join(f"{what} {count}" for what, count in view.outstanding.items() if count)
    if outstanding:
        out(f"outstanding: {outstanding}")
    for row in view.unreadable:
        out_line(f"unreadable: {row}")


class EventChoice(Struct, frozen=True):
    """The events to show: of these types and of this step; empty is any.

    ``last``: only so many of the latest.
    """

    vocabulary: str = "stored"
    types: Sequence[str] = ()
    step: str = ""
    last: int | None = None


def show_events(name: str, choice: EventChoice, *, follow: bool, as_json: bool, at: CommandTarget) -> int:
    """Print history, and with ``follow`` what is added to it until the execution ends."""
    last = choice.last
    if follow and last is not None:
        raise InvalidInputError(
            "--last shows what there is, and --follow what is added",
            code="events_choice",
            hint="leave one out",
        )
    words = next((known for known in VOCABULARIES if known == choice.vocabulary), None)
    if words is None:
        raise InvalidInputError(
            f"{choice.vocabulary!r} is not a vocabulary",
            code="invalid_vocabulary",
            hint=", ".join(VOCABULARIES),
        )
    wanted = make_filter(words, choice.types, choice.step)
    shown = 0
    with open_place(at) as place:
        execution_id = resolve_id(place, name)
        if last is not None:
            events: Iterable[HistoryEvent] = place.newest(execution_id, words, last, wanted)
        else:
            events = place.history(execution_id, words, follow=follow, wanted=wanted)
        for event in events:
            shown += 1
            if as_json:
                out_json(event)
            else:
                out_line(event_line(event))
        if wanted and not shown and not as_json:
            note(f"no event of execution {execution_id} fits")
    return errors.DONE


class LineChoice(Struct, frozen=True):
    """The lines to show; None is any. ``last``: only so many of the latest."""

    search: str = ""
    step: str | None = None
    run: int | None = None
    item: int | None = None
    attempt: int | None = None
    level: str | None = None
    last: int | None = None


def show_logs(name: str, choice: LineChoice, *, follow: bool, as_json: bool, at: CommandTarget) -> int:
    """What tasks have printed, and with ``follow`` what they print until the execution ends."""
    wanted = make_line_filter(
        choice.search, choice.step, choice.run, choice.item, choice.attempt, choice.level
    )
    shown = 0
    with open_place(at) as place:
        execution_id = resolve_id(place, name)
        for line in place.lines(execution_id, wanted, follow=follow, last=choice.last):
            shown += 1
            if as_json:
                out_json({"execution_id": str(execution_id), **to_builtins(line)})
            else:
                out_line(log_line(line))
        if not shown and not as_json:
            if wanted:
                note(f"execution {execution_id} has printed no line that fits")
            else:
                note(
                    f"tasks of execution {execution_id} have printed nothing that is kept here (docs/logs.md)"
                )
    return errors.DONE


def log_line(line: TaskLine) -> str:
    """Format one line of a task's log.

    ``01:02:03.004Z fetch[3] printed text``; the second and later attempts of a task as ``fetch #2``.
    """
    where = line.step if line.index is None else f"{line.step}[{line.index}]"
    again = f" #{line.attempt}" if line.attempt > 1 else ""
    return f"{clock_time(line.time)}  {where + again:<20} {printable(line.line, 10_000)}"


def event_line(event: HistoryEvent) -> str:
    """``01:02:03.004Z  step.exit   fetch   success  {…}``"""
    payload = {key: value for key, value in event.payload.items() if value != event.entity_id}
    details = one_line(codec.encode(payload).decode("utf-8", "backslashreplace"), 110) if payload else ""
    index = event.meta.get("loop_iteration_index")
    entity = event.entity_id if index is None else f"{event.entity_id}[{index}]"
    return f"{clock_time(event.timestamp)}  {event.event_type:<22} {entity:<20} {event.status:<11} {details}".rstrip()


def show_result(name: str, *, save: str | None, as_json: bool, at: CommandTarget) -> int:
    """Print the result of a completed execution, and nothing else on stdout.

    ``save``: files of it go to this folder.
    """
    with open_place(at) as place:
        execution_id = resolve_id(place, name)
        status = place.status(execution_id)
        if status in ("failed", "cancelled") and not as_json:
            view = place.describe(execution_id)
            note(f"execution {execution_id} {status}, so it has no result")
            if view.error:
                note(errors.describe_failure(view.error))
            return errors.FAILED
        value = place.result(execution_id) if save is None else _saved(place, execution_id, save)
    if as_json:
        out_json(value)
    else:
        out_value(value)
    return errors.DONE


def replay(name: str | None, *, everything: bool, as_json: bool, home: str | None) -> int:
    """Fold histories from nothing and compare with what is stored; 1 when any differs."""
    if everything == (name is not None):
        raise InvalidInputError("name one execution, or use --all", code="usage")
    from noetl.services.history.replay import replay as replay_one

    differing = 0
    with runtime_access.open_reading(home) as reading:
        ids = _all_ids(reading) if name is None else iter([resolve_id(LocalTransport(reading), name)])
        count = unread = 0
        for execution_id in ids:
            count += 1
            try:
                report = replay_one(reading.store, execution_id)
            except UnreadableRowError as error:
                if not everything:
                    raise
                unread += 1
                _print_unread(execution_id, error, as_json)
                continue
            differing += not report.agrees
            _print_replay(report, as_json)
    if everything and not as_json:
        out(
            f"{count} executions replayed, {differing} differ"
            + (f", {unread} cannot be read" if unread else "")
        )
    return errors.FAILED if differing or unread else errors.DONE


def _print_unread(execution_id: int, error: UnreadableRowError, as_json: bool) -> None:
    if as_json:
        out_json({"execution_id": str(execution_id), "unreadable": error.message, "agrees": False})
    else:
        out_line(f"execution {execution_id}: {error.message}")


def _all_ids(reading: runtime_access.Reading) -> Iterator[int]:
    before: int | None = None
    while True:
        page = reading.store.executions(limit=200, before=before)
        for info in page:
            yield info.execution_id
        if len(page) < 200:
            return
        before = page[-1].execution_id


def _saved(place: Place, execution_id: int, save: str) -> object:
    from noetl.cli.actions.result_files import saved

    return saved(place, execution_id, Path(save))


def _print_replay(report: ReplayReport, as_json: bool) -> None:
    if as_json:
        out_json({**_as_dict(report), "agrees": report.agrees})
        return
    rows = f"{report.rows} rows, {report.items} items"
    out(f"execution {report.execution_id}: {rows}: {'agrees' if report.agrees else 'DIFFERS'}")
    for difference in report.differences:
        out(f"  {difference.path}: stored {difference.stored}, history says {difference.rebuilt}")


def _as_dict(report: ReplayReport) -> dict[str, object]:
    import msgspec

    shown: dict[str, object] = msgspec.to_builtins(report)
    return shown
