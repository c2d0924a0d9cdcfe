"""Cases whose tasks are code, on a machine that has no layer of confinement: the code does the same, and leaves the same history."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Any

import pytest

from noetl.kinds.sandbox import pool, process
from noetl.kinds.sandbox.layers import SWITCHES, WITHOUT, Layers
from noetl.kinds.sandbox.pool import ChildPool
from noetl.testing.memory import real_worker
from tests.conformance.cases import Case, compact, find_cases, load_history, play, sources_of
from tests.conformance.memory import ExplainedBackend
from tests.conformance.test_conformance import check_outcome, check_tools
from tests.parts import parted

CODE = re.compile(r"kind: *(python|shell|script)\b")
CASES = {
    case.name: case for case in find_cases() if any(CODE.search(text) for text in sources_of(case).values())
}
SAMPLE = ("results/python-shapes",)


def answered(case: Case) -> bool:
    """Whether a script may answer its tasks of code, so that none of them has to run."""
    return bool(case.spec.get("tools"))


@pytest.mark.parametrize("name", parted(CASES, SAMPLE))
def test_code_does_the_same_without_layers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Layers] = []
    real = process.layers

    def layers() -> Layers:
        used.append(real())
        return used[-1]

    monkeypatch.setenv(WITHOUT, ",".join(SWITCHES))
    monkeypatch.setattr(process, "layers", layers)
    case = CASES[name]
    backend = ExplainedBackend()
    with closing(
        ChildPool(4)
    ) as children:  # no process that an execution before has left for others of its playbook
        monkeypatch.setattr(pool, "_shared", children)
        seen: Any = play(case, backend, real_worker)
    check_tools(seen, case)
    check_outcome(seen, case.expect)
    assert {path: compact(steps) for path, steps in seen.histories.items()} == load_history(case)
    assert used or answered(case), "no task of this case ran as code"
    assert not any(one.confines_files or one.socket_filter or one.supervisor for one in used)
