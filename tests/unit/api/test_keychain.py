"""The keychain over the API: what a worker is given, and everything that gives it nothing."""

from __future__ import annotations

import msgspec
import pytest

from noetl.adapters.http_credentials import PAUSES, HttpCredentials
from noetl.api.http.access import principal_of
from noetl.domain.capability_tokens import KeyRing, grant
from noetl.domain.commands import Command, LoopSlice
from noetl.domain.errors import InfrastructureError, InvalidInputError, TaskError
from noetl.domain.kinds import Credential
from noetl.domain.workers.command_token import HEADER, Capability, read_capability
from noetl.runtime.aws.keys import EVERY_SECONDS
from tests.parts import over
from tests.unit.api.ground import Ground, request

RING = KeyRing.of(["a key that no worker has"])
OTHER = KeyRing.of(["a key that somebody made up"])
WORKER = "arn:aws:sts::123456789012:assumed-role/Noetl-Role1234/noetl-dev-worker-io"
ROLES = ("arn:*:sts::*:assumed-role/*/noetl-dev-worker-*",)
SECRETIVE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: secretive, path: demo/secretive}
keychain:
  - {name: db, kind: postgres_credential, credential: "team/{{ workload.stage }}"}
workload: {stage: test}
workflow:
  - step: start
    tool: {kind: double, value: {auth: plain}}
