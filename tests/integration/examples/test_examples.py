"""Every example from its first event to its last: results, and what happened on the way."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.integration.examples.api import Api
from tests.integration.examples.conftest import EXAMPLES

# --- weather_loop ---------------------------------------------------------------------------------


def test_weather_loop_pages_and_retries(local, api: Api) -> None:
    api.serve("weather_loop")

    run = local.run("weather_loop", {"base": api.base})

    assert (run.status, run.error) == ("completed", None)
    assert run.result == {"cities": 3, "readings": 8, "mean": {"oslo": 4.2, "lima": 19.0, "pune": 29.5}}
    calls = [(request.path.rsplit("/", 1)[1], request.query["page"]) for request in api.requests]
    assert calls == [
        ("oslo", "1"),
        ("oslo", "2"),
        ("lima", "1"),
        ("lima", "1"),
        ("lima", "1"),
        ("pune", "1"),
        ("pune", "2"),
        ("pune", "3"),
    ]
    lima = {request.headers.get("idempotency-key") for request in api.asked("/weather/lima")}
    assert len(lima) == 1 and None not in lima, "every try of one call carries the same key"
    assert run.count("retry.scheduled") == 2
    assert run.count("loop.item", "start") == 3


@pytest.mark.full
def test_weather_loop_gives_up(local, api: Api) -> None:
    api.serve("weather_loop")
    api.fail("/weather/oslo", 503, 503, 503, 503)

    run = local.run("weather_loop", {"base": api.base, "first_delay": 0.01})

    assert run.status == "failed"
    assert (run.error["status"], run.error["step"]) == (503, "start")
    assert len(api.requests) == 4, "no other city is asked after the failure"


# --- paginated_endpoints --------------------------------------------------------------------------


def test_paginated_endpoints(local, api: Api) -> None:
    api.serve("paginated_endpoints")

    run = local.run("paginated_endpoints", {"base": api.base})

    assert (run.status, run.error) == ("completed", None)
    assert run.result == {
        "stored": [
            {"endpoint": "orders", "pages": 2, "rows": 4},
            {"endpoint": "users", "pages": 3, "rows": 7},
        ],
        "complete": True,
    }
    assert Counter(request.path for request in api.requests) == {"/users": 3, "/orders": 4}
    assert run.entered("alarm") == 0


@pytest.mark.full
def test_paginated_endpoints_alarm(local, api: Api) -> None:
    api.on("/users", lambda request: (200, {"rows": [], "paging": {"more": False}}))

    run = local.run("paginated_endpoints", {"base": api.base})

    assert run.status == "completed"
    assert "404" in run.result["failed"]
    assert run.entered("report") == 0


# --- patient_flow ---------------------------------------------------------------------------------


def test_patient_flow_counts_every_row(local, api: Api) -> None:
    """Two pages meet the API's limit; the playbook waits as it is told to, and compares at its end."""
    api.serve("patient_flow", rate=10_000, burst=10_000)
    api.faults["/patients/1/conditions"].append((429, {"detail": "not so fast"}, {"Retry-After": "1"}))
    api.fail("/facilities/2/patients", 429)

    run = local.run(
        "patient_flow", {"base": api.base, "facilities": 2, "patients": 6, "batch": 3, "rate": 200}
    )

    assert (run.status, run.error) == ("completed", None)
    expected = {
        kind: sum((patient * 7 + place * 3) % 15 + 1 for patient in (*range(1, 7), *range(1001, 1007)))
        for place, kind in enumerate(
            ("assessments", "conditions", "medications", "observations", "procedures")
        )
    }
    assert run.result == {"patients": 12, "records": expected, "rows": sum(expected.values())}
    assert len(api.asked("/patients/1/conditions")) == 3, "its two pages, one of them twice"


@pytest.mark.full
def test_patient_flow_misses_a_row(local, api: Api) -> None:
    api.serve("patient_flow", rate=10_000, burst=10_000)
    answer = api.routes.pop("/")
    api.on("/patients/1/procedures", lambda request: (200, {"data": [], "paging": {"has_more": False}}))
    api.on("/", answer)

    run = local.run("patient_flow", {"base": api.base, "facilities": 1, "patients": 2, "rate": 200})

    assert run.status == "failed"
    assert (run.error["step"], run.error["code"]) == ("check", "ValueError")
    assert "'procedures'" in run.error["message"]


# --- user_onboarding ------------------------------------------------------------------------------


def test_onboarding_of_a_team(local, api: Api) -> None:
    api.serve("user_onboarding")

    run = local.run("user_onboarding", {"base": api.base})

    assert (run.status, run.error) == ("completed", None)
    assert run.result == {
        "status": "onboarded",
        "account": "accounts-1",
        "login": "ada",
        "team": True,
        "message": "messages-1",
    }
    assert [request.path for request in api.requests] == ["/accounts", "/workspaces", "/seats", "/messages"]
    assert api.asked("/seats")[0].body == {"workspace": "workspaces-1", "seats": 3}
    assert api.asked("/messages")[0].body == {"to": "ada@example.com", "template": "team"}


