"""Commands that no worker of a machine can run: what is away for now is waited for, what will not pass by itself ends the call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError
from noetl.domain.events import CommandDone
from noetl.runtime.local.process import BROKEN_TRIES, LocalRuntime
from noetl.runtime.settings import Settings

COMMAND = Command(7, "1", 1, "load", "p", "io")


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (InfrastructureError("s3 does not answer"), None),
        (
            InfrastructureError("s3: access denied", hint="it needs s3:PutObject", retryable=False),
            BROKEN_TRIES,
        ),
        (ValueError("a defect"), BROKEN_TRIES),
    ],
)
def test_what_will_not_pass_by_itself_is_answered(tmp_path, error: Exception, tries: int | None) -> None:
    runtime: Any = LocalRuntime(Settings(home=tmp_path))
    delayed: list[float] = []
    answers: list[CommandDone] = []
    lines: list[str] = []
    runtime.keeper = SimpleNamespace(delay=lambda command: delayed.append(command.delay))
    runtime.emit, runtime.log = answers.append, lines.append
    while len(delayed) < 12 and not answers:
        runtime._again(COMMAND, error)
    assert len(delayed) == (12 if tries is None else tries - 1) and max(delayed) <= 10.0
    assert [one.outcome.error.code for one in answers] == ([] if tries is None else ["worker_lost"])
    assert all(str(error) in line for line in lines) and all(
        str(error) in a.outcome.error.message for a in answers
    )
