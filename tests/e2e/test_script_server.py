"""The script server: a call may come before the start of its execution is answered."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.conformance.cases import Case
from tests.e2e.script_server import ScriptServer
from tests.waiting import PATIENCE, wait_until


def call(execution_id: int, number: int = 1) -> dict[str, Any]:
    return {
        "execution_id": str(execution_id),
        "kind": "http",
        "step": "start",
        "task": "start",
        "index": None,
        "told": {},
        "number": ["1", 1, 0, "start", "start", None, number],
    }


def case(**spec: Any) -> Case:
    return Case("a/case", Path(), spec)


def test_a_call_waits_for_the_start_of_its_execution_and_strangers_are_left_to_the_real_kinds() -> None:
    server = ScriptServer(lambda execution_id: None)
    with ThreadPoolExecutor(1) as pool:
        with server.starting():
            answer = pool.submit(server.answer, call(7))
            wait_until(answer.running, "the call")
            assert not answer.done()
            server.assign(case(tools={"start": [{"body": 1}]}), 7)
        assert answer.result(PATIENCE) == {"reply": {"body": 1}}
    assert server.answer(call(8)) == {"reply": None}


def test_a_held_call_counts_until_it_is_released() -> None:
    server = ScriptServer(lambda execution_id: None)
    played = server.assign(case(tools={"start": [{"body": 1}]}, held=["start"]), 7)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.answer, call(7))
        wait_until(lambda: server.held(played) == 1, "a call that waits")
        server.tell(played, released=True)
        assert answer.result(PATIENCE) == {"reply": {"body": 1}}
    assert server.held(played) == 0


def test_a_call_that_is_made_again_gets_the_answer_that_it_got() -> None:
    """As an interface that knows idempotency keys: a queue delivers a command at least once."""
    server = ScriptServer(lambda execution_id: None)
    played = server.assign(case(tools={"start": [{"body": 1}, {"body": 2}]}), 7)
    assert [server.answer(call(7, number))["reply"] for number in (1, 1, 2, 1)] == [
        {"body": 1},
        {"body": 1},
        {"body": 2},
        {"body": 1},
    ]
    assert (played.script.total, played.script.unexpected) == (2, [])
