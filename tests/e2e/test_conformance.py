"""Conformance cases on the deployment: started together through its API, each with the outcome and the history that local runs have.

Left to local runs are cases whose tools answer from a script, or whose happenings need virtual time.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from noetl.testing.playing import per_step_run
from tests.conformance.cases import Case, compact, find_cases, load_history
from tests.conformance.test_conformance import check_outcome
from tests.e2e.remote import Remote, Run

AT_ONCE = 8
LONGEST = 10
"""Seconds that a case may wait for."""


def _fits(case: Case) -> bool:
    return (
        not case.spec.get("tools")
        and case.expect.get("elapsed", 0) <= LONGEST
        and all(happening.get("when") == "idle" for happening in case.spec.get("happenings", ()))
    )


CASES = {case.name: case for case in find_cases() if _fits(case)}


@pytest.fixture(scope="module")
def started(remote: Remote) -> dict[str, str]:
    """Execution ids by case. All are registered first, so that they run at the same time."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        made = dict(zip(CASES, pool.map(lambda case: _register(remote, case), CASES.values()), strict=True))
        ids = pool.map(
            lambda case: remote.start(playbook_id=made[case.name], payload=case.spec.get("payload", {})),
            CASES.values(),
        )
        return dict(zip(CASES, ids, strict=True))


def _register(remote: Remote, case: Case) -> str:
    files = [file for file in case.folder.glob("*.yaml") if file.name not in ("case.yaml", "history.yaml")]
    made = {file.name: remote.register(file.read_text()) for file in files}
    found: str = made["playbook.yaml"]["catalog_id"]
    return found


@pytest.mark.parametrize("name", CASES)
def test_case(name: str, remote: Remote, started: dict[str, str]) -> None:
    case = CASES[name]
    run = remote.follow(started[name])
    for happening in case.spec.get("happenings", ()):
        _happen(remote, run.execution_id, happening)
        run = remote.follow(run.execution_id)
    for child in remote.family(run.execution_id):
        remote.follow(child["execution_id"])
    family = remote.family(run.execution_id)
    check_outcome(_Seen(case, run, family), case.expect)
    assert _histories(remote, run, family) == load_history(case)


def _happen(remote: Remote, execution_id: str, happening: Any) -> None:
    place = f"/api/executions/{execution_id}"
    reason = happening.get("reason", "")
    known = len(remote.events(execution_id))
    if "patch" in happening:
        asked = ("PATCH", f"{place}/ctx", {"patch": happening["patch"], "reason": reason})
    elif "token" in happening:
        asked = ("POST", f"{place}/tokens", {**happening["token"], "reason": reason})
    else:
        asked = ("POST", f"{place}/cancel", {"reason": happening["cancel"]})
    if remote.status(execution_id)["ended"]:
        assert remote.deployment.api(*asked).status == 409
        return
    assert remote.deployment.api(*asked).status == 202
    remote.deployment.wait(
        lambda: len(remote.events(execution_id)) > known, 30, f"{happening} of {execution_id}"
    )


def _histories(remote: Remote, run: Run, family: list[dict[str, Any]]) -> dict[str, dict[str, list[str]]]:
    """Of the execution and its descendants, with step runs and numbers in the place of ids and times."""
    told = {"": compact(per_step_run(run.events))}
    numbers = {remote.status(run.execution_id)["path"]: 1}
    for child in family:
        number = numbers[child["path"]] = numbers.get(child["path"], 0) + 1
        events = remote.events(child["execution_id"])
        told[f"{child['path']}#{number}"] = compact(per_step_run(events))
    return told


class _Seen:
    """What ``check_outcome`` looks at; slots are read when a case says something about them."""

    def __init__(self, case: Case, run: Run, family: list[dict[str, Any]]) -> None:
        self.status, self.result, self.error = run.status, run.result, run.error
        self.executions: dict[str, list[str]] = {}
        for child in family:
            self.executions.setdefault(child["path"], []).append(child["status"])
        self._slots: Callable[[str], Any] = run.slots

    @property
    def ctx(self) -> Any:
        return self._slots("ctx")

    @property
    def vars(self) -> Any:
        return self._slots("vars")
