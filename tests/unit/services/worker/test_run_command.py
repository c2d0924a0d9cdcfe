"""The worker's door: outcomes of commands and chunks, large results, secrets, defects, hand-backs."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from noetl.adapters.memory.results import MemoryResultStore
from noetl.domain import codec, ids
from noetl.domain.commands import Command, FrozenScope, LoopSlice
from noetl.domain.errors import InfrastructureError, NotFoundError, TaskError
from noetl.domain.events import CommandDone, Event, ItemsDone, Parent, decode_event, encode_event
from noetl.domain.kinds import Credential, KindSpec, ParamProblem, TaskContext, TaskResult, TaskSettings
from noetl.domain.outcomes.outcomes import ChildRequest, Outcome, Patch, PollRequest
from noetl.domain.results.references import is_ref
from noetl.dsl.compiler import compile_playbook
from noetl.dsl.program import Program
from noetl.engine.outcomes import detached
from noetl.services.worker.run_command import run_command
from noetl.services.worker.worker_deps import WorkerDeps
from noetl.system_calls.deferred_work import defer, deferring
from tests.parts import over

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: t }\n"
CANARY = 's3cr"et/canary+token'
Tool = Callable[[dict[str, Any], TaskContext], Any]


class Kinds:
    """Any kind name runs ``tool``; the compiler may ask about it as well."""

    def __init__(self, tool: Tool = lambda params, context: params) -> None:
        self.tool = tool
        self.contexts: list[TaskContext] = []
        self.stopped: list[dict[str, object]] = []

    def names(self) -> tuple[str, ...]:
        return ("http", "noop", "playbook", "tool")

    def spec(self, name: str) -> KindSpec:
        return KindSpec(name, "A tool.", "io", default_timeout=33.0)

    def check(self, name: str, params: Mapping[str, Any]) -> list[ParamProblem]:
        return []

    def sql_problem(self, text: str) -> tuple[str, str | None, int] | None:
        return None

    def sql_escapes(self, text: str) -> tuple[()]:
        return ()

    def sql_lists(self, text: str) -> tuple[()]:
        return ()

    def schema(self, name: str) -> dict[str, Any]:
        return {"type": "object"}

    def run(
        self, name: str, raw_params: Mapping[str, Any], context: TaskContext
    ) -> TaskResult | ChildRequest | PollRequest:
        self.contexts.append(context)
        answer = self.tool(dict(raw_params), context)
        return answer if isinstance(answer, (TaskResult, ChildRequest, PollRequest)) else TaskResult(answer)

    def stop(self, name: str, state: dict[str, object], context: TaskContext) -> None:
        self.stopped.append(state)


class Vault:
    def get(self, name: str, execution_id: int) -> Credential:
        if name != "warehouse":
            raise TaskError(f"there is no credential {name}", kind="auth", code="credential_not_found")
        return Credential(
            name, "postgres", {"host": "db.local", "user": "reader", "password": CANARY, "port": 5432}
        )


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Worker:
    """A worker in memory. ``run`` gives the events of a command, each sent through its encoding."""

    def __init__(self, body: str, tool: Tool = lambda params, context: params, **settings: Any) -> None:
        self.kinds = Kinds(tool)
        self.program: Program = compile_playbook(HEAD + body, source_name="t.yaml", kinds=self.kinds).program
        self.results = MemoryResultStore()
        self.logged: list[str] = []
        self.deps = WorkerDeps(
            **{
                "programs": self.programs,
                "registry": self.kinds,
                "results": self.results,
                "credentials": Vault(),
                "chance": lambda: 0.0,
                "log": self.logged.append,
            }
            | settings
        )

    def programs(self, hash_: str) -> Program:
        if hash_ != self.program.hash:
            raise NotFoundError(f"no program {hash_}", code="program_not_found")
        return self.program

    def command(self, **fields: Any) -> Command:
        step = self.program.steps[0].name
        return Command(7, "1", 1, step, self.program.hash, "io", **fields)

    def run(self, command: Command | None = None) -> list[Event]:
        events: list[Event] = []
        run_command(command or self.command(), self.deps, events.append)
        return [decode_event(encode_event(event)) for event in events]

    def outcome(self, command: Command | None = None) -> Outcome:
        (event,) = self.run(command)
        assert isinstance(event, CommandDone)
        return event.outcome

    def turns(self, command: Command | None = None, child: Outcome | None = None) -> Outcome:
        """Run a command to its end, turn after turn, as the engine would issue them."""
        command = command or self.command()
        for _ in range(50):
            outcome = self.outcome(command)
            if outcome.suspend is None:
                return outcome
            command = msgspec.structs.replace(
                command, turn=command.turn + 1, machine=outcome.suspend.machine, child=child
            )
        raise AssertionError("the command does not end")

    def chunk(self, items: list[Any], mode: str = "sequential", **fields: Any) -> Command:
        slice_ = {"round": 1, "start": 0, "stop": len(items), "total": len(items), "iterator": "x"}
        overrides = {name: fields.pop(name) for name in ("skip", "fail_fast", "start") if name in fields}
        loop = LoopSlice(**slice_ | {"mode": mode, "items": items} | overrides)  # type: ignore[arg-type]
        return self.command(loop=loop, **fields)

    def items(self, command: Command) -> list[ItemsDone]:
        events = self.run(command)
        assert all(isinstance(event, ItemsDone) for event in events)
        assert len({event.event_id for event in events}) == len(events)
        return events  # type: ignore[return-value]


ONE = "workflow:\n  - step: s\n    tool: { kind: tool, v: 1 }\n"


def test_one_command_gives_one_event_with_its_fence() -> None:
    worker = Worker(ONE, lambda params, context: {"got": params})
    (event,) = worker.run(worker.command(attempt=2, turn=0))
    assert isinstance(event, CommandDone)
    assert (event.event_id, event.attempt, event.turn, event.run, event.step) == (
        ids.outcome_event("1", 0),
        2,
        0,
        1,
        "s",
    )
    assert (event.outcome.status, event.outcome.result) == ("ok", {"got": {"v": 1}})
    assert event.outcome.meta.keys() == {"duration_ms"}


def test_what_a_task_is_told_about_itself() -> None:
    body = "workflow:\n  - step: s\n    loop: { in: '{{ [1] }}', iterator: x }\n    tool: { kind: tool, args: { a: '{{ x }}' } }\n"
    worker = Worker(body, settings=TaskSettings(output_max_bytes=1000))
    worker.items(worker.chunk(["i", "j"]))
    first, second = worker.kinds.contexts
    assert (first.execution_id, first.step, first.task, first.attempt) == (7, "s", "s_task", 1)
    assert (first.idempotency_key, second.idempotency_key) == ("7/1/1.0/s_task", "7/1/1.1/s_task")
    assert (first.timeout, first.input, first.settings.output_max_bytes) == (33.0, {"a": "i"}, 1000)
    assert (second.lookup("x"), second.lookup("loop_index")) == ("j", 1)
    with pytest.raises(KeyError):
        second.lookup("nobody")


def test_tasks_of_case_entries_that_are_named_alike_have_keys_of_their_own() -> None:
    entry = "      - when: \"{{{{ event.name == '{0}' }}}}\"\n        then: [{{ tell: {{ kind: tool }} }}]\n"
    body = ONE + "    case:\n" + entry.format("step.enter") + entry.format("step.exit")
    worker = Worker(body)
    scope = FrozenScope(extra={"event": {"name": "step.enter", "step": "s", "payload": {}}})
    for rule, event in ((0, "step.enter"), (1, "step.exit"), (1, "loop.done")):
        command = worker.command(stage="case", rule=rule, scope=scope)
        worker.run(msgspec.structs.replace(command, command_id=ids.command_id(1, f"case.{rule}.{event}")))
    assert [context.idempotency_key for context in worker.kinds.contexts] == [
        "7/1.case.0.step.enter/tell",
        "7/1.case.1.step.exit/tell",
        "7/1.case.1.loop.done/tell",
    ]


def fails(error: Exception) -> Tool:
    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        raise error

    return tool


@over(
    ("tool", "kind", "code", "retryable"),
    [
        (fails(TaskError("away", kind="connection", code="refused", retryable=True)), "connection", "refused", True),
        (fails(NotFoundError("gone", code="no_row")), "schema", "no_row", False),
        (fails(InfrastructureError("store away")), "storage_access", "infrastructure", True),
        (fails(ZeroDivisionError("x" * 5000)), "unknown", "internal", False),
        (lambda params, context: {"n": float("nan")}, "schema", "unstorable_result", False),
        (lambda params, context: {1: 2}, "schema", "unstorable_result", False),
        (lambda params, context: object(), "schema", "unstorable_result", False),
        (lambda params, context: context.credential("nope"), "auth", "credential_not_found", False),
    ],
)  # fmt: skip
def test_whatever_a_tool_does_is_an_outcome(tool: Tool, kind: str, code: str, retryable: bool) -> None:
    worker = Worker(ONE, tool)
    error = worker.outcome().error
    assert error is not None
    assert (error.kind, error.code, error.retryable) == (kind, code, retryable)
    assert "Traceback" not in error.message and len(error.message) <= 500
    assert bool(worker.logged) == (code == "internal")


def test_a_long_error_is_cut_for_history() -> None:
    details = {"body": "b" * 100_000, "rows": [["r"] * 1000] * 100, "status": 5}
    worker = Worker(ONE, fails(TaskError("m" * 9000, details=details)))
    error = worker.outcome().error
    assert error is not None
    assert len(error.message) == 4000
    assert len(codec.encode(error)) < 12_000
    assert error.details["status"] == 5 and error.details["body"].startswith("bbb")


def test_a_program_nobody_knows_answers_for_every_item() -> None:
    worker = Worker(ONE)
    lost = msgspec.structs.replace(worker.command(), program="other")
    error = worker.outcome(lost).error
    assert error is not None and error.code == "program_not_found"
    chunk = msgspec.structs.replace(worker.chunk([1, 2, 3], skip=(1,)), program="other")
    (event,) = worker.items(chunk)
    assert [(item.index, item.outcome.status) for item in event.items] == [(0, "error"), (2, "error")]
    assert event.closed


# --- large results ----------------------------------------------------------------------------------

BIG = {"row_count": 3, "rows": ["r" * 20_000] * 3}


def test_a_large_result_is_stored_before_it_is_told_of() -> None:
    body = (
        "workflow:\n  - step: s\n    tool:\n      - a: { kind: tool, spec: { result: { select: [{ path: '$.meta.next[0].id', as: next }] } } }\n"
        "      - b: { kind: tool, args: { n: '{{ a.rows | length }}' }, v: '{{ a }}' }\n"
    )
    big = BIG | {"meta": {"next": [{"id": 12}]}}
    worker = Worker(body, lambda params, context: big if context.task == "a" else params["v"])
    outcome = worker.outcome()
    ref = outcome.labels["a"]
    assert is_ref(ref)
    data = worker.results.get(ref["ref"])
    assert codec.decode(data) == big
    assert (ref["size"], ref["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert ref["extracted"] == {"row_count": 3, "next": 12}
    assert is_ref(outcome.result) and outcome.result["ref"] == ref["ref"], "the same bytes are one object"
    assert worker.kinds.contexts[1].input == {"n": 3}
    assert worker.outcome() is not None, "a repeat writes the same objects"


@pytest.mark.parametrize(
    ("limit", "large"), [("", False), ("inline_max_bytes: 100", True), ("inline_max_bytes: 99999999", False)]
)
def test_the_inline_limit_of_a_task(limit: str, large: bool) -> None:
    body = (
        f"workflow:\n  - step: s\n    tool:\n      - a: {{ kind: tool, spec: {{ result: {{ {limit} }} }} }}\n"
    )
    worker = Worker(body, lambda params, context: ["x" * 100] * 10)
    assert is_ref(worker.outcome().result) == large


def test_references_reach_tools_as_values_and_children_as_references() -> None:
    body = (
        "workflow:\n  - step: s\n    tool:\n      - a: { kind: tool, v: { inside: ['{{ fetch }}'] }, args: { w: '{{ fetch }}' } }\n"
        "      - b: { kind: playbook, path: p, payload: { rows: '{{ fetch }}' } }\n"
        "    next: { arcs: [{ step: fetch }] }\n  - step: fetch\n    tool: { kind: noop }\n"
    )
    seen: list[Any] = []

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        seen.append((params, context.input))
        return (
            ChildRequest(path="p", payload=params["payload"])
            if context.task == "b"
            else context.lookup("fetch")
        )

    worker = Worker(body, tool)
    ref = stored(worker, BIG)
    scope = FrozenScope(steps={"fetch": {"status": "success", "data": ref}})
    outcome = worker.outcome(worker.command(scope=scope))
    assert seen[0] == ({"v": {"inside": [BIG]}}, {"w": BIG})
    assert outcome.suspend is not None and outcome.suspend.child is not None
    assert outcome.suspend.child.payload == {"rows": ref}


def stored(worker: Worker, value: Any) -> dict[str, Any]:
    source = Worker(ONE, lambda params, context: value)
    ref: dict[str, Any] = source.outcome().result
    worker.results.put(ref["ref"], source.results.get(ref["ref"]))
    return ref


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_a_reference_that_cannot_be_read_is_the_tasks_error(damage: str) -> None:
    worker = Worker(
        "workflow:\n  - step: s\n    tool: { kind: tool, n: '{{ ctx.big.rows | length }}' }\n    set: { ctx.big: 1 }\n"
    )
    ref = stored(worker, BIG)
    if damage == "gone":
        worker.results.delete_execution(7)
    else:
        ref = {**ref, "sha256": "0" * 64}
    error = worker.outcome(worker.command(scope=FrozenScope(ctx={"big": ref}))).error
    assert error is not None and error.code == "REFERENCE_NOT_AVAILABLE"


def test_a_result_above_the_deployments_limit_is_refused() -> None:
    worker = Worker(
        ONE, lambda params, context: ["x" * 1000] * 100, settings=TaskSettings(output_max_bytes=50_000)
    )
    error = worker.outcome().error
    assert error is not None and (error.code, error.kind) == ("result_too_large", "storage_quota")


class AwayStore(MemoryResultStore):
    def put(self, uri: str, data: bytes) -> None:
        raise InfrastructureError("the store is away")


def test_nothing_is_answered_while_the_result_store_is_away() -> None:
    worker = Worker(ONE, lambda params, context: BIG, results=AwayStore())
    events: list[Event] = []
    with pytest.raises(InfrastructureError):
        run_command(worker.command(), worker.deps, events.append)
    assert events == []


# --- secrets ----------------------------------------------------------------------------------------

FORMS = [
    CANARY,
    json.dumps(CANARY),
    base64.b64encode(CANARY.encode()).decode(),
    base64.b64encode(b"reader:" + CANARY.encode()).decode(),
    base64.urlsafe_b64encode(b"ab:" + CANARY.encode() + b"tail").decode(),
    f"postgres://reader:{CANARY}@db.local",
]


def leaks(value: Any) -> bool:
    """Whether any form of the canary is left (base64 is judged by the part that does not depend on its neighbours)."""
    text = codec.encode(value).decode()
    cores = {CANARY, json.dumps(CANARY)[1:-1], json.dumps(json.dumps(CANARY)[1:-1])[1:-1]}
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + CANARY.encode()).decode()
        core = whole[4:-4]
        cores |= {core, core.replace("+", "-").replace("/", "_")}
    return any(core in text for core in cores)


@over("form", FORMS)
@over("way", ["result", "key", "error", "patch", "log"])
def test_no_form_of_a_secret_leaves_a_command(form: str, way: str) -> None:
    body = (
        "workflow:\n  - step: s\n    tool:\n"
        "      - a: { kind: tool, auth: warehouse, set: { ctx.kept: '{{ outcome.result }}' } }\n"
        "      - b: { kind: noop }\n"
    )

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        context.credential("warehouse")
        context.log(f"line {form}")
        if way == "error":
            raise TaskError(f"cannot reach {form}", details={"dsn": form})
        return {form: 1} if way == "key" else [form]

    worker = Worker(body, tool)
    assert leaks(form)
    outcome = worker.outcome()
    assert not leaks(outcome)
    assert not leaks(worker.logged) and worker.logged
    assert b"***" in codec.encode(outcome)
    assert "db.local" not in form or b"db.local" in codec.encode(outcome), "what is no secret stays"


def test_text_that_utf8_cannot_hold_hides_no_secret() -> None:
    class Umlaut(Vault):
        def get(self, name: str, execution_id: int) -> Credential:
            return Credential(name, "token", {"token": "geheimnis-für-alle"})

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        return ["\ud800", "x geheimnis-für-alle", context.credential("any").data["token"].encode().hex()[:1]]

    worker = Worker(ONE, tool, credentials=Umlaut())
    assert worker.outcome().result[:2] == ["\ud800", "x ***"]


def test_a_keychain_entry_without_credential_is_the_tasks_error() -> None:
    body = "keychain: [{ name: nope, kind: pg }]\nworkflow:\n  - step: s\n    tool: { kind: tool, t: '{{ keychain.nope.password }}' }\n"
    error = Worker(body).outcome().error
    assert error is not None and (error.kind, error.code) == ("auth", "credential_not_found")


SEALED = """
keychain: [{ name: wh, kind: postgres_credential, credential: warehouse }]
workflow:
  - step: s
    tool:
      - login: { kind: tool, token: "{{ keychain.wh.password }}", set: { iter.header: "Bearer {{ outcome.result }}" } }
      - use:
          kind: tool
          header: "{{ iter.header }}"
          spec:
            policy:
              rules:
                - { when: "{{ outcome.status == 'error' }}", then: { do: retry, attempts: 5, delay: 9 } }
