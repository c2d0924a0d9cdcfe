"""What `noetl local` prints for people to paste."""

from __future__ import annotations

import shlex

import pytest

from noetl.local import stack
from noetl.local.state import State


def test_the_printed_address_of_another_emulator_can_be_pasted_into_a_shell(
    noetl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stage is called $default, which a shell would take for a variable."""
    api = "http://127.0.0.1:4566/_aws/execute-api/abc/$default"
    state = State(environment="local", project=".", endpoint="http://127.0.0.1:4566", api=api)
    monkeypatch.setattr(stack, "up", lambda place, options, progress: state)
    monkeypatch.setattr(stack, "ignored", lambda place: {})
    ran = noetl("local", "up", "--endpoint", "http://127.0.0.1:4566")
    (line,) = [line for line in ran.out.splitlines() if line.startswith("  curl")]
    assert "'" in line and shlex.split(line) == ["curl", f"{api}/health"]