@pytest.mark.full
def test_onboarding_of_one_user(local, api: Api) -> None:
    api.serve("user_onboarding")

    run = local.run("user_onboarding", {"base": api.base, "user": {"plan": "free"}})

    assert run.result["team"] is False
    assert [request.path for request in api.requests] == ["/accounts", "/messages"]
    assert api.asked("/messages")[0].body["template"] == "single"


@pytest.mark.full
@pytest.mark.parametrize(
    ("user", "taken", "problems"),
    [
        ({"email": "ada at example"}, False, ["ada at example is not an e-mail address"]),
        ({"plan": "gold"}, False, ["there is no plan gold"]),
        ({}, True, ["ada is taken"]),
    ],
)
def test_onboarding_refused(local, api: Api, user: dict, taken: bool, problems: list[str]) -> None:
    api.serve("user_onboarding")
    if taken:
        api.fail("/accounts", 409)

    run = local.run("user_onboarding", {"base": api.base, "user": user})

    assert (run.status, run.error) == ("completed", None)
    assert run.result == {"rejected": user.get("email", "ada@example.com"), "problems": problems}
    assert run.entered("welcome") == 0
    assert len(api.requests) == int(taken)


# --- batch_counters, fanout_join, sub_playbooks -----------------------------------------------------


def test_batch_counters(local) -> None:
    run = local.run("batch_counters")

    assert (run.status, run.error) == ("completed", None)
    assert run.result == {
        "batches": 3,
        "ok": 8,
        "refused": 2,
        "total": 56,
        "mean": 7.0,
        "per_batch": [23, 22, 11],
    }
    assert run.slots("vars") == {"ok": 8, "refused": 2, "total": 56, "mean": 7.0, "batch_count": 3}


def test_fanout_join(local) -> None:
    run = local.run("fanout_join")

    assert (run.status, run.error) == ("completed", None)
    assert run.result == {
        "products": [
            {"sku": 11, "price": 110.5, "quantity": 2, "stars": 4.5},
            {"sku": 12, "price": 120.5, "quantity": 0, "stars": None},
            {"sku": 13, "price": 130.5, "quantity": 1, "stars": 3.9},
        ],
        "in_stock": 2,
    }
    assert run.entered("merge") == 1


@pytest.mark.full
def test_fanout_join_without_the_optional_branch(local) -> None:
    run = local.run("fanout_join", {"with_reviews": False})

    assert [product["stars"] for product in run.result["products"]] == [None, None, None]
    assert (run.entered("reviews"), run.entered("merge")) == (0, 1)


def test_sub_playbooks(local) -> None:
    run = local.run("sub_playbooks")

    assert (run.status, run.error) == ("completed", None)
    assert run.result == {"decisions": {"Ada": "accepted", "Lin": "refused", "Bob": "no score"}, "failed": 1}
    assert run.children() == ["completed", "completed", "failed"]


# --- conditional_retry ------------------------------------------------------------------------------


def test_conditional_retry(local, api: Api) -> None:
    api.serve("conditional_retry")

    run = local.run("conditional_retry", {"base": api.base})

    assert (run.status, run.error) == ("completed", None)
    assert run.result == {"job": "j1", "submit_tries": 3, "rows": 3}
    assert [request.method for request in api.requests] == ["POST", "POST", "POST", "GET", "GET", "GET"]
    assert (
        len({request.headers["idempotency-key"] for request in api.requests if request.method == "POST"}) == 1
    )


@pytest.mark.full
def test_conditional_retry_refused(local, api: Api) -> None:
    api.serve("conditional_retry")
    api.fail("/jobs", 400)

    run = local.run("conditional_retry", {"base": api.base})

    assert run.result == {"failed": "the job was refused: 400"}
    assert len(api.requests) == 1


@pytest.mark.full
def test_conditional_retry_job_never_done(local, api: Api) -> None:
    api.serve("conditional_retry", refusals=(), states=["queued"])

    run = local.run("conditional_retry", {"base": api.base, "delay": 0.01})

    assert run.status == "failed"
    assert (run.error["code"], run.error["step"]) == ("retry_exhausted", "wait")
    assert len(api.asked("/jobs/j1")) == 10


# --- config_loader ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "url", "ttl"),
    [
        ({}, "https://db.staging.example.com:5432", 60),
        ({"environment": "production"}, "https://db.example.com:5432", 900),
        ({"environment": "none", "overrides": {"db_port": 6000}}, "http://localhost:6000", 60),
    ],
)
def test_config_loader(local, payload: dict, url: str, ttl: int) -> None:
    run = local.run("config_loader", payload)

    assert (run.status, run.error) == ("completed", None)
    assert (run.result["url"], run.result["ttl"]) == (url, ttl)
    assert run.slots("ctx")["settings"] == run.result["settings"]