"""


def test_a_suspended_pipeline_keeps_its_secrets_sealed() -> None:
    calls: list[dict[str, Any]] = []

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        calls.append(params)
        if context.task == "use" and context.attempt < 3:
            raise TaskError("busy", retryable=True)
        return params.get("token", "fine")

    worker = Worker(SEALED, tool)
    first = worker.outcome()
    assert first.suspend is not None and not leaks(first)
    assert "Bearer " in codec.encode(first).decode()
    assert worker.turns().result == "fine"
    assert [call.get("header") for call in calls[-3:]] == [f"Bearer {CANARY}"] * 3
    assert calls[0] == {"token": CANARY}


def test_data_that_looks_like_a_sealed_mark_stays_data() -> None:
    marks: list[str] = []

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        if context.task == "login":
            return marks[0] if marks else params["token"]
        if context.attempt == 1:
            raise TaskError("busy")
        return params["header"].removeprefix("Bearer ")

    worker = Worker(SEALED, tool)
    sealed = worker.outcome().suspend
    assert sealed is not None
    marks.append(next(text for text in _texts(sealed.machine) if "\ue000" in text))
    assert worker.turns().result == marks[0]


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for entry in value.values() for text in _texts(entry)]
    if isinstance(value, list):
        return [text for entry in value for text in _texts(entry)]
    return [value] if isinstance(value, str) else []


def test_a_secret_is_not_passed_to_a_sub_playbook() -> None:
    body = (
        "keychain: [{ name: warehouse, kind: pg }]\nworkflow:\n  - step: s\n"
        "    tool: { kind: playbook, path: p, payload: { t: '{{ keychain.warehouse.password }}' } }\n"
    )
    worker = Worker(body, lambda params, context: ChildRequest(path="p", payload=params["payload"]))
    outcome = worker.outcome()
    assert outcome.error is not None and outcome.error.code == "secret_in_payload"
    assert not leaks(outcome)


# --- suspension -------------------------------------------------------------------------------------

RETRY = """
workflow:
  - step: s
    tool:
      - a: { kind: tool, set: { iter.rows: "{{ outcome.result.rows }}" } }
      - b:
          kind: tool
          n: "{{ iter.rows | length }}"
          spec: { policy: { rules: [ { when: "{{ outcome.status == 'error' }}", then: { do: retry, attempts: 3, delay: 30 } } ] } }
