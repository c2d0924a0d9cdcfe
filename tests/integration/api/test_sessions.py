"""The web UI and its sessions at a real ``noetl serve``: from the command line's code to a page that is signed in, and attacks on it."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from noetl.cli.actions import daemons
from noetl.cli.app import app
from noetl.runtime.server.serve import Server, ServeSettings
from noetl.runtime.settings import Settings
from tests.integration.api.test_browsers import plain  # noqa: F401
from tests.integration.api.test_http import Raw

pytestmark = pytest.mark.postgres
PYTHON = shutil.which("python3", path="/usr/bin")
"""An interpreter that every user may run."""


class Browser(Raw):
    """A browser of this machine: sends what browsers send, and keeps the cookie and the page's value."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.own = server.address.removeprefix("http://")
        self.cookie, self.csrf = "", ""

    def ask(self, method: str, path: str, body: object = None, **headers: str | None):
        data = b"" if body is None else json.dumps(body).encode()
        sent: dict[str, str | None] = {
            "Host": self.own,
            "Connection": "close",
            "Content-Length": str(len(data)),
            "Content-Type": "application/json",
            "Sec-Fetch-Site": "same-origin",
            "Cookie": self.cookie or None,
            "X-CSRF-Token": self.csrf or None,
        }
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{name}: {value}" for name, value in sent.items() if value is not None]
        status, told, content = self(
            "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode() + data
        )
        if "set-cookie" in told:
            self.cookie = told["set-cookie"].partition(";")[0]
        return status, told, json.loads(content) if content[:1] == b"{" else content

    def code(self, scopes: list[str] | None = None) -> str:
        wish = {"scopes": scopes or []}
        status, _, told = self.ask("POST", "/api/session/codes", wish, Authorization=f"Bearer {self.token}")
        assert status == 200, told
        return str(told["code"])

    def enter(self, scopes: list[str] | None = None) -> Browser:
        status, _, told = self.ask("POST", "/api/session", {"code": self.code(scopes)})
        assert status == 200, told
        self.csrf = told["csrf"]
        return self


