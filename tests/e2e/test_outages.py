"""An outage of the database that outlasts every retry of the past: what was running goes on by itself."""

from __future__ import annotations

import contextlib
import random
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import conninfo

from noetl.domain.state import TERMINAL
from noetl.local import database
from noetl.local.layout import Layout
from tests import outages
from tests.e2e.remote import ASK, Remote
from tests.integration.examples.api import Api, ApiServer, Request
from tests.waiting import PATIENCE, wait_until

EXECUTIONS = 20
FEW = 6
"""Executions of each of the outages that a soak makes."""
DELIVERIES = 7
"""Before, the fifth delivery of an event was its last one."""


@contextlib.contextmanager
def short_back_off(deployment: Any, *functions: str) -> Iterator[None]:
    """Let messages come back after one and two seconds instead of five and up to nine hundred."""
    client = deployment.client("lambda")
    before = {}
    for name in map(deployment.function, functions):
        variables = client.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        before[name] = variables
        changed = {**variables, "NOETL_BACK_OFF": "1,2"}
        client.update_function_configuration(FunctionName=name, Environment={"Variables": changed})
    try:
        yield
    finally:
        for name, variables in before.items():
            client.update_function_configuration(FunctionName=name, Environment={"Variables": variables})


@contextlib.contextmanager
def database_away(deployment: Any) -> Iterator[None]:
    """Stop the server behind the emulator's RDS for the length of the block."""
    layout = Layout(deployment.home / "local")
    port = int(str(conninfo.conninfo_to_dict(deployment.database())["port"]))
    database.stop(layout)
    try:
        yield
    finally:
        database.start(layout, port)


@pytest.fixture
def held() -> Iterator[tuple[ApiServer, threading.Event, list[str]]]:
    """An API that answers no request before the event is set, and who asked."""
    asked: list[str] = []
    release, api = threading.Event(), Api()

    def answer(request: Request) -> tuple[int, Any]:
        asked.append(request.headers["idempotency-key"])
        assert release.wait(10 * PATIENCE)
        return 200, {"said": "at last"}

    # The lock of the scripted API is not held while one request waits.
    api.lock = threading.Semaphore(2 * EXECUTIONS)  # type: ignore[assignment]
    api.on("/slow", answer)
    with ApiServer(api):
        yield api, release, asked
        release.set()


@pytest.mark.full
@pytest.mark.timeout(round(20 * PATIENCE))
def test_executions_go_on_by_themselves_after_an_outage_of_the_database(
    remote: Remote, deployment: Any, held: Any
) -> None:
    api, release, asked = held
    began = time.time()
    with short_back_off(deployment, "engine"), deployment.concurrency("worker-io", EXECUTIONS):
        started = [remote.begin(ASK, url=f"{api.base}/slow") for _ in range(EXECUTIONS)]
        wait_until(lambda: len(set(asked)) >= EXECUTIONS, lambda: f"all calls; there are {len(set(asked))}")
        _explained(remote, started)
        with database_away(deployment):
            release.set()

            def deliveries() -> dict[str, int]:
                """The number of the last delivery of each execution that has had one."""
                text = "\n".join(deployment.logs("engine", began))
                found = {one: re.findall(rf"{one}, delivery (\d+)", text) for one in started}
                return {one: max(map(int, numbers)) for one, numbers in found.items() if numbers}

            def delivered() -> bool:
                numbers = deliveries()
                return all(numbers.get(one, 0) >= DELIVERIES for one in started)

            wait_until(
                delivered,
                lambda: f"delivery {DELIVERIES} of {started}; there were {deliveries()}, it",
                seconds=4 * PATIENCE,
            )
            assert deployment.queue_depth("events-dlq.fifo") == 0
        _explained(remote, started)
        runs = [remote.follow(one) for one in started]
    assert [run.status for run in runs] == ["completed"] * EXECUTIONS
    assert all(run.result == {"said": "at last"} and run.count("step.exit", "start") == 1 for run in runs)
    assert deployment.queue_depth("events-dlq.fifo") == 0


@pytest.mark.timeout(round(20 * PATIENCE + outages.MOST))
@pytest.mark.full
@pytest.mark.soak("outages of a deployment")
@pytest.mark.parametrize("number", outages.NUMBERS)
def test_executions_go_on_by_themselves_after_outages_of_any_length(
    number: int, remote: Remote, deployment: Any, held: Any
) -> None:
    """With the back-off that a deployment has; the outage begins and ends at any moment of the executions."""
    rng = random.Random(f"outage {number}")
    api, release, asked = held
    away, before = outages.seconds(rng), rng.randint(0, FEW)
    with deployment.concurrency("worker-io", FEW):
        started = [remote.begin(ASK, url=f"{api.base}/slow") for _ in range(FEW)]
        # At least so many calls are under way when the database goes.
        wait_until(lambda: len(set(asked)) >= before, lambda: f"{before} calls; there are {len(set(asked))}")
        early = rng.random() < 0.5
        if early:
            release.set()
            time.sleep(rng.random())
        with database_away(deployment):
            release.set()
            time.sleep(away)
        _explained(remote, started)
        # The longest pause is about as long as the outage was.
        wait_until(
            lambda: all(_ended(remote, one) for one in started),
            lambda: f"the end of {[one for one in started if not _ended(remote, one)]}, {away:.1f} s away",
            seconds=4 * PATIENCE + 2 * away,
        )
    for one in started:
        run = remote.follow(one)
        assert (run.status, run.result) == ("completed", {"said": "at last"}), one
        assert run.count("step.exit", "start") == 1, one
    assert deployment.queue_depth("events-dlq.fifo") == 0
    print(f"outage {number}: {away:.1f} s, {'during' if early else 'before'} the answers, {FEW} executions")


def _explained(remote: Remote, started: list[str]) -> None:
    """The database is back, and messages are still waiting: `analyze` names what each execution waits for."""
    for one in started:
        wait_until(lambda one=one: _answers(remote, one), f"an answer about {one}")
        remote.explain(one)


def _answers(remote: Remote, execution_id: str) -> bool:
    """False while the API finds its database away."""
    return bool(remote.deployment.api("GET", f"/api/executions/{execution_id}/status").status == 200)


def _ended(remote: Remote, execution_id: str) -> bool:
    """False while the API finds its database away."""
    answer = remote.deployment.api("GET", f"/api/executions/{execution_id}/status")
    return answer.status == 200 and answer.body["status"] in TERMINAL
