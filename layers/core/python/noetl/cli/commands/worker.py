"""``noetl worker``: its commands, their options and their help, and what they do."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.actions.daemons import Detach, Everyone, Patience, ProcessName, Stopped
from noetl.cli.client import runtime_access
from noetl.cli.options import Context, Home, Json, Remote
from noetl.cli.render.output import out, out_json
from noetl.domain.errors import InvalidInputError
from noetl.runtime.collector import collect_as_usual

if TYPE_CHECKING:
    from noetl.runtime.server.http_worker import HttpWorker, WorkerOptions

worker_app = typer.Typer(help="Run workers outside of the server's process.", no_args_is_help=True)


@worker_app.command()
def start(
    server: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Address of `noetl serve`, or NOETL_SERVER_URL; or --remote, --context."
        ),
    ] = None,
    pool: Annotated[
        str,
        typer.Option(help="Whose commands it takes: io, cpu or python; of a deployment, a worker's name."),
    ] = "io",
    capacity: Annotated[int, typer.Option(min=1, max=1000, help="Commands at a time.")] = 4,
    token_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="A token with the scope worker; `token` in the home folder unless given."
        ),
    ] = None,
    idle: Annotated[
        float | None, typer.Option(min=1.0, metavar="SECONDS", help="End after so long without work.")
    ] = None,
    grace: Annotated[
        float,
        typer.Option(
            min=0.0, metavar="SECONDS", help="Time that running tasks have to end after SIGTERM or Ctrl-C."
        ),
    ] = 20.0,
    connect_timeout: Annotated[
        float,
        typer.Option(min=0.0, metavar="SECONDS", help="Time to wait for a server that does not answer yet."),
    ] = 30.0,
    name: ProcessName = None,
    detach: Detach = False,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Run commands of a server, fetched over HTTP, until interrupted.

    \b
      noetl serve --external python &
      noetl worker start --server http://127.0.0.1:8765 --pool python --capacity 2
      noetl worker start --context prod --pool python --detach

    It needs no database: programs, large values and registered credentials come from the server as well. When it has to end
    (SIGTERM, Ctrl-C, `noetl worker stop`), it ends its commands or returns them to the server.
    """
    from noetl.cli.actions import daemons
    from noetl.runtime.id_source import process_name
    from noetl.runtime.server.http_worker import HttpWorker, WorkerOptions

    collect_as_usual()
    settings = runtime_access.settings(home)
    settings.make_home()
    if detach:
        words = ["worker", "start", "--pool", pool, "--capacity", str(capacity), "--grace", str(grace)]
        words += ["--connect-timeout", str(connect_timeout)]
        for option, value in (
            ("--server", server),
            ("--token-file", token_file and str(Path(token_file).expanduser().absolute())),
            ("--idle", idle),
            ("--context", context),
        ):
            words += [option, str(value)] if value is not None else []
        words += ["--remote"] if remote else []
        daemons.detach(settings.home, "worker", name, words, as_json=as_json)
    server_options = _server_options(server, token_file, settings.home, remote, context)
    running = daemons.processes(settings.home)
    with running.hold("worker", name or "", os.environ.get(daemons.LOG, "")) as ready:
        known = f"{name or 'worker'}@{process_name()}"
        worker = HttpWorker(
            WorkerOptions(
                server_options.server,
                server_options.token,
                pool,
                capacity,
                idle,
                grace,
                known,
                server_options.sign,
                connect_timeout,
            ),
            settings,
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: worker.stop())
        worker.run(_ready(worker, server_options.server, pool, ready, as_json=as_json))


def _ready(
    worker: HttpWorker, server: str, pool: str, ready: Callable[[dict[str, str]], None], *, as_json: bool
) -> Callable[[], None]:
    def print_end() -> None:
        about = {"pool": pool, "server": server, "known as": worker.name}
        ready(about)
        if as_json:
            out_json({"event": "working", "name": worker.name, "pool": pool, "server": server})
        else:
            out(f"worker {worker.name} takes commands of {pool} from {server}")

    return print_end


@worker_app.command()
def stop(
    name: Stopped = None,
    everyone: Everyone = False,
    timeout: Patience = 30.0,
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Stop a worker of this machine.

    It ends what runs within its --grace, and returns the rest.

    \b
      noetl worker stop
      noetl worker stop --all --timeout 5
    """
    from noetl.cli.actions import daemons

    folder = runtime_access.settings(home).home
    daemons.stop(folder, "worker", name, everyone=everyone, seconds=timeout, as_json=as_json)


@worker_app.command()
def status(as_json: Json = False, home: Home = None) -> None:
    """Workers of this home folder that run on this machine; 1 when there are none.

    The server knows them all: `GET /api/worker/pools`.
    """
    from noetl.cli.actions import daemons

    daemons.status(runtime_access.settings(home).home, "worker", as_json=as_json)


def _server_options(
    server: str | None, token_file: str | None, home: Path, remote: bool, context: str | None
) -> WorkerOptions:
    """Where the server is, and how to say there who asks. Raises InvalidInputError."""
    from noetl.runtime.server.http_worker import WorkerOptions

    if server is None and not remote and context is None:
        server = os.environ.get("NOETL_SERVER_URL") or None
    if server is not None and not remote:
        return WorkerOptions(server, _token(token_file, home), "", 1)
    if server is not None or token_file is not None:
        raise InvalidInputError(
            "a context says where the server is, and who asks",
            code="invalid_options",
            hint="--server with --token-file, or --remote, or --context NAME",
        )
    if not remote and context is None:
        raise InvalidInputError(
            "whose commands shall it run?",
            code="server_missing",
            hint="--server http://127.0.0.1:8765, NOETL_SERVER_URL, or --context NAME (`noetl context list`)",
        )
    from noetl.cli.client.profiles import contexts
    from noetl.cli.client.signing import signer

    found = contexts(str(home)).find(context or "")
    return WorkerOptions(found.url, "", "", 1, sign=signer(found))


def _token(file: str | None, home: Path) -> str:
    path = home / "token" if file is None else Path(file).expanduser()
    try:
        return path.read_text("ascii").strip()
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"the token file {path} cannot be read: {error}",
            code="token_unreadable",
            hint="make one: `noetl token add worker --scopes worker > FILE`",
        ) from error
