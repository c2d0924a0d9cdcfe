"""``noetl server``: ``noetl serve`` as a process that is started, looked at and stopped."""

from __future__ import annotations

import typer

from noetl.cli.actions import daemons
from noetl.cli.actions.daemons import Detach, Everyone, Patience, ProcessName, Stopped
from noetl.cli.client import runtime_access
from noetl.cli.commands import serve as serving
from noetl.cli.options import Home, Json

server_app = typer.Typer(help="Start and stop the server of this machine.", no_args_is_help=True)


@server_app.command()
def start(
    host: serving.Host = "127.0.0.1",
    port: serving.Port = 8765,
    threads: serving.Threads = 16,
    no_auth: serving.NoAuth = False,
    external: serving.External = None,
    grace: serving.Grace = 10.0,
    accept_unconfined_code: serving.AcceptUnconfined = False,
    name: ProcessName = None,
    detach: Detach = False,
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Start `noetl serve`; with --detach in the background, printing the path of its log.

    \b
      noetl server start --detach
      noetl server status
      noetl server stop
    """
    if not detach:
        serving.serve(
            host, port, threads, no_auth, external, grace, accept_unconfined_code, name, as_json, home
        )
        return
    words = ["serve", "--host", host, "--port", str(port), "--threads", str(threads), "--grace", str(grace)]
    words += ["--no-auth"] if no_auth else []
    words += ["--accept-unconfined-code"] if accept_unconfined_code else []
    words += [word for pool in external or () for word in ("--external", pool)]
    settings = runtime_access.settings(home)
    settings.make_home()
    daemons.detach(settings.home, "server", name, words, as_json=as_json)


@server_app.command()
def stop(
    name: Stopped = None,
    everyone: Everyone = False,
    timeout: Patience = 30.0,
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Stop a server of this machine.

    It ends what runs within its --grace; the rest can be resumed.

    \b
      noetl server stop --timeout 60
    """
    folder = runtime_access.settings(home).home
    daemons.stop(folder, "server", name, everyone=everyone, seconds=timeout, as_json=as_json)


@server_app.command()
def status(as_json: Json = False, home: Home = None) -> None:
    """Servers of this home folder that run; 1 when there are none."""
    daemons.status(runtime_access.settings(home).home, "server", as_json=as_json)
