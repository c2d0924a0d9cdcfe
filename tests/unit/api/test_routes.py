"""Every route does what the table says, and answers what the OpenAPI document says."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace

import jsonschema
import pytest

from noetl.api.http.access import LOCAL
from noetl.api.http.dispatch import resolve
from noetl.api.http.exchange import Request
from noetl.api.http.openapi import committed
from noetl.api.live.change_hub import ChangeHub
from noetl.api.table import ROUTES
from noetl.ports.queue import Outgoing
from noetl.services.history.history_pages import history
from noetl.services.messaging.operate_dead_letters import LetterQueue
from tests.doubles.queue import MemoryQueue
from tests.parts import over
from tests.unit.api.ground import ARN, FAILING, GATED, HELLO, LOOPED, Ground, Reply, openapi, operation

STEERING = {
    "cancelExecution": ("POST", "cancel", {"reason": "enough"}),
    "patchContext": ("PATCH", "ctx", {"patch": {"approved": True}}),
    "injectToken": ("POST", "tokens", {"step": "gate"}),
    "pauseExecution": ("POST", "pause", {}),
    "resumeExecution": ("POST", "resume", {}),
    "redriveExecution": ("POST", "redrive", {"reason": "again"}),
}
BEFORE = {"resumeExecution": "pause", "redriveExecution": "cancel"}
"""What has to have happened to an execution before."""


def exchange_steering(ground: Ground, name: str):
    place = f"/api/executions/{ground.run(GATED)}"
    if name in BEFORE:
        ground.ask("POST", f"{place}/{BEFORE[name]}", {})
        ground.settle()
    method, what, body = STEERING[name]
    return ground.ask(method, f"{place}/{what}", body)


def exchange_many(ground: Ground, name: str):
    execution_id = ground.run(GATED)
    before = BEFORE.get(name.removesuffix("s"))
    if before:
        ground.ask("POST", f"/api/executions/{execution_id}/{before}", {})
        ground.settle()
    return ground.ask("POST", path_of(name), {"filter": {"ids": [str(execution_id)]}})


def path_of(name: str) -> str:
    return next(route.path for route in ROUTES if route.name == name)


def exchange(ground: Ground, name: str):
    """One fitting request to the route of this name."""
    if name in ("health", "ready", "openapi"):
        return ground.ask("GET", {"openapi": "/openapi.json"}.get(name, f"/{name}"), authorizer={})
    if name in PUBLISHED:
        return exchange_published(ground, name)
    by_tag = {
        "workers": exchange_worker,
        "triggers": exchange_trigger,
        "limits": exchange_limit,
        "views": exchange_view,
        "callbacks": exchange_callback,
        "sessions": exchange_session,
        "tokens": exchange_token,
        "changes": exchange_change,
        "history": exchange_history,
        "dead letters": exchange_dead_letters,
    }
    if (tag := operation(name)["tags"][0]) in by_tag:
        return by_tag[tag](ground, name)
    if "Event" in name and name != "getExecutionEvents":
        return exchange_event(ground, name)
    if name in ("execute", "startExecution"):
        ground.register()
        path = "/api/execute" if name == "execute" else "/api/executions"
        return ground.ask("POST", path, {"path": "demo/hello", "payload": {"n": 1}})
    if name.endswith("Executions") and name != "listExecutions":
        return exchange_many(ground, name)
    if name in STEERING:
        return exchange_steering(ground, name)
    if "Variable" in name:
        return exchange_variable(ground, name)
    if name == "getKeychainEntry":
        ground.register()
        exchange_credential(ground, "")
        return ground.ask("GET", "/api/keychain/demo%2Fhello@1/team/db")
    if "Credential" in name:
        return exchange_credential(ground, name)
    if name == "download":
        ground.deps.results.put("noetl://execution/1/result/start/x", b'{"rows":[1]}')
        return ground.ask("GET", "/api/downloads/token-of-x", authorizer={})
    if name.endswith("Schedule") or name.startswith(("listSchedule", "getSchedule")):
        return exchange_schedule(ground, name)
    if name in ("findPlaybooks", "findPlaybook"):
        ground.register()
        path = "list" if name == "findPlaybooks" else "resource"
        body = None if name == "findPlaybooks" else {"path": "demo/hello", "version": "latest"}
        return ground.ask("POST", f"/api/catalog/{path}", body)
    if name in ("renderContext", "analyzeExecution", "prune"):
        return exchange_look(ground, name)
    execution_id = ground.run()
    paths = {
        "getQueues": "/api/queue",
        "getVersion": "/api/version",
        "getDiagnostics": "/api/diagnostics",
        "getMetrics": "/metrics",
        "listPlaybooks": "/api/catalog",
        "getPlaybook": "/api/catalog/demo/hello",
        "listPlaybookVersions": "/api/catalog/demo/hello/versions",
        "getPlaybookGraph": "/api/catalog/demo/hello/graph",
        "getPlaybookRelations": "/api/catalog/demo/hello/relations",
        "getPlaybookSchema": "/api/catalog/demo/hello/schema",
        "getSchemaOfPlaybooks": "/api/schema/playbook",
        "listExecutions": "/api/executions",
        "getExecutionStats": "/api/executions/stats",
        "listFailures": "/api/executions/failures",
        "getExecution": f"/api/executions/{execution_id}",
        "getExecutionStatus": f"/api/executions/{execution_id}/status",
        "getExecutionEvents": f"/api/executions/{execution_id}/events",
        "getExecutionLogs": f"/api/executions/{execution_id}/logs",
        "getResultEntries": f"/api/executions/{execution_id}/entries",
        "getExecutionGraph": f"/api/executions/{execution_id}/graph",
        "getLoopItems": f"/api/executions/{ground.run(LOOPED)}/loops/1/items",
        "getLoopBands": f"/api/executions/{ground.run(LOOPED)}/loops/1/bands",
        "getExecutionSteps": f"/api/executions/{execution_id}/steps",
        "getExecutionResult": f"/api/executions/{execution_id}/result",
    }
    return ground.ask("GET", paths[name])


PUBLISHED = {
    "testPlaybook": ("POST", "/api/catalog/test", {"content": HELLO, "tests": "cases: [{ name: one }]"}),
    "validatePlaybook": ("POST", "/api/catalog/validate", {"content": HELLO, "names": True}),
    "formatPlaybook": ("POST", "/api/catalog/format", {"content": HELLO}),
    "migratePlaybook": ("POST", "/api/catalog/migrate", {"content": HELLO, "source_name": "hello.yaml"}),
    "registerPlaybook": ("POST", "/api/catalog/register", {"content": HELLO, "source_name": "hello.yaml"}),
    "registerPlaybooks": ("POST", "/api/catalog/register/batch", {"items": [{"content": HELLO}]}),
    "getPlaybookActivity": ("POST", "/api/executions/activity", {"paths": ["demo/hello"]}),
    "rerunExecution": ("POST", "/api/executions/DONE/rerun", {"workload": {"n": 2}}),
    "cleanupExecutions": ("POST", "/api/executions/cleanup", {"older_than_minutes": 5, "dry_run": True}),
    "checkCancellation": ("GET", "/api/executions/DONE/cancellation-check", None),
    "finalizeExecution": ("POST", "/api/executions/WAITING/finalize", {"status": "COMPLETED"}),
    "getRuntimeContract": ("GET", "/api/runtime/contract", None),
    "validateDatabase": ("GET", "/api/db/validate", None),
    "initDatabase": ("POST", "/api/db/init", None),
    "getDashboardStats": ("GET", "/api/dashboard/stats", None),
    "getWorkerPoolStatus": ("GET", "/api/worker/pool/status", None),
    "deleteVariables": ("DELETE", "/api/vars/WAITING", None),
    "apiHealth": ("GET", "/api/health", None),
}
"""Requests of the published client; DONE and WAITING are executions."""


def exchange_published(ground: Ground, name: str):
    method, path, body = PUBLISHED[name]
    made = {
        "DONE": ground.run() if "DONE" in path else "",
        "WAITING": ground.run(GATED) if "WAITING" in path else "",
    }
    if name == "deleteVariables":
        ground.ask("POST", f"/api/vars/{made['WAITING']}", {"variables": {"n": 1}})
        ground.settle()
    for word, execution_id in made.items():
        path = path.replace(word, execution_id)
    return ground.ask(method, path, body, **({"authorizer": {}} if name == "apiHealth" else {}))


def exchange_history(ground: Ground, name: str):
    if name == "querySql":
        return ground.ask("POST", "/api/sql", {"sql": "SELECT 1"})
    one = ground.run()
    path, query = {
        "listSqlViews": ("/api/sql", {}),
        "getExecutionState": (f"/api/executions/{one}/state", {}),
        "compareExecutions": ("/api/compare", {"a": one, "b": one}),
        "getExecutionCost": (f"/api/executions/{one}/cost", {}),
        "recordTest": (f"/api/executions/{one}/test", {}),
    }[name]
    return ground.ask("GET", path, query=query)


def exchange_dead_letters(ground: Ground, name: str):
    if isinstance(ground, Ground):
        dead = MemoryQueue()
        dead.send([Outgoing("{}", why="no such value")])
        queue = LetterQueue("timers", dead, MemoryQueue(), lambda: len(dead))
        ground.deps = replace(ground.deps, letter_queues=[queue])
    if name == "listDeadLetters":
        return ground.ask("GET", path_of(name))
    return ground.ask("POST", path_of(name), {"all": True})


def exchange_session(ground: Ground, name: str):
    page = {"host": "127.0.0.1", "sec-fetch-site": "same-origin", "authorization": "Bearer x"}
    made = ground.ask("POST", "/api/session/codes", {"scopes": ["read"]}, headers=page)
    if name == "createSessionCode":
        return made
    if name == "getSession":
        return ground.ask("GET", "/api/session")
    begun = ground.ask("POST", "/api/session", {"code": made.json["code"]}, headers=page)
    if name == "beginSession":
        return begun
    listed = ground.ask("GET", "/api/sessions")
    if name == "listSessions":
        return listed
    if name == "endSession":
        cookie = begun.headers.get("Set-Cookie", "").partition(";")[0]
        own = {**page, "cookie": cookie, "x-csrf-token": begun.json.get("csrf", "")}
        return ground.ask("DELETE", "/api/session", headers=own)
    first = [*(one["id"] for one in listed.json["sessions"]), "none"][0]
    return ground.ask("DELETE", f"/api/sessions/{first}")


def exchange_token(ground: Ground, name: str):
    made = ground.ask("POST", "/api/tokens", {"name": name, "scopes": ["read"]})
    if name == "listTokens":
        return ground.ask("GET", "/api/tokens")
    return ground.ask("DELETE", f"/api/tokens/{name}") if name == "deleteToken" else made


def exchange_change(ground: Ground, name: str):
    query = {"topics": f"executions,execution:{ground.run()}"}
    if name == "getChanges" or not isinstance(ground, Ground):
        return ground.ask("GET", path_of(name), query=query)
    ground.deps = replace(ground.deps, hub=ChangeHub(ground.store.pulses, ground.logs.append))
    asked = Request("GET", "/api/stream", query=query, principal=LOCAL, request_id="request-of-a-stream")
    found = resolve(ground.api, asked, LOCAL)
    assert found.events is not None
    return Reply(
        {
            "statusCode": found.status,
            "headers": {**found.headers, "Content-Type": found.content_type},
            "body": ": changes",
        }
    )


def exchange_look(ground: Ground, name: str):
    waiting = ground.run(GATED)
    if name == "analyzeExecution":
        return ground.ask("POST", f"/api/executions/{waiting}/analyze")
    if name == "prune":
        return ground.ask("POST", "/api/admin/prune", {"older_than_days": 30})
    body = {"execution_id": waiting, "template": {"n": "{{ start.data }}"}}
    return ground.ask("POST", "/api/context/render", body)


def exchange_callback(ground: Ground, name: str):
    text = HELLO.replace('kind: double, value: "{{ workload.n }}"', "kind: wait, callback: true")
    place = f"/api/executions/{ground.run(text)}/callbacks"
    listed = ground.ask("GET", place)
    path = f"/api/callbacks/{listed.json['callbacks'][0]['token']}"
    if name == "listOpenCallbacks":
        return ground.ask("GET", "/api/callbacks")
    if name == "getCallback":
        return ground.ask("GET", path, authorizer={})
    return ground.ask("POST", path, {"ok": 1}, authorizer={}) if name == "answerCallback" else listed


def exchange_worker(ground: Ground, name: str):
    made = ground.ask("POST", "/api/worker/pool/register", {"name": "w", "pool": "io", "capacity": 2})
    if name == "getProgram":
        return ground.ask("GET", f"/api/programs/{ground.register()['program']}")
    if name == "addExecutionLogs":
        line = {"time": "2026-11-21T10:00:00.000Z", "step": "start", "task": "start", "line": "hello"}
        execution_id = ground.run()
        path = f"/api/executions/{execution_id}/logs"
        return ground.ask("POST", path, {"lines": [line]}, headers=ground.shown(execution_id))
    if name in ("putResult", "resolveResult"):
        execution_id = ground.run()
        path = f"/api/result/{execution_id}/start/x"
        kept = ground.ask("PUT", path, {"rows": [1]}, headers=ground.shown(execution_id))
        uri = {"ref": f"noetl://execution/{execution_id}/result/start/x"}
        return (
            kept
            if name == "putResult"
            else ground.ask("GET", "/api/result/resolve", query=uri, headers=ground.shown(execution_id))
        )
    if name == "claimCommand":
        command = ground.offered()
        place = f"/api/commands/{command.execution_id}:{command.command_id}/claim"
        return ground.ask("POST", place, {"worker_id": "w"})
    method, path, body = {
        "registerWorker": ("", "", None),
        "workerHeartbeat": ("POST", "/api/worker/pool/heartbeat", {"name": "w"}),
        "deregisterWorker": ("POST", "/api/worker/pool/deregister", {"name": "w"}),
        "listWorkers": ("GET", "/api/worker/pools", None),
        "claimCommands": ("POST", "/api/commands/claim", {"name": "w"}),
        "giveBackCommand": (
            "POST",
            "/api/commands/give-back",
            {"command": ground.capability(ground.issued()).header()},
        ),
    }[name]
    return ground.ask(method, path, body) if method else made


def exchange_event(ground: Ground, name: str):
    command = ground.issued()
    body = {"name": "call.done", "payload": {"result": 1}, "command": ground.capability(command).header()}
    if name.startswith("reportEvent") and name != "reportEvents":
        return ground.ask("POST", "/v1/events" if name.endswith("V1") else "/api/events", body)
    accepted = ground.ask("POST", "/api/events/batch", {"events": [body]})
    return accepted if name == "reportEvents" else ground.ask("GET", accepted.headers["Location"])


def exchange_variable(ground: Ground, name: str):
    place = f"/api/vars/{ground.run(GATED)}"
    made = ground.ask("POST", place, {"variables": {"total": 3, "note": None}, "source_step": "gate"})
    method, path = {
        "listVariables": ("GET", ""),
        "getVariable": ("GET", "/total"),
        "deleteVariable": ("DELETE", "/total"),
    }.get(name, ("", ""))
    return ground.ask(method, f"{place}{path}") if method else made


def exchange_credential(ground: Ground, name: str):
    body = {"name": "team/db", "type": "postgres", "data": {"host": "h", "password": "p"}, "tags": ["x"]}
    made = ground.ask("POST", "/api/credentials", body)
    method, path = {
        "listCredentials": ("GET", ""),
        "getCredential": ("GET", "/team/db"),
        "resealCredentials": ("POST", "/reseal"),
        "listCredentialAccesses": ("GET", None),
        "deleteCredential": ("DELETE", f"/{made.json['id']}"),
    }.get(name, ("", ""))
    if path is None:
        return ground.ask(method, "/api/access/credentials", query={"name": "team/db", "limit": "1"})
    return ground.ask(method, f"/api/credentials{path}") if method else made


def exchange_trigger(ground: Ground, name: str):
    ground.register()
    body = {"name": "orders", "path": "demo/hello", "source": {"type": "webhook"}, "payload": {"n": 2}}
    made = ground.ask("POST", "/api/triggers", body)
    method, path, sent = {
        "listTriggers": ("GET", "/api/triggers", None),
        "getTrigger": ("GET", "/api/triggers/orders", None),
        "patchTrigger": ("PATCH", "/api/triggers/orders", {"rotate": True}),
        "deleteTrigger": ("DELETE", "/api/triggers/orders", None),
        "enableTrigger": ("POST", "/api/triggers/orders/enable", None),
        "disableTrigger": ("POST", "/api/triggers/orders/disable", None),
        "fireTrigger": ("POST", "/api/triggers/orders/fire", {"order": 1}),
        "callHook": ("POST", made.json["hook"], {"order": 1}),
    }.get(name, ("", "", None))
    return ground.ask(method, path, sent) if method else made


def exchange_limit(ground: Ground, name: str):
    made = ground.ask("PUT", "/api/limits/execution:etl/daily", {"concurrent": 2})
    method, path = {
        "listLimits": ("GET", ""),
        "getLimit": ("GET", "/execution:etl/daily"),
        "removeLimit": ("DELETE", "/execution:etl/daily"),
    }.get(name, ("", ""))
    return ground.ask(method, f"/api/limits{path}") if method else made


def exchange_view(ground: Ground, name: str):
    """A name may hold a slash."""
    made = ground.ask("PUT", "/api/views/executions/Failed/today", {"search": {"status": "failed"}})
    method, path = {"listSavedViews": ("GET", ""), "deleteSavedView": ("DELETE", "/Failed/today")}.get(
        name, ("", "")
    )
    return ground.ask(method, f"/api/views/executions{path}") if method else made


def exchange_schedule(ground: Ground, name: str):
    ground.register()
    made = ground.ask("POST", "/api/schedules", {"path": "demo/hello", "name": "hourly", "rate": "1 hour"})
    if name == "backfillSchedule":
        ground.ask("POST", "/api/schedules", {"path": "demo/hello", "name": "daily", "cron": "0 0 * * *"})
        day = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z"}
        return ground.ask("POST", "/api/schedules/daily/backfill", day)
    method, path = {
        "listSchedules": ("GET", ""),
        "getSchedule": ("GET", "/hourly"),
        "getScheduleNext": ("GET", "/hourly/next"),
        "pauseSchedule": ("POST", "/hourly/pause"),
        "resumeSchedule": ("POST", "/hourly/resume"),
        "deleteSchedule": ("DELETE", "/hourly"),
    }.get(name, ("", ""))
    return ground.ask(method, f"/api/schedules{path}") if method else made


TIMES = jsonschema.FormatChecker(formats=())


@TIMES.checks("date-time")
def is_utc_with_z(value: object) -> bool:
    """A moment of an answer is RFC 3339 in UTC, with a Z."""
    return not isinstance(value, str) or bool(
        re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z", value)
    )


@over("route", ROUTES, ids=lambda route: route.name, ground=Ground)
def test_a_fitting_request_is_answered_as_documented(ground, route):
    reply = exchange(ground, route.name)
    assert reply.status == next(iter(route.answers)), reply
    assert reply.headers["X-Request-Id"].startswith("request-")
    assert reply.headers["Content-Type"] == route.media
    answers = operation(route.name)["responses"][str(reply.status)]
    schema = {**answers["content"][route.media]["schema"], "components": openapi()["components"]}
    answer = reply.json if route.media == "application/json" else reply.text
    jsonschema.Draft202012Validator(schema, format_checker=TIMES).validate(answer)


def test_every_reference_of_the_document_leads_somewhere():
    """Two shapes of one name get longer names, and references to the short one lead nowhere."""
    schemas = openapi()["components"]["schemas"]
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(openapi())))
    assert named <= schemas.keys() and not [name for name in schemas if "." in name]


def test_health_needs_nothing_from_outside(ground):
    assert ground.ask("GET", "/health", authorizer={}).json == {
        "status": "ok",
        "deployment": {"stack": "Noetl-test", "version": "1"},
    }
    assert ground.opened == 0


# --- catalog ----------------------------------------------------------------------------------------

AS_JSON = json.dumps({"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": "j"}, "workload": {"n": 1},
                      "workflow": [{"step": "start", "tool": {"kind": "double", "value": 1}}]})  # fmt: skip


@over(
    ("body", "content_type", "path", "encoded"),
    [
        (HELLO, "application/yaml", "demo/hello", False),
        (HELLO, "text/plain; charset=utf-8", "demo/hello", False),
        (HELLO, "", "demo/hello", False),
        (base64.b64encode(HELLO.encode()).decode(), "application/octet-stream", "demo/hello", True),
        (base64.b64encode(HELLO.encode()).decode(), "text/plain", "demo/hello", False),
        ({"content": HELLO}, "application/json", "demo/hello", False),
        (
            {"content": base64.b64encode(HELLO.encode()).decode(), "path": "other"},
            "application/json",
            "other",
            False,
        ),
        ({"content": HELLO, "resource_type": "Playbook"}, "", "demo/hello", False),
        (AS_JSON, "application/json", "j", False),
        ("{" + AS_JSON[1:], "application/yaml", "j", False),
    ],
    ground=Ground,
)
def test_a_playbook_comes_in_many_wrappings(ground, body, content_type, path, encoded):
    reply = ground.ask(
        "POST", "/api/catalog/register", body, headers={"content-type": content_type}, base64=encoded
    )
    assert (reply.status, reply.json["path"], reply.json["version"]) == (201, path, 1)
    assert ground.kept.keys() == {reply.json["program"]}, "engine and workers can read it"


def test_the_same_content_keeps_its_version(ground):
    first, again, changed = ground.register(), ground.register(), ground.register(HELLO.replace("21", "22"))
    assert (first["version"], first["created"]) == (1, True)
    assert (again["version"], again["created"]) == (1, False)
    assert (changed["version"], changed["created"]) == (2, True)
    assert changed["catalog_id"] == "demo/hello@2"
    assert ground.ask("GET", "/api/catalog/demo/hello").json["version"] == 2
    assert "n: 21" in ground.ask("GET", "/api/catalog/demo/hello", query={"version": "1"}).json["content"]
    assert ground.ask("GET", "/api/catalog/demo%2Fhello").json["version"] == 2


def test_warnings_tell_where_and_what_to_do(ground):
    (warning,) = ground.register(HELLO.replace("workload.n", "ctx.total"))["warnings"]
    assert (warning["location"], warning["code"]) == ("playbook.yaml:7:37", "unset-ctx")
    assert warning["severity"] == "warning" and warning["fix"]


def test_a_refused_playbook_is_told_every_diagnostic(ground):
    text = HELLO.replace("kind: double", "kind: doubel").replace("workload.n", "worklod.n")
    reply = ground.ask("POST", "/api/catalog/register", {"content": text, "source_name": "a.yaml"})
    assert (reply.status, reply.json["code"]) == (422, "invalid_playbook")
    assert [(one["location"], one["fix"]) for one in reply.json["errors"]] == [
        ("a.yaml:7:18", "did you mean 'double'?"),
        ("a.yaml:7:37", "did you mean 'workload'?"),
    ]
    assert not ground.kept and not ground.ask("GET", "/api/catalog").json["playbooks"]


def test_the_catalog_is_read_in_pages(ground):
    for name in "dbaec":
        ground.register(HELLO.replace("demo/hello", f"x/{name}"))
    seen, after = [], {}
    while True:
        page = ground.ask("GET", "/api/catalog", query={"limit": "2", **after}).json
        seen += [one["path"] for one in page["playbooks"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert seen == ["x/a", "x/b", "x/c", "x/d", "x/e"]


# --- executions -------------------------------------------------------------------------------------


def test_a_start_is_durable_published_and_signed_by_who_asked(ground):
    ground.register()
    reply = ground.ask("POST", "/api/executions", {"path": "demo/hello", "payload": {"n": 4}})
    execution_id = reply.json["execution_id"]
    assert reply.headers["Location"] == f"/api/executions/{execution_id}"
    (start,) = ground.publisher.sent
    assert (str(start.execution_id), start.payload, start.principal, start.principal_kind) == (
        execution_id,
        {"n": 4},
        ARN,
        "iam",
    )
    assert ground.store.info(int(execution_id)).version == 0
    ground.settle()
    assert ground.ask("GET", f"/api/executions/{execution_id}/result").json["result"] == 8


@over(
    "body",
    [
        {"path": "demo/hello"},
        {"path": "demo/hello", "version": 1},
        {"path": "demo/hello", "version": "latest", "workload": {}},
        {"playbook_id": "demo/hello@1"},
        {"catalog_id": "demo/hello", "resource_kind": "playbook", "parent_execution_id": None},
        {"program": "PROGRAM"},
    ],
    ground=Ground,
)
def test_a_playbook_is_named_in_many_ways(ground, body):
    program = ground.register()["program"]
    body = {key: program if value == "PROGRAM" else value for key, value in body.items()}
    reply = ground.ask("POST", "/api/execute", body)
    assert reply.status == 201, reply
    assert (reply.json["path"], reply.json["version"], reply.json["status"]) == ("demo/hello", 1, "started")


def test_a_start_succeeds_while_the_queue_is_away(ground):
    ground.register()
    ground.publisher.away = True
    execution_id = ground.start()
    assert any("left for maintenance" in line for line in ground.logs)
    (event,) = ground.store.undelivered("sweeper", 10)
    assert str(event.execution_id) == execution_id


def test_the_same_key_and_body_give_the_same_answer(ground):
    ground.register()
    body, key = {"path": "demo/hello", "payload": {"n": 1, "m": 2}}, {"idempotency-key": "a"}
    first = ground.ask("POST", "/api/executions", body, headers=key)
    ground.register(HELLO.replace("21", "99"))
    again = ground.ask(
        "POST", "/api/executions", {"payload": {"m": 2, "n": 1}, "path": "demo/hello"}, headers=key
    )
    assert (again.status, again.json) == (first.status, first.json)
    assert len(ground.publisher.sent) == 1
    other = ground.ask("POST", "/api/executions", {**body, "payload": {"n": 2}}, headers=key)
    assert (other.status, other.json["code"]) == (409, "idempotency_key_reused")
    session = {"iam": {"userArn": ARN.replace("/ci", "/another-session")}}
    stranger = {"iam": {"userArn": ARN.replace("Deploy", "Report")}}
    same = ground.ask("POST", "/api/executions", body, headers=key, authorizer=session)
    assert same.json["execution_id"] == first.json["execution_id"], (
        "a role is one caller, whatever its session"
    )
    own = ground.ask("POST", "/api/executions", body, headers=key, authorizer=stranger)
    assert own.json["execution_id"] != first.json["execution_id"], "keys of others are not seen"


def test_executions_are_listed_in_pages_and_by_status(ground):
    failed, waiting = ground.run(FAILING), ground.run(GATED)
    # Newest first; ids of one millisecond are in no order.
    ids = sorted([failed, waiting, *(ground.run() for _ in range(3))], key=int, reverse=True)
    page = ground.ask("GET", "/api/executions", query={"limit": "2"}).json
    assert [one["execution_id"] for one in page["executions"]] == ids[:2]
    rest = ground.ask("GET", "/api/executions", query={"limit": "9", "after": page["next"]}).json
    assert [one["execution_id"] for one in rest["executions"]] == ids[2:] and rest["next"] is None
    for status, found in (("waiting", [waiting]), ("failed", [failed]), ("running", [])):
        listed = ground.ask("GET", "/api/executions", query={"status": status}).json["executions"]
        assert [one["execution_id"] for one in listed] == found, status


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({"path": "demo/hello"}, 2),
        ({"path": "demo"}, 0),
        ({"parent": "7"}, 0),
        ({"started_after": "2020-01-01T00:00:00Z"}, 3),
        ({"started_before": "2020-01-01T00:00:00 00:00"}, 0),
        ({"started_before": "99999999999"}, 3),
        ({"path": "demo/gated", "status": "waiting", "started_after": "0"}, 1),
    ],
)
def test_executions_are_found_by_what_is_asked_for(ground, query, count):
    for text in (HELLO, GATED, HELLO):
        ground.run(text)
    assert len(ground.ask("GET", "/api/executions", query=query).json["executions"]) == count


@over(
    "query",
    [
        {"parent": "x"},
        {"started_after": "yesterday"},
        {"started_before": "2020-01-01"},
        {"started_after": "nan"},
    ],
    ground=Ground,
)
def test_filters_that_cannot_be_read_are_told(ground, query):
    reply = ground.ask("GET", "/api/executions", query=query)
    assert (reply.status, reply.json["code"][:7]) == (400, "invalid")


def test_a_failed_execution_tells_why(ground):
    failed = ground.run(FAILING)
    status = ground.ask("GET", f"/api/executions/{failed}/status").json
    assert (status["status"], status["ended"], status["error"]["code"]) == ("failed", True, "burst")
    whole = ground.ask("GET", f"/api/executions/{failed}").json
    assert whole["error"]["step"] == "start" and whole["steps"][0]["status"] == "failed"
    reply = ground.ask("GET", f"/api/executions/{failed}/result")
    assert (reply.status, reply.json["code"]) == (409, "execution_failed")


LOOPING = HELLO.replace("    tool:", "    loop: {in: [1, 2, 3, 4, 5], iterator: one}\n    tool:").replace(
    "workload.n", "one"
)


@pytest.mark.parametrize("limit", [1, 2, 7, 1000])
@pytest.mark.parametrize("vocabulary", ["stored", "formal", "canonical"])
def test_pages_of_events_are_the_whole_history(ground, limit, vocabulary):
    execution_id = ground.run(LOOPING)
    told, after, pages = [], {}, 0
    while True:
        query = {"limit": str(limit), "vocabulary": vocabulary, **after}
        page = ground.ask("GET", f"/api/executions/{execution_id}/events", query=query).json
        told += page["events"]
        pages += 1
        if page["complete"]:
            break
        assert page["events"]
        after = {"after": page["next"]}
    whole = list(history(ground.store, int(execution_id), vocabulary))
    assert [one["event_id"] for one in told] == [one.event_id for one in whole]
    assert (pages == 1) == (limit == 1000)


def test_events_can_be_followed_while_they_happen(ground):
    execution_id = ground.run(GATED)
    path = f"/api/executions/{execution_id}/events"
    first = ground.ask("GET", path).json
    assert first["events"][-1]["event_type"] == "step.parked" and not first["complete"]
    assert ground.ask("GET", path, query={"after": first["next"]}).json["events"] == []
    ground.ask("PATCH", f"/api/executions/{execution_id}/ctx", {"patch": {"approved": True}})
    ground.settle()
    more = ground.ask("GET", path, query={"after": first["next"]}).json
    assert more["complete"] and more["events"][-1]["event_type"] == "playbook.completed"


def test_events_fit_into_answers(ground):
    text = LOOPING.replace("double, value:", "double, value: ['" + "x" * 9000 + "'], note:")
    text = LOOPING.replace('"{{ one }}"', f"['{'x' * 9000}']")
    small = Ground(max_answer=60_000)
    execution_id = small.run(text)
    page = small.ask("GET", f"/api/executions/{execution_id}/events", query={"limit": "1000"})
    assert not page.json["complete"] and len(page.text) < 60_000
    rest = small.ask(
        "GET", f"/api/executions/{execution_id}/events", query={"limit": "1000", "after": page.json["next"]}
    )
    assert rest.json["events"]


def test_steps_say_their_phases_when_asked(ground):
    execution_id = ground.run(GATED)
    plain = ground.ask("GET", f"/api/executions/{execution_id}/steps").json["steps"]
    asked = ground.ask("GET", f"/api/executions/{execution_id}/steps", query={"phases": "true"}).json["steps"]
    assert asked[1]["phases"] == [{"kind": "admission", "at": asked[1]["started_at"]}]
    assert [{**one, "phases": []} for one in asked] == [{**one, "phases": []} for one in plain]
    assert all("phases" not in one for one in plain)


def test_a_lean_execution_leaves_its_steps_out_and_its_revision_is_that_of_the_hints(ground):
    ground.register(GATED)
    execution_id = ground.run(GATED)
    revisions = []
    for _ in range(2):
        whole = ground.ask("GET", f"/api/executions/{execution_id}").json
        lean = ground.ask("GET", f"/api/executions/{execution_id}", query={"lean": "true"}).json
        assert (lean["steps"], lean["steps_left_out"]) == ([], len(whole["steps"])) and whole["steps"]
        hints = ground.ask("GET", "/api/changes", query={"topics": f"execution:{execution_id}"}).json[
            "changes"
        ]
        assert [one["version"] for one in hints] == [whole["revision"]] == [lean["revision"]]
        revisions.append(whole["revision"])
        ground.ask("POST", f"/api/executions/{execution_id}/cancel", {})
        ground.settle()
    assert 0 < revisions[0] < revisions[1]


def test_steps_come_in_pages(ground):
    execution_id = ground.run(GATED)
    first = ground.ask("GET", f"/api/executions/{execution_id}/steps", query={"limit": "1"}).json
    rest = ground.ask("GET", f"/api/executions/{execution_id}/steps", query={"after": first["next"]}).json
    assert [one["step"] for one in first["steps"] + rest["steps"]] == ["start", "gate"]
    assert rest["next"] is None and rest["steps"][0]["status"] == "waiting"


# --- results ----------------------------------------------------------------------------------------

LARGE = HELLO.replace('"{{ workload.n }}"', f"['{'y' * 40_000}']")


def test_a_large_result_is_read_as_long_as_it_fits(ground):
    whole = ground.ask("GET", f"/api/executions/{ground.run(LARGE)}/result").json
    assert whole["complete"] and whole["result"] == ["y" * 40_000] * 2
    small = Ground(max_answer=50_000)
    execution_id = small.run(LARGE)
    part = small.ask("GET", f"/api/executions/{execution_id}/result").json
    (download,) = part["downloads"]
    assert not part["complete"] and part["result"]["kind"] == "result_ref"
    assert part["result"]["ref"] == download["ref"] and download["seconds"] == 900
    assert download["url"].startswith("https://bucket.example/") and download["size"] > 80_000


def test_a_result_whose_bytes_are_gone_is_gone(ground):
    execution_id = ground.run(LARGE)
    ground.database.results.delete_execution(int(execution_id))
    reply = ground.ask("GET", f"/api/executions/{execution_id}/result")
    assert (reply.status, reply.json["code"]) == (410, "REFERENCE_NOT_AVAILABLE")


@pytest.mark.parametrize(
    ("tail", "query", "status"),
    [
        ("result/start/x", {}, 200),
        ("result/start/x", {"store": "kv"}, 200),
        ("result/start/x", {"store": "../x"}, 400),
        ("", {}, 400),
        ("../7/result/start/x", {}, 400),
        ("result/" + "x" * 3000, {}, 400),
    ],
)
def test_a_part_of_what_still_runs_is_a_result_of_it_or_refused(ground, tail, query, status):
    execution_id = ground.run(GATED)
    asked = {"ref": f"noetl://execution/{execution_id}/{tail}", **query}
    reply = ground.ask("GET", f"/api/executions/{execution_id}/result", query=asked)
    assert reply.status == status
    assert status == 400 or (reply.json["status"], reply.json["complete"]) == ("waiting", False)


# --- control ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "patch",
    [
        {"approved": True},
        {"approved": True, "note": {"by": "me"}},
        [{"op": "add", "path": "/approved", "value": True}],
        [
            {"op": "add", "path": "/a~1b", "value": {}},
            {"op": "add", "path": "/a~1b/c", "value": True},
            {"op": "copy", "from": "/a~1b/c", "path": "/approved"},
        ],
    ],
)
def test_a_patched_context_opens_a_gate(ground, patch):
    execution_id = ground.run(GATED)
    body = {"patch": patch, "reason": "looks good", "correlation_id": "t-1"}
    reply = ground.ask("PATCH", f"/api/executions/{execution_id}/ctx", body)
    assert (reply.status, reply.json["status"]) == (202, "accepted")
    ground.settle()
    assert ground.ask("GET", f"/api/executions/{execution_id}/result").json["result"] == 8
    (patched,) = [one for one in history(ground.store, int(execution_id)) if one.event_type == "ctx.patched"]
    assert patched.event_id.startswith(reply.json["event_id"])
    assert patched.payload["reason"] == "looks good" and patched.payload["principal"] == ARN


@pytest.mark.parametrize("patch", [{"n": 1}, {"none": None}, [{"op": "test", "path": "/n", "value": 1}]])
def test_a_patch_that_changes_nothing_is_in_history_all_the_same(ground, patch):
    execution_id = ground.run(GATED)
    for asked in ({"n": 1}, patch):
        reply = ground.ask("PATCH", f"/api/executions/{execution_id}/ctx", {"patch": asked, "reason": "why"})
        ground.settle()
    told = [one for one in history(ground.store, int(execution_id)) if one.event_type == "ctx.patched"]
    assert told[-1].event_id.startswith(reply.json["event_id"]) and told[-1].payload["reason"] == "why"
    assert told[-1].payload["patches"] == []


def test_a_token_runs_a_step(ground):
    execution_id = ground.run(GATED)
    reply = ground.ask("POST", f"/api/executions/{execution_id}/tokens", {"step": "start", "reason": "again"})
    assert reply.status == 202
    ground.settle()
    steps = ground.ask("GET", f"/api/executions/{execution_id}/steps").json["steps"]
    assert [one["step"] for one in steps].count("start") == 2


def test_cancelling_ends_an_execution_also_before_it_began(ground):
    waiting = ground.run(GATED)
    unborn = ground.start("demo/gated")
    ground.publisher.sent = []
    for execution_id in (waiting, unborn):
        reply = ground.ask("POST", f"/api/executions/{execution_id}/cancel", headers={"idempotency-key": "k"})
        assert reply.status == 202, reply
    ground.settle()
    status = ground.ask("GET", f"/api/executions/{waiting}/status").json
    assert status["status"] == "cancelled"
    assert ground.ask("GET", f"/api/executions/{unborn}/status").json["status"] == "cancelled"


def test_a_repeated_change_is_made_once(ground):
    execution_id = ground.run(GATED)
    events = [
        ground.ask("POST", f"/api/executions/{execution_id}/tokens", {"step": step}, headers=headers).json[
            "event_id"
        ]
        for step, headers in (
            ("gate", {"idempotency-key": "k"}),
            ("gate", {"idempotency-key": "k"}),
            ("start", {"idempotency-key": "k"}),
            ("gate", {}),
            ("gate", {}),
        )
    ]
    assert events[0] == events[1]
    assert len(set(events)) == 4


# --- the document -----------------------------------------------------------------------------------


def test_the_committed_document_is_the_one_that_is_served(ground):
    from pathlib import Path

    page = Path(__file__).parents[3] / "docs" / "openapi.json"
    assert page.read_text("utf-8") == committed(), "make openapi"
    assert ground.ask("GET", "/openapi.json").json == json.loads(committed())


def test_every_operation_is_described_once():
    names = [one["operationId"] for path in openapi()["paths"].values() for one in path.values()]
    assert sorted(names) == sorted({route.name for route in ROUTES})
    for schema in openapi()["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_route_is_in_the_docs():
    import re
    from pathlib import Path

    page = (Path(__file__).parents[3] / "docs" / "api.md").read_text("utf-8")
    rows = re.findall(r"^\| (`(?:GET|POST|PUT|PATCH|DELETE) .*?) \| (\S+) \|", page, re.MULTILINE)
    listed = {
        (route, scope.strip("`–") or None)
        for routes, scope in rows
        for route in re.findall(r"`(.+?)`", routes)
    }
    assert listed == {(f"{one.method} {one.path.replace('+}', '}')}", one.scope) for one in ROUTES}


BRANCHES = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: branches, path: demo/branches}
workflow:
  - step: start
    tool: {kind: double, value: 1}
    next:
      arcs:
        - {step: left, when: "{{ start.data == 2 }}"}
        - {step: right, when: "{{ start.data != 2 }}"}
  - step: left
    tool: {kind: boom}
  - step: right
    tool: {kind: double, value: 2}
"""


