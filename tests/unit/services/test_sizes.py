"""Limits of what workers run and report: one below and at each is kept, one above is refused, or cut where the table says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.memory import MemoryResultStore
from noetl.domain import codec
from noetl.domain.callbacks import SCOPE
from noetl.domain.capability_tokens import grant
from noetl.domain.errors import NoetlError, TaskError
from noetl.domain.kinds import TaskContext, TaskSettings
from noetl.domain.messages import VERSION, Message, decode_message
from noetl.domain.outcomes.outcomes import CallbackRequest, ErrorInfo, Outcome, Patch, Suspend, Trace
from noetl.domain.outcomes.report_checks import short_error
from noetl.domain.results.references import is_ref
from noetl.domain.sizes.table import (
    ARTIFACT_BYTES,
    CALLBACK_MESSAGE,
    CALLBACK_SCHEMA,
    DIRECT_BYTES,
    DOCUMENT_DEPTH,
    ERROR_DETAILS,
    ERROR_MESSAGE,
    IDENTIFIER,
    INLINE_BYTES,
    INLINE_MOST,
    INTEGER_DIGITS,
    LINES_BYTES,
    MESSAGE_BYTES,
    NAME,
    NUMBER,
    PREVIEW_BYTES,
    RESULT_BYTES,
    RESULT_VALUES,
    SCHEMA_DEPTH,
    WAIT_SECONDS,
    Size,
)
from noetl.domain.wait_request import wait_request
from noetl.domain.workers.direct_requests import MOST_MESSAGES, fitting
from noetl.kinds import wait
from noetl.kinds.support.foreign_json import foreign_value
from noetl.runtime.settings import Settings
from noetl.services.messaging.large_messages import pack
from noetl.services.worker import task_log_writer
from tests.doubles.task_logs import MemoryTaskLogs
from tests.parts import ABOUT_A_LIMIT, over
from tests.unit.api.ground import Ground
from tests.unit.api.test_events_in import deliver, message
from tests.unit.services.worker.test_run_command import Worker
from tests.unit.services.worker.test_task_log_writer import Command as Printing

OVER = pytest.mark.parametrize("over", ABOUT_A_LIMIT)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def schema(size: int) -> dict[str, Any]:
    return {"title": "t" * (size - len(codec.encode({"title": ""})))}


def deep_schema(levels: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(levels - 1):
        made = {"items": made}
    return made


def callback(**over: Any) -> Outcome:
    return Outcome(
        "suspended", suspend=Suspend({}, callback=CallbackRequest(**{"serial": 0, "task": "t", **over}))
    )


# --- what a worker reports: at the API, and in the queue of the engine ---

REPORTED: dict[str, tuple[Size, Callable[[int], Outcome]]] = {
    "a name in ctx": (NAME, lambda n: Outcome("ok", patches=[Patch("ctx", "k" * n, 1)])),
    "a name in vars": (NAME, lambda n: Outcome("ok", patches=[Patch("vars", "k" * n, 1)])),
    "the depth of a result": (DOCUMENT_DEPTH, lambda n: Outcome("ok", result=nested(n))),
    "the depth of a label": (DOCUMENT_DEPTH, lambda n: Outcome("ok", labels={"t": nested(n)})),
    "the depth of a write": (DOCUMENT_DEPTH, lambda n: Outcome("ok", patches=[Patch("ctx", "a", nested(n))])),
    "the depth of what is gathered": (DOCUMENT_DEPTH, lambda n: Outcome("ok", patches=[Patch("ctx", "a", [nested(n)], "extend")])),
    "the digits of a result": (INTEGER_DIGITS, lambda n: Outcome("ok", result={"a": -(10**n) + 1})),
    "the digits of a write": (INTEGER_DIGITS, lambda n: Outcome("ok", patches=[Patch("ctx", "a", 10**n - 1)])),
    "the task of a callback": (IDENTIFIER, lambda n: callback(task="t" * n)),
    "the number of a callback": (NUMBER, lambda n: callback(serial=n)),
    "the schema of a callback": (CALLBACK_SCHEMA, lambda n: callback(schema=schema(n))),
    "the depth of a callback's schema": (SCHEMA_DEPTH, lambda n: callback(schema=deep_schema(n))),
}  # fmt: skip


@OVER
@pytest.mark.parametrize("door", ["api", "queue"])
@pytest.mark.parametrize("what", REPORTED)
def test_what_a_worker_reports_at_its_limit(what: str, door: str, over: int) -> None:
    size, make = REPORTED[what]
    ground, execution_id = reported(make(size.value + over), door)
    shown = ground.ask("GET", f"/api/executions/{execution_id}").json
    if over <= 0:
        assert shown["status"] in ("completed", "waiting"), shown
        return
    error = shown["error"]
    assert (shown["status"], error["code"]) == ("failed", "size_limit")
    assert (error["details"]["limit"], error["details"]["most"]) == (size.name, size.value)
    assert error["position"].endswith(":6:5") and error["hint"] and str(size.value) in error["message"]


def reported(outcome: Outcome, door: str) -> tuple[Ground, int]:
    """An execution whose worker said ``outcome``: over HTTP, or in a message of the engine's queue."""
    ground = Ground()
    command = ground.issued()
    told = message(command, grant(command, ground.keys), outcome=outcome)
    if door == "api":
        reply = ground.ask("POST", "/api/events", told)
        assert reply.status == 202, reply
    else:
        event = decode_message(codec.encode(told).decode()).event
        assert event is not None
        ground.forwarded.append(event)
    deliver(ground)
    return ground, command.execution_id


