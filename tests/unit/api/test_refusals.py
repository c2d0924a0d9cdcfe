"""What is refused, and how: every route without credentials, with too little, with unknown ids, with garbage; every family of errors."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from noetl.api.http.access import SCOPES, principal_of
from noetl.api.http.exchange import Request
from noetl.api.http.problems import (
    BadRequestError,
    BodyTooLargeError,
    ForbiddenError,
    MethodError,
    UnauthenticatedError,
    UnsupportedMediaError,
    problem,
)
from noetl.api.nouns.executions import start
from noetl.api.table import ROUTES
from noetl.domain import errors
from tests.parts import over
from tests.unit.api.ground import ARN, BROKEN, GATED, HELLO, Ground, Reply, request

GUARDED = [route for route in ROUTES if route.scope is not None]
ONE = [route for route in ROUTES if "{execution_id}" in route.path]
NOBODY = 382_358_247_895_465_985
BODIES = {
    "patchContext": {"patch": {"a": 1}},
    "injectToken": {"step": "start"},
    "cancelExecution": {},
    "pauseExecution": {},
    "resumeExecution": {},
    "redriveExecution": {},
    "setVariables": {"variables": {"total": 3}},
    "deleteVariable": {},
    "createSessionCode": {"scopes": []},
}


def path_of(route, execution_id: object = NOBODY) -> str:
    return (
        route.path.replace("{execution_id}", str(execution_id))
        .replace("{path+}", "a/b")
        .replace("{name+}", "nobody")
    )


def refused(reply: Reply, status: int, code: str, sent: object = None) -> dict:
    """The problem of a reply that has to be one. ``sent``: which of several requests it answers."""
    assert (reply.status, reply.json.get("code")) == (status, code), (sent, reply)
    body = reply.json
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert body["type"] == f"urn:noetl:problem:{code}" and body["status"] == status
    assert body["title"] and body["detail"]
    assert body["request_id"] == reply.headers["X-Request-Id"]
    return body


# --- who may ----------------------------------------------------------------------------------------


UNNAMED = ({}, {"iam": {}}, {"iam": None}, {"iam": {"userArn": ""}}, {"jwt": {"claims": {"sub": "x"}}})


@over("route", GUARDED, ids=lambda route: route.name, ground=Ground)
def test_nobody_gets_in_unnamed(ground, route):
    for authorizer in UNNAMED:
        reply = ground.ask(route.method, path_of(route), authorizer=authorizer)
        assert refused(reply, 401, "unauthenticated", authorizer)["hint"]
        assert ground.opened == 0


@over("route", GUARDED, ids=lambda route: route.name)
def test_every_route_wants_its_scope(route):
    others = " ".join(SCOPES - {route.scope, "admin"})
    ground = Ground("jwt")
    claims = {"jwt": {"claims": {"sub": "eve", "scope": others}}}
    reply = ground.ask(route.method, path_of(route), authorizer=claims)
    assert refused(reply, 403, "forbidden")["details"] == {"scope": route.scope}
    assert ground.opened == 0
    allowed = {"jwt": {"claims": {"sub": "eve", "scope": f"openid noetl/{route.scope}"}}}
    shown = ground.headers_for(route, NOBODY)
    assert ground.ask(
        route.method, path_of(route), BODIES.get(route.name), authorizer=allowed, headers=shown
    ).status not in (401, 403)


@over(
    ("auth", "authorizer", "grants", "name", "scopes"),
    [
        ("none", {}, {}, "local", SCOPES),
        ("iam", {"iam": {"userArn": ARN}}, {}, ARN, SCOPES),
        ("iam", {"iam": {"userArn": ARN}}, {"*/Deploy/*": "read execute", "*": "read"}, ARN, {"read", "execute"}),
        ("iam", {"iam": {"userArn": ARN}}, {"*/Other/*": "admin"}, ARN, set()),
        ("iam", {"jwt": {"claims": {"sub": "x"}}}, {}, None, None),
        ("jwt", {"jwt": {"claims": {"sub": "ann", "scope": "read"}}}, {}, "jwt:ann", {"read"}),
        ("jwt", {"jwt": {"claims": {"sub": "ann", "scope": "noetl:read https://api.example/execute"}}}, {}, "jwt:ann",
         {"read", "execute"}),
        ("jwt", {"jwt": {"claims": {"sub": "ann", "scope": "admin"}}}, {}, "jwt:ann", SCOPES - {"worker"}),
        ("jwt", {"jwt": {"claims": {"sub": "ann", "scp": ["write"]}}}, {}, "jwt:ann", {"write"}),
        ("jwt", {"jwt": {"claims": {"sub": "ann"}}}, {}, "jwt:ann", set()),
        ("jwt", {"jwt": {"claims": "sub"}}, {}, None, None),
        ("jwt", {"iam": {"userArn": ARN}}, {}, None, None),
    ],
)  # fmt: skip
def test_what_the_gateway_says_about_who_asks(auth, authorizer, grants, name, scopes):
    found = principal_of(auth, authorizer, grants)
    assert (found and found.name, found and found.scopes) == (name, scopes)


# --- what there is not ------------------------------------------------------------------------------


@over("route", ONE, ids=lambda route: route.name, ground=Ground)
def test_an_unknown_execution_is_not_found(ground, route):
    shown = ground.headers_for(route, NOBODY)
    reply = ground.ask(route.method, path_of(route), BODIES.get(route.name), headers=shown)
    refused(reply, 404, "execution_not_found")


GARBAGE = ("x", "0", "-1", "1.5", "99999999999999999999", "9" * 19, str(2**63), "latest", "%31x", "1%00")


@over("route", ONE, ids=lambda route: route.name, ground=Ground)
def test_what_is_no_id_is_refused(ground, route):
    for garbage in GARBAGE:
        if (route.name, garbage) == ("putResult", "0"):
            continue  # permanent results are kept below 0
        reply = ground.ask(route.method, path_of(route, garbage), BODIES.get(route.name))
        refused(reply, 400, "invalid_execution_id", garbage)


@over(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "route_not_found"),
        ("GET", "/api/executions/", 404, "route_not_found"),
        ("GET", "/api/executions/1/nothing", 404, "route_not_found"),
        ("GET", "/api/catalog/", 404, "route_not_found"),
        ("DELETE", "/api/executions", 405, "method_not_allowed"),
        ("GET", "/api/execute", 405, "method_not_allowed"),
        ("PUT", "/api/catalog/a/b", 405, "method_not_allowed"),
        ("POST", "/health", 405, "method_not_allowed"),
    ],
    ground=Ground,
)
def test_what_is_no_route(ground, method, path, status, code):
    reply = ground.ask(method, path)
    refused(reply, status, code)
    assert ("Allow" in reply.headers) == (status == 405)


@over(
    ("path", "query", "status", "code"),
    [
        ("/api/catalog/demo/helo", {}, 404, "playbook_not_found"),
        ("/api/catalog/demo/hello", {"version": "9"}, 404, "playbook_not_found"),
        ("/api/catalog/demo/hello", {"version": "0"}, 400, "invalid_parameter"),
        ("/api/catalog/demo/hello", {"version": "one"}, 400, "invalid_parameter"),
        ("/api/catalog/a@b", {}, 422, "invalid_path"),
        ("/api/catalog/%00", {}, 422, "invalid_path"),
        ("/api/catalog", {"limit": "0"}, 400, "invalid_parameter"),
        ("/api/catalog", {"limit": "501"}, 400, "invalid_parameter"),
        ("/api/catalog", {"limit": "many"}, 400, "invalid_parameter"),
        ("/api/catalog", {"after": "!"}, 400, "invalid_cursor"),
        ("/api/catalog", {"after": "gICA"}, 400, "invalid_cursor"),
        ("/api/executions", {"after": "one"}, 400, "invalid_cursor"),
        ("/api/executions", {"after": ""}, 400, "invalid_cursor"),
        ("/api/executions", {"status": "done"}, 400, "invalid_parameter"),
        ("/api/executions", {"limit": "-3"}, 400, "invalid_parameter"),
        ("/api/executions/{id}/events", {"after": "x"}, 400, "invalid_cursor"),
        ("/api/executions/{id}/events", {"after": "WzEsW1sxLDJdXV0"}, 400, "invalid_cursor"),
        ("/api/executions/{id}/events", {"vocabulary": "klingon"}, 400, "invalid_parameter"),
        ("/api/executions/{id}/events", {"limit": "1001"}, 400, "invalid_parameter"),
        ("/api/executions/{id}/steps", {"after": "-1"}, 400, "invalid_cursor"),
    ],
    ground=Ground,
)
def test_parameters_that_cannot_be(ground, path, query, status, code):
    execution_id = ground.run()
    refused(ground.ask("GET", path.replace("{id}", execution_id), query=query), status, code)


@over("route", GUARDED, ids=lambda route: route.name, ground=Ground)
def test_a_parameter_that_a_route_does_not_take(ground, route):
    """A misspelled filter would give a list that nothing filtered."""
    names = [one.name for one in route.query]
    misspelled = f"{names[0]}x" if names else "stats"
    body = {} if route.body is not None else None
    reply = ground.ask(route.method, path_of(route), body, query={misspelled: "1"})
    if route.any_query:
        assert reply.status != 422 or reply.json["code"] != "parameter_unknown"
        return
    told = refused(reply, 422, "parameter_unknown")
    assert misspelled in told["detail"] and told["details"] == {"parameter": misspelled}
    assert told["hint"] == (f"did you mean '{names[0]}'?" if names else "it takes none")


def test_parameters_that_nothing_reads_here_and_others_send(ground):
    execution_id = ground.run()
    told = ground.ask("GET", "/api/executions", query={"stats": "running"})
    assert refused(told, 422, "parameter_unknown")["hint"] == "did you mean 'status'?"
    signed = {"X-Amz-Signature": "0a", "X-Amz-Date": "20261121T100000Z"}
    assert ground.ask("GET", "/api/executions", query=signed).status == 200
    status = f"/api/executions/{execution_id}/status"
    assert ground.ask("GET", status, query={"full": "true"}).status == 200, "published clients send it"


def test_a_mistyped_playbook_is_recognised(ground):
    ground.register()
    reply = ground.ask("POST", "/api/execute", {"path": "demo/helo"})
    assert refused(reply, 404, "playbook_not_found")["hint"] == "did you mean 'demo/hello'?"
    reply = ground.ask("POST", "/api/execute", {"path": "demo/hello", "version": 7})
    assert refused(reply, 404, "playbook_not_found")["hint"] == "its latest version is 1"
    refused(ground.ask("POST", "/api/execute", {"program": "0" * 64}), 404, "program_not_found")
    refused(ground.ask("POST", "/api/execute", {"playbook_id": "demo/hello@2"}), 404, "playbook_not_found")


# --- bodies -----------------------------------------------------------------------------------------

DEEP = "[" * 100_000 + "]" * 100_000
WITH_BODY = [route for route in ROUTES if route.body is not None and not route.yaml]


BROKEN_BODIES = (
    ("{", 400, "body_not_json"),
    ("nonsense", 400, "body_not_json"),
    (DEEP, 422, "body_invalid"),
    ("\udcff", 400, "body_not_json"),
    ("[]", 422, "body_invalid"),
    ("null", 422, "body_invalid"),
    ('{"unheard_of": 1}', 422, "body_invalid"),
    ('{"reason": 5, "step": "s", "patch": {"a": 1}, "path": 5}', 422, "body_invalid"),
)


@over("route", WITH_BODY, ids=lambda route: route.name, ground=Ground)
def test_bodies_that_cannot_be(ground, route):
    execution_id = ground.run(GATED)
    shown = ground.headers_for(route, execution_id)
    for body, status, code in BROKEN_BODIES:
        reply = ground.ask(route.method, path_of(route, execution_id), body, headers=shown)
        refused(reply, status, code, body[:60])


def test_a_misspelled_field_is_answered_with_the_fields_there_are(ground):
    reply = ground.ask("POST", "/api/executions", {"pth": "demo/hello"})
    told = refused(reply, 422, "body_invalid")
    assert "`pth`" in told["detail"] and "its fields are path, version, " in told["hint"]


@over("value", [DEEP, "NaN", "1e999", "-Infinity"], ground=Ground)
def test_values_that_are_not_json(ground, value):
    ground.register()
    body = f'{{"path": "demo/hello", "payload": {{"n": {value}}}}}'
    reply = ground.ask("POST", "/api/executions", body)
    assert reply.status in (400, 422) and "application/problem+json" in reply.headers["Content-Type"], reply
    assert not ground.publisher.sent


def test_a_body_that_claims_to_be_base64(ground):
    reply = ground.ask("POST", "/api/executions", "***", base64=True)
    refused(reply, 400, "body_not_json")


def test_a_body_may_be_too_large():
    ground = Ground(max_body=1000)
    for path, body in (
        ("/api/executions", {"path": "a", "payload": {"x": "y" * 1000}}),
        ("/api/catalog/register", "#" * 1001),
    ):
        assert "1000" in refused(ground.ask("POST", path, body), 413, "body_too_large")["detail"]


@over(
    ("body", "code"),
    [
        ({}, "body_invalid"),
        ({"path": "demo/hello", "program": "0" * 64}, "body_invalid"),
        ({"path": "demo/hello", "payload": {}, "workload": {}}, "body_invalid"),
        ({"path": "demo/hello", "payload": []}, "body_invalid"),
        ({"path": "demo/hello", "trigger_at": "soon"}, "invalid_time"),
        ({"playbook_id": "demo/hello", "version": 1}, "body_invalid"),
        ({"program": "xyz"}, "body_invalid"),
        ({"path": "\u0000"}, "invalid_path"),
        ({"path": "demo/hello\n"}, "invalid_path"),
        ({"path": "demo/hello", "payload": {"a": json.loads("[" * 250 + "]" * 250)}}, "size_limit"),
        ({"path": "demo/strict", "payload": {"n": "many"}}, "payload_invalid"),
    ], ground=Ground,
)  # fmt: skip
def test_starts_that_cannot_be(ground, body, code):
    ground.register()
    ground.register(
        HELLO.replace("demo/hello", "demo/strict").replace(
            "workflow:", "input: {type: object, properties: {n: {type: integer}}}\nworkflow:"
        )
    )
    refused(ground.ask("POST", "/api/executions", body), 422, code)
    assert not ground.publisher.sent and not ground.store.executions(limit=1)


@pytest.mark.parametrize("key", ["x" * 256, "a\tb", "a\x00"])
def test_keys_that_cannot_be(ground, key):
    ground.register()
    reply = ground.ask("POST", "/api/executions", {"path": "demo/hello"}, headers={"idempotency-key": key})
    refused(reply, 400, "invalid_parameter")


@over(
    ("body", "headers", "status", "code"),
    [
        ("", {"content-type": "application/yaml"}, 422, "invalid_playbook"),
        ("- just\n- a list", {"content-type": "application/yaml"}, 422, "invalid_playbook"),
        (BROKEN, {"content-type": "application/yaml"}, 422, "invalid_playbook"),
        ("{", {"content-type": "application/json"}, 400, "body_not_json"),
        ({"text": HELLO}, {}, 422, "body_invalid"),
        ({"content": 5}, {}, 422, "body_invalid"),
        ({"content": HELLO, "path": "a@1"}, {}, 422, "invalid_path"),
        ({"content": HELLO, "path": "a//b"}, {}, 422, "invalid_path"),
        ({"content": HELLO, "path": "p" * 600}, {}, 422, "invalid_path"),
        ({"content": "abc"}, {}, 422, "not_a_playbook"),
        ({"content": "gICA"}, {}, 422, "not_a_playbook"),
        ({"content": HELLO, "resource_type": "credential"}, {}, 422, "body_invalid"),
    ],
    ground=Ground,
)
def test_registrations_that_cannot_be(ground, body, headers, status, code):
    refused(ground.ask("POST", "/api/catalog/register", body, headers=headers), status, code)
    assert not ground.kept and not ground.database.catalog.entries(limit=1)


@pytest.mark.parametrize(
    ("what", "body", "code"),
    [
        ("ctx", {"patch": {}}, "invalid_patch"),
        ("ctx", {"patch": []}, "invalid_patch"),
        ("ctx", {"patch": {"": 1}}, "invalid_patch"),
        ("ctx", {"patch": [{"op": "drop", "path": "/a"}]}, "body_invalid"),
        ("ctx", {"patch": [{"op": "add", "path": "/a"}]}, "invalid_patch"),
        ("ctx", {"patch": [{"op": "move", "path": "/a"}]}, "invalid_patch"),
        ("ctx", {"patch": [{"op": "add", "path": "a", "value": 1}]}, "invalid_patch"),
        ("ctx", {"patch": [{"op": "add", "path": "/", "value": 1}]}, "invalid_patch"),
        ("ctx", {"patch": [{"op": "add", "path": "/a~2", "value": 1}]}, "invalid_patch"),
        ("tokens", {"step": "gaet"}, "unknown_step"),
        ("tokens", {"step": "gate", "args": []}, "body_invalid"),
    ],
)
def test_changes_that_cannot_be(ground, what, body, code):
    execution_id = ground.run(GATED)
    method = "PATCH" if what == "ctx" else "POST"
    refused(ground.ask(method, f"/api/executions/{execution_id}/{what}", body), 422, code)
    assert not ground.publisher.sent


READS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: reads, path: tests/reads }
workflow:
  - step: start
    args: { own: 1 }
    tool: { kind: noop, args: { t: "{{ table | default(0) }}", o: "{{ own }}" } }
"""
BY_ARGUMENT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: reads, path: tests/reads }
workflow:
  - step: start
    tool: { kind: noop, input: { t: "READ" } }
