"""The web UI of the deployment: its files from the bucket and the API behind one address, as CloudFront puts them there."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from noetl.api.http.ui_files import content_policy
from noetl.local import state
from noetl.local.layout import Layout


def _get(deployment: Any, path: str) -> tuple[int, dict[str, str], bytes]:
    """Ask the distribution by its name; only browsers resolve it."""
    recorded = state.load(Layout(deployment.home / "local"))
    assert recorded is not None
    if recorded.ui is None:
        pytest.skip("the deployment has no web UI: it was not built (make ui)")
    place = urlsplit(recorded.ui)
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=60)
    try:
        connection.request("GET", path, headers={"Host": place.netloc})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def test_pages_and_api_are_served_from_one_address(deployment: Any) -> None:
    status, headers, _ = _get(deployment, "/")
    assert (status, headers["location"]) == (302, "/ui/")
    status, headers, page = _get(deployment, "/ui/executions/12")
    assert status == 200 and b'<div id="root">' in page
    assert headers["content-security-policy"] == content_policy()
    assert headers["cache-control"] == "no-cache"
    [script] = [part.split(b'"')[0] for part in page.split(b'src="./')[1:]]
    status, headers, code = _get(deployment, f"/ui/{script.decode()}")
    assert status == 200 and "immutable" in headers["cache-control"] and len(code) > 10_000
    status, _, sign_in = _get(deployment, "/ui/sign-in.json")
    assert (status, json.loads(sign_in)) == (200, {})
    status, headers, session = _get(deployment, "/api/session")
    assert (status, json.loads(session)["principal"]) == (200, "local")
    assert "sandbox" in headers["content-security-policy"]
    status, _, found = _get(deployment, "/api/executions?limit=1&status=failed")
    assert status == 200 and len(json.loads(found)["executions"]) <= 1
