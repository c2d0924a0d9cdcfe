"""Requests of the published client (5.3.2) as it sends them, and the fields of the answers that it reads."""

from __future__ import annotations

import re
from base64 import b64encode
from pathlib import Path

import pytest

from noetl.api.published.declined import DECLINED
from noetl.api.table import ROUTES
from noetl.domain.sizes.table import BATCH_PLAYBOOKS
from tests.parts import over
from tests.unit.api.ground import FAILING, GATED, HELLO, Ground, Reply, request

CALLER = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: caller, path: demo/caller }
workflow:
  - step: start
    tool: { kind: playbook, path: demo/gated }
"""


def item(text: str) -> dict[str, str]:
    return {"content": b64encode(text.encode()).decode(), "resource_type": "Playbook"}


def status(ground: Ground, execution_id: str) -> dict:
    return ground.ask("GET", f"/api/executions/{execution_id}/status").json


def test_a_status_says_what_the_client_shows(ground):
    done = status(ground, ground.run())
    assert (done["completed"], done["failed"], done["completed_steps"], done["current_step"]) == (
        True,
        False,
        ["start"],
        None,
    )
    failed = status(ground, ground.run(FAILING))
    assert (failed["completed"], failed["failed"]) == (True, True)
    waiting = status(ground, ground.run(GATED))
    assert (waiting["completed"], waiting["failed"], waiting["current_step"]) == (False, False, "gate")
    assert waiting["completed_steps"] == ["start"]
    short = ground.ask(
        "GET", f"/api/executions/{waiting['execution_id']}/status", query={"full": "false"}
    ).json
    assert short["completed_steps"] == [] and short["current_step"] == "gate"


def test_a_list_is_of_what_was_asked_for(ground):
    ground.run()
    ground.ask("POST", "/api/credentials", {"name": "shop", "type": "generic", "data": {"k": "secret"}})
    found = ground.ask("POST", "/api/catalog/list", {"resource_type": "Playbook"}).json
    assert [(one["path"], one["kind"]) for one in found["entries"]] == [("demo/hello", "playbook")]
    assert found["playbooks"][0]["path"] == "demo/hello"
    kept = ground.ask("POST", "/api/catalog/list", {"resource_type": "Credential"})
    assert [(one["name"], one["kind"], one["type"]) for one in kept.json["entries"]] == [
        ("shop", "credential", "generic")
    ]
    assert kept.json["playbooks"] == [] and "secret" not in kept.text
    refused = ground.ask("POST", "/api/catalog/list", {"resource_type": "Secret"})
    assert (refused.status, refused.json["hint"]) == (422, "playbook or credential")


def test_many_playbooks_are_registered_each_for_itself(ground):
    broken = HELLO.replace("demo/hello", "demo/broken").replace("kind: double", "kind: duble")
    asked = {"items": [item(HELLO), item(broken), item(GATED)]}
    answer = ground.ask("POST", "/api/catalog/register/batch", asked)
    assert (answer.status, answer.json["registered"], answer.json["failed"]) == (200, 2, 1)
    first, wrong, last = answer.json["results"]
    assert (first["status"], first["path"], first["version"], first["created"]) == (
        "registered",
        "demo/hello",
        1,
        True,
    )
    assert wrong["status"] == "failed" and "duble" in wrong["error"] and last["status"] == "registered"
    again = ground.ask("POST", "/api/catalog/register/batch", {"items": [item(HELLO)]}).json["results"][0]
    assert again["version"] == 1 and "created" not in again
    many = {"items": [item(HELLO)] * (BATCH_PLAYBOOKS.value + 1)}
    assert ground.ask("POST", "/api/catalog/register/batch", many).status == 422


@pytest.mark.parametrize("path", ["demo/hello@1", "hello", "hello@1"])
def test_a_playbook_is_named_as_the_client_names_it(ground, path):
    ground.register()
    body = {"path": path, "workload": {}, "resource_kind": "playbook"}
    answer = ground.ask("POST", "/api/execute", body)
    assert (answer.status, answer.json["path"], answer.json["version"]) == (201, "demo/hello", 1)
    assert ground.ask("POST", "/api/catalog/resource", {"path": path}).json["content"] == HELLO


def test_a_stem_that_is_no_path_of_one_playbook_is_refused(ground):
    ground.register()
    ground.register(HELLO.replace("demo/hello", "other/hello"))
    answer = ground.ask("POST", "/api/execute", {"path": "hello"})
    assert (answer.status, answer.json["code"]) == (409, "playbook_ambiguous")
    assert "demo/hello, other/hello" in answer.json["detail"]
    assert ground.ask("POST", "/api/execute", {"path": "helo"}).status == 404


def test_a_rerun_has_the_workload_of_its_source_and_what_is_laid_over_it(ground):
    ground.register()
    first = ground.ask("POST", "/api/execute", {"path": "demo/hello", "workload": {"n": 21}}).json[
        "execution_id"
    ]
    ground.settle()
    rerun = f"/api/executions/{first}/rerun"
    same = ground.ask("POST", rerun, {"workload": {}, "resource_kind": "playbook"})
    other = ground.ask("POST", rerun, {"workload": {"n": 5}})
    ground.settle()
    assert (same.status, same.json["source_execution_id"]) == (201, first)
    results = [
        ground.ask("GET", f"/api/executions/{one.json['execution_id']}/result").json["result"]
        for one in (same, other)
    ]
    assert results == [42, 10]
    assert ground.ask("POST", "/api/executions/7/rerun", {}).status == 404


def test_a_cancel_names_what_it_cancels(ground):
    ground.register(GATED)
    parent = ground.run(CALLER)
    answer = ground.ask("POST", f"/api/executions/{parent}/cancel", {"cascade": True, "reason": "x"}).json
    assert answer["cancelled_count"] == 2 and answer["cancelled_executions"][0] == parent
    assert answer["status"] == "accepted" and "2 executions" in answer["message"]
    ground.settle()
    for one in answer["cancelled_executions"]:
        found = ground.ask("GET", f"/api/executions/{one}/cancellation-check").json
        assert found == {"execution_id": one, "is_cancelled": True, "cancelled": True, "status": "cancelled"}
    lone = ground.run(GATED)
    alone = ground.ask("POST", f"/api/executions/{lone}/cancel", {"cascade": False}).json
    assert alone["cancelled_executions"] == [lone]


def test_cleaning_up_leaves_what_waits(ground):
    waiting = ground.run(GATED)
    ground.register()
    stuck = ground.ask("POST", "/api/execute", {"path": "demo/hello"}).json["execution_id"]
    ground.database.now += 600
    asked = {"older_than_minutes": 5, "dry_run": True}
    dry = ground.ask("POST", "/api/executions/cleanup", asked).json
    assert waiting not in dry["execution_ids"] and dry["cancelled_count"] == len(dry["execution_ids"])
    done = ground.ask("POST", "/api/executions/cleanup", {**asked, "dry_run": False}).json
    assert done["execution_ids"] == dry["execution_ids"] == [stuck]
    ground.settle()
    assert status(ground, stuck)["status"] == "cancelled" and status(ground, waiting)["status"] == "waiting"


def test_finalizing_ends_what_runs_and_tells_of_what_ended(ground):
    waiting, done = ground.run(GATED), ground.run()
    asked = {"status": "COMPLETED", "error": "by hand"}
    assert ground.ask("POST", f"/api/executions/{waiting}/finalize", asked).json["status"] == "cancelled"
    ground.settle()
    assert status(ground, waiting)["status"] == "cancelled"
    assert ground.ask("POST", f"/api/executions/{done}/finalize", asked).json["status"] == "completed"


def test_figures_contract_and_database(ground):
    ground.run()
    ground.run(FAILING)
    stats = ground.ask("GET", "/api/dashboard/stats").json["stats"]
    assert (stats["total_executions"], stats["successful_executions"], stats["failed_executions"]) == (
        2,
        1,
        1,
    )
    assert ground.ask("GET", "/api/db/validate").json["valid"] is True
    assert ground.ask("GET", "/api/runtime/contract", authorizer={}).json["api_versions"] == ["noetl.io/v2"]
    assert ground.ask("GET", "/api/health", authorizer={}).json["status"] == "ok"
    assert ground.ask("GET", "/api/worker/pool/status").json == ground.ask("GET", "/api/worker/pools").json


def test_all_variables_of_an_execution_are_removed(ground):
    waiting = ground.run(GATED)
    ground.ask("POST", f"/api/vars/{waiting}", {"variables": {"a": 1, "b": 2}})
    ground.settle()
    gone = ground.ask("DELETE", f"/api/vars/{waiting}").json
    assert (gone["deleted_count"], sorted(gone["var_names"])) == (2, ["a", "b"])
    ground.settle()
    assert ground.ask("GET", f"/api/vars/{waiting}").json["count"] == 0


ASKED = (
    ("POST", "/api/postgres/execute", {"query": "SELECT 1", "schema": "noetl"}),
    ("GET", "/api/ehdb/executions", None),
    ("GET", "/api/ehdb/executions/1", None),
    ("GET", "/api/ehdb/executions/1/events", None),
    ("GET", "/api/ehdb/tiers/eventlog", None),
    ("POST", "/api/auth/login", {"auth0_domain": "a", "auth0_token": "b", "session_duration_hours": 8}),
    ("POST", "/noetl/catalog/list", {"resource_type": "Playbook"}),
    ("POST", "/noetl/postgres/execute", {"query": "SELECT 1", "schema": "noetl"}),
)
"""What its other commands ask for: query, ehdb query, provider orphans, auth login, and any of them with --gateway."""


@over(("method", "path", "body"), ASKED, ids=[path for _, path, _ in ASKED], ground=Ground)
def test_what_is_declined_says_so(ground, method, path, body):
    answer = Reply(ground.resolve(request(method, path, body), None))
    shown = answer.json
    assert (answer.status, shown["code"]) == (404, "route_declined")
    assert path in shown["detail"] and shown["hint"]


def test_every_declined_route_is_documented_and_has_another_one():
    page = (Path(__file__).parents[3] / "docs/api.md").read_text()
    rows = re.findall(r"^\| `(/\S+?)\*?` \| (.+) \| (.+) \|$", page, re.MULTILINE)
    assert [path for path, _, _ in rows] == [one.path for one in DECLINED]
    for one in DECLINED:
        assert not [route for route in ROUTES if route.path.startswith(one.path)]
        assert any(path.startswith(one.path) for _, path, _ in ASKED)
