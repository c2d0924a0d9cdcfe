"""What `analyze` has to say of any execution: no state of it goes without a cause that a person can act on."""

from __future__ import annotations

import re

from noetl.domain.state import TERMINAL
from noetl.ports.executions.execution_store import ExecutionInfo
from noetl.services.queries.analyze import AnalyzeDeps, analyze

DEFECTS = frozenset({"orphan_token", "orphan_loop", "unreadable_row", "dead_letter"})
"""Kinds that tell of damage: where nothing was damaged, they are wrong."""
UNEXPLAINED = re.compile(
    r"\(no code\)$|: no message \(|has been running for -|the outside|failed \(see its history\)"
)


def check_explained(info: ExecutionInfo, deps: AnalyzeDeps) -> None:
    """Every execution that has not completed has a finding; it names a cause, and none is of damage that is not there."""
    found = analyze(info.execution_id, deps)
    where = f"{info.path} is {info.status}: {found.findings}"
    assert found.findings or info.status == "completed", f"no cause is named; {info.state!r}; {where}"
    assert found.verdict and all(one.kind and one.message for one in found.findings), where
    wrong = [one for one in found.findings if one.kind in DEFECTS or UNEXPLAINED.search(one.message)]
    assert not wrong, f"{wrong} of {where}"
    if info.status in ("failed", "cancelled"):
        assert found.findings[0].kind in ("failed_step", "failed_arc", "cancelled"), where
    assert info.status not in TERMINAL or not found.stuck, where