@OVER
@pytest.mark.parametrize("door", ["api", "queue"])
def test_an_error_that_a_worker_reports_is_cut(door: str, over: int) -> None:
    text = "m" * (ERROR_MESSAGE.value + over)
    details = {"d": "d" * (ERROR_DETAILS.value + over - len(codec.encode({"d": ""})))}
    ground, execution_id = reported(Outcome("error", error=ErrorInfo(text, details=details)), door)
    error = ground.ask("GET", f"/api/executions/{execution_id}").json["error"]
    assert error["message"] == (text if over <= 0 else text[: ERROR_MESSAGE.value - 1] + "…")
    assert (error["details"] == details) == (over <= 0)
    assert len(codec.encode(error["details"])) <= ERROR_DETAILS.value


@pytest.mark.parametrize("name", ["hint", "position", "kind", "code"])
def test_texts_of_an_error_that_a_worker_reports_are_cut(name: str) -> None:
    ground, execution_id = reported(
        Outcome("error", error=ErrorInfo("m", **{name: "x" * 1_000_000})), "queue"
    )
    reply = ground.ask("GET", f"/api/executions/{execution_id}")
    assert reply.status == 200 and len(reply.json["error"][name]) <= ERROR_MESSAGE.value


def test_a_worker_reports_its_own_doings_and_no_event_of_the_engine() -> None:
    forged = [
        Trace(name, payload={"principal": "owner"}) for name in ("execution.redriven", "playbook.completed")
    ]
    ground, execution_id = reported(
        Outcome("ok", result=1, trace=[*forged, Trace("task.started", "a")]), "queue"
    )
    names = [
        one["event_type"]
        for one in ground.ask("GET", f"/api/executions/{execution_id}/events").json["events"]
    ]
    assert "task.started" in names
    assert not {"execution.redriven"} & set(names) and names.count("playbook.completed") <= 1


@over("char", ["d", "\x01", "\ud800", "\U0001f600", "é"])
@over("entries", [1, 3, 64, 1000])
def test_details_of_any_text_are_cut_to_their_limit(char: str, entries: int) -> None:
    details = {f"{char * 4}{number}": char * ERROR_DETAILS.value for number in range(entries)}
    short = short_error(ErrorInfo("m", details=details | {"k" * ERROR_DETAILS.value: 1}))
    assert short is not None and short.details
    assert len(codec.encode(short.details)) <= ERROR_DETAILS.value


@OVER
@pytest.mark.parametrize("door", ["api", "queue"])
def test_the_message_of_a_callback_that_a_worker_reports_is_cut(door: str, over: int) -> None:
    text = "m" * (CALLBACK_MESSAGE.value + over)
    ground, execution_id = reported(callback(message=text), door)
    slots = ground.store.slots(execution_id)
    (kept,) = [value for (scope, _), value in slots.items() if scope == SCOPE]
    assert kept["message"] == text[: CALLBACK_MESSAGE.value]


# --- what a worker runs ---