"""
DATA = {"token": "canary-5a"}


@pytest.fixture
def ground():
    made = Ground(workers=ROLES, keys=lambda fresh: RING, workspace="scratch")
    for name, type_ in (
        ("team/test", "postgres"),
        ("plain", "bearer"),
        ("scratch", "postgres"),
        ("foreign", "bearer"),
    ):
        body = {"name": name, "type": type_, "data": {**DATA, "host": "h"}}
        assert made.ask("POST", "/api/credentials", body).status == 201
    made.register(SECRETIVE)
    return made


@pytest.fixture
def command(ground) -> Command:
    """The open command of an execution."""
    ground.start("demo/secretive")
    ground.runtime.events += ground.publisher.sent
    ground.publisher.sent = []
    ground.store.heartbeat(ground.runtime.owner, 1e9)
    ground.runtime._handle(ground.runtime.events)
    ground.runtime.events = []
    (found,) = ground.runtime.commands
    return found


def ask(ground: Ground, command: Command, name: str, *, ring: KeyRing = RING, execution: int = 0, **over):
    capability = msgspec.structs.replace(Capability.of(command, grant(command, ring)), **over)
    event = request(
        "GET",
        f"/api/keychain/{execution or command.execution_id}/{name}",
        headers={HEADER.lower(): capability.header()},
        authorizer={"iam": {"userArn": WORKER}},
    )
    return ground_reply(ground, event)


def ground_reply(ground: Ground, event):
    from tests.unit.api.ground import Reply

    return Reply(ground.resolve(event, None))


def test_a_command_gets_what_its_playbook_names_as_long_as_it_is_open(ground, command):
    for name in ("team/test", "plain", "scratch"):
        found = ask(ground, command, name)
        assert (found.status, found.json["data"]["token"]) == (200, "canary-5a"), found
        assert found.headers["Cache-Control"] == "no-store" and 0 < found.json["expires_in"] <= 3600
    assert ask(ground, command, "foreign").json["code"] == "credential_not_named"
    assert ask(ground, command, "db").json["code"] == "credential_not_named", (
        "an entry is not a credential's name"
    )
    assert ground.deps.credentials.store.cached(f"plain:{command.execution_id}").scope == "execution"
    ground.runtime.run_until([])
    late = ask(ground, command, "plain")
    assert (late.status, late.json["code"]) == (403, "command_refused")
    assert ground.deps.credentials.store.cached(f"plain:{command.execution_id}") is None, (
        "gone with its execution"
    )


@pytest.mark.parametrize(
    "over",
    [
        {"attempt": 2},
        {"turn": 1},
        {"run": 9},
        {"command_id": "9"},
        {"step": "other"},
        {"program": "0" * 64},
        {"stage": "case"},
        {"round": 0},
        {"token": ""},
        {"execution": 12},
        {"execution_id": 12},
    ],
    ids=str,
)
def test_nothing_is_given_for_a_token_that_fits_something_else(ground, command, over):
    refused = ask(ground, command, "plain", **over)
    assert (refused.status, refused.json["code"]) == (403, "command_refused"), refused


def test_a_token_of_an_unknown_key_is_asked_for_again(ground, command):
    """Its command may have been signed with a key that was rotated since this function read the keys."""
    later = ask(ground, command, "plain", ring=OTHER)
    assert (later.status, later.json["code"]) == (503, "key_unknown"), later
    assert sum(PAUSES) > EVERY_SECONDS, "the worker's last question comes after the API may read them again"


def test_a_worker_without_a_command_has_no_scope(ground, command):
    own = {"authorizer": {"iam": {"userArn": WORKER}}}
    for path in (f"/api/keychain/{command.execution_id}/db", "/api/credentials", "/api/executions"):
        assert ground.ask("GET", path, **own).status == 403
    assert ground.ask("GET", f"/api/keychain/{command.execution_id}/db", authorizer={}).status == 401
    for bad in ("", "x", "e30", "bm90IGpzb24", "A" * 5000, "ÿ"):
        found = ground.ask(
            "GET", f"/api/keychain/{command.execution_id}/db", headers={HEADER.lower(): bad}, **own
        )
        assert (found.status, found.json["code"]) == (422, "capability_invalid")


def test_whoever_has_the_scope_reads_entries_of_executions_and_playbooks(ground, command):
    for path in (str(command.execution_id), "demo%2Fsecretive@1", "demo/secretive@1"):
        found = ground.ask("GET", f"/api/keychain/{path}/db")
        assert (found.status, found.json["credential"], found.json["type"]) == (
            200,
            "team/test",
            "postgres",
        ), found
    assert ground.ask("GET", f"/api/keychain/{command.execution_id}/foreign").json["credential"] == "foreign"
    assert (
        ground.ask("GET", f"/api/keychain/{command.execution_id}/nothing").json["code"]
        == "credential_not_found"
    )
    assert ground.ask("GET", "/api/keychain/12/db").json["code"] == "execution_not_found"
    assert ground.ask("GET", "/api/keychain/demo%2Fno@1/db").json["code"] == "playbook_not_found"


def test_a_start_is_refused_with_the_place_of_an_entry_that_leads_nowhere(ground):
    refused = ground.ask("POST", "/api/executions", {"path": "demo/secretive", "payload": {"stage": "tset"}})
    assert (refused.status, refused.json["code"]) == (422, "keychain_unresolved")
    assert (
        refused.json["detail"].startswith("playbook.yaml:5:5: ")
        and "did you mean 'team/test'?" in refused.json["hint"]
    )
    assert not ground.store.executions(limit=5)


def test_a_start_that_is_repeated_gets_its_answer_when_the_credential_is_gone_by_then(ground):
    body, key = {"path": "demo/secretive"}, {"idempotency-key": "k"}
    first = ground.ask("POST", "/api/executions", body, headers=key)
    assert ground.ask("DELETE", "/api/credentials/team%2Ftest").status == 200
    again = ground.ask("POST", "/api/executions", body, headers=key)
    assert (again.status, again.json) == (first.status, first.json)
    other = ground.ask("POST", "/api/executions", {**body, "payload": {"stage": "x"}}, headers=key)
    assert (other.status, other.json["code"]) == (409, "idempotency_key_reused")
    fresh = ground.ask("POST", "/api/executions", body, headers={"idempotency-key": "l"})
    assert (fresh.status, fresh.json["code"]) == (422, "keychain_unresolved")


def test_workers_are_known_by_their_role_whoever_vouches_for_people():
    worker = {"iam": {"userArn": WORKER}}
    for auth, grants in (("iam", {}), ("iam", {"*": "admin"}), ("jwt", {})):
        assert principal_of(auth, worker, grants, ROLES).scopes == frozenset()
    stranger = {"iam": {"userArn": WORKER.replace("noetl-dev", "mine")}}
    assert principal_of("jwt", stranger, {}, ROLES) is None
    assert "admin" in principal_of("iam", stranger, {}, ROLES).scopes


def test_a_capability_is_the_same_on_the_other_side():
    loop = LoopSlice(2, 5, 9, 20, "x", "parallel")
    for command in (
        Command(7, "3.1", 3, "söme", "p", "io", attempt=2, turn=4),
        Command(7, "3", 3, "s", "p", "io", loop=loop),
    ):
        found = read_capability(Capability.of(command, grant(command, RING)).header())
        assert found.holds(RING) and not found.holds(OTHER)
    with pytest.raises(InvalidInputError):
        read_capability("%%%")


# --- the worker's side --------------------------------------------------------------------------------


class Api:
    """Answers in order; the last one again and again."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def __call__(self, url, headers):
        self.asked.append((url, headers))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer[0], msgspec.json.encode(answer[1])


class Elsewhere:
    def __init__(self, **known):
        self.known, self.asked = known, 0

    def get(self, name, execution_id):
        self.asked += 1
        if name not in self.known:
            raise TaskError(f"there is no credential {name!r}", kind="auth", code="credential_not_found")
        return Credential(name, "generic", self.known[name])


