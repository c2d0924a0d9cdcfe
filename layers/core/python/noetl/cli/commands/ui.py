"""``noetl ui``: open the web UI of a server, signed in by a code that lives for a minute."""

from __future__ import annotations

from typing import Annotated

import typer

from noetl.cli.options import Context, Home, Json, Remote, where


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
        int, typer.Option("--port", help="Port of the server that it starts when none runs.")
    ] = 8765,
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
    """
    import webbrowser

    from noetl.api.nouns.sessions import CodeAnswer
    from noetl.cli.actions.ui_server import server_context
    from noetl.cli.client.http_client import Client
    from noetl.cli.render.output import note, out, out_json

    at = server_context(where(home, remote, context), port)
    wished = [word.strip() for word in scopes.split(",") if word.strip()]
    made = Client(at).post("/api/session/codes", CodeAnswer, {"scopes": wished})
    base = at.url.rstrip("/")
    address = f"{base}/ui/enter#{made.code}" if made.code else f"{base}/ui/"
    opened = not no_open and webbrowser.open(address)
    if as_json:
        told = {"address": address, "scopes": made.scopes, "expires_at": made.expires_at, "opened": opened}
        out_json(told)
        return
    out(address)
    note(
        f"scopes: {', '.join(made.scopes)}"
        + ("; the address works once, within a minute" if made.code else "")
    )
