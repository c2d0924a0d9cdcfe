"""A loop inside a run, in a worker: its state and results stay small, secrets stay out, and time that runs out is no loss."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.domain import codec
from noetl.domain.kinds import TaskContext
from noetl.domain.results.references import is_ref
from tests.unit.services.worker.test_run_command import CANARY, Worker

HEAD = "keychain: [{ name: warehouse, kind: postgres_credential }]\n"


def body(task: str, collection: str = "[1, 2, 3]", more: str = "") -> str:
    return (
        f"workflow:\n  - step: s\n    tool:\n"
        f"      - each: {{ kind: iterator, collection: {collection}, element: x, task: {task} }}\n{more}"
    )


def test_large_results_are_stored_one_by_one_and_read_by_later_tasks() -> None:
    sizes: list[int] = []

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        if context.task == "count":
            sizes.extend(len(one["text"]) for one in params["all"])
            return None
        return {"i": params["i"], "text": "y" * 60_000}

    worker = Worker(
        body("{ kind: tool, i: '{{ x }}' }", more="      - count: { kind: tool, all: '{{ each }}' }\n"), tool
    )
    outcome = worker.outcome()
    assert outcome.status == "ok"
    kept = outcome.labels["each"]
    assert (kept["kind"], kept["count"]) == ("loop_result", 3)
    assert all(is_ref(one) for one in kept["results"])
    assert len(codec.encode(msgspec.to_builtins(outcome))) < 16_000
    assert sizes == [60_000, 60_000, 60_000]


def test_many_small_results_travel_as_one_reference_and_still_count() -> None:
    worker = Worker(
        body("{ kind: tool, i: '{{ x }}' }", "'{{ range(300) | list }}'"), lambda params, context: "z" * 400
    )
    kept = worker.turns().result
    assert (kept["count"], kept["failed"]) == (300, 0)
    assert is_ref(kept["results"])
    assert len(codec.encode(kept)) < 4000
    assert worker.deps.hydrate is not None
    assert worker.deps.hydrate(kept["results"]) == ["z" * 400] * 300


def test_the_state_between_turns_is_stored_when_it_is_large_and_holds_no_secret() -> None:
    calls: list[int] = []

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        calls.append(params["i"])
        return {"text": "z" * 20_000, "seen": params["p"]}

    rules = (
        "{ policy: { rules: [{ when: '{{ _attempt < 2 }}', then: { do: retry, attempts: 2, delay: 3 } }] } }"
    )
    worker = Worker(
        HEAD
        + body(
            f"[{{ t: {{ kind: tool, i: '{{{{ x }}}}', p: '{{{{ keychain.warehouse.password }}}}', spec: {rules} }} }}]"
        ),
        tool,
    )
    stored: list[bytes] = []
    put = worker.results.put
    worker.results.put = lambda uri, data: (stored.append(data), put(uri, data))  # type: ignore[assignment,method-assign,func-returns-value]
    first = worker.outcome()
    assert first.suspend is not None
    assert CANARY not in codec.encode(first.suspend.machine).decode()
    last = worker.turns()
    assert calls == [1, 1, 1, 2, 2, 3, 3]
    assert last.result["count"] == 3
    assert stored
    assert not any(CANARY in repr(codec.decode(one)) for one in [codec.encode(last.result), *stored])


def test_a_worker_whose_time_is_up_hands_back_in_the_middle() -> None:
    left = [100.0]
    calls: list[Any] = []

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        calls.append((params["i"], context.idempotency_key))
        left[0] -= 40.0
        return params["i"]

    worker = Worker(body("{ kind: tool, i: '{{ x }}' }"), tool, deadline=lambda: left[0], longest=100.0)
    turns, command = 0, worker.command()
    while True:
        outcome = worker.outcome(command)
        if outcome.suspend is None:
            break
        assert outcome.suspend.delay == 0.0
        turns, left[0] = turns + 1, 100.0
        command = msgspec.structs.replace(command, turn=command.turn + 1, machine=outcome.suspend.machine)
    assert turns == 1
    assert calls == [(n, f"7/1/each[{n - 1}]/each_item") for n in (1, 2, 3)]
    assert outcome.result["results"] == [1, 2, 3]


def test_an_item_of_a_loop_whose_body_loops_gives_a_plain_list() -> None:
    text = (
        "workflow:\n  - step: s\n    loop: { in: '{{ [[1, 2], [3]] }}', iterator: x }\n    tool:\n"
        "      - each: { kind: iterator, collection: '{{ iter.x }}', element: y, task: { kind: tool, i: '{{ y }}' } }\n"
    )
    worker = Worker(text, lambda params, context: params["i"] * 10)
    (done,) = worker.items(worker.chunk([[1, 2], [3]]))
    assert [item.outcome.result for item in done.items] == [[10, 20], [30]]
    assert [context.idempotency_key for context in worker.kinds.contexts][-1] == "7/1/1.1/each[0]/each_item"
