"""Requests that wait for the end of an execution, and what they are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import UNSET

from noetl.api.http.exchange import Request
from noetl.api.http.waiting import LONGEST, Waiting
from noetl.api.nouns import waited_start
from noetl.domain.automations.schedules import instant
from noetl.domain.errors import InfrastructureError
from noetl.runtime.aws.api import FIRST_LOOK_SECONDS, NEXT_LOOK_SECONDS, SLOWER, WAIT_SECONDS
from tests.parts import over
from tests.unit.api.ground import FAILING, GATED, HELLO, Ground

LARGE = HELLO.replace('double, value: "{{ workload.n }}"', "noop, args: {text: \"{{ 'x' * 60000 }}\"}")


class Clock:
    """Time passes while somebody waits. ``during``: what happens within the first pause."""

    def __init__(self, during: Callable[[], None] = lambda: None) -> None:
        self.now, self.during, self.pauses, self.wakes = 0.0, during, [], False
        self.result: Any = UNSET

    @contextmanager
    def expect(self, execution_id: int, fresh: bool) -> Iterator[Clock]:
        yield self

    def __call__(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        during, self.during = self.during, lambda: None
        during()
        self.now += seconds
        return self.wakes


def ground_that(
    during: Callable[[Ground], None] = Ground.settle, places: int | None = None, auth: str = "none"
) -> tuple[Ground, Clock]:
    """The API where ``during`` happens while a request waits. (Requests say when they came in another time: all of it is left.)"""
    ground = Ground(auth)
    clock = Clock(lambda: during(ground))

    class Timed(Waiting):
        def wait(
            self,
            execution_id: int,
            seconds: float,
            over: Callable[[], bool],
            *,
            since: float,
            fresh: bool = False,
        ) -> Any:
            return super().wait(execution_id, seconds, over, since=clock.now, fresh=fresh)

    ground.deps = replace(
        ground.deps,
        waiting=Timed(places, expect=clock.expect, clock=lambda: clock.now, ticks=lambda: clock.now),
    )
    return ground, clock


def start(ground: Ground, text: str = HELLO, wait: str = "30", **options: Any):
    body = {"path": ground.register(text)["path"]}
    return ground.ask("POST", "/api/executions", body, query={"wait": wait}, **options)


def test_a_start_that_waits_is_answered_with_the_result():
    ground, clock = ground_that()
    reply = start(ground)
    told = reply.json
    assert reply.status == 201 and reply.headers["Location"].endswith(told["execution_id"])
    assert (told["status"], told["ended"], told["error"]) == ("completed", True, None)
    result = ground.ask("GET", f"/api/executions/{told['execution_id']}/result").json
    assert (told["result"], told["complete"], told["downloads"]) == (42, True, [])
    assert told["result"] == result["result"]
    assert len(clock.pauses) == 1


def test_a_result_that_this_process_knows_is_told_as_the_store_would():
    read = start(ground_that()[0]).json
    ground, clock = ground_that()
    clock.wakes, clock.result = True, 42
    assert start(ground).json | {"execution_id": read["execution_id"]} == read


def test_of_a_failed_execution_the_error_is_told_and_no_result():
    ground, _ = ground_that()
    told = start(ground, FAILING).json
    assert (told["status"], told["ended"]) == ("failed", True)
    assert told["error"] == ground.ask("GET", f"/api/executions/{told['execution_id']}/status").json["error"]
    assert told["error"]["message"] and "result" not in told


def test_when_the_time_has_passed_the_id_is_told_and_looks_grow_apart():
    ground, clock = ground_that()
    told = start(ground, GATED).json
    assert (told["status"], told["ended"]) == ("waiting", False) and "result" not in told
    assert clock.now == 30 and clock.pauses[:3] == pytest.approx([0.1, 0.15, 0.225])
    assert max(clock.pauses) == 2.0 and len(clock.pauses) < 25


def test_the_pause_after_the_first_look_may_be_shorter():
    clock = Clock()
    waiting = Waiting(
        expect=clock.expect,
        clock=lambda: clock.now,
        ticks=lambda: clock.now,
        first_pause=0.03,
        next_pause=0.01,
        slower=1.1,
    )
    waiting.wait(1, 60, lambda: False, since=0.0)
    assert clock.pauses[:4] == pytest.approx([0.03, 0.01, 0.011, 0.0121]) and max(clock.pauses) == 2.0


def test_a_deployment_looks_soon_after_the_end_and_not_often():
    clock = Clock()
    waiting = Waiting(
        longest=WAIT_SECONDS,
        first_pause=FIRST_LOOK_SECONDS,
        next_pause=NEXT_LOOK_SECONDS,
        slower=SLOWER,
        expect=clock.expect,
        clock=lambda: clock.now,
        ticks=lambda: clock.now,
    )
    waiting.wait(1, 60, lambda: False, since=0.0)
    looks = [sum(clock.pauses[: place + 1]) for place in range(len(clock.pauses))]
    late = [(after - before) / after for before, after in pairwise(looks)]
    assert len(looks) <= 60 and max(late) < 0.25 and max(late[5:]) < 0.15


def test_zero_does_not_wait_and_tells_the_status():
    ground, clock = ground_that()
    assert start(ground, wait="0").json["ended"] is False
    assert clock.pauses == []


def test_a_request_is_answered_within_the_longest_time_from_its_beginning():
    clock = Clock()
    waiting = Waiting(longest=24, expect=clock.expect, clock=lambda: clock.now, ticks=lambda: clock.now)
    clock.now = 20.0  # starting took so long, because a database woke up
    waiting.wait(1, 60, lambda: False, since=0.0)
    assert clock.now == 24


def test_a_signal_ends_the_waiting():
    clock = Clock()
    clock.wakes = True
    Waiting(expect=clock.expect, clock=lambda: clock.now, ticks=lambda: clock.now).wait(
        1, 60, lambda: False, since=0.0
    )
    assert len(clock.pauses) == 1


def test_a_client_that_has_gone_takes_no_place_any_longer():
    clock = Clock()
    waiting = Waiting(expect=clock.expect, clock=lambda: clock.now, ticks=lambda: clock.now)
    gone = Request("GET", "/api/executions/1/status", now_ms=0, gone=lambda: True)
    waited_start._wait(SimpleNamespace(waiting=waiting), gone, 1, 60)
    assert len(clock.pauses) == 1


def test_where_all_places_are_taken_nobody_else_waits():
    second = []

    def meanwhile(ground: Ground) -> None:
        second.append(start(ground))
        ground.settle()

    ground, clock = ground_that(meanwhile, places=1)
    first = start(ground)
    assert (first.json["ended"], second[0].json["ended"], second[0].status) == (True, False, 201)
    clock.during = ground.settle
    assert start(ground).json["ended"], "the place was given back"


@over("wait", ["-1", "61", "soon", "", "nan", "inf", "1e1", "99999999999999"])
@over("where", ["start", "read", "status"])
def test_what_is_no_number_of_seconds_is_refused_and_starts_nothing(wait: str, where: str):
    ground, clock = ground_that()
    if where == "start":
        reply = start(ground, wait=wait)
    else:
        path = f"/api/executions/{ground.run()}" + ("/status" if where == "status" else "")
        reply = ground.ask("GET", path, query={"wait": wait})
    assert (reply.status, reply.json["code"]) == (400, "invalid_parameter")
    assert f"from 0 to {LONGEST:g}" in reply.json["detail"] and clock.pauses == []
    assert where != "start" or ground.ask("GET", "/api/executions").json["executions"] == []


def test_who_may_not_read_is_refused_and_starts_nothing():
    ground, _ = ground_that(auth="jwt")
    wide, narrow = ({"jwt": {"claims": {"sub": "shop", "scope": scope}}} for scope in ("admin", "execute"))
    register = ground.ask("POST", "/api/catalog/register", {"content": HELLO}, authorizer=wide)
    assert register.status == 201
    asked = {"path": "demo/hello"}
    refused = ground.ask("POST", "/api/executions", asked, query={"wait": "5"}, authorizer=narrow)
    assert refused.status == 403 and "the scope read" in refused.json["detail"]
    assert ground.store.executions(limit=10) == []
    made = ground.ask("POST", "/api/executions", asked, authorizer=narrow)
    assert made.status == 201 and "ended" not in made.json


def test_a_repeated_request_waits_for_the_same_execution():
    ground, _ = ground_that(lambda ground: None)
    key = {"idempotency-key": "once"}
    first = start(ground, wait="0", headers=key).json
    ground.settle()
    again = start(ground, headers=key).json
    assert again["execution_id"] == first["execution_id"]
    assert (again["status"], again["ended"], again["result"]) == ("completed", True, 42)


def test_an_execution_that_starts_later_is_not_waited_for():
    ground, clock = ground_that()
    body = {"path": ground.register()["path"], "trigger_at": instant(ground.database.now + 3600)}
    reply = ground.ask("POST", "/api/executions", body, query={"wait": "30"})
    assert (reply.status, reply.json["status"], clock.pauses) == (201, "scheduled", [])


def test_a_result_that_is_too_large_for_an_answer_is_told_as_on_its_own_route():
    ground, _ = ground_that()
    ground.deps = replace(ground.deps, max_answer=20_000)
    told = start(ground, LARGE).json
    result = ground.ask("GET", f"/api/executions/{told['execution_id']}/result").json
    assert told["ended"] and told["complete"] is False
    assert told["result"] == result["result"] and told["downloads"] == result["downloads"]


def test_an_outage_after_the_start_does_not_take_the_id_away():
    ground, _ = ground_that(lambda ground: setattr(ground.store, "endings", away))

    def away(execution_ids: Sequence[int]) -> None:
        raise InfrastructureError("gone", code="database_unreachable")

    reply = start(ground)
    assert (reply.status, reply.json["status"]) == (201, "started")
    assert any("cannot be read" in line for line in ground.logs)


@pytest.mark.parametrize("route", ["", "/status"])
def test_reading_may_wait_for_the_end(route: str):
    ground, clock = ground_that()
    execution_id = ground.start(ground.register()["path"])
    path = f"/api/executions/{execution_id}{route}"
    assert ground.ask("GET", path, query={"wait": "0"}).json["status"] == "running"
    assert clock.pauses == []
    assert ground.ask("GET", path, query={"wait": "20"}).json["status"] == "completed"
    assert len(clock.pauses) == 1
    ground.ask("GET", path, query={"wait": "20"})
    assert len(clock.pauses) == 1, "it has ended: nothing is waited for"
    assert ground.ask("GET", f"/api/executions/999{route}", query={"wait": "20"}).status == 404