"""


@pytest.mark.parametrize("result", [{"rows": [1, 2, 3]}, BIG])
def test_a_delayed_retry_travels_however_large_its_state_is(result: dict[str, Any]) -> None:
    calls: list[str] = []

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        calls.append(context.task)
        if context.task == "a":
            return result
        if context.attempt < 3:
            raise TaskError("busy")
        return params["n"]

    worker = Worker(RETRY, tool)
    first = worker.outcome()
    assert first.suspend is not None and first.suspend.delay == 30
    assert len(codec.encode(first)) < 40_000
    calls.clear()
    assert worker.turns().result == 3
    assert calls == ["a", "b", "b", "b"]


def test_a_sub_playbook_is_waited_for_without_holding_the_worker() -> None:
    body = "workflow:\n  - step: s\n    tool:\n      - a: { kind: playbook, path: p }\n      - b: { kind: tool, v: '{{ a.n }}' }\n"

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        return ChildRequest(path="p", payload={"x": 1}) if context.task == "a" else params["v"]

    worker = Worker(body, tool)
    first = worker.outcome()
    assert first.suspend is not None and first.suspend.child == ChildRequest(path="p", payload={"x": 1})
    assert worker.turns(child=Outcome("ok", {"n": 5})).result == 5
    failed = worker.turns(child=Outcome("error"))
    assert failed.error is not None and failed.error.code == "child_failed"


@pytest.mark.parametrize("index", [None, 1])
def test_a_sub_playbook_nobody_waits_for_has_the_id_the_engine_gives_it(index: int | None) -> None:
    body = (
        "workflow:\n  - step: s\n    loop: { in: '{{ [1] }}', iterator: x }\n    tool:\n"
        "      - a: { kind: playbook, path: p }\n      - b: { kind: playbook, path: q }\n"
    )
    worker = Worker(body, lambda params, context: ChildRequest(path=params["path"], wait=False))
    if index is None:
        command = worker.command()
        outcome = worker.outcome(command)
        parent = Parent(7, ids.command_id(1), 0, 1, wait=False)
    else:
        command = worker.chunk(["i", "j"], "parallel")
        outcome = worker.items(command)[0].items[index].outcome
        parent = Parent(7, command.command_id, 0, 1, 1, index, wait=False)
    starts = detached(parent, outcome, 1)
    assert [start.path for start in starts] == ["p", "q"]
    told = [int(outcome.labels[label]["execution_id"]) for label in ("a", "b")]
    assert told == [start.execution_id for start in starts]


def test_a_worker_short_of_time_hands_back_between_two_calls() -> None:
    left = [100.0]
    body = "workflow:\n  - step: s\n    tool:\n" + "".join(
        f"      - t{n}: {{ kind: tool }}\n" for n in range(4)
    )

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        left[0] -= 40
        return context.task

    worker = Worker(body, tool, deadline=lambda: left[0])
    first = worker.outcome()
    assert first.suspend is not None and first.suspend.delay == 0
    assert [context.task for context in worker.kinds.contexts] == ["t0", "t1", "t2"]
    left[0] = 100.0
    resumed = worker.command(turn=1, machine=first.suspend.machine)
    assert worker.outcome(resumed).result == "t3"
    assert [context.task for context in worker.kinds.contexts] == ["t0", "t1", "t2", "t3"]


def test_the_tasks_of_a_case_are_a_command_of_their_own() -> None:
    body = (
        "workflow:\n  - step: s\n    tool: { kind: tool }\n    case:\n"
        "      - when: \"{{ event.name == 'step.exit' }}\"\n"
        "        then: [ { one: { kind: tool, v: '{{ result.n }}' } }, { sink: { tool: { kind: tool, table: t } } } ]\n"
    )
    worker = Worker(body)
    scope = FrozenScope(extra={"event": {"name": "step.exit"}, "result": {"n": 5}})
    command = worker.command(stage="case", rule=0, scope=scope)
    (event,) = worker.run(command)
    assert isinstance(event, CommandDone) and event.stage == "case"
    assert event.outcome.status == "ok"
    assert [context.task for context in worker.kinds.contexts] == ["one", "s_case_0_sink"]
    missing = worker.outcome(worker.command(stage="case", rule=3))
    assert missing.error is not None and missing.error.code == "no_such_stage"


# --- loops ------------------------------------------------------------------------------------------

LOOP = """
workflow:
  - step: s
    loop: { in: "{{ [1] }}", iterator: x, spec: { mode: sequential } }
    tool:
      - a: { kind: tool, v: "{{ x }}", before: "{{ ctx.total | default(0) }}", spec: { policy: { rules: [ { when: "{{ outcome.status == 'error' }}", then: { do: fail } }, { else: { then: { do: continue, set_ctx: { total: { add: "{{ x }}" } } } } } ] } } }
