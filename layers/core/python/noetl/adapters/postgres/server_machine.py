"""The machine of a database.

What its server is short of, that machine lacks, which may be another one than this.
"""

from __future__ import annotations

import re

import psycopg
from psycopg import conninfo, pq

from noetl.domain.shortages import Shortage

_HERE = re.compile(r"(?:[/@].*|localhost|127\.[\d.]+|\[?::1\]?|)", re.IGNORECASE)
"""A folder of sockets, an abstract socket, an address of this machine; or none, which is a socket."""
_SERVER_SAYS = re.compile(r"\b(?:FATAL|PANIC|ERROR):|could not fork new process")


def remedy(lacking: Shortage, error: BaseException, dsn: str) -> str:
    """Return what to do about a shortage, on the machine that has it.

    ``error`` complains about it. The client can be short as well, of files for its sockets, say.
    """
    host = remote_host(dsn) if _is_of_server(error) else None
    if host is None:
        return lacking.remedy
    return f"that is on the machine of the database ({host}), not on this one: {lacking.remote_remedy}"


def remote_host(dsn: str) -> str | None:
    """Name the other machine that a connection string means; None for this one."""
    given = {option.keyword.decode(): option.val for option in pq.Conninfo.get_defaults()}
    named = {name: (given[name] or b"").decode() for name in ("host", "hostaddr")}
    named |= {name: str(value) for name, value in conninfo.conninfo_to_dict(dsn).items() if name in named}
    addresses = (named["hostaddr"] or named["host"]).split(",")
    if all(_HERE.fullmatch(address.strip()) for address in addresses):
        return None
    return named["host"] or named["hostaddr"]


def _is_of_server(error: BaseException) -> bool:
    """Return whether the server complains, and not the client.

    An answer has a state; a refused connection has only the server's words.
    """
    state = error.diag.sqlstate if isinstance(error, psycopg.Error) else None
    return state is not None or _SERVER_SAYS.search(str(error)) is not None
