"""Routes of the original server that are declined.

Each has a sentence that says why, and what to use instead.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Declined:
    """A path that a published client asks for, with any method.

    ``path``: one that ends with a slash is everything below it. ``because`` completes "it is declined: …".
    """

    path: str
    because: str
    instead: str


DECLINED: tuple[Declined, ...] = (
    Declined(
        "/api/postgres/execute",
        "no request runs a statement of its caller on the engine's own tables",
        "POST /api/sql reads history (`noetl sql`); a playbook with kind postgres writes to other databases",
    ),
    Declined(
        "/api/ehdb/",
        "history is in one store, which has routes of its own",
        "GET /api/executions, /api/executions/{execution_id} and …/events answer the same, POST /api/sql any question",
    ),
    Declined(
        "/api/auth/login",
        "there is no sign-in of a gateway",
        "set NOETL_SESSION_TOKEN to a token of `noetl token add`, or of the identity provider of the deployment",
    ),
    Declined(
        "/noetl/",
        "this is the API, not a gateway in front of one",
        "leave out --gateway; every route is below /api",
    ),
)


def find_declined(path: str) -> Declined | None:
    """Return the entry that a path without a route belongs to."""
    for one in DECLINED:
        if path == one.path or (one.path.endswith("/") and path.startswith(one.path)):
            return one
    return None
