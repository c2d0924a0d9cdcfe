"""``noetl serve`` and ``noetl token``: their options and their help, and what they do."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.actions.daemons import ProcessName
from noetl.cli.client import runtime_access
from noetl.cli.options import Home, Json
from noetl.cli.render.output import clock, note, note_log, out, out_json, table
from noetl.domain.automations.schedules import instant
from noetl.domain.durations import HINT, parse_duration
from noetl.domain.errors import InvalidInputError
from noetl.runtime.collector import collect_as_usual

if TYPE_CHECKING:
    from noetl.api.http.local_tokens import LocalTokens, TokenEntry
    from noetl.kinds.sandbox.layers import Protection

token_app = typer.Typer(help="Make and remove access tokens of a local server.", no_args_is_help=True)

TOKENS_FILE = "tokens.json"
TOKEN_FILE = "token"
OWN = "owner"


Host = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 serves other machines as well.")]
Port = Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="0: a free one.")]
Threads = Annotated[int, typer.Option(min=1, max=256, help="Requests worked on at a time.")]
NoAuth = Annotated[
    bool, typer.Option("--no-auth", help="Require no tokens: every user of this machine may do everything.")
]
External = Annotated[
    list[str] | None,
    typer.Option(metavar="POOL", help="Leave this pool's commands to `noetl worker start`. Repeatable."),
]
AcceptUnconfined = Annotated[
    bool,
    typer.Option(
        "--accept-unconfined-code",
        help="Accept tokens without the scope admin although nothing keeps code of playbooks from the home folder.",
    ),
]
Grace = Annotated[
    float,
    typer.Option(
        min=0.0, metavar="SECONDS", help="Time that running tasks have to end after SIGTERM or Ctrl-C."
    ),
]


def serve(
    host: Host = "127.0.0.1",
    port: Port = 8765,
    threads: Threads = 16,
    no_auth: NoAuth = False,
    external: External = None,
    grace: Grace = 1.0,
    accept_unconfined_code: AcceptUnconfined = False,
    name: ProcessName = None,
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Serve API, web UI, engine, workers and scheduler here.

    It runs until it is interrupted.

    \b
      noetl serve
      curl -H "Authorization: Bearer $(cat ~/.noetl/token)" http://127.0.0.1:8765/api/executions

    Routes, bodies and answers are those of a deployment (docs/api.md). The first start makes a token with every scope and keeps it
    in the file `token` of the home folder; `noetl token` makes others. It continues executions that another process left.
    In the background: `noetl server start --detach`.
    """
    from noetl.cli.actions import daemons
    from noetl.runtime.server.serve import Server, ServeSettings

    collect_as_usual()
    settings = runtime_access.settings(home)
    settings.make_home()
    serve_settings = ServeSettings(
        host,
        port,
        threads,
        no_auth,
        grace=grace,
        external=tuple(external or ()),
        accept_unconfined=accept_unconfined_code,
    )
    holding = daemons.processes(settings.home).hold("server", name or "", os.environ.get(daemons.LOG, ""))
    with holding as ready, Server(settings, serve_settings, on_log=note_log) as server:
        shown = None if server.tokens is None else _first_token(server.tokens, settings.home)
        if as_json:
            missing = [one.name for one in _missing()]
            out_json({"event": "serving", "address": server.address, "token_file": shown, "missing": missing})
        else:
            for one in _missing():
                out(f"missing: {one.name}: {one.missing} (noetl doctor)")
            if settings.keeps_results_alone:
                out(
                    f"large results are files below {settings.home}; for more servers over this database see "
                    "docs/configuration.md#several-processes-one-database"
                )
            out(f"serving at {server.address}; interrupt to end")
            if server.tokens is None:
                out("no tokens: everybody on this machine may do everything")
            else:
                out(f"token in {shown}" if shown else "each request needs a token: noetl token list")
        ready(
            {"address": server.address}
            | ({"left to workers": list(serve_settings.external)} if serve_settings.external else {})
        )
        threading.Event().wait()


def _missing() -> list[Protection]:
    """What nothing keeps code of playbooks from on this machine."""
    from noetl.kinds.sandbox.layers import layers

    return [one for one in layers().protections if not one.by]


def _first_token(tokens: LocalTokens, home: Path) -> str | None:
    """The file with the token of this machine's own user, made when there is no token at all."""
    from noetl.api.http.local_tokens import write_private

    file = home / TOKEN_FILE
    if not tokens.entries():
        write_private(file, tokens.add(OWN, ["admin", "worker"]).encode() + b"\n")
    return str(file) if file.exists() else None


def _tokens(home: str | None) -> LocalTokens:
    from noetl.api.http.local_tokens import LocalTokens

    settings = runtime_access.settings(home)
    settings.make_home()
    return LocalTokens(settings.home / TOKENS_FILE)


@token_app.command("add")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is; recorded with every change.")],
    scopes: Annotated[
        str, typer.Option("--scopes", help="read, execute, write, admin (all of these), worker; with commas.")
    ] = "read",
    expires: Annotated[
        str,
        typer.Option("--expires", metavar="TIME", help="Until when it is valid, such as 90d; else for ever."),
    ] = "",
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Make a token and print it, this once.

    \b
      noetl token add ci --scopes read,execute --expires 90d
    """
    scope_names = [word.strip() for word in scopes.split(",") if word.strip()]
    token = _tokens(home).add(name, scope_names, seconds=_validity(expires))
    if as_json:
        out_json({"name": name, "scopes": sorted(scope_names), "token": token})
    else:
        out(token)
        note("store this token now: it is not shown again")
    _warn_of_unconfined_code(scope_names)


def _validity(text: str) -> float | None:
    """Read how long a token is valid; None for ever. Raises InvalidInputError."""
    if not text:
        return None
    seconds = parse_duration(text)
    if not seconds:
        raise InvalidInputError(f"--expires {text[:40]!r} is no duration", code="usage", hint=HINT)
    return seconds


def _warn_of_unconfined_code(scopes: list[str]) -> None:
    from noetl.kinds.sandbox.layers import layers
    from noetl.runtime.server.unconfined_code import is_narrow

    if is_narrow(scopes) and not layers().confines_files:
        note(
            "nothing confines code of playbooks on this machine: the holder of this token can read the home folder"
        )


@token_app.command("list")
def list_(as_json: Json = False, home: Home = None) -> None:
    """Every token by name, with its scopes; never the token itself."""
    found = _tokens(home).entries()
    if as_json:
        for entry in found:
            end = None if entry.expires_at is None else instant(entry.expires_at)
            out_json({"name": entry.name, "scopes": list(entry.scopes), "expires_at": end})
    elif found:
        out(table(("TOKEN", "SCOPES", "EXPIRES"), [_row(entry) for entry in found]))
    else:
        note("there are no tokens: `noetl serve` makes the first one, `noetl token add` others")


def _row(entry: TokenEntry) -> tuple[str, str, str]:
    end = "never" if entry.expires_at is None else clock(entry.expires_at)
    return entry.name, ", ".join(entry.scopes), end


@token_app.command("remove")
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME")], as_json: Json = False, home: Home = None
) -> None:
    """Remove a token; servers refuse it from now on, also a running one."""
    _tokens(home).remove(name)
    if as_json:
        out_json({"name": name, "deleted": True})
    else:
        out(f"token {name} is removed")
