"""`noetl ui` for a deployment: pages of this machine's own sessions, requests signed with the operator's credentials."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from urllib3.exceptions import HTTPError

from noetl.api.http.exchange import Answer, Request
from noetl.cli.actions import signing_server
from noetl.cli.actions.signing_server import SigningServer
from noetl.cli.client.profiles import Context

CONTEXT = Context("prod", "https://abc.execute-api.eu-west-1.amazonaws.com", "iam", region="eu-west-1")
HOST = "127.0.0.1:8766"
OWN = {"host": HOST, "sec-fetch-site": "same-origin", "accept": "application/json"}


class Reply:
    def __init__(self, status: int, value: Any, **headers: str) -> None:
        self.status, self.data = status, json.dumps(value).encode()
        self.headers = {"Content-Type": "application/json", **headers}


class Deployment:
    """Answers as the API does; ``asked``: what reached it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Mapping[str, str], bytes | None]] = []
        self.reachable, self.status = True, 200

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Any:
        self.asked.append((method, url, headers, body))
        if not self.reachable:
            raise HTTPError("down")
        if url.endswith("/api/session"):
            about = {"csrf": "", "scopes": ["execute", "read"], "principal": "arn:me", "expires_at": None}
            return Reply(self.status, about)
        return Reply(202, {"execution_id": "1"}, **{"Location": "/api/executions/1", "Set-Cookie": "theirs"})


@pytest.fixture
def deployment() -> Deployment:
    return Deployment()


@pytest.fixture
def server(deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SigningServer:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setattr(signing_server, "ui_folder", lambda: tmp_path)
    (tmp_path / "index.html").write_text("the page")
    return SigningServer(CONTEXT, tmp_path, send=deployment.send)


def enter(server: SigningServer, *scopes: str) -> dict[str, str]:
    """Return the headers of a page in a session with these scopes."""
    body = json.dumps({"code": server.code(frozenset(scopes))}).encode()
    opened = server.handle(Request("POST", "/api/session", headers=OWN, body=body))
    assert opened.status == 200, opened.body()
    cookie = opened.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    return {**OWN, "cookie": cookie.partition(";")[0], "x-csrf-token": json.loads(opened.body())["csrf"]}


def code_of(answer: Answer) -> str:
    return str(json.loads(answer.body())["code"])


def test_a_request_of_the_page_is_signed_and_carries_nothing_else_of_the_browser(
    server: SigningServer, deployment: Deployment
) -> None:
    page = enter(server)
    session = json.loads(server.handle(Request("GET", "/api/session", headers=page)).body())
    assert (session["principal"], session["scopes"]) == ("arn:me", ["execute", "read"])
    started = server.handle(
        Request("POST", "/api/executions", query={"wait": "5"}, headers=page, body=b'{"path": "a"}')
    )
    assert started.status == 202 and started.headers == {"Location": "/api/executions/1"}
    method, url, headers, body = deployment.asked[-1]
    assert (method, url, body) == ("POST", f"{CONTEXT.url}/api/executions?wait=5", b'{"path": "a"}')
    signature = headers["Authorization"]
    assert signature.startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "/eu-west-1/execute-api/" in signature
    assert not {"cookie", "x-csrf-token", "host"} & {name.lower() for name in headers}


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"cookie": ""}, "unauthenticated"),
        ({"x-csrf-token": "guessed"}, "csrf_invalid"),
        ({"host": "evil.test"}, "unauthenticated"),
        ({"sec-fetch-site": "cross-site"}, "session_origin"),
        ({"origin": "http://127.0.0.1:9999"}, "session_origin"),
    ],
)
def test_what_is_not_the_page_of_a_session_uses_no_credentials(
    server: SigningServer, deployment: Deployment, changed: dict[str, str], code: str
) -> None:
    page = enter(server)
    before = len(deployment.asked)
    refused = server.handle(Request("GET", "/api/executions", headers={**page, **changed}))
    assert refused.status in (401, 403) and code_of(refused) == code
    assert len(deployment.asked) == before


def test_a_viewers_session_changes_nothing(server: SigningServer, deployment: Deployment) -> None:
    page = enter(server, "read")
    assert json.loads(server.handle(Request("GET", "/api/session", headers=page)).body())["scopes"] == [
        "read"
    ]
    before = len(deployment.asked)
    refused = server.handle(Request("POST", "/api/executions", headers=page, body=b"{}"))
    assert refused.status == 403 and len(deployment.asked) == before
    assert server.handle(Request("GET", "/api/executions", headers=page)).status == 202


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/api/x/../executions", 422),
        ("POST", "/api/./executions", 422),
        ("POST", "/api/x/%2e%2E/executions", 422),
        ("POST", "/api/x%2f..%2fexecutions", 422),
        ("POST", "/api/x\\..\\executions", 422),
        ("POST", "/api/x%5c..%5cexecutions", 422),
        ("DELETE", "/api/executions/1#/../", 422),
        ("GET", "/api/executions/%zz", 422),
        ("POST", "/api/%65xecutions", 404),
        ("POST", "/api//executions", 404),
        ("GET", "/api/of-a-later-version", 404),
    ],
)
def test_a_path_that_is_no_route_as_it_was_sent_reaches_no_deployment(
    server: SigningServer, deployment: Deployment, method: str, path: str, status: int
) -> None:
    page = enter(server, "read")
    before = len(deployment.asked)
    refused = server.handle(Request(method, path, headers=page, body=b"{}"))
    assert (refused.status, len(deployment.asked)) == (status, before), refused.body()


def test_an_encoded_path_is_forwarded_as_it_was_checked(
    server: SigningServer, deployment: Deployment
) -> None:
    page = enter(server, "read")
    assert server.handle(Request("GET", "/api/catalog/a%2Fb%20c", headers=page)).status == 202
    assert deployment.asked[-1][1] == f"{CONTEXT.url}/api/catalog/a%2Fb%20c"


def test_a_code_works_once_and_a_session_ends(server: SigningServer) -> None:
    body = json.dumps({"code": server.code(frozenset())}).encode()
    answers = [server.handle(Request("POST", "/api/session", headers=OWN, body=body)) for _ in range(2)]
    assert [one.status for one in answers] == [200, 403] and code_of(answers[1]) == "session_code_invalid"
    page = enter(server)
    assert server.handle(Request("DELETE", "/api/session", headers=page)).status == 200
    assert server.handle(Request("GET", "/api/executions", headers=page)).status == 401


def test_a_deployment_that_is_down_or_refuses_is_named(server: SigningServer, deployment: Deployment) -> None:
    page = enter(server)
    deployment.reachable = False
    down = server.handle(Request("GET", "/api/executions", headers=page))
    assert (down.status, code_of(down)) == (503, "server_unreachable")
    deployment.reachable, deployment.status = True, 403
    refused = server.handle(Request("GET", "/api/session", headers=page))
    assert code_of(refused) == "server_refused" and "execute-api:Invoke" in refused.body()


def test_files_need_no_session_and_other_paths_are_not_passed_on(
    server: SigningServer, deployment: Deployment
) -> None:
    assert server.handle(Request("GET", "/ui/executions", headers=OWN)).status == 200
    assert server.handle(Request("GET", "/latest/meta-data", headers=OWN)).status == 404
    assert server.handle(Request("POST", "/api/session", headers=OWN, body=b"[")).status == 422
    assert deployment.asked == []
