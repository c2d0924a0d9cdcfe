"""Commands that start and steer executions: their options and their help.

What they do is in ``execute``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from noetl.cli.options import (
    Before,
    Context,
    Correlation,
    DryRun,
    Filters,
    Home,
    Id,
    Json,
    Key,
    Labels,
    Limit,
    MaybeId,
    NoCache,
    Payload,
    Priority,
    Quiet,
    Reason,
    Remote,
    Selection,
    Set,
    Strict,
    Target,
    TaskFolders,
    Yes,
    end,
    selection,
    where,
)

if TYPE_CHECKING:
    from noetl.services.executions.bulk_control import Verb

NoCascade = Annotated[bool, typer.Option("--no-cascade", help="Leave sub-executions running.")]
patch_app = typer.Typer(help="Change the context of a running execution.", no_args_is_help=True)


def exec_(
    target: Target,
    sets: Set = None,
    payload: Payload = None,
    moment: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="TIME", help="Start then: 2026-12-24T18:00:00Z, or +90m, +2h, +3d from now."
        ),
    ] = None,
    priority: Priority = None,
    key: Key = "",
    labels: Labels = None,
    strict: Strict = False,
    no_cache: NoCache = False,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Start a playbook, print the execution's id, do not wait.

    \b
      noetl exec etl/daily --set day=2026-03-01 --remote
      noetl exec weather.yaml
      noetl exec reports/daily --at 2026-12-24T18:00:00Z

    On this machine, a running `noetl serve` runs it, or `noetl resume`. What starts later is kept like any execution: `noetl list
    --status scheduled` shows it, and `noetl cancel` cancels it.
    """
    from noetl.cli.actions import exec
    from noetl.cli.actions.run_request import RunRequest

    at = where(home, remote, context)
    request = RunRequest(target, sets or [], payload, priority, key, strict, labels or [], no_cache=no_cache)
    end(exec.start(request, moment=moment, as_json=as_json, at=at))


def _many(verb: Verb, execution: str | None, some: Selection, **options: Any) -> None:
    """Control all executions that fit a filter, and end the command.

    Returns when it is about one execution.
    """
    from noetl.cli.actions.filters import chosen, steer_many

    if chosen(verb, execution, some):
        end(steer_many(verb, some, **options))


