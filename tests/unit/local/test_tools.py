"""Tools are made once, missing ones are told, and nothing of the caller's AWS environment gets through."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from noetl.domain.errors import InfrastructureError
from noetl.local import deploy, emulator, tools
from noetl.local.layout import Layout
from tests.parts import over


def test_the_end_of_a_failed_tools_output_is_shown(tmp_path: Path) -> None:
    log, seen = tmp_path / "log", []
    code = "import sys\nfor i in range(100): print('line', i)\nsys.exit(7)"
    with pytest.raises(InfrastructureError, match=r"the tool failed \(exit 7\)") as caught:
        tools.run([sys.executable, "-c", code], "the tool", cwd=tmp_path, log=log, watch=seen.append)
    assert "line 99" in caught.value.message and "line 10\n" not in caught.value.message
    assert len(seen) == 100
    assert log.read_text().splitlines() == seen
    assert str(log) in str(caught.value.hint)


def test_errors_are_told_although_many_lines_follow_them(tmp_path: Path) -> None:
    code = "print('ERROR a policy is too wide\\n   Stack/Policy'); print('WARNING again\\n' * 200); raise SystemExit(1)"
    with pytest.raises(InfrastructureError) as raised:
        tools.run([sys.executable, "-c", code], "the tool", cwd=tmp_path)
    assert (
        "errors:\nERROR a policy is too wide\n   Stack/Policy\nthe end of its output:\nWARNING again"
        in str(raised.value)
    )


def test_a_folder_is_made_once_and_again_when_that_failed(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "tool"
    with pytest.raises(RuntimeError), tools._making(folder) as missing:
        assert missing
        (folder / "half").touch()
        raise RuntimeError("killed")
    with tools._making(folder) as missing:
        assert missing
        assert not (folder / "half").exists()
        (folder / "whole").touch()
    with tools._making(folder) as missing:
        assert not missing
    assert (folder / "whole").exists()


def test_missing_node_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfrastructureError, match="node is not installed") as caught:
        tools.check_node()
    assert not caught.value.retryable and "install Node" in str(caught.value.hint)


def test_old_node_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("node", "npm"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\necho v16.1.0\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfrastructureError, match=r"Node is v16\.1\.0"):
        tools.check_node()


@pytest.mark.parametrize("name", ["emulator", "functions"])
def test_every_requirement_is_pinned_with_hashes(name: str) -> None:
    wanted = (tools.REQUIREMENTS / f"{name}.in").read_text().split("\n")
    locked = (tools.REQUIREMENTS / f"{name}.txt").read_text()
    names = {line.split("==")[0] for line in wanted if line and not line.startswith("#")}
    pinned = {line.split("==")[0] for line in locked.splitlines() if "==" in line and line[0] != " "}
    assert names <= pinned
    entries = locked.replace("\\\n", "").splitlines()
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in locked


def test_functions_see_nothing_of_the_callers_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("NOETL_DATABASE_URL", "postgresql://secret")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    seen = emulator.environment(Layout(tmp_path), 4600, tmp_path / "node_modules")
    assert {"AWS_PROFILE", "NOETL_DATABASE_URL", "PYTHONPATH"}.isdisjoint(seen)
    assert seen["GATEWAY_PORT"] == "4600" and seen["BIND_HOST"] == "127.0.0.1"


def test_the_cdk_cannot_reach_the_callers_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://elsewhere")
    seen = deploy.environment("http://127.0.0.1:4600")
    assert "AWS_PROFILE" not in seen and "AWS_ENDPOINT_URL_S3" not in seen
    assert seen["AWS_ENDPOINT_URL"] == "http://127.0.0.1:4600"
    assert seen["PATH"].startswith(str(Path(sys.executable).parent))


@pytest.mark.parametrize(
    ("outputs", "ours", "expected"),
    [
        (
            {"A": {"Other": "x"}, "B": {"Url": "http://ab12.execute-api.127.0.0.1:1/"}},
            True,
            "http://e/_aws/execute-api/ab12",
        ),
        (
            {"B": {"Url": "https://ab12.execute-api.localhost.localstack.cloud:4566"}},
            False,
            "http://e/_aws/execute-api/ab12/$default",
        ),
        ({"B": {"Url": "https://example.com/execute-api/x"}}, True, None),
    ],
)
def test_the_api_is_reached_by_path(
    outputs: dict[str, dict[str, str]], ours: bool, expected: str | None
) -> None:
    assert deploy.api_url(outputs, "http://e", ours) == expected


@over(
    ("answers", "wanted"),
    [
        ([(502, "starting"), None, (200, "")], None),
        ([(404, "no such API")], "404: no such API"),
        ([(503, "migrating")], "503: migrating"),
        ([None], "no server answers"),
    ],
)
def test_ready_is_waited_for(monkeypatch: pytest.MonkeyPatch, answers: list[Any], wanted: str | None) -> None:
    monkeypatch.setattr(deploy, "READY_SECONDS", 0.1)
    monkeypatch.setattr(deploy, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(deploy, "ask", lambda *_, **__: answers.pop(0) if len(answers) > 1 else answers[0])
    if wanted is None:
        deploy.wait_ready("http://127.0.0.1:1/api")
        return
    with pytest.raises(InfrastructureError, match=wanted) as caught:
        deploy.wait_ready("http://127.0.0.1:1/api")
    assert ("up deploys again" in str(caught.value.hint)) == (wanted[:3] == "404")
