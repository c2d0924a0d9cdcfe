"""``noetl dead-letters``: messages that were given up, their return and their removal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.options import CommandTarget, Context, Home, Json, Remote, end, where

if TYPE_CHECKING:
    from noetl.services.messaging.operate_dead_letters import (
        DeadLetterRequest,
        DeadLetterView,
        QueueName,
        Verb,
    )

dead_letters_app = typer.Typer(
    help="List, send back and remove dead letters of a deployment.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Ids = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="As the list shows them.", show_default=False)
]
All = Annotated[bool, typer.Option("--all", help="All of them.")]
Queue = Annotated[
    str | None, typer.Option("--queue", metavar="QUEUE", help="Only of this queue: events or timers.")
]
Execution = Annotated[
    str | None, typer.Option("--execution", metavar="ID", help="Only those about this execution.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show which they are.")]


@dead_letters_app.command("list")
def list_(
    queue: Queue = None,
    execution: Execution = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most this many.")] = 100,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Messages that their queue or the engine gave up, with the reason, the oldest first."""
    end(_show(queue, execution, limit, as_json=as_json, at=where(home, remote, context)))


@dead_letters_app.command()
def retry(
    ids: Ids = None,
    all_: All = False,
    queue: Queue = None,
    execution: Execution = None,
    dry_run: DryRun = False,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Send dead letters back to the queue that they came from. Mend the cause first.

    \b
      noetl dead-letters retry --all --dry-run --context prod
      noetl dead-letters retry --execution 317943810297856 --context prod

    A repeat does no harm. Exit code 1: an id was not found, or the queue did not take all of them.
    """
    request = _request(ids, all_, queue, execution, dry_run)
    end(_handle("retry", request, as_json=as_json, at=where(home, remote, context)))


@dead_letters_app.command()
def delete(
    ids: Ids = None,
    all_: All = False,
    queue: Queue = None,
    execution: Execution = None,
    dry_run: DryRun = False,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Remove dead letters for good: their executions never receive these messages.

    \b
      noetl dead-letters delete events:5fe0… --dry-run --context prod

    Exit code 1: an id was not found.
    """
    request = _request(ids, all_, queue, execution, dry_run)
    end(_handle("delete", request, as_json=as_json, at=where(home, remote, context)))


def _request(
    ids: list[str] | None, all_: bool, queue: str | None, execution: str | None, dry_run: bool
) -> DeadLetterRequest:
    from noetl.services.messaging.operate_dead_letters import DeadLetterRequest

    if not ids and not all_ and execution is None:
        raise typer.BadParameter("name them by id, by --execution, or say --all", param_hint="ID")
    return DeadLetterRequest(ids or None, all_, _queue(queue), execution, dry_run)


def _queue(text: str | None) -> QueueName | None:
    from noetl.services.messaging.operate_dead_letters import QUEUE_NAMES

    if text is None:
        return None
    for name in QUEUE_NAMES:
        if name == text:
            return name
    raise typer.BadParameter(f"{text!r} is none of {', '.join(QUEUE_NAMES)}", param_hint="--queue")


def _show(queue: str | None, execution: str | None, limit: int, *, as_json: bool, at: CommandTarget) -> int:
    from noetl.cli import errors
    from noetl.cli.client.connect import open_place
    from noetl.cli.render.output import note, out, out_json, table

    with open_place(at) as place:
        page = place.dead_letters(_queue(queue), execution, limit)
    if as_json:
        out_json(page)
        return errors.DONE
    if page.letters:
        rows = [_row(one) for one in page.letters]
        out(table(("ID", "AGE", "TRIES", "EXECUTION", "STEP", "REASON"), rows))
        for advice in dict.fromkeys(one.next for one in page.letters):
            note(advice)
    elif page.queues:
        note("there is no dead letter")
    else:
        note(page.about)
    for one in page.queues:
        if one.read < one.count:
            note(f"{one.queue}: {one.read} of {one.count} could be read; look again when these are handled")
    for lost in page.lost:
        out(
            f"{lost.execution_id}  {lost.path} failed as {lost.error_code}: `noetl redrive {lost.execution_id}`"
        )
    return errors.DONE


def _row(one: DeadLetterView) -> tuple[str, ...]:
    from noetl.cli.render.output import duration

    return (
        one.id,
        duration(one.age * 1000),
        str(one.deliveries),
        ", ".join(one.executions) or "-",
        one.step or "-",
        one.reason,
    )


def _handle(verb: Verb, request: DeadLetterRequest, *, as_json: bool, at: CommandTarget) -> int:
    from noetl.cli import errors
    from noetl.cli.client.connect import open_place
    from noetl.cli.render.output import note, out, out_json

    with open_place(at) as place:
        done = place.handle_dead_letters(verb, request)
    whole = not done.missing and not done.unsent
    if as_json:
        out_json(done)
        return errors.DONE if whole else errors.FAILED
    words = {"retry": ("sent back", "would be sent back"), "delete": ("removed", "would be removed")}[verb]
    out(f"{len(done.ids)} dead letters {words[done.dry_run]}, {done.left} stay")
    for one in done.ids:
        out(f"  {one}")
    for one in done.unsent:
        note(f"{one}: its queue did not take it; ask again")
    for one in () if done.about else done.missing:
        note(f"{one}: it is not there; it was handled before, or another reader holds it")
    if done.about:
        note(done.about)
    if done.status == "partly":
        note("there may be more: ask again")
    return errors.DONE if whole else errors.FAILED
