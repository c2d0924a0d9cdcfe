"""A playbook that is being written: checked and formatted without being stored, and registered after the version one knows."""

from __future__ import annotations

import pytest

from tests.unit.api.ground import BROKEN, HELLO, LOOPED, Ground

VALIDATE, FORMAT, REGISTER = (f"/api/catalog/{word}" for word in ("validate", "format", "register"))


@pytest.fixture
def ground() -> Ground:
    return Ground()


def versions(ground: Ground) -> list[int]:
    reply = ground.ask("GET", "/api/catalog/demo/hello/versions")
    return [one["version"] for one in reply.json["playbooks"]] if reply.status == 200 else []


def test_a_good_playbook_is_valid_and_is_not_stored(ground):
    reply = ground.ask("POST", VALIDATE, {"content": HELLO})
    assert reply.status == 200 and reply.json["valid"] and reply.json["diagnostics"] == []
    assert (reply.json["path"], reply.json["name"]) == ("demo/hello", "hello")
    assert versions(ground) == [] and ground.kept == {}


def test_errors_and_warnings_come_with_their_places(ground):
    content = BROKEN + "  - step: lonely\n    tool: {kind: double, value: 1}\n"
    found = ground.ask("POST", VALIDATE, {"content": content, "source_name": "mine.yaml"}).json
    assert not found["valid"] and found["program"] is None
    (kind,) = [one for one in found["diagnostics"] if one["severity"] == "error"]
    assert kind["location"].startswith("mine.yaml:") and kind["line"] == 7 and "double" in kind["fix"]
    warned = ground.ask("POST", VALIDATE, {"content": content.replace("doubel", "double")}).json
    assert warned["valid"] and {one["severity"] for one in warned["diagnostics"]} == {"warning"}


def test_the_graph_of_a_text_is_that_of_the_playbook_it_becomes(ground):
    content = LOOPED.replace("demo/loops", "demo/drawn")
    drawn = ground.ask("POST", VALIDATE, {"content": content, "graph": True}).json["graph"]
    assert versions(ground) == [] and ground.kept == {}
    ground.ask("POST", REGISTER, {"content": content})
    kept = ground.ask("GET", "/api/catalog/demo/drawn/graph", query={"format": "json"}).json
    assert drawn == {name: kept[name] for name in ("entry", "final", "nodes", "edges")}
    assert [(one["name"], one["kind"]) for one in drawn["nodes"]] == [("start", "loop"), ("end", "step")]


def test_a_text_with_errors_has_no_graph_and_none_comes_unasked(ground):
    assert ground.ask("POST", VALIDATE, {"content": BROKEN, "graph": True}).json["graph"] is None
    assert ground.ask("POST", VALIDATE, {"content": HELLO}).json["graph"] is None


@pytest.mark.parametrize("path", [VALIDATE, FORMAT])
@pytest.mark.parametrize("content", ["", "- a", "a: [", "\t", "💥" * 3, "{{ x }}"])
def test_what_is_no_playbook_is_said_and_breaks_nothing(ground, path, content):
    reply = ground.ask("POST", path, {"content": content})
    assert reply.status in (200, 422), reply
    if reply.status == 422:
        assert reply.json["errors"] or reply.json["code"] == "not_a_playbook"
    elif path == VALIDATE:
        assert not reply.json["valid"] and reply.json["diagnostics"]


def test_a_playbook_is_formatted_as_the_command_does(ground):
    from noetl.formatting.format import format_text

    made = ground.ask("POST", FORMAT, {"content": HELLO}).json
    assert made["content"] == format_text(HELLO, source_name="x").text != HELLO and made["changed"]
    again = ground.ask("POST", FORMAT, {"content": made["content"]}).json
    assert again == {"content": made["content"], "changed": False}


def test_a_version_follows_the_one_that_its_writer_knows(ground):
    second, third = HELLO.replace("21", "22"), HELLO.replace("21", "23")
    assert ground.ask("POST", REGISTER, {"content": HELLO, "if_version": 0}).status == 201
    assert ground.ask("POST", REGISTER, {"content": second, "if_version": 1}).json["version"] == 2
    moved = ground.ask("POST", REGISTER, {"content": third, "if_version": 1})
    assert (moved.status, moved.json["code"], moved.json["details"]) == (409, "version_moved", {"latest": 2})
    assert versions(ground) == [2, 1]
    yaml = {"content-type": "application/yaml"}
    reply = ground.ask("POST", REGISTER, third, query={"if_version": "1"}, headers=yaml)
    assert reply.json["code"] == "version_moved"


def test_a_repeated_request_whose_answer_was_lost_is_answered_again(ground):
    ground.ask("POST", REGISTER, {"content": HELLO})
    second = {"content": HELLO.replace("21", "22"), "if_version": 1}
    assert [ground.ask("POST", REGISTER, second).json["version"] for _ in range(2)] == [2, 2]


@pytest.mark.parametrize("known", [-1, "1", 1.5, True])
def test_a_version_that_is_none_is_refused(ground, known):
    assert ground.ask("POST", REGISTER, {"content": HELLO, "if_version": known}).status in (409, 422)


def test_a_diagnostic_brings_the_change_that_it_suggests(ground):
    (kind,) = ground.ask("POST", VALIDATE, {"content": BROKEN}).json["diagnostics"]
    lines = BROKEN.split("\n")
    edit, line = kind["edit"], lines[kind["edit"]["line"] - 1]
    lines[edit["line"] - 1] = line[: edit["column"] - 1] + edit["text"] + line[edit["end_column"] - 1 :]
    assert ground.ask("POST", VALIDATE, {"content": "\n".join(lines)}).json["valid"]


def test_names_are_answered_to_those_who_ask(ground):
    assert ground.ask("POST", VALIDATE, {"content": HELLO}).json["names"] is None
    for content in (HELLO, BROKEN):
        names = ground.ask("POST", VALIDATE, {"content": content, "names": True}).json["names"]
        assert [step["step"] for step in names["steps"]] == ["start"]
    assert ground.ask("POST", VALIDATE, {"content": "a: [", "names": True}).json["names"] is None


def test_the_schema_of_playbooks_has_the_kinds_of_this_place(ground):
    from noetl.dsl.editors.schema import playbook_schema

    found = ground.ask("GET", "/api/schema/playbook").json
    assert found == playbook_schema(ground.deps.kinds())
    assert "double" in found["$defs"]["TaskBody"]["properties"]["kind"]["enum"]
