"""Relations of playbooks over the API: calls, callers with fixed and computed paths, schedules and triggers."""

from __future__ import annotations

import pytest

from noetl.services.catalog import playbook_relations
from tests.unit.api.ground import HELLO

CALLER = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: caller, path: demo/caller}
workflow:
  - step: start
    tool: {kind: playbook, path: demo/hello, version: 1}
    next: second
  - step: second
    tool: {kind: playbook, path: no/such}
    next: third
  - step: third
    loop: {in: [1, 2], iterator: n}
    tool: {kind: playbook, path: "demo/{{ workload.which }}"}
"""


def renamed(path: str, *changes: tuple[str, str]) -> str:
    text = CALLER.replace("demo/caller", path)
    for old, new in changes:
        text = text.replace(old, new)
    return text


@pytest.fixture
def registered(ground):
    for text in (HELLO, CALLER, renamed("a/old"), renamed("a/other", ("demo/hello", "/demo/hello"))):
        assert ground.ask("POST", "/api/catalog/register", {"content": text}).status == 201
    gone = renamed("a/old", ("path: demo/hello, version: 1", "path: x"), ('"demo/{{', '"x/{{'))
    assert ground.ask("POST", "/api/catalog/register", {"content": gone}).status == 201
    return ground


def test_calls_have_their_line_and_what_is_registered(registered):
    found = registered.ask("GET", "/api/catalog/demo/caller/relations").json
    assert (found["path"], found["version"], found["callers"], found["complete"]) == (
        "demo/caller",
        1,
        # Its own computed path may be that of itself.
        [
            {
                "path": path,
                "version": 1,
                "called": "demo/{{ workload.which }}",
                "called_version": None,
                "computed": True,
                "line": 13,
                "column": found["callers"][0]["column"],
            }
            for path in ("a/other", "demo/caller")
        ],
        True,
    )
    calls = [
        (one["path"], one["version"], one["computed"], one["latest"], one["line"]) for one in found["calls"]
    ]
    assert calls == [
        ("demo/hello", 1, False, 1, 6),
        ("no/such", None, False, None, 9),
        ("demo/{{ workload.which }}", None, True, None, 13),
    ]


def test_callers_are_latest_versions_with_a_fixed_path_before_computed_ones(registered):
    found = registered.ask("GET", "/api/catalog/demo/hello/relations").json
    assert [
        (one["path"], one["version"], one["computed"], one["called_version"]) for one in found["callers"]
    ] == [
        ("a/other", 1, False, 1),
        ("demo/caller", 1, False, 1),
        ("a/other", 1, True, None),
        ("demo/caller", 1, True, None),
    ]
    assert found["callers"][0]["called"] == "demo/hello"
    assert found["calls"] == found["schedules"] == found["triggers"] == []


def test_what_starts_a_playbook_by_itself(registered):
    body = {"name": "hook", "path": "demo/caller", "source": {"type": "webhook"}, "enabled": False}
    assert registered.ask("POST", "/api/triggers", body).status == 201
    daily = {"name": "daily", "path": "demo/caller", "cron": "0 6 * * *"}
    assert registered.ask("POST", "/api/schedules", daily).status == 201
    found = registered.ask("GET", "/api/catalog/demo/caller/relations").json
    (schedule,) = found["schedules"]
    assert (schedule["name"], schedule["cron"], schedule["state"]) == ("daily", "0 6 * * *", "active")
    assert schedule["next_at"] is not None and found["more_starts"] is False
    (trigger,) = found["triggers"]
    assert trigger == {
        "name": "hook",
        "type": "webhook",
        "version": None,
        "enabled": False,
        "declared": False,
    }, "and not the address of the webhook"


def test_a_trigger_that_the_playbook_declares_is_shown_as_such(ground):
    text = HELLO.replace(
        "path: demo/hello}", "path: demo/hello, triggers: [{name: landed, type: s3, bucket: my-bucket}]}"
    )
    ground.ask("POST", "/api/catalog/register", {"content": text})
    (trigger,) = ground.ask("GET", "/api/catalog/demo/hello/relations").json["triggers"]
    assert (trigger["name"], trigger["type"], trigger["version"], trigger["declared"]) == (
        "landed",
        "s3",
        1,
        True,
    )


def test_no_more_programs_are_read_than_allowed_those_that_name_the_path_first(registered, monkeypatch):
    monkeypatch.setattr(playbook_relations, "MOST_CALLERS", 1)
    registered.ask("POST", "/api/catalog/register", {"content": renamed("a/a", ("demo/hello", "x"))})
    found = registered.ask("GET", "/api/catalog/demo/hello/relations").json
    assert ([one["path"] for one in found["callers"]], found["complete"]) == (["a/other", "a/other"], False)


def test_a_program_that_cannot_be_read_hides_no_other_caller(registered):
    registered.runtime.catalog.register(
        path="a/broken", name="b", program="gone", content="playbook: [", source_name="x"
    )
    found = registered.ask("GET", "/api/catalog/demo/hello/relations").json
    assert len(found["callers"]) == 4 and found["complete"] is False


def test_versions_that_are_not_there_and_viewers(registered):
    assert registered.ask("GET", "/api/catalog/no/such/relations").status == 404
    assert registered.ask("GET", "/api/catalog/demo/hello/relations", query={"version": "7"}).status == 404
    old = registered.ask("GET", "/api/catalog/a/old/relations", query={"version": "1"}).json
    new = registered.ask("GET", "/api/catalog/a/old/relations").json
    assert (old["calls"][0]["path"], new["calls"][0]["path"], new["version"]) == ("demo/hello", "x", 2)