"""  # noqa: E501


def results(events: list[ItemsDone]) -> list[tuple[int, Any]]:
    return [
        (item.index, item.outcome.result if item.outcome.status == "ok" else item.outcome.status)
        for event in events
        for item in event.items
    ]


def test_items_of_a_sequential_loop_see_the_writes_before_them() -> None:
    worker = Worker(LOOP, lambda params, context: params["before"])
    events = worker.items(worker.chunk([10, 20, 30], overlay=[Patch("ctx", "total", 5, "add")]))
    assert results(events) == [(0, 5), (1, 15), (2, 35)]
    assert events[-1].closed and events[-1].rest is None
    assert [item.outcome.patches for item in events[0].items] == [
        [Patch("ctx", "total", n, "add")] for n in (10, 20, 30)
    ]


def test_items_of_a_parallel_loop_see_the_frozen_scope() -> None:
    worker = Worker(LOOP, lambda params, context: params["before"])
    command = worker.chunk([10, 20, 30], "parallel", skip=(1,), scope=FrozenScope(ctx={"total": 7}))
    assert results(worker.items(command)) == [(0, 7), (2, 7)]


@pytest.mark.parametrize(
    ("fail_fast", "done"), [(True, [(0, 1), (1, "error")]), (False, [(0, 1), (1, "error"), (2, 3)])]
)
def test_a_failed_item_stops_a_sequential_chunk_only_under_fail_fast(
    fail_fast: bool, done: list[tuple[int, Any]]
) -> None:
    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        if params["v"] == 2:
            raise TaskError("two")
        return params["v"]

    worker = Worker(LOOP, tool)
    events = worker.items(worker.chunk([1, 2, 3], fail_fast=fail_fast))
    assert results(events) == done
    assert events[-1].closed


def test_outcomes_leave_every_second_and_one_message_holds_no_more_than_fits() -> None:
    clock = Clock()

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        clock.now += 0.4
        return params["v"]

    worker = Worker(LOOP, tool, clock=clock)
    events = worker.items(worker.chunk(list(range(7))))
    assert [len(event.items) for event in events] == [3, 3, 1]
    assert [event.closed for event in events] == [False, False, True]
    assert [round(event.elapsed, 1) for event in events] == [1.2, 1.2, 0.4]
    bulky = Worker(LOOP, lambda params, context: "y" * 20_000)
    sizes = [len(encode_event(event)) for event in bulky.items(bulky.chunk([0] * 20))]
    assert len(sizes) > 2 and max(sizes) < 128 * 1024


def test_a_revoked_chunk_stops_between_two_items() -> None:
    asked: list[int] = []

    def revoked(execution_id: int, run: int) -> bool:
        asked.append(execution_id)
        return len(asked) > 2

    worker = Worker(LOOP, lambda params, context: 1, revoked=revoked)
    events = worker.items(worker.chunk([1, 2, 3, 4]))
    assert results(events) == [(0, 1), (1, 1)]
    assert events[-1].closed


ANSWERED = """workflow:
  - step: s
    tool:
      - work:
          kind: http
          url: a
          spec:
            policy:
              rules:
                - { when: "{{ outcome.status == 'error' and outcome.error.retryable }}", then: { do: retry, attempts: 3, delay: 0 } }
                - { else: { then: { do: continue } } }
      - note: { kind: http, url: b }
