"""Limits of names, lists and numbers in requests: one below and at each is accepted, one above is refused with its code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.domain.sizes import (
    BATCH_EVENTS,
    CATCH_UP,
    CREDENTIAL_BYTES,
    CREDENTIAL_NAME,
    CREDENTIAL_TYPE,
    IDEMPOTENCY_KEY,
    LIMIT_KEY,
    NEXT_MOMENTS,
    PATCH_OPERATIONS,
    PATH,
    PRIORITY,
    REQUEST_IDS,
    SCHEDULE_NAME,
    TRIGGER_NAME,
    TRIGGER_TEMPLATE,
    WORKER_NAME,
    Size,
)
from tests.unit.api.ground import HELLO, Ground, Reply
from tests.unit.api.test_events_in import body_of
from tests.unit.api.test_sizes import live

Ask = Callable[[Ground, int], Reply]


def schedule(**over: Any) -> dict[str, Any]:
    return {"path": "demo/hello", "name": "hourly", "rate": "1 hour", **over}


def trigger(**over: Any) -> dict[str, Any]:
    return {"name": "orders", "path": "demo/hello", "source": {"type": "webhook"}, **over}


def credential(**over: Any) -> dict[str, Any]:
    return {"name": "kept", "type": "generic", "data": {"k": "v"}, **over}


def next_moments(ground: Ground, count: int) -> Reply:
    ground.ask("POST", "/api/schedules", schedule())
    return ground.ask("GET", "/api/schedules/hourly/next", query={"count": str(count)})


def batch(ground: Ground, count: int) -> Reply:
    command = ground.issued()
    return ground.ask("POST", "/api/events/batch", {"events": [body_of(ground, command)] * count})


def patch(ground: Ground, count: int) -> Reply:
    operations = [{"op": "add", "path": "/a", "value": 1}] * count
    return ground.ask("PATCH", f"/api/executions/{live(ground)}/ctx", {"patch": operations})


def ids(ground: Ground, count: int) -> Reply:
    return ground.ask("GET", "/api/executions", query={"ids": ",".join(["7"] * count)})


def registered(ground: Ground, length: int) -> Reply:
    text = HELLO.replace("demo/hello", "p" * length)
    return ground.ask("POST", "/api/catalog/register", text, headers={"content-type": "application/yaml"})


def worker(ground: Ground, length: int) -> Reply:
    return ground.ask(
        "POST", "/api/worker/pool/register", {"name": "w" * length, "pool": "io", "capacity": 1}
    )


def started(ground: Ground, **over: Any) -> Reply:
    headers = over.pop("headers", {})
    return ground.ask("POST", "/api/executions", {"path": "demo/hello", **over}, headers=headers)


CASES: dict[str, tuple[Size, Ask, int, str]] = {
    "schedule": (SCHEDULE_NAME, lambda g, n: g.ask("POST", "/api/schedules", schedule(name="s" * n)), 422, "invalid_schedule_name"),
    "catch_up": (CATCH_UP, lambda g, n: g.ask("POST", "/api/schedules", schedule(catch_up_max=n)), 422, "invalid_schedule"),
    "next": (NEXT_MOMENTS, next_moments, 400, "invalid_parameter"),
    "trigger": (TRIGGER_NAME, lambda g, n: g.ask("POST", "/api/triggers", trigger(name="t" * n)), 422, "invalid_trigger_name"),
    "event_id": (TRIGGER_TEMPLATE, lambda g, n: g.ask("POST", "/api/triggers", trigger(event_id="e" * n)), 422, "invalid_trigger"),
    "credential": (CREDENTIAL_NAME, lambda g, n: g.ask("POST", "/api/credentials", credential(name="c" * n)), 422, "invalid_credential_name"),
    "type": (CREDENTIAL_TYPE, lambda g, n: g.ask("POST", "/api/credentials", credential(type="c" * n)), 422, "invalid_credential"),
    "data": (CREDENTIAL_BYTES, lambda g, n: g.ask("POST", "/api/credentials", credential(data={"k": "v" * (n - 8)})), 422, "invalid_credential"),
    "limit": (LIMIT_KEY, lambda g, n: g.ask("PUT", f"/api/limits/execution:{'l' * n}", {"concurrent": 1}), 422, "invalid_limit"),
    "worker": (WORKER_NAME, worker, 422, "body_invalid"),
    "idempotency": (IDEMPOTENCY_KEY, lambda g, n: started(g, headers={"idempotency-key": "k" * n}), 400, "invalid_parameter"),
    "priority": (PRIORITY, lambda g, n: started(g, priority=n), 422, "body_invalid"),
    "lowest priority": (PRIORITY, lambda g, n: started(g, priority=-n), 422, "body_invalid"),
    "batch": (BATCH_EVENTS, batch, 422, "batch_size"),
    "operations": (PATCH_OPERATIONS, patch, 422, "invalid_patch"),
    "ids": (REQUEST_IDS, ids, 400, "invalid_parameter"),
    "path": (PATH, registered, 422, "invalid_playbook"),
}  # fmt: skip


@pytest.mark.parametrize("over", [-1, 0, 1])
@pytest.mark.parametrize("case", CASES)
def test_a_request_at_its_limit(ground: Ground, case: str, over: int) -> None:
    size, ask, status, code = CASES[case]
    ground.register()
    reply = ask(ground, size.value + over)
    if over <= 0:
        assert reply.status < 300, reply
    else:
        assert (reply.status, reply.json["code"]) == (status, code), reply
