"""``noetl ui``: open the web UI of a server, signed in by a code of one minute.

Of a deployment that keeps no sessions, it serves the UI here and signs what the pages ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.options import Context, Home, Json, Remote, where

if TYPE_CHECKING:
    from noetl.cli.client.profiles import Context as Profile

SERVER_PORT, DEPLOYMENT_PORT = 8765, 8766


def ui(
    scopes: Annotated[
        str,
        typer.Option(
            "--scopes",
            metavar="SCOPES",
            help="At most these, with commas; `read` makes a viewer's link. Without it all of the token but worker.",
        ),
    ] = "",
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the address only.")] = False,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=0,
            max=65535,
            help="Port of the server that it starts when none runs (8765), or for a deployment (8766).",
        ),
    ] = None,
    remote: Remote = False,
    context: Context = None,
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Open the web UI in a browser, signed in.

    \b
      noetl ui
      noetl ui --scopes read --no-open
      noetl ui --context prod

    On this machine it starts a server in the background when none runs. The address works once, within a minute. The session ends
    after twelve hours without a request, and after seven days.
    The UI of a deployment is served here, and each request signed with the credentials of the context, until Ctrl-C.
    """
    from noetl.api.browser.sessions import CodeAnswer
    from noetl.cli.actions.ui_server import server_context
    from noetl.cli.client.http_client import Client
    from noetl.domain.errors import NotFoundError

    at = server_context(where(home, remote, context), SERVER_PORT if port is None else port)
    scope_names = [word.strip() for word in scopes.split(",") if word.strip()]
    made = None
    if at.auth != "iam":
        try:
            made = Client(at).post("/api/session/codes", CodeAnswer, {"scopes": scope_names})
        except NotFoundError as error:
            if error.code != "session_not_found":
                raise
    if made is None:
        _serve(at, DEPLOYMENT_PORT if port is None else port, scope_names, no_open, as_json)
        return
    base = at.url.rstrip("/")
    address = f"{base}/ui/enter#{made.code}" if made.code else f"{base}/ui/"
    _show(address, made.scopes, made.expires_at, once=bool(made.code), no_open=no_open, as_json=as_json)


def _serve(at: Profile, port: int, scope_names: list[str], no_open: bool, as_json: bool) -> None:
    """Serve the UI of a deployment until the command is interrupted."""
    import threading

    from noetl.api.http.access import SCOPES
    from noetl.cli.actions.signing_server import serving
    from noetl.cli.render.output import note
    from noetl.domain.errors import InvalidInputError

    if unknown := sorted(set(scope_names) - SCOPES):
        raise InvalidInputError(
            f"there is no scope {unknown[0][:40]!r}",
            code="unknown_scope",
            hint=f"scopes are {', '.join(sorted(SCOPES))}",
        )
    with serving(at, port, frozenset(scope_names)) as (base, code):
        scopes = sorted(scope_names) or ["those of the credentials"]
        _show(f"{base}/ui/enter#{code}", scopes, None, once=True, no_open=no_open, as_json=as_json)
        note(f"requests are signed for {at.url}; interrupt to end")
        threading.Event().wait()


def _show(
    address: str, scopes: list[str], expires_at: float | None, *, once: bool, no_open: bool, as_json: bool
) -> None:
    import webbrowser

    from noetl.cli.render.output import note, out, out_json

    opened = not no_open and webbrowser.open(address)
    if as_json:
        out_json({"address": address, "scopes": scopes, "expires_at": expires_at, "opened": opened})
        return
    out(address)
    note(f"scopes: {', '.join(scopes)}" + ("; the address works once, within a minute" if once else ""))
