"""Families whose derived execution ids meet: every child exists once, under an id of its own, and each is the one that was asked for."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from noetl.domain import ids
from noetl.ports.executions.execution_store import ExecutionFilter
from noetl.testing import play_case
from noetl.testing.play_case import Scenario

CHILD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: child, path: child }
workflow:
  - step: start
    tool: { kind: noop, args: { told: "{{ workload.n }}" } }
"""
WAITED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: main, path: main }
workflow:
  - step: start
    loop: { in: "{{ range(40) | list }}", iterator: n, spec: { mode: MODE, max_in_flight: 9 } }
    tool: { kind: playbook, path: child, payload: { n: "{{ iter.n }}" } }
    next: { arcs: [{ step: more }] }
  - step: more
    tool: { kind: playbook, path: child, payload: { n: 40 } }
"""
DETACHED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: main, path: main }
workflow:
  - step: start
    loop: { in: "{{ range(12) | list }}", iterator: n, spec: { mode: MODE } }
    tool:
      - a: { kind: playbook, path: child, wait: false, payload: { n: "{{ 2 * iter.n }}" } }
      - b: { kind: playbook, path: child, wait: false, payload: { n: "{{ 2 * iter.n + 1 }}" } }
      - both: { kind: noop, args: { a: "{{ a.execution_id }}", b: "{{ b.execution_id }}" } }
    next: { arcs: [{ step: more }] }
  - step: more
    tool:
      - call: { kind: http, url: "http://api.test/" }
      - c: { kind: playbook, path: child, wait: false, payload: { n: 24 } }
    next: { arcs: [{ step: again }] }
  - step: again
    tool: { kind: playbook, path: child, wait: false, payload: { n: 25 } }
"""
SUSPENDED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: main, path: main }
workflow:
  - step: start
    loop: { in: "{{ range(12) | list }}", iterator: n, spec: { mode: MODE } }
    tool:
      - a: { kind: playbook, path: child, wait: false, payload: { n: "{{ 2 * iter.n }}" } }
      - pause: { kind: wait, seconds: 1 }
      - b: { kind: playbook, path: child, wait: false, payload: { n: "{{ 2 * iter.n + 1 }}" } }
      - both: { kind: noop, args: { a: "{{ a.execution_id }}", b: "{{ b.execution_id }}" } }
"""
REMEMBERED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: main, path: main }
workflow:
  - step: start
    loop: { in: "{{ range(12) | list }}", iterator: n, spec: { mode: sequential } }
    tool:
      - pause: { kind: wait, seconds: "{{ 1 if iter.n in (4, 8) else 0 }}" }
      - seen: { kind: noop, args: { before: "{{ ctx.last | default('') }}" } }
      - a:
          kind: playbook
          path: child
          wait: false
          payload: { n: "{{ iter.n }}" }
          set_ctx: { last: "{{ outcome.result.execution_id }}" }
      - both: { kind: noop, args: { before: "{{ seen.before }}", a: "{{ a.execution_id }}" } }
"""


@pytest.fixture(autouse=True)
def crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 ids for the children of a family, until many in a row are taken."""
    monkeypatch.setattr(ids, "SPREAD_BITS", 6)


def perform(text: str, backend: Any, worker: Any) -> tuple[play_case.Observed, dict[int, Any]]:
    """Play ``text``; its children by id, each with what its workload says."""
    sources = {"main.yaml": text, "child.yaml": CHILD}
    seen = play_case.play(
        Scenario(sources, "main.yaml", tools={"more/call": [{"ok": True}]}), backend, worker
    )
    family = backend.store.executions(limit=100, wanted=ExecutionFilter(parent=seen.execution_id))
    asked = {one.execution_id: backend.store.slots(one.execution_id)["workload", "n"] for one in family}
    assert all(one.status == "completed" for one in family)
    return seen, asked


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_every_child_that_is_waited_for_runs_once_and_answers_its_own_parent(
    mode: str, backend: Any, worker: Any
) -> None:
    seen, asked = perform(WAITED.replace("MODE", mode), backend, worker)
    assert seen.status == "completed", seen.error
    assert sorted(asked.values()) == list(range(41))
    results = seen.driver.deps.store.slots(seen.execution_id)["step", "start"]["data"]["results"]
    assert [one["told"] for one in results] == list(range(40))


def fixed_root(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Give the next execution that is played a known id, so that the ids of its children meet in a known way."""
    monkeypatch.setattr(play_case, "_numbers", itertools.count(number))