CAPABILITY = Capability(7, "3", 3, "s", "p", "token")
FOUND = (200, {"name": "a/b", "type": "bearer", "data": DATA, "expires_in": 40.0})
AWAY = InfrastructureError("nobody answers", code="aws_unreachable")


def worker(api, elsewhere=None, now=None):
    now = now or [0.0]
    return HttpCredentials(
        "https://api", api, elsewhere or Elsewhere(), clock=lambda: now[0], sleep=lambda seconds: None
    )


def test_a_worker_asks_once_per_execution_and_again_when_it_is_old():
    api, now = Api(FOUND), [0.0]
    source = worker(api, now=now)
    for _ in range(3):
        assert source.of(CAPABILITY).get("a/b", 7) == Credential("a/b", "bearer", DATA)
    assert [url for url, _ in api.asked] == ["https://api/api/keychain/7/a%2Fb"]
    assert read_capability(api.asked[0][1][HEADER]) == CAPABILITY
    source.read(msgspec.structs.replace(CAPABILITY, execution_id=8), "a/b")
    assert len(api.asked) == 2, "another execution proves itself"
    now[0] = 41.0
    source.read(CAPABILITY, "a/b")
    assert len(api.asked) == 3


def test_a_credential_that_is_added_after_a_failure_is_found_at_once():
    class Nowhere:
        def get(self, name, execution_id):
            raise TaskError("there is no credential", kind="auth", code="credential_not_found")

    answers = [(404, {"code": "credential_not_found", "detail": "no"}), FOUND]
    apis = [Api(answer) for answer in answers]
    source = worker(lambda url, headers: apis[0 if not apis[0].asked else 1](url, headers), Nowhere())
    with pytest.raises(TaskError):
        source.read(CAPABILITY, "a/b")
    assert source.read(CAPABILITY, "a/b").data == DATA


@pytest.mark.parametrize("code", ["credential_not_found", "credential_not_named"])
def test_what_nobody_registered_or_is_computed_is_looked_for_elsewhere(code):
    api, elsewhere = (
        Api((404 if "found" in code else 403, {"code": code, "detail": "no", "hint": "name it"})),
        Elsewhere(db={"k": 1}),
    )
    source = worker(api, elsewhere)
    for _ in range(2):
        assert source.read(CAPABILITY, "db").data == {"k": 1}
    with pytest.raises(TaskError) as refused:
        source.read(CAPABILITY, "nothing")
    assert (refused.value.kind, refused.value.code) == ("auth", code)
    assert len(api.asked) == (2 if "found" in code else 3)


@over(
    ("answer", "kind", "code", "asked"),
    [
        (AWAY, "connection", "credentials_away", 4),
        ((503, {}), "connection", "credentials_away", 4),
        ((403, {"message": "Forbidden"}), "auth", "credential_refused", 1),
        ((403, {"code": "command_refused", "detail": "not open"}), "auth", "credential_refused", 1),
        ((422, {"code": "token_refused", "detail": "401"}), "auth", "token_refused", 1),
        (InfrastructureError("x", retryable=False), "connection", "credentials_away", 1),
    ],
)
def test_what_goes_wrong_says_whether_to_try_again(answer, kind, code, asked):
    api = Api(answer)
    with pytest.raises(TaskError) as refused:
        worker(api, Elsewhere(db={})).read(CAPABILITY, "db")
    assert (refused.value.kind, refused.value.code, refused.value.retryable) == (
        kind,
        code,
        kind == "connection",
    )
    assert len(api.asked) == asked


def test_a_moment_without_an_answer_is_waited_out():
    api = Api(AWAY, (502, {}), FOUND)
    assert worker(api).read(CAPABILITY, "a/b").type == "bearer" and len(api.asked) == 3


def test_the_same_request_keeps_a_credential_once(ground):
    def put(key: str, **fields):
        body = {"name": "often", "type": "bearer", "data": {"token": "one"}, **fields}
        return ground.ask("POST", "/api/credentials", body, headers={"idempotency-key": key})

    first = put("k1")
    assert (first.status, first.json["version"]) == (201, 1)
    again = put("k1")
    assert (again.status, again.json) == (201, first.json)
    for fields in ({"data": {"token": "two"}}, {"tags": ["x"]}, {"type": "generic"}):
        refused = put("k1", **fields)
        assert (refused.status, refused.json["code"]) == (
            409,
            "idempotency_key_reused",
        ) and "two" not in refused.text
    other = put("k2", data={"token": "two"})
    assert (other.status, other.json["version"]) == (200, 2)
    assert put("k2", data={"token": "two"}).json == other.json
    told = ground.ask("GET", "/api/access/credentials", query={"name": "often"}).json["accesses"]
    assert [one["action"] for one in told] == ["replaced", "kept"]
