"""Options and help of ``noetl list``, ``status``, ``items``, ``events``, ``result``.

What they do is in ``reading``.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from noetl.cli.options import Before, Context, Filters, Home, Id, Json, Remote, end, where


def list_(
    status: Annotated[
        str | None, typer.Option(help="running, waiting, paused, completed, failed or cancelled.")
    ] = None,
    filters: Filters = None,
    labels: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="NAME=VALUE", help="Only executions with this label. Repeatable."),
    ] = None,
    children: Annotated[
        bool, typer.Option("--children", help="Also executions that other executions have started.")
    ] = False,
    before: Before = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most this many.")] = 20,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """List executions, newest first.

    \b
      noetl list --status failed
      noetl list --filter path=etl/daily --filter started_after=2d
      noetl list --label team=data
    """
    from noetl.cli.actions import inspect
    from noetl.cli.actions.filters import parse_filter

    texts = [*(filters or []), *([f"status={status}"] if status is not None else [])]
    texts += [f"label={label}" for label in labels or []]
    wanted = parse_filter(texts, before)
    if not children and wanted.parent is None and wanted.ids is None:
        wanted = msgspec.structs.replace(wanted, roots=True)
    end(inspect.show_list(wanted, limit=limit, as_json=as_json, at=where(home, remote, context)))


def status(
    execution: Id = "latest",
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Show an execution: its steps, loops, error and open work."""
    from noetl.cli.actions import inspect

    end(inspect.show_status(execution, as_json=as_json, at=where(home, remote, context)))


def events(
    execution: Id = "latest",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow the execution until it ends.")
    ] = False,
    last: Annotated[
        int | None,
        typer.Option("--last", "-n", min=1, help="Only the latest, without those of single items of loops."),
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="NAME", help="Only of this type, such as step.failed. Repeatable."),
    ] = None,
    step: Annotated[str, typer.Option(metavar="NAME", help="Only those that name this step.")] = "",
    vocabulary: Annotated[str, typer.Option(help="Names: stored, formal or canonical.")] = "stored",
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Show the history of an execution.

    \b
      noetl events latest --type step.failed --type call.error
      noetl events 342881230712832 --step load --last 20
    """
    from noetl.cli.actions import inspect

    at = where(home, remote, context)
    choice = inspect.EventChoice(vocabulary, tuple(types or ()), step, last)
    end(inspect.show_events(execution, choice, follow=follow, as_json=as_json, at=at))


def items(
    execution: Id = "latest",
    step: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of this loop; without it, the last one.")
    ] = None,
    run: Annotated[
        int | None, typer.Option(min=1, help="Of this step run, where a loop ran several times.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only items that failed.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most this many.")] = 100,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Show the items of a loop: how each ended, and with what.

    \b
      noetl items latest --failed
      noetl items 342881230712832 --step load --json | jq -r 'select(.attempts > 1) | .index'
    """
    from noetl.cli.actions import loop_items

    at = where(home, remote, context)
    wanted = loop_items.LoopChoice(step, run)
    end(loop_items.show_items(execution, wanted, failed=failed, limit=limit, as_json=as_json, at=at))


def logs(
    execution: Id = "latest",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow the execution until it ends.")
    ] = False,
    last: Annotated[
        int | None, typer.Option("--last", "-n", min=1, help="Only the latest lines; -f continues there.")
    ] = None,
    search: Annotated[
        str, typer.Option("--search", "-s", metavar="TEXT", help="Only with this text, in any case.")
    ] = "",
    step: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this step.")] = None,
    run: Annotated[int | None, typer.Option(min=1, help="Only of this step run.")] = None,
    item: Annotated[int | None, typer.Option(min=0, help="Only of this item of a loop, from 0.")] = None,
    attempt: Annotated[int | None, typer.Option(min=1, help="Only of this attempt of a task.")] = None,
    level: Annotated[
        str | None,
        typer.Option(help="Only lines that begin with this level or a graver one: warning, error."),
    ] = None,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Show what the tasks of an execution printed.

    \b
      noetl logs latest -f
      noetl logs latest --search timeout --last 20
      noetl logs 342881230712832 --step load --json | jq -r .line
    """
    from noetl.cli.actions import inspect

    at = where(home, remote, context)
    choice = inspect.LineChoice(search, step, run, item, attempt, level, last)
    end(inspect.show_logs(execution, choice, follow=follow, as_json=as_json, at=at))


def result(
    execution: Id = "latest",
    save: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Write the files of the result into this folder.")
    ] = None,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Print the full result of a completed execution.

    \b
      noetl result --save out/
    """
    from noetl.cli.actions import inspect

    end(inspect.show_result(execution, save=save, as_json=as_json, at=where(home, remote, context)))
