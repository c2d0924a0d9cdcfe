"""A server without tokens beside a browser: what pages of other origins send to this machine changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.runtime.server.serve import Server, ServeSettings
from noetl.runtime.settings import Settings
from tests.integration.api.test_http import PLAYBOOK, PROBLEM, Raw

pytestmark = pytest.mark.postgres


class Plain(Raw):
    def __init__(self, server: Server) -> None:
        host, _, port = server.address.removeprefix("http://").rpartition(":")
        self.server, self.place = server, (host, int(port))
        self.own = server.address.removeprefix("http://")

    def post(self, body: str = PLAYBOOK, path: str = "/api/catalog/register", **headers: str | None):
        sent = {"Host": self.own, "Connection": "close", "Content-Type": "application/yaml"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{name}: {value}" for name, value in sent.items() if value is not None]
        data = body.encode()
        head = [f"POST {path} HTTP/1.1", *lines, f"Content-Length: {len(data)}", "", ""]
        return self("\r\n".join(head).encode() + data)


@pytest.fixture(scope="module")
def plain(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plain]:
    home: Path = tmp_path_factory.mktemp("plain") / "home"
    settings = Settings(home, module_database, python_workers=1)
    settings.make_home()
    with Server(
        settings, ServeSettings(port=0, threads=2, open_to_all=True), on_log=lambda line: None
    ) as made:
        yield Plain(made)


FOREIGN = {
    "a page of another machine": ({"Origin": "https://evil.example"}, 403, "forbidden"),
    "a page of another port of this machine": ({"Origin": "http://localhost:3000"}, 403, "forbidden"),
    "another name of this machine": ({"Origin": "http://[::1]:{port}"}, 403, "forbidden"),
    "a page over https": ({"Origin": "https://{own}"}, 403, "forbidden"),
    "a page without an origin": ({"Origin": "null"}, 403, "forbidden"),
    "a page of the same site": ({"Sec_Fetch_Site": "same-site"}, 403, "forbidden"),
    "a page of another site": ({"Sec_Fetch_Site": "cross-site"}, 403, "forbidden"),
    "a name that was bound again": ({"Host": "rebound.example:{port}", "Origin": "http://rebound.example:{port}"}, 403, "forbidden"),
    "a name below localhost": ({"Host": "localhost.evil.example"}, 403, "forbidden"),
    "plain text": ({"Content_Type": "text/plain"}, 415, "unsupported_media_type"),
    "plain text with parameters": ({"Content_Type": "text/plain; application/json"}, 415, "unsupported_media_type"),
    "a form": ({"Content_Type": "application/x-www-form-urlencoded"}, 415, "unsupported_media_type"),
    "a form with files": ({"Content_Type": "multipart/form-data; boundary=x"}, 415, "unsupported_media_type"),
    "no kind at all": ({"Content_Type": None}, 415, "unsupported_media_type"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_a_page_of_another_origin_changes_nothing(plain, name):
    headers, status, code = FOREIGN[name]
    port = plain.place[1]
    filled = {
        key: value and value.replace("{own}", plain.own).replace("{port}", str(port))
        for key, value in headers.items()
    }
    found, told, body = plain.post(**filled)
    assert (found, json.loads(body)["code"], told["content-type"]) == (status, code, PROBLEM)
    assert json.loads(body)["hint"]
    _, _, listed = plain(
        f"GET /api/catalog HTTP/1.1\r\nHost: {plain.own}\r\nConnection: close\r\n\r\n".encode()
    )
    assert json.loads(listed)["playbooks"] == []


def test_a_request_without_a_host_is_refused(plain):
    found, _, body = plain(b"GET /api/executions HTTP/1.0\r\n\r\n")
    assert (found, json.loads(body)["code"]) == (403, "forbidden")


def test_programs_and_own_pages_are_answered_and_links_with_a_secret_may_be_followed(plain):
    body = json.dumps({"path": "no/such"})
    for headers in (
        {},
        {"Origin": f"http://{plain.own}", "Sec_Fetch_Site": "same-origin"},
        {"Host": "localhost", "Sec_Fetch_Site": "none"},
    ):
        assert (
            plain.post(body, "/api/executions", Content_Type="application/json; charset=utf-8", **headers)[0]
            == 404
        )
    link = f"GET /api/callbacks/x HTTP/1.1\r\nHost: {plain.own}\r\nSec-Fetch-Site: cross-site\r\nConnection: close\r\n\r\n"
    assert plain(link.encode())[0] == 404
    assert plain.post(body, "/api/hooks/x", Content_Type="text/plain")[0] == 404


def test_plain_http_for_other_machines_is_told_at_the_start(module_database, tmp_path):
    settings = Settings(tmp_path / "home", module_database, python_workers=1)
    settings.make_home()
    logged: list[str] = []
    with Server(settings, ServeSettings(host="0.0.0.0", port=0, threads=1), on_log=logged.append) as made:
        assert made.address.startswith("http://0.0.0.0:")
    (told,) = [line for line in logged if "plain HTTP" in line]
    assert "0.0.0.0" in told and "TLS" in told
    logged.clear()
    with Server(settings, ServeSettings(port=0, threads=1), on_log=logged.append):
        pass
    assert not [line for line in logged if "plain HTTP" in line]
