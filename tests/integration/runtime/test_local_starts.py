"""Starts of one machine: each payload gets an execution of its own, whatever chance gives."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from noetl.runtime.local import starts
from noetl.runtime.local.early_starts import Begun
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from noetl.services.queries.read_execution import find
from tests.integration.runtime.test_local_ends import TEXT as TWO
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.postgres

TEXT = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: one, path: one }
workflow:
  - step: start
    tool: { kind: noop, args: { n: "{{ workload.n }}" } }
"""


@pytest.mark.parametrize("limit", ["", "executor: { spec: { concurrency: { key: k, limit: 50 } } }\n"])
def test_starts_that_draw_the_same_id_become_executions_of_their_own(
    limit: str, tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = itertools.chain([5, 5, 5, 9, 5, 9], itertools.count(10))
    monkeypatch.setattr(starts, "random_bits", lambda: next(drawn))
    monkeypatch.setattr(starts.time, "time_ns", lambda: 1_800_000_000_000_000_000)
    with LocalRuntime(Settings.from_env({}, home=tmp_path, database_url=database)) as runtime:
        entry = runtime.register(TEXT + limit, source_name="one.yaml")
        found = runtime.start_many(entry, [{"n": number} for number in range(3)])
        found.append(runtime.start(entry, {"n": 3}))
        runtime.run_until(found, timeout=PATIENCE)
        assert len(set(found)) == 4
        slots = [runtime.store.slots(one) for one in found]
        assert [one["workload", "n"] for one in slots] == [0, 1, 2, 3]
        infos = [find(runtime.store, one) for one in found]
        assert [info.playbook_version for info in infos] == [str(entry.version)] * 4


def nothing_begins_early(runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command is dispatched after its commit."""
    monkeypatch.setattr(runtime._early, "begin", lambda changes: Begun())


@pytest.mark.parametrize("failing", [1, 2])
def test_what_was_committed_and_could_not_be_begun_is_begun_later(
    failing: int, tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the client's own thread hands it on (the first time), or the engine's."""
    with LocalRuntime(Settings.from_env({}, home=tmp_path, database_url=database)) as runtime:
        nothing_begins_early(runtime, monkeypatch)
        times, pass_on = itertools.count(1), runtime.offers.pass_on

        def broken(commands, later):  # type: ignore[no-untyped-def]
            if commands and next(times) == failing:
                raise ValueError("a defect")
            return pass_on(commands, later)

        monkeypatch.setattr(runtime.offers, "pass_on", broken)
        monkeypatch.setattr(runtime._ahead, "of", lambda batch: None)
        entry = runtime.register(TWO, source_name="two.yaml")
        found = [runtime.start(entry, {})]
        runtime.run_until(found, timeout=PATIENCE)
        assert [runtime.status(one) for one in found] == ["completed"]
        assert next(times) > failing, "nothing failed"


THREE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: three, path: three }
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }, { step: c }] }
  - { step: a, tool: { kind: python, args: { name: a }, code: "result = name" } }
  - { step: b, tool: { kind: python, args: { name: b }, code: "result = name" } }
  - { step: c, tool: { kind: python, args: { name: c }, code: "result = name" } }
"""


class PanicError(BaseException):
    """What a compiled library raises."""


@pytest.mark.parametrize("error", [ValueError, PanicError])
def test_what_was_begun_before_a_defect_is_not_given_back(
    error: type[BaseException], tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three commands of one commit the second breaks: the first, which a thread has, runs once, and all come to an end."""
    lines: list[str] = []
    settings = Settings.from_env({}, home=tmp_path, database_url=database)
    with LocalRuntime(settings, on_log=lines.append) as runtime:
        nothing_begins_early(runtime, monkeypatch)
        hand_over, given_back = runtime.store.hand_over, []
        numbers, submit = itertools.count(1), runtime.pools["python"].submit

        def broken(command, apart=False):  # type: ignore[no-untyped-def]
            if next(numbers) == 2:
                raise error("a defect")
            submit(command, apart)

        def told(owner, gone, left):  # type: ignore[no-untyped-def]
            given_back.append([one.step for one in left.commands])
            hand_over(owner, gone, left)

        monkeypatch.setattr(runtime.pools["python"], "submit", broken)
        monkeypatch.setattr(runtime.store, "hand_over", told)
        execution = runtime.start(runtime.register(THREE, source_name="three.yaml"), {})
        runtime.run_until([execution], timeout=PATIENCE)
        assert runtime.status(execution) == "completed"
        assert next(numbers) > 3 and given_back == [["b", "c"]], lines
        wait_until(runtime._quiet, "the end of all that counts as under way")
