"""``noetl context``: which servers the command line knows, and which one it speaks to.

Options, help, and what the commands do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from noetl.cli import errors
from noetl.cli.options import Home, Json, end

context_app = typer.Typer(
    help="Choose the servers that `--remote` and `--context` use.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="What you call it.")]


@context_app.command()
def add(
    name: Name,
    url: Annotated[str, typer.Option("--url", metavar="URL", help="Where the API is, without /api.")],
    token_file: Annotated[
        str | None,
        typer.Option(
            "--token-file", metavar="FILE", help="A bearer token is in this file; read at each use."
        ),
    ] = None,
    token_env: Annotated[
        str | None,
        typer.Option("--token-env", metavar="VARIABLE", help="A bearer token is in this variable then."),
    ] = None,
    iam: Annotated[
        bool, typer.Option("--iam", help="Requests are signed with your AWS credentials (auth: iam).")
    ] = False,
    profile: Annotated[str, typer.Option(metavar="NAME", help="With --iam: a profile of ~/.aws.")] = "",
    region: Annotated[
        str, typer.Option(metavar="REGION", help="With --iam: the API's, when its address does not say.")
    ] = "",
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="Send the token unencrypted; only in a trusted network.")
    ] = False,
    no_use: Annotated[bool, typer.Option("--no-use", help="Leave the one in use in use.")] = False,
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Keep a server under a name (or replace it), and use it from now on.

    \b
      noetl context add here --url http://127.0.0.1:8765 --token-file ~/.noetl/token
      noetl context add prod --url https://abc123.execute-api.eu-west-1.amazonaws.com --iam
      noetl context add ci --url https://noetl.example.com --token-env NOETL_TOKEN
      noetl list --remote

    Tokens are not kept: only where they are. Nothing is asked of the server yet.
    """
    from noetl.cli.client.profiles import Context, checked, contexts
    from noetl.cli.render.output import out, out_json
    from noetl.domain.errors import InvalidInputError

    if sum((token_file is not None, token_env is not None, iam)) > 1:
        raise InvalidInputError(
            "a context authenticates in one way",
            code="invalid_context",
            hint="give only one of --token-file, --token-env and --iam",
        )
    if (profile or region) and not iam:
        raise InvalidInputError("--profile and --region go with --iam", code="invalid_context")
    made = Context(
        name,
        url,
        "iam" if iam else "token" if token_file or token_env else "none",
        str(Path(token_file).expanduser().absolute()) if token_file else "",
        token_env or "",
        profile,
        region,
    )
    made = checked(made, plain_http=plain_http)
    kept = contexts(home)
    kept.put(made, use=not no_use)
    current = kept.entries()[1]
    if as_json:
        out_json(_facts(made, current))
    else:
        out(f"context {name}: {made.url}{', in use' if current == name else ''}")
    end(errors.DONE)


@context_app.command()
def use(name: Name, as_json: Json = False, home: Home = None) -> None:
    """Make `--remote` mean this one."""
    from noetl.cli.client.profiles import contexts
    from noetl.cli.render.output import out, out_json

    found = contexts(home).use(name)
    if as_json:
        out_json(_facts(found, name))
    else:
        out(f"context {name} is in use: {found.url}")
    end(errors.DONE)


@context_app.command("list")
def list_(as_json: Json = False, home: Home = None) -> None:
    """List every context: where it is, and how requests sign in. * marks the one in use."""
    from noetl.cli.client.profiles import contexts
    from noetl.cli.render.output import note, out, out_json, table

    found, current = contexts(home).entries()
    if as_json:
        for one in found:
            out_json(_facts(one, current))
    elif not found:
        note("there are no contexts: noetl context add NAME --url URL")
    else:
        rows = [("*" if one.name == current else "", one.name, one.url, _who(one)) for one in found]
        out(table(("", "CONTEXT", "URL", "AS"), rows))
    end(errors.DONE)


@context_app.command()
def remove(name: Name, as_json: Json = False, home: Home = None) -> None:
    """Forget a context. The server, and tokens, stay as they are."""
    from noetl.cli.client.profiles import contexts
    from noetl.cli.render.output import out, out_json

    contexts(home).remove(name)
    if as_json:
        out_json({"name": name, "deleted": True})
    else:
        out(f"context {name} is removed")
    end(errors.DONE)


def _who(one: Any) -> str:
    if one.auth == "iam":
        return f"AWS credentials{f' of {one.profile}' if one.profile else ''}"
    if one.auth == "none":
        return "nobody"
    return f"token in {one.token_file or f'${one.token_env}'}"


def _facts(one: Any, current: str) -> dict[str, Any]:
    import msgspec

    return {**msgspec.to_builtins(one), "in_use": one.name == current}
