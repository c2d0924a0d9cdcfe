"""Commands that run executions: run, exec, resume, pause, redrive, cancel."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from noetl.cli import errors
from noetl.cli.actions.payload import read_output, read_payload
from noetl.cli.actions.playbook_files import full
from noetl.cli.actions.run_request import RunRequest, checked_text
from noetl.cli.client.connect import open_running
from noetl.cli.client.local_transport import open_running_here
from noetl.cli.client.protocol import NewExecution, Place, Registered, Running, resolve_id
from noetl.cli.commands.register import register_neighbours
from noetl.cli.options import CommandTarget
from noetl.cli.render.callbacks import CallbackReporter, last_words, print_callbacks, print_parked
from noetl.cli.render.event_stream import Feed, JsonEvents, PlainLines, SilentWatcher, TaskLog, Watcher
from noetl.cli.render.failed_items import failed_lines
from noetl.cli.render.output import duration, note, one_line, out, out_json, out_text, pretty
from noetl.cli.render.summary import print_end
from noetl.cli.task_folders import give_folders, words_of
from noetl.domain.errors import InvalidInputError, NoetlError, NotFoundError
from noetl.domain.state import TERMINAL
from noetl.services.executions.bulk_control import ManyFilter
from noetl.services.queries.read_execution import ExecutionView

if TYPE_CHECKING:
    from noetl.dsl.program import Program


_NAMED = 20
"""Most executions that `resume` names."""


def run(request: RunRequest, *, as_json: bool, quiet: bool, timeout: float | None, at: CommandTarget) -> int:
    """Start a playbook and follow it to its end; with ``dry_run``, show what would start."""
    try:
        give_folders(at.task_folders, at)
        start = request.start(read_payload(request.payload, request.sets))
        if request.dry_run:
            from noetl.cli.actions.dry_run import show_plan

            return show_plan(request, start, as_json=as_json, at=at)
        return _run(request, start, as_json, quiet, timeout, at)
    except NoetlError as error:
        if not as_json:
            raise
        status = "invalid" if errors.exit_code(error) == errors.USAGE else "error"
        out_json(_last_line(None, status, error=errors.as_json(error)))
        return errors.exit_code(error)


def _run(
    request: RunRequest,
    start: NewExecution,
    as_json: bool,
    quiet: bool,
    timeout: float | None,
    at: CommandTarget,
) -> int:
    text, program = checked_text(
        request.target, at, warn=not (as_json or quiet), runs=True, strict=request.strict
    )
    log = TaskLog()
    with open_running(at, on_log=log.add) as place:
        entry = entry_of(place, request.target, text, warn=not (as_json or quiet))
        check_names(place, entry, program, request)
        execution_id = place.start(entry, start)
        if not (as_json or quiet):
            out(f"execution {execution_id}  {entry.path} version {entry.version}")
        return follow(
            place, [execution_id], as_json=as_json, quiet=quiet, timeout=timeout, log=log, at=at, began=True
        )


def check_names(place: Place, entry: Registered, program: Program | None, request: RunRequest) -> None:
    """Warn about ``--set`` of names that the playbook does not know.

    Raises InvalidInputError where that is to be refused.
    """
    if not request.sets:
        return
    from noetl.cli.actions.unknown_sets import check_sets

    known = program or place.program(entry)
    if known is not None:
        check_sets(known, request.sets, strict=request.strict)


def entry_of(place: Place, target: str, text: str | None, *, warn: bool) -> Registered:
    if text is None:
        return _from_catalog(place, target)
    register_neighbours(place, text, Path(full(target)))
    entry = place.register(text, source_name=full(target))
    if warn and entry.warnings:
        note(errors.describe_diagnostics(entry.warnings, full(target)))
    return entry


def _from_catalog(place: Place, target: str) -> Registered:
    """``path`` (latest version) or ``path@version``."""
    try:
        return place.find(target)
    except NotFoundError as unknown:
        raise NotFoundError(
            f"there is neither a file nor a registered playbook {target}",
            code=unknown.code,
            hint=unknown.hint,
        ) from unknown


# --- following ----------------------------------------------------------------------------------


def follow(
    place: Running,
    ids: Sequence[int],
    *,
    as_json: bool,
    quiet: bool,
    at: CommandTarget,
    timeout: float | None = None,
    log: TaskLog | None = None,
    began: bool = False,
) -> int:
    """Follow executions until they end, park, or time out.

    At the latest after ``timeout`` seconds; reports how each ended.

    ``began``: this command started the only one, so that here ``latest`` names it.
    """
    feed = place.feed()
    log = log or TaskLog()
    watcher = _watcher(feed, ids, as_json, quiet, log)
    teller = None if as_json or quiet else CallbackReporter(place, feed, ids, log, at)

    def tick() -> None:
        if teller is not None:
            teller.tick()
        watcher.tick()

    interrupted = False
    try:
        place.run_until(ids, feed, on_tick=tick, timeout=timeout)
    except (KeyboardInterrupt, TimeoutError, errors.ReaderGoneError):
        interrupted = True
    finally:
        watcher.finish()
    codes = [
        _print_end(
            place,
            execution_id,
            as_json,
            quiet,
            interrupted,
            at,
            "latest" if began and not at.remote else str(execution_id),
        )
        for execution_id in ids
    ]
    return max(codes, default=errors.DONE)


def _watcher(feed: Feed, ids: Sequence[int], as_json: bool, quiet: bool, log: TaskLog) -> Watcher:
    if as_json:
        return JsonEvents(feed, ids)
    if quiet:
        return SilentWatcher()
    if sys.stdout.isatty():
        from noetl.cli.render.live import LiveView

        return LiveView(feed, ids, log)
    return PlainLines(feed, ids, log)


def _print_end(
    place: Place,
    execution_id: int,
    as_json: bool,
    quiet: bool,
    interrupted: bool,
    at: CommandTarget,
    name: str,
) -> int:
    view = place.describe(execution_id)
    value = place.result(execution_id) if view.status == "completed" else None
    if as_json:
        error = view.error or ({"message": view.reason} if view.reason else None)
        out_json(
            _last_line(
                str(execution_id),
                view.status,
                result=value,
                error=error,
                duration_ms=view.summary.duration_ms,
            )
            | ({"callbacks": last_words(place, execution_id)} if view.awaiting else {})
        )
    else:
        _print(place, view, value, execution_id, quiet, at, name)
    if view.status in TERMINAL:
        return errors.DONE if view.status == "completed" else errors.FAILED
    if view.status in ("waiting", "paused") and not interrupted:
        return errors.DONE
    if not as_json and at.remote:
        note(f"it continues there; follow it with: noetl events -f {execution_id}{at.option}")
    elif not as_json:
        words = words_of(at.task_folders)
        note(f"stopped before the end; continue with: noetl resume {execution_id}{words}")
    return errors.INTERRUPTED


def _last_line(
    execution_id: str | None,
    status: str,
    *,
    result: Any = None,
    error: Any = None,
    duration_ms: int | None = None,
) -> dict[str, Any]:
    return {
        "execution_id": execution_id,
        "status": status,
        "result": result,
        "error": error,
        "duration_ms": duration_ms,
    }


def _print(
    place: Place,
    view: ExecutionView,
    value: Any,
    execution_id: int,
    quiet: bool,
    at: CommandTarget,
    name: str,
) -> None:
    spent = duration(view.summary.duration_ms)
    if view.status == "completed":
        named = "" if name == "latest" else f"execution {execution_id} "
        if not quiet:
            _print_failed_items(view)
        if quiet:
            out_text(f"{pretty(value)}\n")
        else:
            print_end(f"{named}completed in {spent}: {_steps(view)}", value, name, at.option)
    elif view.status == "failed" and view.error:
        if not quiet:
            _print_failed_items(view)
        step = view.error.get("step")
        note(f"failed in {spent}{f' at step {step}' if step else ''}")
        note(errors.describe_failure(view.error))
        note(f"  more: noetl status {execution_id}{at.option}")
    elif view.status == "cancelled":
        note(one_line(f"cancelled{f': {view.reason}' if view.reason else ''}", 1000))
    elif view.status == "waiting":
        print_waiting(place, view, execution_id, at)
    elif view.status == "paused":
        out(f"paused: noetl unpause {execution_id}{at.option} continues it")


def _print_failed_items(view: ExecutionView) -> None:
    for step in view.steps:
        lines = list(failed_lines(step))
        if lines:
            out(f"  {step.step}")
        for line in lines:
            out(line)


def _steps(view: ExecutionView) -> str:
    """``5 steps of examples/seattle_weather``"""
    count = len(view.steps)
    return f"{count:,} step{'' if count == 1 else 's'} of {view.summary.path or view.summary.name}"


def print_waiting(place: Place, view: ExecutionView, execution_id: int, at: CommandTarget) -> None:
    """Show how to answer or admit what a waiting execution waits for."""
    if view.awaiting:
        out(f"waiting: execution {execution_id} continues when it is answered")
        print_callbacks(place.callbacks(execution_id), execution_id, at, requested=False)
    if view.parked:
        print_parked(view, execution_id, at)


# --- other commands that change an execution ------------------------------------------------------


def resume(
    names: Sequence[str], *, as_json: bool, quiet: bool, timeout: float | None, at: CommandTarget
) -> int:
    """Continue the named executions that earlier processes left unfinished, or all of them."""
    log = TaskLog()
    give_folders(at.task_folders, at)
    with open_running_here(at.home, log.add) as place:
        wanted = [resolve_id(place, name) for name in names]
        for execution_id in wanted:
            place.status(execution_id)
        live = place.runtime.recover()
        ids = wanted or live
        if not ids:
            if not as_json:
                out("nothing to resume")
            return errors.DONE
        if not (as_json or quiet):
            print_resumed(place, ids)
        return follow(place, ids, as_json=as_json, quiet=quiet, timeout=timeout, log=log, at=at)


def print_resumed(place: Place, ids: Sequence[int]) -> None:
    """List the executions that are resumed, so that a reader can match the ends that follow."""
    out(f"resuming {len(ids):,} execution{'' if len(ids) == 1 else 's'}")
    shown = ManyFilter(ids=[str(execution_id) for execution_id in ids[:_NAMED]])
    for summary in place.executions(shown, limit=_NAMED):
        out(f"  {summary.execution_id}  {summary.path or summary.name}  {summary.status}")
    if len(ids) > _NAMED:
        out(f"  … and {len(ids) - _NAMED:,} more")


def cancel(name: str, *, reason: str, cascade: bool, as_json: bool, at: CommandTarget) -> int:
    """Cancel an execution, and its children with it."""
    with open_running(at, takes="nothing") as place:
        execution_id = resolve_id(place, name)
        place.cancel(execution_id, reason, cascade=cascade)
        status = place.status(execution_id)
    return _print_started(execution_id, status, as_json)


def pause(name: str, *, reason: str, cascade: bool, as_json: bool, at: CommandTarget) -> int:
    """Begin nothing new in an execution."""
    with open_running(at, takes="nothing") as place:
        execution_id = resolve_id(place, name)
        place.pause(execution_id, reason, cascade=cascade)
        status = place.status(execution_id)
    return _print_started(
        execution_id, status, as_json, f"; noetl unpause {execution_id}{at.option} continues it"
    )


def _print_started(execution_id: int, status: str | None, as_json: bool, more: str = "") -> int:
    if as_json:
        out_json({"execution_id": str(execution_id), "status": status})
    else:
        out(f"execution {execution_id} is {status}{more}")
    return errors.DONE


def unpause(name: str, *, reason: str, cascade: bool, as_json: bool, quiet: bool, at: CommandTarget) -> int:
    """Continue a paused execution, and follow it to its end."""
    log = TaskLog()
    with open_running(at, on_log=log.add) as place:
        execution_id = resolve_id(place, name)
        place.resume(execution_id, reason, cascade=cascade)
        return follow(place, [execution_id], as_json=as_json, quiet=quiet, log=log, at=at)


def redrive(
    name: str,
    *,
    step: str,
    sets: Sequence[str],
    version: int | None,
    output: str | None,
    reason: str,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    at: CommandTarget,
) -> int:
    """Run an execution that has ended again, and stay with it.

    With ``dry_run``, show what would run.
    """
    args = read_payload(None, sets) if sets else None
    given = UNSET if output is None else read_output(output)
    if output is not None and not step:
        raise InvalidInputError(
            "an output is that of a step", code="invalid_redrive", hint="name it with --from"
        )
    if args and not step:
        raise InvalidInputError("arguments are for a step", code="invalid_set", hint="name it with --from")
    log = TaskLog()
    give_folders(at.task_folders, at)
    with open_running(at, on_log=log.add) as place:
        execution_id = resolve_id(place, name)
        if dry_run:
            from noetl.cli.actions.dry_run import show_redrive

            plan = place.plan_redrive(execution_id, step=step, args=args, version=version, output=given)
            show_redrive(plan, as_json)
            return errors.DONE
        place.redrive(execution_id, reason, step=step, args=args, version=version, output=given)
        return follow(place, [execution_id], as_json=as_json, quiet=quiet, log=log, at=at)
