"""Open the transport that a command asks for: this machine, or the server of a profile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from noetl.cli.render.output import note

if TYPE_CHECKING:
    from noetl.cli.client.protocol import Place, Running
    from noetl.cli.options import CommandTarget
    from noetl.domain.workers.lost_owners import Takes


def open_place(at: CommandTarget) -> AbstractContextManager[Place]:
    """Open a transport to look, and to change what another process runs."""
    if at.context is not None:
        return _remote(at)
    from noetl.cli.client.local_transport import open_here

    return open_here(at.home)


def open_running(
    at: CommandTarget, *, on_log: Callable[[str], None] | None = None, takes: Takes = "everything"
) -> AbstractContextManager[Running]:
    """Open a place that runs executions: this machine, or a server.

    On this machine, Postgres and workers run while it is open; a server continues after it closes.
    ``on_log``: receives what tasks print here. ``takes``: what is taken over from processes that are gone.
    """
    if at.context is not None:
        return _remote(at)
    from noetl.cli.client.local_transport import open_running_here

    return open_running_here(at.home, on_log, takes) if on_log is None else _running(at, on_log, takes)


@contextmanager
def _running(at: CommandTarget, on_log: Callable[[str], None], takes: Takes) -> Iterator[Running]:
    """Open the transport; lines that arrive while it closes go to stderr."""
    from noetl.cli.client.local_transport import open_running_here

    listeners: list[Callable[[str], None]] = [on_log]
    with open_running_here(at.home, lambda line: listeners[-1](line), takes) as place:
        try:
            yield place
        finally:
            listeners.append(note)


def _remote(at: CommandTarget) -> AbstractContextManager[Running]:
    from noetl.cli.client.http_transport import RemotePlace
    from noetl.cli.client.profiles import contexts

    return nullcontext(RemotePlace.at(contexts(at.home).find(at.context or "")))
