"""The check of origins: a server without tokens refuses requests of other origins' pages.

A browser carries requests of any page to any address it can reach, this machine included. Without tokens the headers that browsers add,
and that a page cannot change, are all that distinguishes such a request from one of this machine's user.
"""

from __future__ import annotations

from collections.abc import Mapping

from noetl.api.http.problems import ForbiddenError, UnsupportedMediaError

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_OWN_SITES = frozenset({"same-origin", "none"})
"""What ``Sec-Fetch-Site`` says of own pages, and of an address that the user typed."""
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_WITH_PREFLIGHT = frozenset(
    {
        "application/json",
        "application/yaml",
        "application/x-yaml",
        "text/yaml",
        "text/x-yaml",
        "application/octet-stream",
    }
)
"""Kinds of bodies that a page of another origin can send only after the server agreed, which it never does."""
_HINT = "use http://127.0.0.1 from a program of this machine, or serve with tokens"


def check_local(headers: Mapping[str, str], *, secured: bool) -> None:
    """Refuse a request that another host name or another origin's page made.

    ``secured``: a secret of the route's address authorises it (a callback, a webhook), so that a link on another site may lead to it.
    Raises ForbiddenError.
    """
    host = headers.get("host")
    if host is None or host_name(host) not in LOOPBACK:
        # A name of another site may resolve to this machine (DNS rebinding); its pages are then of the same origin as the server.
        raise _foreign("Host", host)
    origin = headers.get("origin")
    if origin is not None and origin.lower() != f"http://{host.lower()}":
        raise _foreign("Origin", origin)
    site = headers.get("sec-fetch-site")
    if site is not None and site.lower() not in _OWN_SITES and not secured:
        raise _foreign("Sec-Fetch-Site", site)


def check_kind(method: str, headers: Mapping[str, str], body: bytes) -> None:
    """Refuse a type of body that a page may send to any server, such as a form or plain text.

    Raises UnsupportedMediaError.
    """
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if method in _READING or not body or kind in _WITH_PREFLIGHT or kind.endswith("+json"):
        return
    raise UnsupportedMediaError(
        f"a server without tokens does not take a body of the kind {kind[:60]!r}",
        hint="send Content-Type: application/json (application/yaml for a playbook)",
    )


def _foreign(header: str, value: str | None) -> ForbiddenError:
    problem = f"a request without {header}" if value is None else f"{header} {value[:100]!r}"
    return ForbiddenError(f"a server without tokens does not answer to {problem}", hint=_HINT)


def host_name(host: str) -> str:
    """The name of ``host:port`` or ``[::1]:port``."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return (host.rpartition(":")[0] if host.count(":") == 1 else host).lower()
