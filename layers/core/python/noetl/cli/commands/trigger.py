"""``noetl trigger``: its commands, their options and their help.

What they do is in ``triggers``, imported when called.
"""

from __future__ import annotations

from typing import Annotated

import typer

from noetl.cli.options import Context, Home, Json, Payload, Remote, Set, end, where

trigger_app = typer.Typer(
    help="Start playbooks by requests, files, S3 objects and events.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A trigger, as `noetl trigger list` names it.")]


@trigger_app.command()
def add(
    name: Name,
    path: Annotated[str, typer.Argument(metavar="PATH", help="The playbook, registered (path@version).")],
    webhook: Annotated[bool, typer.Option("--webhook", help="Requests to an address of its own.")] = False,
    folder: Annotated[
        str | None, typer.Option("--folder", metavar="DIR", help="New and changed files in it.")
    ] = None,
    files: Annotated[str, typer.Option("--files", metavar="PATTERN", help="With --folder: names.")] = "*",
    bucket: Annotated[
        str | None, typer.Option("--bucket", help="Objects in S3, with --prefix and --suffix.")
    ] = None,
    prefix: Annotated[str, typer.Option("--prefix", help="With --bucket: how keys begin.")] = "",
    suffix: Annotated[str, typer.Option("--suffix", help="With --bucket: how keys end.")] = "",
    events: Annotated[
        str | None,
        typer.Option("--events", metavar="JSON", help="Events of EventBridge that match this pattern."),
    ] = None,
    queue: Annotated[
        str | None, typer.Option("--queue", help="Messages in a queue of SQS: its name or ARN.")
    ] = None,
    batch: Annotated[
        int, typer.Option("--batch", min=1, max=10, help="With --queue: most messages at once.")
    ] = 10,
    signed: Annotated[
        str | None,
        typer.Option(
            "--signed-with", metavar="CREDENTIAL", help="With --webhook: its `secret` signs requests (HMAC)."
        ),
    ] = None,
    header: Annotated[
        str | None,
        typer.Option(
            "--signature-header", metavar="NAME", help="Of the signature, if not X-Hub-Signature-256."
        ),
    ] = None,
    mapping: Annotated[
        list[str] | None,
        typer.Option(
            "--map", metavar="NAME=TEMPLATE", help="Of the workload: --map 'order={{ event.body.id }}'."
        ),
    ] = None,
    event_id: Annotated[
        str,
        typer.Option("--event-id", metavar="TEMPLATE", help="The same text starts one execution."),
    ] = "",
    disabled: Annotated[bool, typer.Option("--disabled", help="It starts nothing until enabled.")] = False,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Make a trigger, or replace one of the same type.

    \b
      noetl trigger add orders shop/order --webhook --map 'order={{ event.body }}' --event-id '{{ event.body.id }}'
      noetl trigger add incoming etl/load --folder /data/incoming --files '*.csv'
      noetl trigger add uploads etl/load --bucket my-bucket --prefix raw/ --remote
      noetl trigger add letters mail/sort --queue noetl-prod-in-letters --remote

    Without --map the workload is {event}. Webhooks and folders work with `noetl serve`; webhooks, buckets, events and queues on a deployment.
    """
    from noetl.cli.actions import triggers

    choice = triggers.Choice(
        webhook, folder, files, bucket, prefix, suffix, events, queue, batch, signed, header
    )
    at = where(home, remote, context)
    request = triggers.trigger_request(name, path, choice, mapping or [], event_id, enabled=not disabled)
    end(triggers.add(request, as_json=as_json, at=at))


@trigger_app.command("list")
def list_(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most this many.")] = 100,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Every trigger: what it waits for, what it starts, how often it did.

    Those of metadata.triggers belong to their playbook.
    """
    from noetl.cli.actions import triggers

    end(triggers.show_list(limit=limit, as_json=as_json, at=where(home, remote, context)))


@trigger_app.command()
def show(
    name: Name, as_json: Json = False, remote: Remote = False, context: Context = None, home: Home = None
) -> None:
    """One trigger, whole; of a webhook also its address, which is a secret."""
    from noetl.cli.actions import triggers

    end(triggers.show(name, as_json=as_json, at=where(home, remote, context)))


@trigger_app.command()
def enable(
    name: Name, as_json: Json = False, remote: Remote = False, context: Context = None, home: Home = None
) -> None:
    """Let a trigger fire."""
    from noetl.cli.actions import triggers

    end(triggers.switch(name, True, as_json=as_json, at=where(home, remote, context)))


@trigger_app.command()
def disable(
    name: Name, as_json: Json = False, remote: Remote = False, context: Context = None, home: Home = None
) -> None:
    """Start nothing by a trigger until it is enabled."""
    from noetl.cli.actions import triggers

    end(triggers.switch(name, False, as_json=as_json, at=where(home, remote, context)))


@trigger_app.command()
def rotate(
    name: Name, as_json: Json = False, remote: Remote = False, context: Context = None, home: Home = None
) -> None:
    """Give a webhook a new address; the old one is none any more."""
    from noetl.cli.actions import triggers

    end(triggers.rotate(name, as_json=as_json, at=where(home, remote, context)))


@trigger_app.command()
def fire(
    name: Name,
    sets: Set = None,
    payload: Payload = None,
    key: Annotated[str, typer.Option("--key", help="The same key starts one execution.")] = "",
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Fire a trigger by hand: --set and --payload are `event.body`."""
    from noetl.cli.actions import triggers
    from noetl.cli.actions.payload import read_payload

    body = read_payload(payload, sets or [])
    end(triggers.fire(name, body, key, as_json=as_json, at=where(home, remote, context)))


@trigger_app.command()
def delete(
    name: Name, as_json: Json = False, remote: Remote = False, context: Context = None, home: Home = None
) -> None:
    """Forget a trigger; nothing watches for it any more."""
    from noetl.cli.actions import triggers

    end(triggers.delete(name, as_json=as_json, at=where(home, remote, context)))