@pytest.fixture(scope="module")
def server(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home: Path = tmp_path_factory.mktemp("sessions") / "home"
    settings = Settings(home, module_database, python_workers=1)
    settings.make_home()
    logged: list[str] = []
    with Server(settings, ServeSettings(port=0, threads=2), on_log=logged.append) as made:
        yield made
    assert not any("Traceback" in line for line in logged), logged


@pytest.fixture
def browser(server: Server) -> Browser:
    return Browser(server)


TRADE = """
import http.client, json, sys
address, code = sys.argv[1:]
connection = http.client.HTTPConnection(address, timeout=60)
headers = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
connection.request("POST", "/api/session", json.dumps({"code": code}), headers)
answer = connection.getresponse()
print(answer.status, json.loads(answer.read()).get("code"))
"""
NOBODY = 65534


@pytest.mark.skipif(
    sys.platform != "linux" or os.getuid() != 0 or PYTHON is None,
    reason="only root of Linux can be another user, with an interpreter that it may run",
)
def test_another_user_cannot_trade_a_code_that_it_has_seen(browser):
    def trade(code: str, user: int) -> str:
        words = [PYTHON, "-I", "-c", TRADE, browser.own, code]
        return subprocess.run(words, user=user, capture_output=True, text=True, check=True, cwd="/").stdout

    assert trade(browser.code(), NOBODY) == "403 session_code_invalid\n"
    assert trade(browser.code(), 0) == "200 None\n"


def test_a_code_of_the_command_line_signs_a_browser_in(server, browser, monkeypatch):
    home = str(server._settings.home)
    monkeypatch.setenv("NOETL_BROWSER_TOKEN", browser.token)
    runner = CliRunner()
    made = runner.invoke(
        app,
        [
            "context",
            "add",
            "srv",
            "--url",
            server.address,
            "--token-env",
            "NOETL_BROWSER_TOKEN",
            "--home",
            home,
        ],
    )
    assert made.exit_code == 0, made.output
    shown = runner.invoke(
        app, ["ui", "--context", "srv", "--no-open", "--scopes", "read", "--json", "--home", home]
    )
    told = json.loads(shown.stdout)
    place, _, code = told["address"].partition("#")
    assert place == f"{server.address}/ui/enter" and told["scopes"] == ["read"] and not told["opened"]
    status, headers, session = browser.ask("POST", "/api/session", {"code": code})
    assert (status, session["scopes"], session["principal"][:6]) == (200, ["read"], "token:")
    assert "HttpOnly; SameSite=Strict" in headers["set-cookie"] and headers["cache-control"] == "no-store"
    browser.csrf = session["csrf"]
    assert browser.ask("GET", "/api/session")[2] == session
    assert browser.ask("GET", "/api/executions")[0] == 200
    assert browser.ask("POST", "/api/executions", {"path": "no/such"})[0] == 403, "a viewer starts nothing"
    for given in (None, ""):
        told = browser.ask("POST", "/api/session/codes", {"scopes": []}, Authorization=given)[2]
        assert told["code"] == "token_needed"
    assert browser.ask("POST", "/api/session", {"code": code})[0] == 403, "a code is good once"
    status, headers, _ = browser.ask("DELETE", "/api/session")
    assert status == 200 and "Max-Age=0" in headers["set-cookie"]
    assert browser.ask("GET", "/api/session")[0] == 401


def test_the_command_line_finds_the_server_of_this_machine(server, browser):
    home = server._settings.home
    (home / "token").write_text(browser.token)
    words = ["ui", "--no-open", "--json", "--home", str(home)]
    with daemons.processes(home).hold("server", "", "") as ready:
        ready({"address": server.address})
        told = json.loads(CliRunner().invoke(app, words).stdout)
    status, _, session = browser.ask("POST", "/api/session", {"code": told["address"].partition("#")[2]})
    assert (status, session["scopes"]) == (200, ["admin", "execute", "read", "write"]), "all but worker"


STOLEN = {
    "no value of the page": ({"X_CSRF_Token": None}, 401, "csrf_invalid"),
    "a guessed value": ({"X_CSRF_Token": "x" * 43}, 401, "csrf_invalid"),
    "a page of another port": ({"Sec_Fetch_Site": "same-site"}, 403, "session_origin"),
    "a page of another site": ({"Sec_Fetch_Site": "cross-site"}, 403, "session_origin"),
    "another origin": ({"Origin": "https://evil.example"}, 403, "session_origin"),
    "no browser": ({"Sec_Fetch_Site": None}, 403, "session_origin"),
    "a name that was bound again": ({"Host": "evil.example:{port}"}, 403, "session_host"),
    "a cookie that is none": ({"Cookie": "noetl_session_{port}=x"}, 401, "unauthenticated"),
    "an empty token beside it": ({"Authorization": "Bearer x"}, 401, "unauthenticated"),
}


@pytest.mark.parametrize("path", ["/api/executions", "/api/session", "/api/sessions", "/metrics"])
@pytest.mark.parametrize("name", STOLEN)
def test_a_stolen_cookie_reads_nothing(browser, name, path):
    wrong, status, code = STOLEN[name]
    browser.enter(["admin"])
    headers = {key: value and value.format(port=browser.place[1]) for key, value in wrong.items()}
    found, _, told = browser.ask("GET", path, **headers)
    assert (found, told["code"]) == (status, code)


def test_sessions_are_listed_and_revoked(browser, server):
    admin, other = browser.enter(["admin"]), Browser(server).enter(["read"])
    listed = admin.ask("GET", "/api/sessions")[2]["sessions"]
    assert [one["current"] for one in listed].count(True) == 1
    (theirs,) = [one for one in listed if one["account"] == other.ask("GET", "/api/session")[2]["principal"]]
    assert other.ask("GET", "/api/sessions")[0] == 403
    assert admin.ask("DELETE", f"/api/sessions/{theirs['id']}")[0] == 200
    assert other.ask("GET", "/api/session")[0] == 401 and admin.ask("GET", "/api/session")[0] == 200


def test_a_server_without_tokens_needs_no_session(plain):  # noqa: F811
    head = f"Host: {plain.own}\r\nConnection: close\r\nSec-Fetch-Site: same-origin\r\n\r\n".encode()
    status, _, told = plain(b"GET /api/session HTTP/1.1\r\n" + head)
    assert status == 200
    assert json.loads(told) == {
        "csrf": "",
        "scopes": ["admin", "execute", "read", "worker", "write"],
        "principal": "local",
        "expires_at": None,
    }


def test_the_ui_and_large_answers_are_served(server, browser, tmp_path, monkeypatch):
    status, headers, _ = browser.ask("GET", "/", Accept="text/html")
    assert (status, headers["location"]) == (302, "ui/")
    status, headers, _ = browser.ask("GET", "/ui/executions/5")
    assert status in (200, 404) and "frame-ancestors 'none'" in headers["content-security-policy"]
    status, headers, content = browser.ask("GET", "/openapi.json", Accept_Encoding="gzip")
    assert (status, headers["content-encoding"]) == (200, "gzip")
    assert headers["x-content-type-options"] == "nosniff"
    assert json.loads(gzip.decompress(content))["openapi"] and int(headers["content-length"]) == len(content)
    status, again, nothing = browser.ask("GET", "/openapi.json", If_None_Match=headers["etag"])
    assert (status, nothing, again["etag"]) == (304, b"", headers["etag"])
    assert browser.ask("GET", "/openapi.json", If_None_Match='W/"other"')[0] == 200
    assert "content-encoding" not in browser.ask("GET", "/openapi.json", Accept_Encoding="gzip;q=0")[1]
