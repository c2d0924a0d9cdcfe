"""The cache of task results: what a worker takes from it, and what it never gives."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import msgspec
import pytest

from noetl.adapters.memory.results import MemoryResultStore
from noetl.adapters.memory.task_cache import MemoryTaskCache
from noetl.domain.commands import Command, FrozenScope
from noetl.domain.errors import InfrastructureError
from noetl.domain.kinds import TaskContext, TaskResult
from noetl.domain.outcomes.outcomes import Outcome
from noetl.ports.task_cache import CachedResult
from tests.parts import over
from tests.unit.services.worker.test_run_command import CANARY, Worker

CACHED = "workflow:\n  - step: s\n    tool: { kind: tool, v: 1, cache: 1h }\n"
PATH = {"path": "etl/daily"}


class Cached:
    """A worker with a cache, whose tool counts its calls. Each run is an execution of its own."""

    def __init__(self, body: str = CACHED, answer: Any = None, cache: Any = None) -> None:
        self.calls = 0
        self.answer = answer or (lambda calls, context: {"call": calls})
        self.now = 1000.0
        self.worker = Worker(body, self._tool, cache=cache or MemoryTaskCache(), now=lambda: self.now)
        self.results: MemoryResultStore = self.worker.results
        self.executions = 100

    def _tool(self, params: dict[str, object], context: TaskContext) -> Any:
        self.calls += 1
        return self.answer(self.calls, context)

    def run(self, **fields: Any) -> Outcome:
        self.executions += 1
        job = fields.pop("job", PATH)
        scope = FrozenScope(job=job, **fields.pop("scope", {}))
        command: Command = self.worker.command(scope=scope, **fields)
        return self.worker.outcome(msgspec.structs.replace(command, execution_id=self.executions))


def test_a_hit_says_whose_result_it_is_and_the_task_is_not_run():
    cached = Cached()
    first, second = cached.run(), cached.run()
    assert (first.result, second.result, cached.calls) == ({"call": 1}, {"call": 1}, 1)
    source = {"execution_id": "101", "step": "s", "run": 1, "at": "1970-01-01T00:16:40.000Z"}
    assert second.meta["cached"] == source and "cached" not in first.meta
    assert [(one.name, one.payload) for one in second.trace] == [("task.cached", source)]


def test_a_result_counts_from_the_call_that_made_it_and_for_one_playbook_and_start():
    cached = Cached()
    cached.run()
    assert cached.run(job={"path": "another"}).result == {"call": 2}
    assert cached.run(job={**PATH, "no_cache": True}).result == {"call": 3}
    assert cached.run().result == {"call": 3}, "a start without the cache still fills it"
    cached.now += 3599
    assert cached.run().result == {"call": 3}
    cached.now += 2
    assert cached.run().result == {"call": 4}


def test_a_result_whose_execution_was_removed_is_made_again():
    cached = Cached(answer=lambda calls, context: {"call": calls, "large": "x" * 100_000})
    first = cached.run()
    taken = cached.run()
    assert f"/{101}/" in first.result["ref"] and f"/{102}/" in taken.result["ref"], "the taker has its own"
    cached.results.delete_execution(101)
    assert cached.worker.deps.hydrate(taken.result)["call"] == 1
    assert cached.run().meta.get("cached") is None
    assert cached.calls == 2


def test_results_with_secrets_or_with_references_are_not_kept():
    secret = Cached(answer=lambda calls, context: {"token": context.credential("warehouse").data["password"]})
    for _ in range(2):
        assert CANARY not in str(secret.run().result)
    artifact = {"kind": "result_ref", "ref": "noetl://execution/5/result/s/0-0", "store": "memory"}
    referring = Cached(answer=lambda calls, context: [artifact])
    for _ in range(2):
        referring.run()
    assert (secret.calls, referring.calls) == (2, 2)


POLL = """workflow:
  - step: s
    cache: { ttl: 1h, key: job }
    tool:
      - poll:
          kind: tool
          v: 1
          spec: { policy: { rules: [{ when: "{{ output.data.call < 3 }}", then: { do: jump, to: poll } }] } }
"""
TWINS = """workflow:
  - step: s
    tool:
      - x: { kind: iterator, collection: [1], element: i, task: [{ ask: { kind: tool, v: 1, cache: { ttl: 1h, key: k } } }] }
      - y: { kind: iterator, collection: [1], element: i, task: [{ ask: { kind: tool, v: 1, cache: { ttl: 1h, key: k } } }] }
"""
SKIPPED = """workflow:
  - step: s
    tool: { kind: tool, v: 1, cache: { ttl: 1h, key: k } }
    case: [{ when: "{{ event.name == 'call.done' and response.call == 1 }}", then: { skip: { message: stale } } }]
