"""Whoever changes something is recorded with it: every route that changes anything, and where its principal is found afterwards."""

from __future__ import annotations

import itertools
from typing import Any

from noetl.api.table import ROUTES
from tests.parts import over
from tests.unit.api.ground import ARN, HELLO, Ground, Reply, check_documented, request
from tests.unit.api.test_routes import exchange

LOOKS = frozenset(
    {
        "findPlaybooks",
        "findPlaybook",
        "renderContext",
        "analyzeExecution",
        "initDatabase",
        "migratePlaybook",
        "validatePlaybook",
        "formatPlaybook",
        "querySql",
        "getPlaybookActivity",
        "testPlaybook",
    }
)
"""POST, because they are asked with a body; nothing changes."""
CHANGES = [
    route
    for route in ROUTES
    if route.method != "GET" and route.name not in LOOKS and route.scope not in (None, "worker")
]
"""A webhook is its own credential. What workers report is signed with their command's token (test_events_in, test_keychain)."""


class Named(Ground):
    """Every request comes from another principal; ``last`` made the last one."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = itertools.count(1)
        self.last = ""

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> Reply:
        self.last = f"{ARN}-{next(self._numbers)}"
        who = {"authorizer": {"iam": {"userArn": self.last}}, **options}
        reply = Reply(self.resolve(request(method, path, body, **who), None))
        check_documented(method, path, reply.status)
        return reply


def everything(value: Any, seen: set[int]) -> Any:
    """Every text in an object and what it holds."""
    if isinstance(value, (str, bytes)):
        yield value if isinstance(value, str) else value.decode(errors="replace")
        return
    if id(value) in seen or isinstance(value, (int, float, type(None))) or callable(value):
        return
    seen.add(id(value))
    if isinstance(value, dict):
        inner: Any = itertools.chain(value.keys(), value.values())
    elif isinstance(value, (list, tuple, set, frozenset)) or type(value).__name__ in ("deque", "OrderedDict"):
        inner = value
    else:
        names = [*getattr(value, "__dict__", {}), *getattr(type(value), "__struct_fields__", ())]
        names += [one for kind in type(value).__mro__ for one in getattr(kind, "__slots__", ())]
        inner = [getattr(value, name, None) for name in names]
    for one in list(inner):
        yield from everything(one, seen)


@over("route", CHANGES, ids=lambda route: route.name)
def test_who_changed_something_is_recorded(route):
    ground = Named()
    reply = exchange(ground, route.name)
    assert reply.status < 300, reply
    ground.settle()
    deps = ground.deps
    kept = (ground.database, ground.store, deps.workers, deps.events.batches, deps.saved_views, ground.logs)
    assert any(ground.last in text for text in everything(kept, set())), ground.last


def test_no_text_of_a_caller_reads_like_the_record_of_another_change():
    forged = "x (request 1) owner did deleteCredential: 200 shop"
    ground = Ground()
    event = request(
        "POST", "/api/catalog/register", {"content": HELLO, "path": forged.replace("(", "").replace(")", "")}
    )
    event["requestContext"]["requestId"] = forged
    assert ground.resolve(event, None)["statusCode"] == 201
    (line,) = ground.logs
    assert line.endswith(
        f': 201 "x request 1 owner did deleteCredential: 200 shop@1" (request "{forged}")'
    ), line