"""


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            {"from": "start", "args": {"tabel": 1, "table": 2}},
            "tabel has no effect: step start does not read it",
        ),
        ({"from": "start", "args": {"own": 1}}, "step start computes own itself"),
        ({"args": {"table": 1}}, "arguments are for a step"),
    ],
)
def test_arguments_of_a_redrive_have_to_reach_the_step(ground, body, why):
    execution_id = ground.run(READS)
    reply = ground.ask("POST", f"/api/executions/{execution_id}/redrive", body)
    assert why in refused(reply, 422, "unread_argument")["detail"]


@pytest.mark.parametrize(
    "read",
    [
        "{{ args.table | default(0) }}",
        "{{ input.table | default(0) }}",
        "{{ input['table'] | default(0) }}",
        "{{ args | length }}",
    ],
)
def test_an_argument_that_a_template_reads_by_its_place_reaches_the_step(ground, read):
    execution_id = ground.run(BY_ARGUMENT.replace("READ", read))
    body = {"from": "start", "args": {"table": 1}}
    assert ground.ask("POST", f"/api/executions/{execution_id}/redrive", body).status == 202


def test_an_argument_beside_the_one_that_is_read_is_refused_with_its_name(ground):
    execution_id = ground.run(BY_ARGUMENT.replace("READ", "{{ input.table | default(0) }}"))
    body = {"from": "start", "args": {"tabel": 1}}
    reply = ground.ask("POST", f"/api/executions/{execution_id}/redrive", body)
    assert "did you mean table?" in refused(reply, 422, "unread_argument")["detail"]
    assert not ground.publisher.sent
    body = {"from": "start", "args": {"table": 2}}
    assert ground.ask("POST", f"/api/executions/{execution_id}/redrive", body).status == 202


ENDS = [r for r in ONE if r.name in BODIES and r.name != "redriveExecution"]
"""Redriving is for what has ended."""


@over("route", ENDS, ids=lambda route: route.name, ground=Ground)
def test_what_has_ended_cannot_be_changed(ground, route):
    reply = ground.ask(route.method, path_of(route, ground.run()), {**BODIES[route.name]})
    assert "Retry-After" not in reply.headers
    refused(reply, 409, "execution_ended")


@pytest.mark.parametrize("name", ["patchContext", "injectToken"])
def test_what_has_not_started_cannot_be_changed_yet(ground, name):
    ground.register()
    (route,) = [route for route in ROUTES if route.name == name]
    reply = ground.ask(route.method, path_of(route, ground.start()), BODIES[name])
    assert refused(reply, 409, "execution_not_started")["retryable"] and reply.headers["Retry-After"] == "1"


def test_a_result_has_to_be_waited_for(ground):
    reply = ground.ask("GET", f"/api/executions/{ground.run(GATED)}/result")
    refused(reply, 409, "not_completed")


# --- what goes wrong on our side --------------------------------------------------------------------


class Breaking:
    """A store of which everything fails."""

    def __init__(self, *failures: BaseException) -> None:
        self.failures = list(failures)

    def __getattr__(self, name):
        def fail(*args, **kwargs):
            raise self.failures.pop(0)

        return fail


def away(code: str = "database_unreachable", retryable: bool = True) -> errors.InfrastructureError:
    return errors.InfrastructureError("it does not answer", code=code, retryable=retryable)


def test_an_outage_asks_to_come_again(ground):
    ground.deps = replace(ground.deps, store=Breaking(away(), away()))
    reply = ground.ask("GET", "/api/executions")
    assert refused(reply, 503, "database_unreachable")["retryable"] and reply.headers["Retry-After"] == "1"


@pytest.mark.parametrize("code", ["outcome_unknown", "database_unreachable"])
def test_a_lost_connection_is_made_anew_once(ground, code):
    store = ground.store

    class Once(Breaking):
        def __getattr__(self, name):
            return super().__getattr__(name) if self.failures else getattr(store, name)

    ground.register()
    ground.deps = replace(ground.deps, store=Once(away(code)))
    assert ground.ask("GET", "/api/executions").status == 200
    assert ground.reconnected == 1


@pytest.mark.parametrize("key", [{}, {"idempotency-key": "k"}])
def test_a_start_whose_answer_was_lost_starts_one_execution(ground, key):
    ground.register()
    store = ground.store

    class Deaf:
        """Does what it is told, and loses the first answer."""

        told = 0

        def __getattr__(self, name):
            return getattr(store, name)

        def create(self, *args):
            self.told += 1
            done = store.create(*args)
            if self.told == 1:
                raise away("outcome_unknown")
            return done

    ground.deps = replace(ground.deps, store=Deaf())
    reply = ground.ask("POST", "/api/executions", {"path": "demo/hello"}, headers=key)
    (info,) = store.executions(limit=10)
    assert (reply.status, reply.json["execution_id"]) == (201, str(info.execution_id))
    ground.settle()
    assert store.info(info.execution_id).status == "completed"


def test_two_starts_with_one_id_are_two_executions(ground):
    ground.register()
    asked = Request(
        "POST", "/api/executions", body=b'{"path": "demo/hello"}', now_ms=1_800_000_000_000, bits=7
    )
    ids = {start(ground.deps, asked)[0].value.execution_id for _ in range(3)}
    assert len(ids) == 3 == len(ground.store.executions(limit=10))


class Panic(BaseException):
    """As the panics of compiled libraries are: no Exception."""


@pytest.mark.parametrize("defect", [ValueError, SystemExit, Panic])
def test_a_defect_tells_nothing_but_is_logged(ground, defect):
    ground.deps = replace(ground.deps, store=Breaking(defect("password=hunter2")))
    reply = ground.ask("GET", "/api/executions")
    refused(reply, 500, "internal_error")
    assert "hunter2" not in reply.text
    assert any("hunter2" in line and "Traceback" in line for line in ground.logs)


def test_not_ready_says_what_is_missing(ground):
    ground.failing["database"] = errors.InfrastructureError(
        "no route to 10.0.0.1", code="database_unreachable"
    )
    reply = ground.ask("GET", "/ready", authorizer={})
    assert (reply.status, reply.json) == (
        503,
        {"status": "not_ready", "checks": {"database": "database_unreachable", "bucket": "ok"}},
    )
    assert "10.0.0.1" not in reply.text


FAMILIES = [
    (BadRequestError("m"), 400),
    (UnauthenticatedError("m"), 401),
    (ForbiddenError("m"), 403),
    (errors.NotFoundError("m"), 404),
    (MethodError("m", details={"allow": ["GET"]}), 405),
    (errors.ConflictError("m"), 409),
    (errors.GoneError("m"), 410),
    (errors.OverloadedError("m", details={"retry_after": 7}), 429),
    (errors.TaskError("m"), 410),
    (BodyTooLargeError("m"), 413),
    (UnsupportedMediaError("m"), 415),
    (errors.InvalidInputError("m"), 422),
    (errors.PlaybookError("m"), 422),
    (errors.TemplateError("m"), 422),
    (away(), 503),
    (away(retryable=False), 500),
    (errors.NoetlError("m"), 500),
    (KeyError("m"), 500),
]


@over(("error", "status"), FAMILIES, ids=lambda one: type(one).__name__)
def test_every_family_has_its_status(error, status):
    answer = problem(error, request_id="r", instance="/x")
    assert (answer.status, answer.value["status"]) == (status, status)
    assert ("Retry-After" in answer.headers) == (status in (429, 503))


def test_every_error_of_the_domain_belongs_to_a_family():
    tested = {type(error) for error, _ in FAMILIES}
    ours = {
        one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.NoetlError)
    }
    assert ours <= tested


@pytest.mark.parametrize("broken", [{"headers": None}, {"queryStringParameters": None}, {"body": None}])
def test_events_with_nothing_in_them(ground, broken):
    event = {**request("GET", "/api/executions"), **broken}
    assert Reply(ground.resolve(event, None)).status == 200


@pytest.mark.parametrize("blank", ["", " ", "\t"])
def test_a_blank_idempotency_key_is_refused_instead_of_left_out(ground, blank: str):
    ground.register(HELLO)
    asked = ground.ask("POST", "/api/executions", {"path": "demo/hello"}, headers={"idempotency-key": blank})
    assert "1 to 255 printable characters of ASCII" in refused(asked, 400, "invalid_parameter")["detail"]
    assert ground.ask("GET", "/api/executions").json["executions"] == []