def test_a_graph_as_data_leads_to_lines_and_shows_what_an_execution_did(ground):
    execution_id = ground.run(BRANCHES)
    drawn = ground.ask("GET", "/api/catalog/demo/branches/graph", query={"format": "json"}).json
    lines = BRANCHES.splitlines()
    for node in drawn["nodes"]:
        assert f"step: {node['name']}" in lines[node["line"] - 1], node
    names = {one["id"]: one["name"] for one in drawn["nodes"]}
    for edge in drawn["edges"]:
        assert f"step: {names[edge['target']]}" in lines[edge["line"] - 1] and edge["column"], edge
    assert drawn["format"] == "json" and names[drawn["entry"]] == "start"
    assert ground.ask("GET", "/api/catalog/demo/branches/graph", query={"format": "dot"}).status == 400
    told = ground.ask("GET", f"/api/executions/{execution_id}/graph").json
    assert (told["nodes"], told["edges"]) == (drawn["nodes"], drawn["edges"])
    states = {
        names[node]: (one["status"], one["runs"], one["failed"]) for node, one in told["states"].items()
    }
    assert states == {"start": ("done", 1, 0), "left": ("failed", 1, 1)}
    assert told["taken"] == [1, 0] and told["status"] == "failed"


def test_versions_graph_and_schema_of_a_playbook(ground):
    first, second = ground.register(), ground.register(HELLO.replace("21", "22"))
    page = ground.ask("GET", "/api/catalog/demo/hello/versions").json
    assert [one["program"] for one in page["playbooks"]] == [second["program"], first["program"]]
    head = ground.ask("GET", "/api/catalog/demo/hello/versions", query={"limit": "1"}).json
    assert [one["version"] for one in head["playbooks"]] == [2] and head["next"] == "2"
    rest = ground.ask("GET", "/api/catalog/demo/hello/versions", query={"after": "2"}).json
    assert [one["version"] for one in rest["playbooks"]] == [1] and rest["next"] is None
    assert ground.ask("GET", "/api/catalog/nowhere/versions").status == 404
    assert ground.ask("GET", "/api/catalog/demo/hello/versions", query={"after": "x"}).status == 400
    graph = ground.ask("GET", "/api/catalog/demo/hello/graph", query={"version": "1"}).json
    assert graph["version"] == 1 and graph["graph"].startswith("flowchart TD")
    assert ground.ask("GET", "/api/catalog/demo/hello/schema").json["schema"] == {"type": "object"}


