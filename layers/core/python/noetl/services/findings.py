"""What looking into an execution comes to."""

from __future__ import annotations

from typing import Literal

import msgspec

from noetl.services.external_changes import ExternalChange
from noetl.services.manage_limits import WaitView

Severity = Literal["error", "warning", "info"]


class Finding(msgspec.Struct, frozen=True):
    """``kind``: what it is, a stable word. ``next``: what to try, commands or words."""

    kind: str
    severity: Severity
    message: str
    step: str = ""
    run: int = 0
    next: tuple[str, ...] = ()


class Analysis(msgspec.Struct, frozen=True):
    """``verdict``: one sentence. ``findings``: the most serious first. ``stuck``: it will not go on without help."""

    execution_id: str
    status: str
    stuck: bool
    verdict: str
    findings: list[Finding]
    changes: list[ExternalChange]
    outstanding: dict[str, int]


def limited(wait: WaitView) -> Finding:
    """Something waits for a key that executions share."""
    return Finding(
        "waits_for_limit",
        "info",
        f"{f'step {wait.step}' if wait.step else 'the execution'} {wait.reason}",
        wait.step,
        wait.run,
        (f"`noetl limit list {wait.key}` shows who holds it", f"`noetl limit set {wait.key} …` changes it"),
    )