"""


@pytest.mark.parametrize("ends", ["well", "badly", "elsewhere"])
def test_a_pipeline_that_nobody_wants_any_more_makes_no_further_call(ends: str) -> None:
    ended: list[str] = []

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        ended.append(context.task)
        if ends == "badly":
            raise TaskError("the execution was cancelled", kind="cancelled", retryable=True)
        return PollRequest({"job": 1}, 5.0) if ends == "elsewhere" else 1

    given_up = (lambda execution_id, run: True) if ends == "elsewhere" else None
    worker = Worker(
        ANSWERED, tool, revoked=lambda execution_id, run: bool(ended) and given_up is None, given_up=given_up
    )
    outcome = worker.outcome()
    assert ended == ["work"] and worker.kinds.stopped == ([{"job": 1}] if ends == "elsewhere" else [])
    assert outcome.error is not None and (outcome.error.kind, outcome.error.code) == ("cancelled", "revoked")


def test_a_sequential_item_that_waits_takes_the_rest_of_the_chunk_with_it() -> None:
    tries: dict[Any, int] = {}

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        tries[params["v"]] = tries.get(params["v"], 0) + 1
        if params["v"] == 2 and tries[2] < 2:
            raise TaskError("busy", retryable=True)
        return params["before"]

    body = LOOP.replace("{ do: fail }", "{ do: retry, attempts: 2, delay: 60 }")
    worker = Worker(body, tool)
    command = worker.chunk([1, 2, 3])
    (event,) = worker.items(command)
    assert results([event]) == [(0, 0)]
    rest = event.rest
    assert rest is not None and not event.closed
    assert (rest.start, rest.overlay) == (1, [Patch("ctx", "total", 1, "add")])
    assert rest.outcome is not None and rest.outcome.suspend is not None
    loop = command.loop
    assert loop is not None
    later = msgspec.structs.replace(
        command,
        turn=1,
        loop=msgspec.structs.replace(loop, start=1, items=[2, 3]),
        machine=rest.outcome.suspend.machine,
        overlay=rest.overlay,
    )
    assert results(worker.items(later)) == [(1, 1), (2, 3)]
    assert tries == {1: 1, 2: 2, 3: 1}


def test_what_an_item_was_suspended_with_is_not_for_the_item_after_it() -> None:
    """A later turn is given out again after its first item was reported: the next one begins from its start."""
    body = LOOP.replace("{ do: fail }", "{ do: retry, attempts: 3, delay: 60 }")
    attempts: list[tuple[int, int]] = []

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        attempts.append((params["v"], context.attempt))
        raise TaskError("busy", retryable=True)

    worker = Worker(body, tool)
    command = worker.chunk([1, 2])
    (event,) = worker.items(command)
    assert event.rest is not None and event.rest.outcome is not None and command.loop is not None
    suspend = event.rest.outcome.suspend
    assert suspend is not None
    loop = msgspec.structs.replace(command.loop, skip=(0,))
    again = msgspec.structs.replace(command, turn=1, attempt=2, machine=suspend.machine, loop=loop)
    (event,) = worker.items(again)
    assert attempts == [(1, 1), (2, 1)]
    assert event.rest is not None and event.rest.start == 1


def test_a_parallel_item_that_waits_goes_on_alone() -> None:
    body = LOOP.replace("{ do: fail }", "{ do: retry, attempts: 2, delay: 60 }")

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        if params["v"] == 2 and context.attempt == 1:
            raise TaskError("busy")
        return params["v"]

    worker = Worker(body, tool)
    command = worker.chunk([1, 2, 3], "parallel")
    (event,) = worker.items(command)
    assert results([event]) == [(0, 1), (1, "suspended"), (2, 3)] and event.closed
    suspend = event.items[1].outcome.suspend
    assert suspend is not None and command.loop is not None
    alone = msgspec.structs.replace(
        command,
        command_id=ids.item_command_id(1, 1, 1),
        turn=1,
        loop=msgspec.structs.replace(command.loop, start=1, stop=2, items=[2]),
        machine=suspend.machine,
    )
    assert results(worker.items(alone)) == [(1, 2)]


def test_a_chunk_short_of_time_hands_back_what_is_left() -> None:
    left = [14.0]

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        left[0] -= 5
        return params["v"]

    worker = Worker(LOOP, tool, deadline=lambda: left[0])
    (event,) = worker.items(worker.chunk([1, 2, 3, 4]))
    assert results([event]) == [(0, 1), (1, 2)]
    assert event.rest is not None and (event.rest.start, event.rest.outcome) == (2, None)
    assert event.rest.overlay == [Patch("ctx", "total", 3, "add")]


def test_what_is_only_gathered_does_not_travel_with_the_rest() -> None:
    left = [14.0]

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        left[0] -= 5
        return "row"

    body = (
        "workflow:\n  - step: s\n    loop: { in: '{{ [1] }}', iterator: x }\n    tool: { kind: tool }\n    case:\n"
        "      - { when: \"{{ event.name == 'call.done' }}\", then: { collect: { from: result, into: rows } } }\n"
    )
    worker = Worker(body, tool, deadline=lambda: left[0])
    (event,) = worker.items(worker.chunk([1, 2, 3, 4]))
    assert event.rest is not None and event.rest.overlay == []
    assert event.items[0].outcome.patches == [Patch("ctx", "rows", "row", "append")]


def test_finished_items_are_told_of_before_the_store_goes_away() -> None:
    worker = Worker(
        LOOP, lambda params, context: BIG if params["v"] == 2 else params["v"], results=AwayStore()
    )
    events: list[Event] = []
    with pytest.raises(InfrastructureError):
        run_command(worker.chunk([1, 2, 3]), worker.deps, events.append)
    (event,) = events
    assert isinstance(event, ItemsDone)
    assert (results([event]), event.closed, event.rest) == ([(0, 1)], False, None)


def timed(
    body: str, left: list[float], tool: Tool = lambda params, context: params, **settings: Any
) -> Worker:
    """A worker in which no call can have more than 100 seconds."""
    return Worker(body, tool, deadline=lambda: left[0], longest=100.0, **settings)


def task_of(timeout: float | None) -> str:
    wanted = "" if timeout is None else f", spec: {{ timeout: {timeout} }}"
    return f"workflow:\n  - step: s\n    tool: {{ kind: tool{wanted} }}\n"


def test_a_call_that_would_not_fit_is_left_to_the_next_turn() -> None:
    left = [79.0]
    worker = timed(task_of(80), left)
    first = worker.outcome()
    assert first.suspend is not None and first.suspend.delay == 0
    assert worker.kinds.contexts == []
    left[0] = 100.0
    resumed = worker.command(turn=1, machine=first.suspend.machine)
    assert worker.outcome(resumed).status == "ok"
    (context,) = worker.kinds.contexts
    assert (context.timeout, context.attempt, context.idempotency_key) == (80, 1, "7/1/s_task")


def test_a_call_that_would_fit_into_no_turn_fails_and_says_what_to_do() -> None:
    worker = timed(task_of(101), [100.0])
    error = worker.outcome().error
    assert error is not None and worker.kinds.contexts == []
    assert (error.kind, error.code, error.retryable) == ("schema", "timeout_too_long", False)
    assert "101 s" in error.message and "100 s" in error.message
    assert error.hint is not None and "Fargate" in error.hint


def test_a_default_timeout_gives_way_to_what_the_worker_has() -> None:
    worker = Worker(task_of(None), deadline=lambda: 20.0, longest=20.0)
    assert worker.outcome().status == "ok"
    assert worker.kinds.contexts[0].timeout == 20.0


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_a_chunk_whose_next_call_would_not_fit_hands_back_the_rest(mode: str) -> None:
    left = [100.0]

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        left[0] -= 30
        return params["v"]

    worker = timed(LOOP, left, tool)
    (event,) = worker.items(worker.chunk([1, 2, 3, 4, 5], mode))
    assert [index for index, _ in results([event])] == [0, 1, 2], "30 s each, and 33 s must be left for one"
    assert event.rest is not None and (event.rest.start, event.closed) == (3, False)
    assert event.undone == 2


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_a_chunk_that_begins_too_late_goes_back_whole(mode: str) -> None:
    worker = timed(LOOP, [32.0])
    (event,) = worker.items(worker.chunk([1, 2, 3], mode))
    assert event.items == [] and event.undone == 3
    assert event.rest is not None and event.rest.start == 0
    assert (event.rest.outcome is not None) == (mode == "sequential")


TWO_TASKS = """workflow:
  - step: start
    tool:
      - a: { kind: tool, v: a }
      - b: { kind: tool, v: b }
"""


@pytest.mark.parametrize("body", [TWO_TASKS, None])
def test_what_a_task_defers_is_done_before_the_next_one(body: str | None) -> None:
    """The next one may take an hour: processes that the first left would run as long, and many items pile up what is deferred."""
    order: list[str] = []

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        order.append(f"call {params['v']}")
        defer(lambda: order.append(f"look {params['v']}"))
        return params["v"]

    worker = Worker(body or LOOP, tool)
    with deferring():
        worker.run(None if body else worker.chunk(["a", "b"], "parallel"))
        assert order == ["call a", "look a", "call b"]


def test_an_item_that_waits_for_nothing_but_time_goes_on_as_its_own_command() -> None:
    worker = timed(LOOP, [32.0])
    alone = msgspec.structs.replace(
        worker.chunk(["c"], "parallel"),
        command_id=ids.item_command_id(1, 1, 2),
        loop=LoopSlice(1, 2, 3, 3, "x", "parallel", items=["c"]),
    )
    (event,) = worker.items(alone)
    (item,) = event.items
    assert item.index == 2 and item.outcome.suspend is not None and event.rest is None
