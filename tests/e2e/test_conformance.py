"""Conformance cases on the deployment: started together through its API, each with the outcome and the history that local runs have.

Tools answer from the case's script (see ``script_server``), delays and what comes from outside take the time that they take.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec
import psycopg
import pytest

from noetl.domain.errors import InfrastructureError
from noetl.domain.event_names import TERMINAL_EVENTS
from noetl.domain.state import TERMINAL
from noetl.ports.executions.execution_store import ExecutionInfo
from noetl.services.history.read_history import HistoryEvent
from noetl.testing.play_case import per_step_run
from noetl.testing.scripted import Script
from tests.conformance.cases import NOT_PLAYBOOKS, Case, compact, find_cases, load_history
from tests.conformance.test_conformance import check_flow, check_laws, check_outcome, check_tools
from tests.conformance.test_events import check_envelope
from tests.e2e.remote import Remote
from tests.e2e.script_server import Played, ScriptServer, serving
from tests.parts import parted, sampled
from tests.waiting import PATIENCE, wait_until

AT_ONCE = 8
LONGEST = 16
"""Seconds that a case may wait for."""

LOOKS = (0.0, 0.1, 0.3, 1.0)
"""Pauses before `analyze` explains a case that runs by itself."""

_RACES = "work in it has to be done before a moment comes, which a busy machine does not promise"
_PAUSED = "how long it stands still is virtual time, and a paused execution is never idle from outside"
_LONG = "it waits for longer than a test may, which is virtual time"
_WOKEN = "what wakes it is an event of ECS, which the emulator does not have"
_ANSWERED = "who answers a callback is the example approval_link here, on its page"


def _reason(case: Case) -> str:
    """Why a case is not played here; empty: it is."""
    happenings = case.spec.get("happenings", ())
    if any("callback" in happening for happening in happenings):
        return _ANSWERED
    if any("wake" in happening for happening in happenings):
        return _WOKEN
    if case.spec.get("clock") == "virtual":
        return _RACES
    if max([case.expect.get("elapsed", 0), *(one.get("at", 0) for one in happenings)]) > LONGEST:
        return _LONG
    paused = ("cancel-while-paused", "parked-while-paused", "token-while-paused")
    return _PAUSED if case.name in {f"control/{name}" for name in paused} else ""


ALL = {case.name: case for case in find_cases()}
LOCAL_ONLY = {name: reason for name, case in ALL.items() if (reason := _reason(case))}
CASES = {name: case for name, case in ALL.items() if name not in LOCAL_ONLY}


def test_what_is_not_played_here() -> None:
    """What is no matter of time has tests of its own on the deployment: test_control, test_redrive, test_limits, approval_link."""
    others = {name for name, reason in LOCAL_ONLY.items() if reason not in (_RACES, _LONG)}
    assert {name.partition("/")[0] for name in others} == {
        "concurrent",
        "control",
        "endings",
        "policy",
        "polls",
        "wait",
    }
    assert len(LOCAL_ONLY) < len(ALL) // 5


GOING_ON = """
    WITH RECURSIVE family AS (
        SELECT execution_id FROM noetl.execution WHERE execution_id = %(root)s AND version > 0
        UNION ALL
        SELECT e.execution_id FROM noetl.execution e JOIN family f ON e.parent_execution_id = f.execution_id
    )
    SELECT EXISTS (SELECT FROM family),
           (SELECT count(*) FROM noetl.command c JOIN family USING (execution_id)
            WHERE NOT c.waiting AND c.not_before <= clock_timestamp()),
           (SELECT count(*) FROM noetl.outbox o JOIN family USING (execution_id))
           + (SELECT count(*) FROM noetl.timer t JOIN family USING (execution_id) WHERE t.fire_at <= clock_timestamp())