def test_the_schema_of_a_playbook_comes_with_its_workload_as_it_is_written(ground):
    ground.register(
        HELLO.replace("{n: 21}", '{n: 21, deep: [{at: "{{ now() }}", path: "a/{{ execution_id }}"}]}')
    )
    assert ground.ask("GET", "/api/catalog/demo/hello/schema").json["workload"] == {
        "n": 21,
        "deep": [{"at": "{{ now() }}", "path": "a/{{ execution_id }}"}],
    }


def test_a_path_may_end_like_a_route(ground):
    ground.register(HELLO.replace("demo/hello", "demo/graph"))
    assert ground.ask("GET", "/api/catalog/demo/graph").status == 404, "that is the graph of `demo`"
    assert ground.ask("GET", "/api/catalog/demo%2Fgraph").json["path"] == "demo/graph"
    assert ground.ask("GET", "/api/catalog/demo%2Fgraph/graph").json["path"] == "demo/graph"


def test_a_credential_is_shown_with_its_data_to_those_alone_who_need_it(ground):
    data = {"host": "h", "password": "canary-55"}
    wish = {"name": "team/db", "type": "postgres", "data": data}
    assert ground.ask("POST", "/api/credentials", wish).status == 201
    assert ground.ask("POST", "/api/credentials", {**wish, "description": "d"}).status == 200
    page = ground.ask("GET", "/api/credentials")
    assert [one["name"] for one in page.json["credentials"]] == ["team/db"] and "canary" not in page.text
    assert "canary" not in ground.ask("GET", "/api/credentials/team/db").text
    whole = ground.ask(
        "GET", "/api/credentials/team/db", query={"include_data": "true", "execution_id": "12"}
    )
    assert whole.json["data"] == data and whole.headers["Cache-Control"] == "no-store"
    assert ground.deps.credentials.store.cached("team/db:12").access_count == 1
    assert ground.ask("GET", "/api/credentials/team/db", query={"include_data": "maybe"}).status == 400
    told = ground.ask("GET", "/api/access/credentials", query={"execution_id": "12"})
    assert [(one["action"], one["name"]) for one in told.json["accesses"]] == [("read", "team/db")]
    assert told.json["accesses"][0]["principal"] and "canary" not in told.text
    page = ground.ask("GET", "/api/access/credentials", query={"limit": "1"}).json
    older = ground.ask("GET", "/api/access/credentials", query={"after": page["next"]}).json["accesses"]
    assert [one["action"] for one in (*page["accesses"], *older)] == ["read", "replaced", "kept"]
    assert ground.ask("GET", "/api/access/credentials", query={"after": "zz"}).status == 400
    assert ground.ask("POST", "/api/credentials", {**wish, "data": {}}).status == 422
    assert ground.ask("DELETE", "/api/credentials/team/db").status == 200
    assert ground.ask("GET", "/api/credentials/team/db").json["code"] == "credential_not_found"
