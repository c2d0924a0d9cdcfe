"""The server that `noetl ui` opens: that of a client context, or the one on this machine."""

from __future__ import annotations

from noetl.cli.actions import daemons
from noetl.cli.client import runtime_access
from noetl.cli.client.profiles import Context, contexts
from noetl.cli.commands.serve import TOKEN_FILE
from noetl.cli.options import CommandTarget
from noetl.cli.render.output import note


def server_context(at: CommandTarget, port: int) -> Context:
    """Find the server and how to authenticate there; start one on this machine when none runs.

    A server that it starts listens at ``port`` of loopback, and runs in the background until `noetl server stop`.
    """
    if at.context is not None:
        return contexts(at.home).find(at.context)
    settings = runtime_access.settings(at.home)
    folder = settings.home
    running = daemons.processes(folder)
    if not running.server_address():
        settings.make_home()
        for line in daemons.started_lines(
            daemons.start(folder, "server", None, ["serve", "--port", str(port)])
        ):
            note(line)
    token = folder / TOKEN_FILE
    auth: dict[str, str] = {"token_file": str(token)} if token.exists() else {}
    return Context("this machine", running.server_address(), "token" if auth else "none", **auth)