"""
"""Of a family: whether it has begun, its commands that are due, events and timers that are due."""


@pytest.fixture(scope="module")
def stage(remote: Remote, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """All selected cases, started: those that hold a worker up one by one, those that wait for time after all others."""
    selected = {
        item.callspec.params["name"]
        for item in request.session.items
        if item.path == request.path and hasattr(item, "callspec")
    }
    server = ScriptServer(lambda execution_id: _parent(remote, execution_id))
    with serving(server, remote.deployment.home), Stage(remote, server) as stage:
        cases = [case for name, case in CASES.items() if name in selected]
        holding = [case for case in cases if "held" in case.spec]
        waiting = [case for case in cases if _waits(case) and case not in holding]
        for case in holding:
            stage.start([case])
            stage.playing[case.name][1].result(PATIENCE)
        stage.start(case for case in cases if case not in holding and case not in waiting)
        stage.start(waiting)
        yield stage


def _waits(case: Case) -> bool:
    """For time, or for something that has to come at the right moment."""
    return bool(case.spec.keys() & {"happenings", "held", "timing_matters"}) or "elapsed" in case.expect


def _parent(remote: Remote, execution_id: int) -> int | None:
    def looked_up() -> tuple[ExecutionInfo | None] | None:
        try:
            return (remote.store.info(execution_id),)
        except InfrastructureError:  # too many ask at the same time
            return None

    (info,) = wait_until(looked_up, "an answer of the database")
    return info.parent_execution_id if info is not None else None


class Stage:
    """Plays cases. What comes from outside comes from a thread per case."""

    def __init__(self, remote: Remote, server: ScriptServer) -> None:
        self.remote = remote
        self.server = server
        self.pool = ThreadPoolExecutor(AT_ONCE)
        self.outside = ThreadPoolExecutor(max_workers=len(CASES))
        self.playing: dict[str, tuple[Played, Future[None]]] = {}
        self.database = psycopg.connect(remote.deployment.database(), autocommit=True)
        self.looking = threading.Lock()

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *error: object) -> None:
        self.pool.shutdown()
        self.outside.shutdown(cancel_futures=True)
        self.database.close()

    def start(self, cases: Iterable[Case]) -> None:
        """Register all of them, then start them at once, and return when most of it is over."""
        wanted = list(cases)
        ids = list(self.pool.map(self._register, wanted))
        started = list(self.pool.map(self._start, wanted, ids))
        wait_until(lambda: not any(self._runs(played) for played in started), "the end of most cases")

    def _register(self, case: Case) -> str:
        files = [file for file in case.folder.glob("*.yaml") if file.name not in NOT_PLAYBOOKS]
        made = {file.name: self.remote.register(file.read_text()) for file in files}
        found: str = made["playbook.yaml"]["catalog_id"]
        return found

    def _start(self, case: Case, catalog_id: str) -> Played:
        with self.server.starting():
            execution_id = self.remote.start(playbook_id=catalog_id, payload=case.spec.get("payload", {}))
            played = self.server.assign(case, int(execution_id))
        self.playing[case.name] = (played, self.outside.submit(self._attend, played, time.monotonic()))
        return played

    def _runs(self, played: Played) -> bool:
        """Whether it goes on without anybody's help, and soon."""
        if _waits(played.case):
            return False
        return self.remote.store.info(played.execution_id).status == "running"

    # --- what comes from outside ---

    def _attend(self, played: Played, begun: float) -> None:
        """Bring about every happening of the case at its moment. `analyze` explains its executions before each one, and now and then."""
        execution_id = str(played.execution_id)
        for happening in played.case.spec.get("happenings", ()):
            self._wait_for_moment(played, happening, begun)
            self.remote.explain_family(execution_id)
            self._happen(played, happening)
            self.server.tell(played, happened=1)
        if played.case.spec.get("held"):
            self._wait_until_idle(played)
            self.remote.explain_family(execution_id)
            self.server.tell(played, released=True)
        for pause in LOOKS:
            time.sleep(pause)
            self.remote.explain_family(execution_id)
            if self.remote.store.info(played.execution_id).status in TERMINAL:
                break

    def _wait_for_moment(self, played: Played, happening: Mapping[str, Any], begun: float) -> None:
        execution_id = str(played.execution_id)
        if "at" in happening:
            time.sleep(max(0.0, begun + happening["at"] - time.monotonic()))
            self._wait_until_idle(played)
        elif happening["when"] == "idle":
            wait_until(lambda: self.remote.settled(execution_id), "idleness")
        else:
            assert self.server.wait_calls(played, happening["when"]["calls"], PATIENCE)
            self._wait_until_idle(played)

    def _wait_until_idle(self, played: Played) -> None:
        wait_until(lambda: self._is_idle(played), f"idleness of {played.execution_id}")

    def _is_idle(self, played: Played) -> bool:
        """Whether nothing goes on in its family before time passes or the script answers a call that it holds back.

        A call that is held back may be of a command that was dropped meanwhile.
        """
        held = self.server.held(played)
        with self.looking:
            found = self.database.execute(GOING_ON, {"root": played.execution_id}).fetchone()
        assert found is not None
        begun, commands, others = found
        return bool(begun) and commands in (0, held) and not others

    def _happen(self, played: Played, happening: Mapping[str, Any]) -> None:
        remote, execution_id = self.remote, str(played.execution_id)
        place, reason = f"/api/executions/{execution_id}", happening.get("reason", "")
        known = len(remote.events(execution_id))
        if "patch" in happening:
            asked = ("PATCH", f"{place}/ctx", {"patch": happening["patch"], "reason": reason})
        elif "token" in happening:
            asked = ("POST", f"{place}/tokens", {**happening["token"], "reason": reason})
        else:
            what = next(one for one in ("cancel", "pause", "resume", "redrive") if one in happening)
            body = (
                {"from": happening[what].get("step", "failure"), "args": happening[what].get("args")}
                if what == "redrive"
                else {"reason": happening[what], "cascade": happening.get("cascade", True)}
            )
            asked = ("POST", f"{place}/{what}", body)
        if remote.status(execution_id)["ended"] and "redrive" not in happening:
            assert remote.deployment.api(*asked).status == 409
            return
        assert remote.deployment.api(*asked).status == 202
        wait_until(lambda: len(remote.events(execution_id)) > known, f"{happening} of {execution_id}")


