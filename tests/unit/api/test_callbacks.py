"""Callbacks over the API: what a token lets one do, once, and what nobody learns from the answers."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from noetl.domain.callbacks import CallbackId, make_token, run_key
from noetl.domain.capability_tokens import KeyRing
from tests.unit.api.ground import Ground, Reply, request

ASK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: ask, path: demo/ask}
workflow:
  - step: start
    tool:
      - answer:
          kind: wait
          approve: true
          timeout: 3600
          message: 'Refund <b onload="x">40 EUR</b> & more?'
          schema: {type: object, required: [approved], properties: {approved: {type: boolean}}}
"""
FREE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: free, path: demo/free}
workflow:
  - {step: start, tool: {kind: wait, callback: true}}
"""
BROWSER = {"accept": "text/html,application/xhtml+xml"}
FORM = {"content-type": "application/x-www-form-urlencoded", **BROWSER}


def asked(ground: Ground, text: str = ASK) -> tuple[str, str]:
    """(execution, path of its callback)."""
    execution_id = ground.run(text)
    (found,) = ground.ask("GET", f"/api/executions/{execution_id}/callbacks").json["callbacks"]
    assert found["url"].endswith(f"/api/callbacks/{found['token']}")
    return execution_id, f"/api/callbacks/{found['token']}"


def test_its_address_has_the_stage_of_the_gateway(ground):
    execution_id, _ = asked(ground)
    event = request("GET", f"/api/executions/{execution_id}/callbacks", headers={"host": "gateway.test"})
    event["requestContext"]["base"] = "/live"
    (found,) = Reply(ground.resolve(event, None)).json["callbacks"]
    assert found["url"] == f"http://gateway.test/live/api/callbacks/{found['token']}"


def seconds_between(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()


def answer(ground: Ground, path: str, body, **options):
    return ground.ask("POST", path, body, authorizer={}, **options)


def test_an_answer_is_the_result_and_counts_once(ground):
    execution_id, path = asked(ground)
    told = ground.ask("GET", path, authorizer={}, headers={"accept": "application/json"}).json
    assert (told["step"], told["task"], told["waiting"]) == ("start", "answer", True)
    assert seconds_between(told["since"], told["until"]) == pytest.approx(3600)
    assert told["schema"]["required"] == ["approved"]

    misfit = answer(ground, path, {"approved": "yes"})
    assert (misfit.status, misfit.json["code"]) == (400, "callback_schema")
    assert misfit.json["details"]["problems"] == ["approved: 'yes' is not of type 'boolean'"]

    first = answer(ground, path, {"approved": False, "comment": "no"})
    assert first.status == 202 and not first.json["duplicate"]
    assert answer(ground, path, {"approved": True}).json["code"] == "callback_used"
    again = answer(ground, path, '{"comment":"no",  "approved":false}')
    assert (again.status, again.json["duplicate"]) == (200, True)

    ground.settle()
    shown = ground.ask("GET", f"/api/executions/{execution_id}/result").json
    assert shown["result"] == {"approved": False, "comment": "no"}
    late = answer(ground, path, {"approved": True})
    assert late.status == 409 and late.json["details"]["used_at"].endswith("Z")
    assert answer(ground, path, {"approved": False, "comment": "no"}).json["duplicate"]
    assert ground.ask("GET", path, authorizer={}).status == 409


def test_people_get_a_page_where_everything_is_escaped(ground):
    execution_id, path = asked(ground)
    page = ground.ask("GET", path, authorizer={}, headers=BROWSER)
    assert page.status == 200 and page.headers["Content-Type"].startswith("text/html")
    assert "Refund &lt;b onload=&quot;x&quot;&gt;40 EUR&lt;/b&gt; &amp; more?" in page.text
    assert "<script" not in page.text and path.rpartition("/")[2] not in page.text
    assert page.headers["Cache-Control"] == "no-store" and page.headers["Referrer-Policy"] == "no-referrer"
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    for needed in ('<html lang="en">', '<label for="comment">', "<h1>", "<main>", 'value="reject"'):
        assert needed in page.text

    assert answer(ground, path, "decision=maybe", headers=FORM).status == 400
    thanks = answer(ground, path, "decision=reject&comment=%3Ci%3Etoo+much%3C%2Fi%3E", headers=FORM)
    assert thanks.status == 200 and "rejected" in thanks.text
    ground.settle()
    result = ground.ask("GET", f"/api/executions/{execution_id}/result").json["result"]
    assert result == {"approved": False, "comment": "<i>too much</i>"}
    over = ground.ask("GET", path, authorizer={}, headers=BROWSER)
    assert over.status == 409 and "answered before" in over.text


@pytest.mark.parametrize("body", ["null", "[1, 2]", '"text"', "7", ""])
def test_any_json_value_is_an_answer(ground, body):
    execution_id, path = asked(ground, FREE)
    assert answer(ground, path, body).status == 202
    ground.settle()
    wanted = json.loads(body) if body else None
    assert ground.ask("GET", f"/api/executions/{execution_id}/result").json["result"] == wanted


def test_a_large_answer_travels_as_a_reference(ground):
    execution_id, path = asked(ground, FREE)
    body = {"rows": ["x" * 100] * 1000}
    assert answer(ground, path, body).status == 202
    (event,) = ground.publisher.sent
    assert event.outcome.result["kind"] == "result_ref"
    ground.settle()
    assert ground.ask("GET", f"/api/executions/{execution_id}/result").json["result"] == body


TWO = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: two, path: demo/two}
workflow:
  - step: start
    tool:
      - first: {kind: wait, callback: true}
      - second: {kind: wait, callback: true}
"""