def cancel(
    execution: MaybeId = None,
    reason: Reason = "",
    no_cascade: NoCascade = False,
    filters: Filters = None,
    before: Before = None,
    limit: Limit = 100,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Cancel an execution, or all executions that fit a filter.

    Its sub-executions are cancelled too.

    \b
      noetl cancel latest
      noetl cancel --filter path=etl/daily --before 2h --dry-run
    """
    from noetl.cli.actions import execute

    at = where(home, remote, context)
    cascade = not no_cascade
    some = selection(filters, before, limit, dry_run, yes)
    _many("cancel", execution, some, reason=reason, cascade=cascade, as_json=as_json, at=at)
    end(execute.cancel(execution or "", reason=reason, cascade=cascade, as_json=as_json, at=at))


def pause(
    execution: MaybeId = None,
    reason: Reason = "",
    no_cascade: NoCascade = False,
    filters: Filters = None,
    before: Before = None,
    limit: Limit = 100,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Pause an execution, or all executions that fit a filter.

    Nothing new begins in it and its sub-executions until `noetl unpause`.
    """
    from noetl.cli.actions import execute

    at = where(home, remote, context)
    cascade = not no_cascade
    some = selection(filters, before, limit, dry_run, yes)
    _many("pause", execution, some, reason=reason, cascade=cascade, as_json=as_json, at=at)
    end(execute.pause(execution or "", reason=reason, cascade=cascade, as_json=as_json, at=at))


def unpause(
    execution: MaybeId = None,
    reason: Reason = "",
    no_cascade: Annotated[bool, typer.Option("--no-cascade", help="Leave sub-executions paused.")] = False,
    filters: Filters = None,
    before: Before = None,
    limit: Limit = 100,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
    quiet: Quiet = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Continue a paused execution and follow it to its end.

    With a filter: continue all executions that fit.
    """
    from noetl.cli.actions import execute

    at = where(home, remote, context)
    cascade = not no_cascade
    some = selection(filters, before, limit, dry_run, yes)
    _many("resume", execution, some, reason=reason, cascade=cascade, as_json=as_json, at=at)
    end(execute.unpause(execution or "", reason=reason, cascade=cascade, as_json=as_json, quiet=quiet, at=at))


def redrive(
    execution: MaybeId = None,
    step: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="STEP",
            help="Continue from this step, or load[3], load[failed]; else from the failure.",
        ),
    ] = "",
    sets: Set = None,
    version: Annotated[
        int | None, typer.Option("--version", help="Continue with this version of the playbook.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            metavar="VALUE",
            help="The result of --from STEP, which is not run: JSON, or @FILE. History names you.",
        ),
    ] = None,
    reason: Reason = "",
    filters: Filters = None,
    before: Before = None,
    limit: Limit = 100,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
    quiet: Quiet = False,
    folders: TaskFolders = None,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Run an ended execution again from the place of its failure.

    With --from: from a step, or from items of its loop. With a filter: all executions that fit.

    \b
      noetl redrive latest --reason "the service is back"
      noetl redrive latest --from load --set table=orders --version 4
      noetl redrive latest --from load --dry-run
      noetl redrive latest --from "load[failed]"
      noetl redrive latest --from quote --output '{"price": 12}' --reason "agreed by phone"
      noetl redrive --filter status=failed --filter path=etl/daily --before 2h
    """
    from noetl.cli.actions import execute

    at = where(home, remote, context, folders)
    some = selection(filters, before, limit, dry_run, yes)
    if (sets or output is not None or folders) and (some.filters or some.before):
        given = "--set" if sets else "--task-folder" if output is None else "--output"
        raise typer.BadParameter("it is for one execution", param_hint=given)
    _many("redrive", execution, some, reason=reason, step=step, version=version, as_json=as_json, at=at)
    end(
        execute.redrive(
            execution or "",
            step=step,
            sets=sets or [],
            version=version,
            output=output,
            reason=reason,
            dry_run=dry_run,
            as_json=as_json,
            quiet=quiet,
            at=at,
        )
    )


def inject(
    execution: Id,
    step: Annotated[str, typer.Argument(metavar="STEP", help="A step of its playbook.")],
    sets: Set = None,
    reason: Reason = "",
    correlation_id: Correlation = "",
    as_json: Json = False,
    quiet: Quiet = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Run a step of a running execution again or out of order.

    \b
      noetl inject latest notify --set to=ops --reason "the mail got lost"

    It is an event, kept with who and why. The execution continues at once in this process, unless another process runs it.
    """
    from noetl.cli.actions import patch as patching

    at = where(home, remote, context)
    end(
        patching.inject(
            execution,
            step,
            sets=sets or [],
            reason=reason,
            correlation_id=correlation_id,
            as_json=as_json,
            quiet=quiet,
            at=at,
        )
    )


def callback(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TOKEN|ID", help="A token or its address; or an execution that waits for one."
        ),
    ],
    sets: Set = None,
    payload: Payload = None,
    as_json: Json = False,
    quiet: Quiet = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Answer a callback that an execution waits for.

    Follow the execution then; without an answer, show the question.

    \b
      noetl callback latest
      noetl callback latest --set approved=true --set comment="looks right"
      noetl callback 3f9c0a11-412-3-0-… --payload answer.json

    The execution continues at once in this process, unless another process runs it.
    """
    from noetl.cli.commands import callback as answering

    at = where(home, remote, context)
    end(answering.callback(target, sets=sets or [], payload=payload, as_json=as_json, quiet=quiet, at=at))


@patch_app.command("patch")
def patch(
    execution: Id,
    sets: Set = None,
    source: Annotated[
        str | None,
        typer.Option("--patch", metavar="FILE|-", help="A JSON Merge Patch or JSON Patch, instead of --set."),
    ] = None,
    reason: Reason = "",
    correlation_id: Correlation = "",
    as_json: Json = False,
    quiet: Quiet = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Set context values of an execution: how a person approves a waiting step.

    \b
      noetl ctx patch latest --set approved=true --reason "checked the numbers"
      echo '[{"op": "test", "path": "/total", "value": 3}, {"op": "remove", "path": "/draft"}]' | noetl ctx patch latest --patch -

    The execution continues at once in this process, unless another process runs it.
    """
    from noetl.cli.actions import patch as patching

    at = where(home, remote, context)
    end(
        patching.patch(
            execution,
            source=source,
            sets=sets or [],
            reason=reason,
            correlation_id=correlation_id,
            as_json=as_json,
            quiet=quiet,
            at=at,
        )
    )
