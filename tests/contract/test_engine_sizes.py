"""Limits that the engine itself holds executions against: one below, at, and one above each, with the code and the place of the step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from noetl.domain import codec
from noetl.domain.events import CommandDone, Start
from noetl.domain.outcomes.outcomes import Outcome
from noetl.domain.sizes.table import (
    DOCUMENT_BYTES,
    DOCUMENT_DEPTH,
    DOCUMENT_KEYS,
    INLINE_MOVES,
    INTEGER_DIGITS,
    LIMIT_KEY,
    LOCK_NAME,
    LOOP_ITEMS,
    NAME,
    NESTING,
    NUMBER,
    PRIORITY,
    WINDOW,
    Size,
)
from tests.contract.conftest import Harness
from tests.contract.test_sizes import ONE, Engine

OVER = pytest.mark.parametrize("over", [-1, 0, 1])


@pytest.fixture
def engine(harness: Harness) -> Iterator[Engine]:
    yield Engine(harness)


def nested(levels: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(levels - 1):
        value = [value]
    return {"a": value}


STARTS: dict[Size, Callable[[int], dict[str, Any]]] = {
    NAME: lambda n: {"k" * n: 1},
    DOCUMENT_KEYS: lambda n: {f"k{number}": 1 for number in range(n)},
    DOCUMENT_DEPTH: nested,
    INTEGER_DIGITS: lambda n: {"a": [10**n - 1]},
    DOCUMENT_BYTES: lambda n: {"a": "x" * (n - len(codec.encode({"a": ""})))},
}


@OVER
@pytest.mark.parametrize("size", STARTS, ids=lambda size: size.name)
def test_a_start_in_the_queue_of_the_engine(engine: Engine, size: Size, over: int) -> None:
    """No door has seen it: its message was made before there was a limit, or by another program."""
    entry = engine.runtime.register(ONE, source_name="one.yaml")
    engine.handle(Start(77, "start", entry.program, entry.path, payload=STARTS[size](size.value + over)))
    if over <= 0:
        assert engine.info(77).status == "completed"
        return
    error = engine.error(77)
    assert (error["code"], error["details"]["limit"], error["details"]["most"]) == (
        "size_limit",
        size.name,
        size.value,
    )
    assert error["hint"]


SPECS: dict[str, tuple[Size, Callable[[int], str], Callable[[int], Any]]] = {
    "a key of limits": (LIMIT_KEY, lambda n: "limits: [{key: '{{ workload.v }}', concurrent: 1}]", lambda n: "k" * n),
    "a lock": (LOCK_NAME, lambda n: "mutex: '{{ workload.v }}'", lambda n: "l" * n),
    "a timeout": (NUMBER, lambda n: "timeout: '{{ workload.v }}'", lambda n: n),
}  # fmt: skip


@OVER
@pytest.mark.parametrize("what", SPECS)
def test_what_a_step_computes(engine: Engine, what: str, over: int) -> None:
    size, spec, value = SPECS[what]
    text = ONE + f"    spec: {{{spec(size.value + over)}}}\n"
    execution_id = engine.start(text, {"v": value(size.value + over)})
    engine.finish()
    if over <= 0:
        assert engine.info(execution_id).status == "completed"
        return
    error = engine.error(execution_id)
    assert error["code"] == "template_type" and error["position"].startswith("one.yaml:")
    assert str(size.value) in f"{error['message']} {error['hint']}"


@OVER
@pytest.mark.parametrize("sign", [1, -1])
def test_the_priority_of_a_playbook(engine: Engine, sign: int, over: int) -> None:
    text = ONE.replace("workflow:", "executor: {spec: {priority: '{{ workload.p }}'}}\nworkflow:")
    execution_id = engine.start(text, {"p": sign * (PRIORITY.value + over)})
    engine.finish()
    if over <= 0:
        assert engine.info(execution_id).status == "completed"
    else:
        error = engine.error(execution_id)
        assert (
            error["code"] == "template_type" and str(PRIORITY.value) in f"{error['message']} {error['hint']}"
        )


@OVER
@pytest.mark.parametrize("sign", [1, -1])
def test_the_priority_of_a_start_in_the_queue(engine: Engine, sign: int, over: int) -> None:
    entry = engine.runtime.register(ONE, source_name="one.yaml")
    engine.handle(Start(77, "start", entry.program, entry.path, priority=sign * (PRIORITY.value + over)))
    if over <= 0:
        assert engine.info(77).status == "completed"
    else:
        assert engine.error(77)["details"]["limit"] == PRIORITY.name


@pytest.mark.parametrize("text", ["--5", "9" * 5000, "\u0662", "-"])
def test_a_text_that_is_no_priority(engine: Engine, text: str) -> None:
    playbook = ONE.replace("workflow:", "executor: {spec: {priority: '{{ workload.p }}'}}\nworkflow:")
    execution_id = engine.start(playbook, {"p": text})
    engine.finish()
    assert engine.error(execution_id)["code"] == "template_type"


@OVER
def test_items_of_a_loop(engine: Engine, over: int) -> None:
    loop = "- step: start\n    loop: {in: 's3://bucket/key.csv', iterator: x}"
    execution_id = engine.start(ONE.replace("- step: start", loop))
    total = LOOP_ITEMS.value + over
    stored = {
        "kind": "result_ref",
        "ref": "noetl://execution/1/result/start/x",
        "store": "memory",
        "size": 5,
        "sha256": "0" * 64,
    }
    command = engine.runtime.commands.pop()
    engine.runtime._handle(
        [CommandDone.of(command, Outcome("ok", result={"total": total, "items": None, "ref": stored}))]
    )
    if over <= 0:
        (loop_run,) = engine.store.loop_progress(execution_id)
        assert (engine.info(execution_id).status, loop_run.total) == ("running", total)
        return
    engine.finish()
    error = engine.error(execution_id)
    assert (error["code"], error["details"]["limit"], error["details"]["found"]) == (
        "size_limit",
        LOOP_ITEMS.name,
        total,
    )


@OVER
def test_items_of_a_loop_in_flight(engine: Engine, over: int) -> None:
    spec = f"{{mode: parallel, max_in_flight: {WINDOW.value + over}}}"
    loop = f"loop: {{in: '{{{{ range(2) | list }}}}', iterator: x, spec: {spec}}}"
    execution_id = engine.start(ONE.replace("- step: start", f"- step: start\n    {loop}"))
    (progress,) = engine.store.loop_progress(execution_id)
    row = engine.store.loop_run(execution_id, progress.run, progress.round)
    assert row is not None and row.window == WINDOW.value + min(over, 0)


@OVER
def test_sub_playbooks_in_each_other(engine: Engine, over: int) -> None:
    entry = engine.runtime.register(ONE, source_name="one.yaml")
    engine.handle(Start(77, "start", entry.program, entry.path, depth=NESTING.value + over))
    if over <= 0:
        assert engine.info(77).status == "completed"
    else:
        error = engine.error(77)
        assert error["code"] == "nesting_limit" and str(NESTING.value) in error["message"]


@OVER
def test_steps_without_work_in_one_go(engine: Engine, over: int) -> None:
    """The first step takes none of the moves; each following one takes one."""
    count = INLINE_MOVES.value + over
    text = ONE.partition("workflow:")[0].replace("workload: {}", "workload: {}") + (
        "workflow:\n  - step: start\n    set_ctx: {n: 1}\n    next: {arcs: [{step: again}]}\n"
        "  - step: again\n    set_ctx: {n: '{{ ctx.n + 1 }}'}\n"
        f"    next: {{arcs: [{{step: again, when: '{{{{ ctx.n < {count} }}}}'}}]}}\n"
    )
    execution_id = engine.start(text)
    engine.finish()
    if over <= 0:
        assert engine.info(execution_id).status == "completed"
    else:
        assert engine.error(execution_id)["code"] == "endless_cycle"


def sizes_under_test() -> set[Size]:
    """Limits that have a case here, for the test that every limit has one."""
    computed = {size for size, *_ in SPECS.values()}
    return {*STARTS, *computed, PRIORITY, LOOP_ITEMS, WINDOW, NESTING, INLINE_MOVES}