@pytest.mark.full
def test_config_loader_names_every_problem(local) -> None:
    run = local.run("config_loader", {"environment": "broken", "required": ["db_host", "secret"]})

    assert run.status == "failed"
    assert run.error["message"] == "broken: broken.db_port: 'many' is not int; secret is missing"
    assert run.entered("use") == 0


# --- operator_approval --------------------------------------------------------------------------------


def test_a_small_refund_is_paid_at_once(local) -> None:
    run = local.run("operator_approval", {"refund": {"amount": 40}})

    assert run.result == {"order": "o-17", "paid": 40, "note": ""}
    assert run.entered("decide") == 0


@pytest.mark.parametrize(
    ("values", "result"),
    [
        ({"approved": True, "note": "by phone"}, {"order": "o-17", "paid": 250, "note": "by phone"}),
        ({"approved": False}, {"order": "o-17", "refused": "no reason given"}),
    ],
)
def test_an_operator_decides(local, values: dict, result: dict) -> None:
    waiting = local.run("operator_approval")
    assert waiting.status == "waiting"
    assert waiting.count("step.parked") == 1

    note = local.patch(waiting.execution_id, {"comment": "still looking"})
    assert note.status == "waiting", "another key does not open the gate"

    run = local.patch(waiting.execution_id, values)
    assert (run.status, run.result) == ("completed", result)
    patched = [event for event in run.events if event.event_type == "ctx.patched"]
    assert patched[-1].meta["principal"] == "ada"
    assert patched[-1].payload["reason"] == "a test decides"


@pytest.mark.parametrize(
    ("said", "result", "paid"),
    [
        ({"approved": True, "comment": "fine"}, {"expense": "e-17", "paid": 250}, 1),
        ({"approved": False, "comment": "no receipt"}, {"expense": "e-17", "refused": "no receipt"}, 0),
    ],
)
def test_a_link_that_came_by_mail_decides(local, api, said: dict, result: dict, paid: int) -> None:
    api.serve("approval_link")
    waiting = local.run("approval_link", {"base": api.base})
    assert waiting.status == "waiting"
    (mail,) = api.asked("/mail")
    link = mail.body["link"]

    run = local.answer(waiting.execution_id, link, said)
    assert (run.status, run.result) == ("completed", result)
    assert len(api.asked("/payments")) == paid
    assert link.rpartition("/")[2] not in repr(run.events), "who reads the history cannot answer"


@pytest.mark.full
def test_an_operator_decides_on_the_command_line(cli) -> None:
    started = cli("run", str(EXAMPLES / "operator_approval" / "operator_approval.yaml"), "--json")
    assert started.returncode == 0, started.stderr
    last = json.loads(started.stdout.splitlines()[-1])
    assert last["status"] == "waiting"

    done = cli(
        "ctx",
        "patch",
        last["execution_id"],
        "--set",
        "approved=true",
        "--reason",
        "customer called",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["status"], last["result"]["paid"]) == ("completed", 250)

    again = cli("ctx", "patch", last["execution_id"], "--set", "approved=false")
    assert again.returncode != 0
    assert "completed" in again.stderr


def test_a_sub_playbook_is_found_beside_its_parent(cli, database) -> None:
    done = cli(
        "run", str(EXAMPLES / "sub_playbooks" / "sub_playbooks.yaml"), "--json", NOETL_DATABASE_URL=database
    )

    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["result"]["decisions"] == {"Ada": "accepted", "Lin": "refused", "Bob": "no score"}


# --- daily_digest ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "subject", "total"),
    [
        ({}, "3 orders in 7 day(s)", 100.0),
        ({"days": 1}, "2 orders in 1 day(s)", 25.0),
        ({"event": {"source": "acme.shop", "detail": {"days": 30}}}, "4 orders in 30 day(s)", 112.5),
    ],
)
def test_daily_digest_by_hand_by_its_schedule_and_by_an_event(local, payload, subject, total) -> None:
    run = local.run("daily_digest", payload)

    assert (run.status, run.error) == ("completed", None)
    assert run.result == {"subject": subject, "total": total}


# --- large_report ---------------------------------------------------------------------------------


def test_large_report_joins_what_nobody_holds(local, api: Api) -> None:
    api.serve("large_report")

    run = local.run("large_report", {"base": api.base, "orders": 3000})

    assert (run.status, run.error) == ("completed", None)
    amount = sum(number % 997 * 1.25 for number in range(1, 3001))
    assert run.result == {"lines": 3000, "amount": amount, "cells": 36, "complete": True}


# --- order_archive --------------------------------------------------------------------------------


def test_order_archive_counts_every_order(local) -> None:
    run = local.run("order_archive", {"orders": 10_000, "chunk_rows": 3000})

    assert (run.status, run.error) == ("completed", None)
    assert (run.result["orders"], run.result["total"]) == (
        10_000,
        sum(i * 37 % 10_000 for i in range(1, 10_001)) / 100,
    )
    assert [month["orders"] for month in run.result["months"]] == [6377, 3623]
