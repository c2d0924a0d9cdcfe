"""The server that `noetl ui` opens: that of a client context, or the one on this machine."""

from __future__ import annotations

from noetl.cli.actions import daemons
from noetl.cli.client import runtime_access
from noetl.cli.client.profiles import Context, contexts
from noetl.cli.commands.serve import TOKEN_FILE
from noetl.cli.options import CommandTarget
from noetl.domain.errors import InfrastructureError


def server_context(at: CommandTarget) -> Context:
    """Find the server and how to authenticate there.

    Raises InfrastructureError when none runs on this machine.
    """
    if at.context is not None:
        return contexts(at.home).find(at.context)
    folder = runtime_access.settings(at.home).home
    running = [one for one in daemons.processes(folder).running("server") if one.about.get("address")]
    if not running:
        raise InfrastructureError(
            "no server runs on this machine",
            code="no_server",
            hint="start one: noetl server start --detach; or name a context: noetl ui --context NAME",
            retryable=False,
        )
    token = folder / TOKEN_FILE
    address = (
        str(running[0].about["address"]).replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    )
    auth: dict[str, str] = {"token_file": str(token)} if token.exists() else {}
    return Context("this machine", address, "token" if auth else "none", **auth)
