"""``noetl worker``: its commands, their options and their help, and what they do."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from noetl.cli import wiring
from noetl.cli.options import Home
from noetl.cli.text import out
from noetl.domain.errors import InvalidInputError

worker_app = typer.Typer(help="Workers outside of the server's process.", no_args_is_help=True)


@worker_app.callback()
def _group() -> None:
    """One command for now, and still a group."""


@worker_app.command()
def start(
    server: Annotated[str, typer.Option(metavar="URL", help="Address of `noetl serve`.")],
    pool: Annotated[str, typer.Option(help="Whose commands it takes: io, cpu or python.")] = "io",
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
    home: Home = None,
) -> None:
    """Run commands of a server, fetched over HTTP, until interrupted.

    \b
      noetl serve --external python &
      noetl worker start --server http://127.0.0.1:8765 --pool python --capacity 2

    It needs no database: programs, large values and registered credentials come from the server as well. When it is told to end
    (SIGTERM, Ctrl-C), what it runs is ended or given back.
    """
    from noetl.runtime.http_worker import HttpWorker, WorkerWish

    settings = wiring.settings(home)
    worker = HttpWorker(WorkerWish(server, _token(token_file, settings.home), pool, capacity, idle), settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    out(f"worker {worker.name} takes commands of {pool} from {server}")
    worker.run()


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
