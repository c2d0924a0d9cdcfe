"""``noetl prune``: executions that ended long ago go."""

from __future__ import annotations

from typing import Annotated

import typer

from noetl.cli.options import CommandTarget, Context, Home, Json, Remote, end, where
from noetl.domain.durations import parse_duration


def prune(
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="AGE",
            help="Since they ended: 30d (30 means days), 12h, 8w. Without it: the setting.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show how many there are.")] = False,
    permanent: Annotated[
        bool, typer.Option("--permanent", help="Results of scope permanent, instead of executions.")
    ] = False,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Remove executions that ended long ago, with all their data.

    \b
      noetl prune --older-than 30d --dry-run
      noetl prune --older-than 30d
      noetl prune --permanent --older-than 52w

    Executions that run stay, with their tree of executions and everything that they can reach. Results with a time to live go
    when it is over. NOETL_RETENTION_DAYS does the same while `noetl serve` runs; for a deployment, set `retention` of its environment.
    """
    days = None if older_than is None else _days(older_than)
    end(_prune(days, permanent, dry_run=dry_run, as_json=as_json, at=where(home, remote, context)))


def _days(text: str) -> float:
    text = text.strip()
    seconds = parse_duration(text if text[-1:].isalpha() else f"{text}d")
    if seconds is None:
        raise typer.BadParameter(f"{text!r} is not an age such as 30d, 12h or 8w", param_hint="--older-than")
    return seconds / 86_400


def _prune(days: float | None, permanent: bool, *, dry_run: bool, as_json: bool, at: CommandTarget) -> int:
    from noetl.cli import errors
    from noetl.cli.client.connect import open_place
    from noetl.cli.render.output import out, out_json
    from noetl.services.results.prune import PruneRequest

    request = PruneRequest(days, dry_run, permanent)
    executions = events = variables = results = 0
    with open_place(at) as place:
        while True:
            done = place.prune(request)
            executions += done.executions
            events += done.events
            variables += done.variables
            results += done.results
            if dry_run or done.status == "complete":
                break
    if as_json:
        counts = {"executions": executions, "events": events, "variables": variables, "results": results}
        out_json({"before": done.before, "dry_run": dry_run, **counts})
    elif permanent:
        more = "at least " if done.status == "partly" else ""
        would = "would go" if dry_run else "are gone"
        out(f"{more}{results} permanent results that were made before {done.before} {would}")
    elif dry_run:
        more = "at least " if done.status == "partly" else ""
        out(f"{more}{executions} executions ended before {done.before}, and would go")
    else:
        out(f"{executions} executions that ended before {done.before} are gone")
        if results:
            out(f"results whose time was over, and which went as well: {results}")
    return errors.DONE