"""


def test_a_task_that_asks_again_is_not_answered_by_its_own_last_answer():
    cached = Cached(POLL)
    assert cached.run().result == {"call": 3}
    assert cached.calls == 3
    assert cached.run().result == {"call": 3}, "the good answer is kept"


def test_tasks_of_one_name_in_two_places_have_keys_of_their_own():
    cached = Cached(TWINS)
    first, second = cached.run().result, cached.run().result
    assert first["results"] == second["results"] == [{"call": 2}]
    assert cached.calls == 2


def test_a_result_that_a_rule_skipped_is_not_kept():
    cached = Cached(SKIPPED)
    assert cached.run().status == "skipped"
    assert cached.run().result == {"call": 2}


class Away:
    def get(self, key: str) -> None:
        raise InfrastructureError("the database is away")

    put = get


def test_an_unreachable_cache_fails_no_task():
    cached = Cached(cache=Away())
    assert cached.run().result == {"call": 1} and cached.run().result == {"call": 2}
    assert len(cached.worker.logged) == 4


@pytest.mark.parametrize(
    "ref",
    [
        {},
        {"ref": 7},
        {"kind": "result_ref", "ref": "noetl://no/such/place", "store": "memory", "sha256": "0", "size": 3},
        {"kind": "result_ref", "ref": "noetl://execution/5/result/s/0-0", "store": "nowhere", "size": 3},
    ],
)
def test_a_damaged_entry_fails_no_task(ref: dict[str, Any]):
    class Damaging(MemoryTaskCache):
        def put(self, entry: CachedResult) -> None:
            super().put(msgspec.structs.replace(entry, ref=ref))

    cached = Cached(cache=Damaging())
    cached.run()
    assert cached.run().result == {"call": 2}


REFERRING = """workflow:
  - step: s
    tool: { kind: tool, v: "{{ workload.table }}", cache: { ttl: "{{ workload.ttl }}" } }
"""


def test_a_large_input_counts_by_its_content_whichever_execution_made_it():
    cached = Cached(REFERRING)
    for owner, data in ((1, b"[1]"), (2, b"[1]"), (3, b"[2]")):
        uri, digest = f"noetl://execution/{owner}/result/t/0-0", hashlib.sha256(data).hexdigest()
        cached.results.put(uri, data)
        table = {"kind": "result_ref", "ref": uri, "store": "memory", "sha256": digest, "size": len(data)}
        cached.run(scope={"workload": {"table": table, "ttl": 60}})
        assert cached.calls == {1: 1, 2: 1, 3: 2}[owner]


TENANTS = """keychain:
  - { name: db, kind: credential, credential: "{{ workload.tenant }}_db" }
workload: { tenant: a }
workflow:
  - step: s
    tool: { kind: tool, v: 1, auth: db, cache: 1h }
"""


def test_one_entry_of_the_keychain_that_means_two_credentials_has_two_keys():
    cached = Cached(TENANTS)
    runs = [cached.run(scope={"workload": {"tenant": tenant}}).result for tenant in "abab"]
    assert runs == [{"call": 1}, {"call": 2}, {"call": 1}, {"call": 2}]


def test_playbooks_of_one_path_in_two_folders_have_keys_of_their_own():
    cached = Cached()
    runs = []
    for folder in ("/a", "/b", "/a"):
        cached.worker.deps = dataclasses.replace(
            cached.worker.deps, folder_of=lambda program, folder=folder: folder
        )
        runs.append(cached.run().result)
    assert runs == [{"call": 1}, {"call": 2}, {"call": 1}]


SEEN = """workflow:
  - step: s
    tool:
      kind: tool
      v: 1
      cache: 1h
      spec: { policy: { rules: [{ when: "{{ outcome.http.status != 200 }}", then: { do: fail } }] } }
"""


@pytest.mark.parametrize("body", [SEEN, CACHED])
def test_what_a_call_said_beside_its_result_is_there_when_the_result_is_taken_again(body: str):
    said = {"http": {"status": 200, "url": f"https://host/?token={CANARY}"}}

    def answer(calls: int, context: TaskContext) -> TaskResult:
        context.credential("warehouse")
        return TaskResult({"call": calls}, said)

    cached = Cached(body, answer)
    for _ in range(2):
        outcome = cached.run()
        assert outcome.result == {"call": 1}
        assert outcome.meta["http"]["status"] == 200 and CANARY not in str(outcome.meta)


DEFAULTED = """workflow:
  - step: s
    tool: { kind: python, cache: 1h, code: "def main(region=5): return region" }
"""


def test_a_name_that_is_null_and_one_that_is_missing_have_two_keys():
    cached = Cached(DEFAULTED, answer=lambda calls, context: _filled(context, "region", 5))
    runs = [cached.run(scope={"workload": workload}).result for workload in ({}, {"region": None}, {})]
    assert (runs, cached.calls) == ([5, None, 5], 2)


def _filled(context: TaskContext, name: str, default: Any) -> Any:
    """Fill a parameter as the process of a python task does: a missing name leaves its default."""
    try:
        return context.lookup(name)
    except KeyError:
        return default


@over("ttl", [0, "31d", "soon", None])
def test_a_time_to_live_that_is_none_fails_the_task_with_its_place(ttl: Any):
    cached = Cached(REFERRING)
    outcome = cached.run(scope={"workload": {"table": 1, "ttl": ttl}})
    assert outcome.error is not None and outcome.error.code == "cache_ttl"
    assert outcome.error.position is not None and cached.calls == 0
