"""``noetl schedule``: its commands, their options and their help.

What they do is in ``schedules``, imported when called.
"""

from __future__ import annotations

from typing import Annotated

import typer

from noetl.cli.options import Context, Home, Json, Remote, end, where

schedule_app = typer.Typer(
    help="Start playbooks at their times (metadata.schedule).",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A schedule, as `noetl schedule list` names it.")]


@schedule_app.command("list")
def list_(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most this many.")] = 100,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """List every schedule: what it starts, when, and the outcome of the last time."""
    from noetl.cli.actions import schedules

    end(schedules.show_list(limit=limit, as_json=as_json, at=where(home, remote, context)))


@schedule_app.command()
def show(
    name: Name,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """One schedule, whole."""
    from noetl.cli.actions import schedules

    end(schedules.show(name, as_json=as_json, at=where(home, remote, context)))


@schedule_app.command("next")
def next_(
    name: Name,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=100, help="How many.")] = 5,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """When a schedule fires next, in its own time zone and in UTC."""
    from noetl.cli.actions import schedules

    end(schedules.show_next(name, count=count, as_json=as_json, at=where(home, remote, context)))


@schedule_app.command()
def pause(
    name: Name,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Start nothing by this schedule until it is resumed.

    It stays paused when its playbook is registered again.
    """
    from noetl.cli.actions import schedules

    end(schedules.change("pause", name, as_json=as_json, at=where(home, remote, context)))


@schedule_app.command()
def resume(
    name: Name,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Fire again from now on; what was missed stays missed."""
    from noetl.cli.actions import schedules

    end(schedules.change("resume", name, as_json=as_json, at=where(home, remote, context)))


@schedule_app.command()
def backfill(
    name: Name,
    since: Annotated[
        str, typer.Option("--from", metavar="TIME", help="The first moment, such as 2026-03-01T00:00:00Z.")
    ],
    until: Annotated[str, typer.Option("--to", metavar="TIME", help="The last moment.")],
    only_missed: Annotated[
        bool, typer.Option("--only-missed", help="Leave out moments for which something was started already.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be started.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=500, help="At most this many moments.")
    ] = 100,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Start what a schedule did not start: moments of the past, each once.

    \b
      noetl schedule backfill reports.daily --from 2026-03-01T00:00:00Z --to 2026-03-08T00:00:00Z --only-missed --dry-run
    """
    from noetl.cli.actions import schedules
    from noetl.services.automations.backfill import BackfillRequest

    request = BackfillRequest(since, until, only_missed, dry_run, limit)
    end(schedules.backfill(name, request, as_json=as_json, at=where(home, remote, context)))


@schedule_app.command()
def delete(
    name: Name,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Forget a schedule.

    One that a playbook declares comes back when that is registered again.
    """
    from noetl.cli.actions import schedules

    end(schedules.change("delete", name, as_json=as_json, at=where(home, remote, context)))


@schedule_app.command()
def run(as_json: Json = False, home: Home = None) -> None:
    """Fire schedules, and run what they start, until interrupted.

    \b
      noetl register reports/
      noetl schedule run

    Several may run over one database: each moment starts one execution. What was missed while none ran is made up
    for as its schedule says (catch_up).
    """
    from noetl.cli.actions import schedules

    end(schedules.run(as_json=as_json, home=home))