@pytest.mark.parametrize("name", parted(CASES, sorted(sampled(CASES))[::4]))
def test_case(name: str, stage: Stage) -> None:
    played, outside = stage.playing[name]
    outside.result(PATIENCE)
    seen = Seen(stage.remote, played)
    case = played.case
    check_laws(seen, stage.remote, case)
    stage.remote.explain_family(seen.run.execution_id)
    for event in seen.run.events:
        check_envelope(msgspec.to_builtins(event))
    if "timing_matters" in case.spec:
        assert seen.status == case.expect["status"]
        return
    check_tools(seen, case, all_used="timing_shows" not in case.spec)
    check_outcome(seen, case.expect)
    check_flow(seen, {key: wanted for key, wanted in case.expect.items() if key != "elapsed"}, 0.0)
    if "elapsed" in case.expect:
        assert seen.elapsed >= case.expect["elapsed"] - 0.05, "not before its time"
    if "timing_shows" not in case.spec:
        found = {name: compact(steps) for name, steps in seen.histories.items()}
        assert _as_timed(found, case) == _as_timed(load_history(case), case)


TRIES = {"retry.scheduled", "retry.processed", "task.started", "task.done"} | {
    f"command.{name}" for name in ("issued", "claimed", "started")
}
TIMERS = {"timer.set", "timer.fired"}
OUTCOMES = {"call.done", "call.error", "loop.done"}


def _as_timed(histories: Mapping[str, Mapping[str, list[str]]], case: Case) -> Any:
    """How far something has come when its time is over, and in how many tries, is a matter of real time: it is left out."""
    if "elapsed" not in case.expect:
        return histories
    return {name: {key: _timed(names) for key, names in steps.items()} for name, steps in histories.items()}


def _timed(names: list[str]) -> list[str]:
    """A run that was dropped is told by its boundaries, and one that came to an end without its tries after the first."""
    known = [name for name in names if name not in TIMERS]
    if "command.issued" in known:
        last = len(known) - known[::-1].index("command.issued")
        if not OUTCOMES & set(known[last:]):
            return [name for name in known if name.split(".")[0] in ("step", "next")]
    if "retry.scheduled" not in known:
        return known
    first = known.index("retry.scheduled")
    return known[:first] + [name for name in known[first:] if name not in TRIES]


class Seen:
    """What the checks of local runs look at, of an execution on the deployment."""

    def __init__(self, remote: Remote, played: Played) -> None:
        self.remote = remote
        self.execution_id = played.execution_id
        self.run = remote.follow(str(played.execution_id))
        self.status, self.result, self.error = self.run.status, self.run.result, self.run.error
        self.tools: Script = played.script
        self.left = list(played.case.spec.get("happenings", ()))[played.happened :]
        self.family = remote.family(self.run.execution_id)
        for child in self.family:
            remote.follow(child["execution_id"])

    @cached_property
    def events(self) -> dict[int, list[HistoryEvent]]:
        """By execution; descendants are over by now."""
        told = {self.execution_id: self.run.events}
        for child in self.family:
            told[int(child["execution_id"])] = self.remote.events(child["execution_id"])
        return told

    @property
    def executions(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for child in self.remote.family(self.run.execution_id):
            found.setdefault(child["path"], []).append(child["status"])
        return found

    @property
    def histories(self) -> dict[str, dict[str, list[str]]]:
        """With step runs and numbers in the place of ids and times."""
        told = {"": per_step_run(self.run.events)}
        numbers = {self.remote.status(self.run.execution_id)["path"]: 1}
        for child in self.family:
            number = numbers[child["path"]] = numbers.get(child["path"], 0) + 1
            told[f"{child['path']}#{number}"] = per_step_run(self.events[int(child["execution_id"])])
        return told

    @property
    def elapsed(self) -> float:
        """Seconds from the first event to the last one."""
        end = next(event for event in self.run.events if event.event_type in TERMINAL_EVENTS)
        begin = datetime.fromisoformat(self.run.events[0].timestamp)
        return (datetime.fromisoformat(end.timestamp) - begin).total_seconds()

    @property
    def ctx(self) -> dict[str, Any]:
        return self.run.slots("ctx")

    @property
    def vars(self) -> dict[str, Any]:
        return self.run.slots("vars")

    def runs(self, step: str) -> int:
        return self.run.entered(step)
