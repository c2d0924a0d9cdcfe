"""What `analyze` has to say of any execution: no state of it goes without a cause that a person can act on."""

from __future__ import annotations

import re
from collections.abc import Collection

from noetl.domain.state import TERMINAL
from noetl.ports.executions.execution_store import ExecutionInfo
from noetl.services.queries.analyze import Analysis, AnalyzeDeps, analyze

DEFECTS = frozenset({"orphan_token", "orphan_loop", "unreadable_row", "dead_letter"})
"""Kinds that tell of damage: where nothing was damaged, they are wrong."""
UNEXPLAINED = re.compile(
    r"\(no code\)$|: no message \(|has been running for -|the outside|failed \(see its history\)"
)


def check_explained(info: ExecutionInfo, deps: AnalyzeDeps, damage: Collection[str] = ()) -> Analysis:
    """Check the analysis of an execution (``check_analysis``), and return it."""
    found = analyze(info.execution_id, deps)
    check_analysis(found, f"{info.path}; {info.state!r}", damage)
    return found


def check_analysis(found: Analysis, about: str, damage: Collection[str] = ()) -> None:
    """Every execution that has not completed has a finding; it names a cause, and none is of damage that is not there.

    ``damage``: kinds of what the test has damaged.
    """
    where = f"{found.execution_id} is {found.status}: {found.findings}; {about}"
    assert found.findings or found.status == "completed", f"no cause is named; {where}"
    assert found.verdict and all(one.kind and one.message for one in found.findings), where
    wrong = [
        one for one in found.findings if one.kind in DEFECTS - set(damage) or UNEXPLAINED.search(one.message)
    ]
    assert not wrong, f"{wrong} of {where}"
    if found.status in ("failed", "cancelled"):
        assert found.findings[0].kind in ("failed_step", "failed_arc", "cancelled"), where
    assert found.status not in TERMINAL or not found.stuck, where