@OVER
def test_a_callback_that_a_task_asks_for(over: int) -> None:
    text = "m" * (CALLBACK_MESSAGE.value + over)
    assert wait_request({"callback": True, "message": text}).message == text[: CALLBACK_MESSAGE.value]
    wanted = {"callback": True, "schema": schema(CALLBACK_SCHEMA.value + over)}
    found = list(wait.check(wanted))
    if over <= 0:
        assert wait_request(wanted).schema == wanted["schema"] and not found
        return
    with pytest.raises(NoetlError) as refused:
        wait_request(wanted)
    assert (refused.value.code, refused.value.details["field"]) == ("kind_params", "schema")
    assert [problem.path for problem in found] == [("schema",)], "the compiler tells it, with its place"
    assert all(str(CALLBACK_SCHEMA.value) in told for told in (refused.value.message, found[0].message))


@OVER
def test_the_schema_that_a_task_asks_for(over: int) -> None:
    wanted = {"callback": True, "schema": deep_schema(SCHEMA_DEPTH.value + over)}
    if over <= 0:
        assert wait_request(wanted).schema == wanted["schema"]
        return
    with pytest.raises(NoetlError, match=f"more than {SCHEMA_DEPTH.value} levels") as refused:
        wait_request(wanted)
    assert (refused.value.code, refused.value.details["field"]) == ("kind_params", "schema")


@OVER
@pytest.mark.parametrize("field", ["seconds", "timeout"])
def test_the_longest_wait(field: str, over: int) -> None:
    given: dict[str, Any] = {field: WAIT_SECONDS.value + over} | (
        {"callback": True} if field == "timeout" else {}
    )
    if over <= 0:
        assert getattr(wait_request(given), field) == WAIT_SECONDS.value + over
        wait.Params(**given)
        return
    with pytest.raises(NoetlError, match=str(WAIT_SECONDS.value)) as refused:
        wait_request(given)
    assert (refused.value.code, refused.value.details) == ("kind_params", {"field": field})
    with pytest.raises(ValueError, match=str(WAIT_SECONDS.value)):
        wait.Params(**given)


def ran(value: Any, spec: str = "", **settings: Any) -> Outcome:
    """A task that gives ``value``."""
    body = (
        f"workflow:\n  - step: s\n    tool:\n      - a: {{ kind: tool, spec: {{ result: {{ {spec} }} }} }}\n"
    )
    return Worker(body, lambda params, context: value, **settings).outcome()


def text_of(size: int) -> list[str]:
    """A value of ``size`` bytes as JSON."""
    return ["x" * (size - 4)]


@OVER
@pytest.mark.parametrize(
    ("size", "spec"),
    [(INLINE_BYTES, ""), (INLINE_MOST, f"inline_max_bytes: {INLINE_MOST.value}"), (INLINE_MOST, "inline_max_bytes: 99999999")],
)  # fmt: skip
def test_a_value_that_travels(size: Size, spec: str, over: int) -> None:
    assert is_ref(ran(text_of(size.value + over), spec).result) is (over > 0)


@OVER
def test_a_preview(over: int) -> None:
    kept = ran(text_of(INLINE_BYTES.value + 1), f"preview_max_bytes: {PREVIEW_BYTES.value + over}").result
    plain = ran(text_of(INLINE_BYTES.value + 1)).result
    shown = [len(codec.encode(one["preview"]["sample"])) for one in (kept, plain)]
    assert shown[0] - shown[1] == over


@OVER
def test_a_result_as_large_as_a_deployment_keeps(over: int) -> None:
    assert (Settings(Path()).output_max_bytes, Settings(Path()).artifact_max_bytes) == (
        RESULT_BYTES.value,
        ARTIFACT_BYTES.value,
    )
    most = 50_000
    outcome = ran(text_of(most + over), settings=TaskSettings(output_max_bytes=most))
    assert outcome.status == ("error" if over > 0 else "ok")
    assert over <= 0 or (outcome.error is not None and outcome.error.code == "result_too_large")


@OVER
@pytest.mark.parametrize("text", ["", 'a, [{ "b\\\\'])
def test_a_result_of_as_many_values_as_a_worker_reads(over: int, text: str) -> None:
    """What looks like one inside a text is none."""
    value = [text, *([0] * (RESULT_VALUES.value - 1 + over))]
    data = codec.encode(value)
    if over > 0:
        with pytest.raises(TaskError, match="the answer is too large") as refused:
            foreign_value(data, "the answer")
        assert refused.value.code == "result_too_large"
    else:
        assert len(foreign_value(data, "the answer")) == len(value)


