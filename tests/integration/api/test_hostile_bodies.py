"""Hostile texts in bodies that ``noetl serve`` takes over HTTP, and in words of the command line, over Postgres."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from noetl.runtime.server.serve import Server
from tests.integration.api import hostile_bodies
from tests.integration.api.hostile_bodies import ENDS, TEXTS, check, check_lists
from tests.integration.api.test_serve import Client, Serve, serve  # noqa: F401
from tests.integration.api.test_workers import claim, register
from tests.parts import parted

pytestmark = pytest.mark.postgres

WORK = hostile_bodies.FAILING.replace("hostile/fails", "hostile/work").replace("fails", "work")


@pytest.fixture
def server(serve: Serve) -> Iterator[Server]:  # noqa: F811
    with serve(external=("python",), worker_lease=60.0) as made:
        yield made


@pytest.fixture
def client(server: Server) -> Client:
    return Client(server.address, server.tokens.add("tester", ["admin", "worker"]))


@pytest.mark.parametrize(
    "text", parted(TEXTS.values(), [TEXTS["half of a pair"], TEXTS["control"]], ids=tuple(TEXTS))
)
def test_hostile_bodies_are_kept_or_refused_and_every_list_is_shown(client: Client, text: str) -> None:
    for playbook in (hostile_bodies.PLAIN, hostile_bodies.ASKING, WORK):
        client.register(playbook)
    register(client, "w1")
    for door in hostile_bodies.DOORS:
        check(door(client, text))
    asking = client.start("hostile/asks")
    client.until(asking, "waiting")
    check(hostile_bodies.answers(client, asking, text))
    client.until(asking, "completed")
    worked = []
    for end in ENDS:
        execution_id = client.start("hostile/work")
        (claimed,) = claim(client, "w1")
        found = hostile_bodies.reports(client, claimed, text, end)
        check(found)
        assert found[-1][0] == 202, found
        client.until(execution_id, "completed", "failed")
        worked.append(execution_id)
    failed = worked[ENDS.index("error")]
    check(hostile_bodies.redrive(client, failed, text))
    check_lists(client)
    for execution_id in (asking, *worked):
        for part in ("", "/events", "/steps", "/status", "/logs"):
            assert client("GET", f"/api/executions/{execution_id}{part}")[0] == 200, part