def rotate(ground: Ground, secret: str, times: int = 1) -> None:
    """As a deployment does: the ring has the current key and the one before it."""
    for number in range(times):
        current = ground.keys.current
        fresh = KeyRing.of([f"{secret}, number {number}"])
        ground.keys = KeyRing(fresh.current, {**fresh.keys, current: ground.keys.keys[current]})


@pytest.mark.parametrize("text", [FREE, ASK])
def test_a_callback_is_answered_however_often_the_key_changed_while_it_was_awaited(ground, text):
    execution_id, path = asked(ground, text)
    rotate(ground, "a later key", times=5)
    told = ground.ask("GET", path, authorizer={}, headers={"accept": "application/json"})
    assert told.status == 200 and told.json["waiting"]
    token = path.rpartition("/")[2]
    for forged in (
        token[:-1] + ("0" if token[-1] != "0" else "1"),
        token.replace("-1-0-", "-1-1-"),
        "x" + token,
    ):
        assert ground.ask("GET", f"/api/callbacks/{forged}", authorizer={}).status == 404
    again = ground.ask("GET", f"/api/executions/{execution_id}/callbacks").json["callbacks"][0]
    assert again["token"] != token, "a new one is made with the new key, and counts as well"
    assert answer(ground, path, {"approved": True}).status == 202
    ground.settle()
    assert ground.ask("GET", f"/api/executions/{execution_id}/result").json["result"] == {"approved": True}
    shown = ground.ask("GET", f"/api/executions/{execution_id}/events").text
    assert "proofs" not in shown


def test_an_address_that_was_made_before_a_rotation_counts_when_the_wait_begins_after_it(ground):
    execution_id, path = asked(ground, TWO)
    name = CallbackId(int(execution_id), "1", 1)
    second = f"/api/callbacks/{make_token(run_key(name.execution_id, 1, ground.keys), name)}"
    rotate(ground, "between the turns")
    assert answer(ground, path, 1).status == 202
    ground.settle()
    rotate(ground, "while it waits", times=2)
    assert answer(ground, second, 2).status == 202
    ground.settle()
    assert ground.ask("GET", f"/api/executions/{execution_id}/result").json["result"] == 2


def test_what_is_no_token_of_ours_tells_nothing(ground):
    execution_id, path = asked(ground, FREE)
    token = path.rpartition("/")[2]
    other = KeyRing.of(["somebody else's key"])
    name = CallbackId(int(execution_id), "1", 0)
    forged = [
        "x",
        token[:-1] + ("0" if token[-1] != "0" else "1"),
        token.replace("-1-0-", "-1-1-"),
        token.replace("-1-0-", "-2-0-"),
        make_token(run_key(name.execution_id, 1, other), name),
        make_token(run_key(7, 1, ground.keys), CallbackId(7, "1", 0)),
        "%00" + token,
        "٣" * 40,
    ]
    told = set()
    for text in forged:
        for method in ("GET", "POST"):
            reply = ground.ask(method, f"/api/callbacks/{text}", None, authorizer={})
            shown = {key: value for key, value in reply.json.items() if key != "request_id"}
            told.add((reply.status, json.dumps(shown)))
    assert {status for status, _ in told} == {404}
    assert len(told) == 1
    assert not ground.publisher.sent


def test_a_wait_that_is_over_is_gone(ground):
    execution_id, path = asked(ground)
    ground.ask("POST", f"/api/executions/{execution_id}/cancel", {})
    ground.settle()
    reply = answer(ground, path, {"approved": True})
    assert (reply.status, reply.json["code"]) == (410, "callback_closed")
    page = ground.ask("GET", path, authorizer={}, headers=BROWSER)
    assert page.status == 410 and "not waited for any more" in page.text
    assert ground.ask("GET", f"/api/executions/{execution_id}/callbacks").json["callbacks"] == []

    _, path = asked(ground)
    ground.database.now += 3601
    reply = answer(ground, path, {"approved": True})
    assert (reply.status, reply.json["code"]) == (410, "callback_expired")


def test_who_reads_an_execution_sees_what_it_waits_for_and_no_token(ground):
    execution_id, path = asked(ground)
    token = path.rpartition("/")[2]
    shown = ground.ask("GET", f"/api/executions/{execution_id}")
    assert shown.json["status"] == "waiting"
    (awaiting,) = shown.json["awaiting"]
    assert (awaiting["step"], awaiting["task"], awaiting["approve"]) == ("start", "answer", True)
    assert seconds_between(awaiting["since"], awaiting["until"]) == pytest.approx(3600)
    looked = ground.ask("POST", f"/api/executions/{execution_id}/analyze")
    assert looked.json["findings"][0]["kind"] == "waits_for_callback"
    events = ground.ask("GET", f"/api/executions/{execution_id}/events")
    secret = token.rpartition("-")[2]
    for reply in (shown, looked, events):
        assert secret not in reply.text
    reader = Ground(grants={"*": "read"}, store=ground.store, programs=ground.deps.programs)
    assert reader.ask("GET", f"/api/executions/{execution_id}/callbacks").status == 403


def test_no_log_and_no_problem_repeats_a_token(ground):
    _, path = asked(ground)
    token = path.rpartition("/")[2]
    broken = Ground(store=None, programs=ground.deps.programs)
    broken.keys = ground.keys
    reply = broken.ask("POST", path, {"approved": True}, authorizer={})
    assert reply.status == 500
    assert not any(token in line for line in broken.logs) and token not in reply.text
    refused = answer(ground, path, "{")
    assert refused.status == 400 and token not in refused.text
