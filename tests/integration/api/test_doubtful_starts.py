"""Starts whose answer from the database is lost, and starts that the engine breaks on."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.adapters.postgres.connection import Database
from noetl.domain.errors import InfrastructureError
from noetl.services.orchestrator import failed_events, handle_events
from tests.integration.api.test_serve import Client, Serve, client, serve, server  # noqa: F401

pytestmark = pytest.mark.postgres

TEXT = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: one, path: demo/one }
workflow:
  - step: start
    tool: { kind: noop, args: { n: "{{ workload.n }}" } }
"""


class PanicError(BaseException):
    """What a compiled library raises."""


@pytest.mark.parametrize(("code", "times"), [("database_silent", 1), ("outcome_unknown", 2)])
def test_a_start_with_a_key_whose_answer_was_lost_begins_when_it_is_repeated(
    client: Client,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    times: int,
) -> None:
    client.register(TEXT)
    run, left = Database.run, [times]

    def lose(self: Database, name: str, *values: Any) -> Any:
        found = run(self, name, *values)
        if name == "create_execution" and left[0]:
            left[0] -= 1
            raise InfrastructureError("the answer is lost", code=code)
        return found

    monkeypatch.setattr(Database, "run", lose)
    body = {"path": "demo/one", "payload": {"n": 1}}
    assert client("POST", "/api/executions", body, Idempotency_Key="k")[0] == 503
    status, told = client("POST", "/api/executions", body, Idempotency_Key="k")
    assert status == 201
    client.until(told["execution_id"], "completed")


@pytest.mark.parametrize("headers", [{"Idempotency_Key": "k"}, {}], ids=["with a key", "without one"])
def test_a_start_that_breaks_the_engine_is_accepted_and_fails(
    client: Client,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    headers: dict[str, str],
) -> None:
    monkeypatch.setattr(failed_events, "AGAIN_SECONDS", (0.0, 0.0))
    client.register(TEXT)
    decide = handle_events.decide_one

    def panic(event: Any, *more: Any, **named: Any) -> Any:
        if getattr(event, "payload", {}).get("n") == 666:
            raise PanicError("a panic of a compiled library")
        return decide(event, *more, **named)

    monkeypatch.setattr(handle_events, "decide_one", panic)
    status, told = client("POST", "/api/executions", {"path": "demo/one", "payload": {"n": 666}}, **headers)
    assert status == 201, told
    client.until(told["execution_id"], "failed")
