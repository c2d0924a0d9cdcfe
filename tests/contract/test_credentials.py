"""The credentials file of a local run."""

from __future__ import annotations

import json
import os

import pytest

from noetl.adapters.embedded.credentials import FileCredentials
from noetl.domain.errors import TaskError

SECRET = "canary-7f3a"


def write(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    "text",
    [
        f"pg: {{type: postgres, data: {{password: {SECRET}, port: 5432, on: yes}}}}",
        json.dumps({"pg": {"type": "postgres", "data": {"password": SECRET, "port": 5432, "on": "yes"}}}),
    ],
)
def test_yaml_and_json_are_read(tmp_path, text):
    found = FileCredentials(write(tmp_path / "c.yaml", text)).get("pg", 1)
    assert (found.name, found.type, dict(found.data)) == (
        "pg",
        "postgres",
        {"password": SECRET, "port": 5432, "on": "yes"},
    )
    assert SECRET not in repr(found)


def test_a_changed_file_is_read_again(tmp_path):
    path = write(tmp_path / "c", "a: {type: t, data: {}}")
    store = FileCredentials(path)
    store.get("a", 1)
    write(path, "b: {type: t, data: {x: 1}}")
    os.utime(path, ns=(1, 1))
    assert store.get("b", 1).data == {"x": 1}
    with pytest.raises(TaskError):
        store.get("a", 1)


def test_an_unknown_name_tells_what_there_is(tmp_path):
    store = FileCredentials(
        write(tmp_path / "c", f"b: {{type: t, data: {{p: {SECRET}}}}}\na: {{type: t, data: {{}}}}")
    )
    with pytest.raises(TaskError) as caught:
        store.get("nope", 1)
    error = caught.value
    assert (error.kind, error.code, error.retryable) == ("auth", "credential_not_found", False)
    assert "'nope'" in str(error) and "known: a, b" in str(error) and SECRET not in str(error)
    with pytest.raises(TaskError, match="NOETL_CREDENTIALS"):
        FileCredentials(None).get("x", 1)


@pytest.mark.parametrize(
    "text",
    [
        "- a",
        "a: secret",
        "a: {type: t}",
        "a: {type: t, data: {}, extra: 1}",
        "a: {type: 1, data: {}}",
        "a: {type: t, data: [1]}",
        "a: {type: t, data: {x: [}",
        "a: &x {type: t, data: {y: *x}}",
        "[" * 100_000,
        "a: \x00",
        "#" * (1024 * 1024 + 1),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path, text):
    with pytest.raises(TaskError) as caught:
        FileCredentials(write(tmp_path / "c.yaml", text)).get("a", 1)
    assert caught.value.code == "credentials_file" and "c.yaml" in str(caught.value)


def test_a_missing_or_binary_file_says_so(tmp_path):
    with pytest.raises(TaskError, match="No such file"):
        FileCredentials(tmp_path / "gone").get("a", 1)
    (tmp_path / "bin").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TaskError) as caught:
        FileCredentials(tmp_path / "bin").get("a", 1)
    assert caught.value.code == "credentials_file"


def test_others_who_can_read_it_are_mentioned_once(tmp_path):
    lines = []
    store = FileCredentials(write(tmp_path / "c", "a: {type: t, data: {}}", 0o644), lines.append)
    store.get("a", 1)
    store.get("a", 1)
    assert len(lines) == 1 and "chmod 600" in lines[0]
    FileCredentials(write(tmp_path / "d", "a: {type: t, data: {}}"), lines.append).get("a", 1)
    assert len(lines) == 1