@pytest.mark.parametrize(("mode", "root"), [("parallel", 1_000_031), ("sequential", 1_000_001)])
def test_the_id_that_a_task_was_given_is_that_of_the_child_it_started(
    mode: str, root: int, backend: Any, worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below these roots, both ids that item 0 is told are the same one at first, and other items' are those of their neighbours."""
    fixed_root(monkeypatch, root)
    seen, asked = perform(DETACHED.replace("MODE", mode), backend, worker)
    assert seen.status == "completed", seen.error
    assert sorted(asked.values()) == list(range(26))
    slots = backend.store.slots(seen.execution_id)
    check_items(asked, slots)
    assert asked[int(slots["step", "more"]["data"]["execution_id"])] == 24
    assert asked[int(slots["step", "again"]["data"]["execution_id"])] == 25


@pytest.mark.parametrize(("mode", "root"), [("parallel", 1_000_014), ("sequential", 1_000_015)])
def test_it_is_so_when_the_task_waits_between_two_children(
    mode: str, root: int, backend: Any, worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second child is asked for in another turn, whose machine tells of the first."""
    fixed_root(monkeypatch, root)
    seen, asked = perform(SUSPENDED.replace("MODE", mode), backend, worker)
    assert seen.status == "completed", seen.error
    assert sorted(asked.values()) == list(range(24))
    check_items(asked, backend.store.slots(seen.execution_id))


@pytest.mark.parametrize("root", [1_000_002, 1_000_003])
def test_later_items_of_a_sequential_loop_see_the_id_of_the_child(
    root: int, backend: Any, worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an item wrote is seen in the same report, and travels with the rest of the items."""
    fixed_root(monkeypatch, root)
    seen, asked = perform(REMEMBERED, backend, worker)
    assert seen.status == "completed", seen.error
    results = backend.store.slots(seen.execution_id)["step", "start"]["data"]["results"]
    assert [asked[int(one["a"])] for one in results] == list(range(12))
    assert [one["before"] for one in results] == ["", *(one["a"] for one in results[:-1])]


def check_items(asked: dict[int, Any], slots: Any) -> None:
    """Each item of the step ``start`` names the two children that it asked for."""
    told = [(int(one["a"]), int(one["b"])) for one in slots["step", "start"]["data"]["results"]]
    assert [(asked[a], asked[b]) for a, b in told] == [(2 * n, 2 * n + 1) for n in range(12)]


def test_a_start_that_a_client_asked_for_is_never_another_execution(backend: Any, worker: Any) -> None:
    """Both are told apart by what asked for them, whichever comes first."""
    seen, asked = perform(WAITED.replace("MODE", "parallel"), backend, worker)
    deps = seen.driver.deps
    child = next(iter(asked))
    from noetl.domain.events import Start
    from noetl.services.orchestrator.handle_events import handle_events

    before = backend.store.info(child)
    start = Start(child, ids.start_event("client"), seen.program.hash, "main")
    handled = handle_events([start], deps)
    assert handled.taken == {(child, start.event_id)}
    assert backend.store.info(child) == before
    assert not backend.store.find_events(child, [start.event_id])
    # A repeat of the Start that began it is no news.
    (first,) = backend.store.events(child, limit=1)
    again = Start(child, first.event_id, seen.program.hash, "child")
    assert not handle_events([again], deps).taken