@OVER
def test_an_artifact_as_large_as_a_deployment_keeps(over: int) -> None:
    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        with context.artifacts.create("jsonl") as writer:
            writer.write(b"x" * (most + over))
            return writer.close({})

    most = 50_000
    body = "workflow:\n  - step: s\n    tool: { kind: tool }\n"
    outcome = Worker(body, tool, settings=TaskSettings(artifact_max_bytes=most)).outcome()
    assert outcome.status == ("error" if over > 0 else "ok"), outcome
    assert over <= 0 or (outcome.error is not None and outcome.error.code == "result_too_large")


@OVER
def test_the_error_of_a_task_is_cut(over: int) -> None:
    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        raise NoetlError("m" * (ERROR_MESSAGE.value + over))

    error = Worker("workflow:\n  - step: s\n    tool: { kind: tool }\n", tool).outcome().error
    assert error is not None and len(error.message) == ERROR_MESSAGE.value + min(over, 0)
    assert error.message.endswith("…") is (over > 0)


@OVER
@pytest.mark.parametrize(("size", "value"), [(DOCUMENT_DEPTH, nested), (INTEGER_DIGITS, lambda n: 10**n - 1)])
def test_the_result_of_a_task(size: Size, value: Callable[[int], Any], over: int) -> None:
    outcome = ran(value(size.value + over))
    assert outcome.status == ("error" if over > 0 else "ok")
    if over > 0:
        assert outcome.error is not None and outcome.error.code == "unstorable_result"
        assert str(size.value) in outcome.error.message


@OVER
def test_lines_of_a_command(over: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LINES_BYTES.value == task_log_writer.COMMAND_BYTES
    most = 1000
    monkeypatch.setattr(task_log_writer, "COMMAND_BYTES", most)
    logs = MemoryTaskLogs()
    lines = task_log_writer.LineKeeper(logs, lambda line: None).of(Printing)
    lines.add("t", 1, None, "a" * (most - 200 + over))
    lines.add("t", 1, None, "")
    lines.add("t", 1, None, "never")
    lines.flush()
    kept = [one.line for one in logs.read(7, "", 10, everything=True).lines]
    told = [one for one in kept if "are not kept" in one]
    assert kept[0] == "a" * (most - 200 + over) and "never" not in kept
    assert len(kept) == (2 if over > 0 else 3) and len(told) == 1


@OVER
def test_a_message_of_a_queue(over: int) -> None:
    ground = Ground()
    event = message(command := ground.issued(), grant(command, ground.keys))["event"]

    def made(size: int) -> Message:
        from noetl.domain.events import decode_event

        found = decode_event(codec.encode({**event, "outcome": {"status": "ok", "result": "r" * size}}))
        return Message(VERSION, token="t", event=found)

    bare = len(pack(made(0), MemoryResultStore()))
    results = MemoryResultStore()
    text = pack(made(MESSAGE_BYTES.value + over - bare), results)
    travels = decode_message(text).ref is None
    assert travels is (over <= 0)
    assert len(text) <= MESSAGE_BYTES.value


@pytest.mark.parametrize("over", (-1, 0, 1))
def test_outcomes_of_one_request_to_the_engine(over: int) -> None:
    """What is beyond goes through the queue. Texts count as JSON holds them."""
    half = DIRECT_BYTES.value // 2
    texts = ['"' * ((half - 2) // 2), "x" * (half - 2 + over), "one more"]
    assert fitting(texts, MOST_MESSAGES) == (1 if over > 0 else 2)
    assert fitting(["x"] * 20, MOST_MESSAGES) == MOST_MESSAGES


RAN = {
    ARTIFACT_BYTES,
    CALLBACK_MESSAGE,
    CALLBACK_SCHEMA,
    DIRECT_BYTES,
    ERROR_DETAILS,
    ERROR_MESSAGE,
    INLINE_BYTES,
    INLINE_MOST,
    LINES_BYTES,
    MESSAGE_BYTES,
    PREVIEW_BYTES,
    RESULT_BYTES,
    RESULT_VALUES,
    WAIT_SECONDS,
}


def sizes_under_test() -> set[Size]:
    """Limits that have a case here, for the test that every limit has one."""
    return RAN | {size for size, _ in REPORTED.values()}
