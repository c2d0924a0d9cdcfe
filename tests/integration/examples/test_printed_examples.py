"""Examples of the documents the system came from (progress in a loop, travel search, shelf audit, refund gate, price merge), a saga,
and loops inside of loops.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import Counter

import pytest

from noetl.local.emulator import free_port
from tests.integration.examples.api import EXAMPLES, Api
from tests.waiting import PATIENCE

# --- progress ---------------------------------------------------------------------------------------


def test_progress(local) -> None:
    run = local.run("progress")

    assert (run.status, run.error) == ("completed", None)
    assert run.result == {
        "last": "returns.csv",
        "done": "5 of 5",
        "imported": 4,
        "skipped": 1,
        "percent": 100,
        "positions": ["1 of 5", "2 of 5", "3 of 5", "4 of 5", "5 of 5"],
    }
    assert run.slots("vars") == {
        "imported": 4,
        "skipped": 1,
        "percent": 100,
        "last": "returns.csv",
        "done": 5,
    }


@pytest.mark.full
def test_progress_of_nothing(local) -> None:
    run = local.run("progress", {"files": ["a.txt"]})

    assert (run.result["imported"], run.result["skipped"], run.result["percent"]) == (0, 1, 100)


# --- travel_search ----------------------------------------------------------------------------------


def test_travel_search(local, api: Api) -> None:
    api.serve("travel_search")
    api.fail("/text/v1/chat/completions", 429, 503)
    api.fail("/flights/v2/offers", 503)

    run = local.run("travel_search", {"base": api.base})

    assert (run.status, run.error) == ("completed", None)
    assert run.result["query"]["origin"] == "BER"
    assert run.result["answers"] == 3, "the first two were no query"
    assert [offer["price"] for offer in run.result["best"]] == [389, 198, 312], "the early ones first"
    assert (run.result["total"], run.entered("approve")) == (778, 0)
    assert run.result["summary"] == "Atlantica leaves at 06:15 for 389 euros each."
    assert Counter(request.path for request in api.requests) == {
        "/text/v1/chat/completions": 2 + 3 + 1,
        "/flights/oauth/token": 2,
        "/flights/v2/offers": 3,
    }
    told = [request.body["messages"][2]["content"] for request in api.asked("/text/")[:5]]
    assert "there is no JSON object in it" in told[3]
    assert "origin must be an IATA code, not 'Berlin'" in told[4]
    history = json.dumps([event.payload for event in run.events])
    assert "sample-secret" not in history and "sample-token" not in history


@pytest.mark.full
def test_travel_search_never_understood(local, api: Api) -> None:
    api.serve("travel_search", answers=["I cannot help with that."])

    run = local.run("travel_search", {"base": api.base})

    why = "the request was not understood: there is no JSON object in it"
    assert (run.status, run.result) == ("completed", {"found": 0, "why": why})
    assert len(api.requests) == 3


@pytest.mark.full
def test_travel_search_with_nothing_to_offer(local, api: Api) -> None:
    api.serve("travel_search", offers=[])

    run = local.run("travel_search", {"base": api.base})

    assert run.result == {"found": 0, "why": "none of 0 offers fits"}


@pytest.mark.full
def test_travel_search_without_a_model_at_the_end(local, api: Api) -> None:
    api.serve("travel_search")
    answer = api.routes["/"]

    def tired(request):
        told = request.body["messages"][0]["content"] if request.path.startswith("/text/") else ""
        return (503, {}) if "Summarise" in told else answer(request)

    api.on("/", tired)

    run = local.run("travel_search", {"base": api.base})

    assert run.error is None
    assert run.result["summary"] == "Best offer: Atlantica at 06:15, 778 euros."


@pytest.mark.parametrize(("approved", "total"), [(True, 778), (False, None)])
def test_an_expensive_trip_waits(local, api: Api, approved: bool, total: int | None) -> None:
    api.serve("travel_search")
    waiting = local.run("travel_search", {"base": api.base, "approve_over": 500})
    assert waiting.status == "waiting"

    run = local.patch(waiting.execution_id, {"approved": approved})

    assert (run.status, run.result.get("total")) == ("completed", total)
    if not approved:
        assert run.result["why"] == "778 euros were not approved"


# --- shelf_audit, refund_gate, price_merge ----------------------------------------------------------


def test_shelf_audit(local, api: Api) -> None:
    api.serve("shelf_audit")

    run = local.run("shelf_audit", {"base": api.base})

    assert (run.status, run.error) == ("completed", None)
    stored = [{"shelf": "A1", "pages": 3, "rows": 5}, {"shelf": "B7", "pages": 1, "rows": 4}]
    assert run.result == {"audited": 2, "failed": 0, "stored": stored}
    assert len(api.asked("/shelves/B7")) == 2


def test_shelf_audit_beside_its_service(local) -> None:
    """As ``make example`` does it: the API, the credentials and the command in one go."""
    port = free_port()
    playbook = str(EXAMPLES / "shelf_audit" / "shelf_audit.yaml")
    command = [sys.executable, "-m", "noetl.cli", "run", playbook, "--quiet"]
    done = subprocess.run(
        [
            sys.executable,
            str(EXAMPLES / "serve.py"),
            "shelf_audit",
            *command,
            "--set",
            f"base=http://127.0.0.1:{port}",
        ],
        env={
            **os.environ,
            "NOETL_HOME": str(local.runtime.settings.home),
            "EXAMPLE_PORT": str(port),
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["failed"] == 0


def test_a_service_says_what_to_do_about_a_port_that_is_in_use() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / "serve.py"), "shelf_audit", "true"],
            env={**os.environ, "EXAMPLE_PORT": str(port)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    assert done.returncode == 3
    assert f"error: 127.0.0.1:{port} cannot be listened at" in done.stderr
    assert "--set base=" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.full
def test_shelf_audit_goes_on_without_a_shelf(local, api: Api) -> None:
    api.serve("shelf_audit")
    shelves = [{"code": "A1", "size": 5}, {"code": "X0", "size": 5}]

    run = local.run("shelf_audit", {"base": api.base, "shelves": shelves})

    assert run.result == {"audited": 2, "failed": 1, "stored": [{"shelf": "A1", "pages": 1, "rows": 5}]}
    assert run.entered("alarm") == 0


@pytest.mark.parametrize(
    ("approved", "result", "charges"),
    [
        (True, {"receipt": "r-o-17", "amount": 250.0, "reason": "over_limit"}, 2),
        (False, {"refused": True}, 0),
    ],
)
def test_refund_gate(local, api: Api, approved: bool, result: dict, charges: int) -> None:
    api.serve("refund_gate")
    waiting = local.run("refund_gate", {"base": api.base})
    assert (waiting.status, api.requests) == ("waiting", [])

    run = local.patch(waiting.execution_id, {"approved": approved})

    assert (run.status, run.result) == ("completed", result)
    assert len(api.asked("/refunds")) == charges


def test_refund_gate_within_the_limit(local, api: Api) -> None:
    api.serve("refund_gate", faults=())

    run = local.run("refund_gate", {"base": api.base, "order": {"amount": 60}})

    assert run.result == {"receipt": "r-o-17", "amount": 60.0, "reason": "within the limit"}


@pytest.mark.full
def test_refund_gate_when_the_charge_is_refused(local, api: Api) -> None:
    api.fail("/refunds", 400)

    run = local.run("refund_gate", {"base": api.base, "order": {"amount": 60}})

    assert (run.status, run.result, len(api.requests)) == ("completed", {"refused": True}, 1)


@pytest.mark.parametrize(("skus", "rows", "worth"), [([11, 12, 13], 3, 350), ([11], 0, 0)])
def test_price_merge(local, skus: list[int], rows: int, worth: int) -> None:
    run = local.run("price_merge", {"skus": skus})

    assert (run.status, run.result) == ("completed", {"rows": rows, "worth": worth})
    assert run.entered("merge") == 1


# --- book_trip, nested_loops ------------------------------------------------------------------------


def test_a_trip_that_cannot_be_had_is_undone(local, api: Api) -> None:
    api.serve("book_trip")

    run = local.run("book_trip", {"base": api.base})

    assert (run.status, run.error["status"], run.error["step"]) == ("failed", 409, "book_car")
    asked = [(request.method, request.path) for request in api.requests]
    assert asked == [
        ("POST", "/flights"),
        ("POST", "/hotels"),
        ("POST", "/cars"),
        ("DELETE", "/hotels/hotel-1"),
        ("DELETE", "/hotels/hotel-1"),
        ("POST", "/refunds"),
        ("DELETE", "/flights/flight-1"),
    ]
    assert api.asked("/refunds")[0].body == {"booking": "hotel-1", "nights": 3}
    told = run.error["details"]["compensation"]
    assert [(one["step"], one["status"]) for one in told] == [("book_hotel", "done"), ("book_flight", "done")]
    assert (run.count("compensation.started"), run.count("playbook.failed")) == (1, 1)


@pytest.mark.full
def test_an_undoing_that_fails_does_not_stop_the_others(local, api: Api) -> None:
    api.serve("book_trip", away=9)

    run = local.run("book_trip", {"base": api.base, "retry_delay": 0.01})

    told = run.error["details"]["compensation"]
    assert [(one["step"], one["status"]) for one in told] == [
        ("book_hotel", "failed"),
        ("book_flight", "done"),
    ]
    assert run.error["status"] == 409, "the execution fails with what it failed with"


@pytest.mark.full
def test_a_trip_that_can_be_had(local, api: Api) -> None:
    api.serve("book_trip")

    run = local.run("book_trip", {"base": api.base, "car": "small"})

    assert run.result == {"flight": "flight-1", "hotel": "hotel-1", "car": "car-1"}
    assert [request.method for request in api.requests] == ["POST", "POST", "POST"]


def test_nested_loops(local) -> None:
    run = local.run("nested_loops")

    assert (run.status, run.error) == ("completed", None)
    north, south = run.result["shops"]
    assert north == {"shop": "North", "orders": 2, "total": pytest.approx(54.9), "problems": []}
    assert (south["shop"], south["orders"], south["total"]) == ("South", 1, 30)
    assert len(south["problems"]) == 1 and "s-1/2: -2 pieces of tea" in south["problems"][0]
    assert run.result["total"] == pytest.approx(84.9)
