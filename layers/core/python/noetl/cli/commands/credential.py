"""``noetl credential``: its commands, their options and their help.

What they do is in ``credentials``, imported when called.
"""

from __future__ import annotations

from typing import Annotated

import typer

from noetl.cli.options import Context, Home, Json, Remote, end, where

credential_app = typer.Typer(
    help="Keep secrets that playbooks name, sealed in the database.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A credential's name, or its id.")]


@credential_app.command()
def add(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="What playbooks call it, in `auth` or `keychain`.")
    ],
    type_: Annotated[
        str,
        typer.Option(
            "--type",
            "-t",
            help="postgres, basic, bearer, header, oauth2_client_credentials, aws, gcs, snowflake, generic. Required.",
        ),
    ] = "",
    data_file: Annotated[
        str | None,
        typer.Option("--data-file", "-f", metavar="FILE", help="Its data as JSON or YAML; - for stdin."),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="NAME=VALUE",
            help="One field, taken as text. Shells remember it: secrets are better read from a file. Repeatable.",
        ),
    ] = None,
    description: Annotated[str, typer.Option(help="For people; not secret.")] = "",
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Keep a credential, or replace the one of this name.

    \b
      noetl credential add warehouse --type postgres -f warehouse.json
      pass show shop | noetl credential add shop --type bearer -f -
      noetl credential add mail --type basic --set username=me -f password.yaml
    """
    from noetl.cli.actions import credentials

    end(
        credentials.add(
            name,
            type_,
            data_file=data_file,
            sets=sets or [],
            description=description,
            as_json=as_json,
            at=where(home, remote, context),
        )
    )


@credential_app.command("list")
def list_(
    type_: Annotated[str, typer.Option("--type", "-t", help="Only those of this type.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most this many.")] = 100,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Every credential by name, without its data."""
    from noetl.cli.actions import credentials

    end(credentials.show_list(type_, limit=limit, as_json=as_json, at=where(home, remote, context)))


@credential_app.command()
def show(
    name: Name,
    reveal: Annotated[bool, typer.Option("--reveal", help="With its data.")] = False,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """One credential; its data only when that is asked for."""
    from noetl.cli.actions import credentials

    end(credentials.show(name, reveal=reveal, as_json=as_json, at=where(home, remote, context)))


@credential_app.command()
def remove(
    name: Name,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Forget a credential, and every cached copy of it."""
    from noetl.cli.actions import credentials

    end(credentials.remove(name, as_json=as_json, at=where(home, remote, context)))


@credential_app.command("reseal")
def reseal_(
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Make a new key, and seal every credential with it.

    The key file (credentials.key in the home folder) keeps the key before as well, for what another process is sealing meanwhile. A
    rotation that was interrupted has lost nothing: do it again.
    """
    from noetl.cli.actions import credentials

    end(credentials.reseal_all(as_json=as_json, at=where(home, remote, context)))


@credential_app.command("log")
def log_(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Only of this credential.")] = "",
    execution: Annotated[
        str | None, typer.Option("--execution", "-e", metavar="ID", help="Only of this execution.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most this many.")] = 100,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Who kept, replaced, removed or read which credential, newest first."""
    from noetl.cli.actions import credentials

    at = where(home, remote, context)
    end(credentials.show_accesses(name, execution, limit=limit, as_json=as_json, at=at))
