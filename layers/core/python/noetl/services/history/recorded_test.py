"""A test file made from the history of an execution.

It has its input, recorded results as replies, and its end as expectation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import yaml

from noetl.domain import codec
from noetl.domain.errors import ConflictError, InvalidInputError
from noetl.domain.long_work import begin_long_work
from noetl.domain.sizes.table import PLAYBOOK_BYTES
from noetl.dsl.program import KeychainEntry, LiteralNode, Map, Program, Step
from noetl.dsl.work import Task, tasks_in
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.ports.results import ResultStore
from noetl.services.history.history_pages import history
from noetl.services.history.read_history import HistoryEvent
from noetl.services.queries import read_execution

RUN_IN_TESTS = frozenset({"artifact", "noop", "resolve", "wait"})
"""Kinds that a test runs as they are, for their outcome follows from their input."""
CODE = frozenset({"python"})
MOST_REPLIES = 500
SECRET_NAMES = re.compile(
    r"(?i)(?:.*[_-])?(?:password|passwd|secret|api_?key|access_?key|private_?key|authorization|"
    r"(?:access|refresh|id|auth|bearer)_?token)"
)
MADE_UP = "made-up"
NEVER_SECONDS = 100_000_000
"""How long a call takes that had no outcome: what ended it comes first."""
_ENDS = {"playbook.completed": "completed", "playbook.failed": "failed", "execution.cancelled": "cancelled"}


class RecordedTest(msgspec.Struct, frozen=True):
    """A test file as text. ``notes``: what it does not repeat, and why."""

    path: str
    program: str
    tests: str
    notes: list[str]


def make_test(
    store: ExecutionStore,
    results: ResultStore,
    programs: Callable[[str], Program],
    execution_id: int,
    *,
    code: bool,
) -> RecordedTest:
    """Make a test file of an execution that has ended, or that waits for something outside.

    ``code``: run code of the playbook; otherwise its recorded results take its place. Raises NotFoundError,
    ConflictError(code="not_settled"), and InvalidInputError(code="test_too_large").
    """
    info = read_execution.find(store, execution_id)
    begin_long_work()
    status = read_execution.view_status(info)
    if status not in ("completed", "failed", "cancelled", "waiting"):
        raise ConflictError(
            f"execution {execution_id} is {status}: its end is not known yet",
            code="not_settled",
            hint="make a test of it when it has ended, or when it waits for something outside",
            retryable=True,
        )
    recording = _Recording(lambda value: read_execution.resolve(value, results))
    for event in history(store, execution_id):
        if not recording.add(event):
            break
    recording.name = f"execution {execution_id}, {_ENDS.get(recording.end, status)}"
    program = programs(recording.program)
    case = recording.case(program, code=code)
    expect = recording.expectation()
    if recording.end == "playbook.completed" and not recording.redriven:
        expect["result"] = recording.hidden(read_execution.result(store, results, execution_id))
    document = {"cases": [{**case, "expect": expect}]}
    if len(codec.encode(document)) > PLAYBOOK_BYTES.value:
        raise _too_large(f"its values have more than {PLAYBOOK_BYTES.value} bytes")
    return RecordedTest(info.path, recording.program, written(document), recording.notes)


def written(document: Any) -> str:
    """Write a document as YAML 1.2; what is text stays text when it is read."""
    return yaml.dump(document, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=110)


def _too_large(why: str) -> InvalidInputError:
    return InvalidInputError(
        f"a test of this execution would be too large: {why}",
        code="test_too_large",
        hint="start the playbook with less input, and make a test of that execution",
    )


class _Recording:
    """What a history says about inputs, outcomes and what came from outside."""

    def __init__(self, resolve: Callable[[Any], Any]) -> None:
        self.resolve = resolve
        self.name = ""
        self.program, self.started = "", ""
        self.payload: dict[str, Any] = {}
        self.replies: dict[tuple[str, str, int | None], list[dict[str, Any]]] = {}
        self.happenings: list[dict[str, Any]] = []
        self.entered: list[str] = []
        self.parallel = self.redriven = False
        self.end = ""
        self.error: Mapping[str, Any] = {}
        self.failed_step = ""
        self.tried_again: Counter[str] = Counter()
        self.awaited: dict[tuple[str, Any], str] = {}
        self.unanswered: dict[tuple[str, Any], dict[str, Any]] = {}
        self.tools: dict[str, Any] = {}
        self.masked = 0
        self.notes: list[str] = []

    def add(self, event: HistoryEvent) -> bool:
        """Take the next event; False: what follows is another round of the execution."""
        if event.event_type == "execution.redriven":
            self.redriven = True
            self.notes.append("the execution was redriven later: the test is of its first end")
            return False
        if found := _ADD.get(event.event_type):
            found(self, event, event.payload)
        return True

    def _begin(self, event: HistoryEvent, payload: Mapping[str, Any]) -> None:
        self.program, self.started = str(payload["program"]), event.timestamp
        self.payload = self.hidden(self.resolve(payload.get("workload") or {}))

    def _enter(self, event: HistoryEvent, payload: Mapping[str, Any]) -> None:
        self.entered.append(event.entity_id)

    def _route(self, event: HistoryEvent, payload: Mapping[str, Any]) -> None:
        self.parallel = self.parallel or len(payload.get("targets") or ()) > 1

    def _task(self, event: HistoryEvent, payload: Mapping[str, Any]) -> None:
        """Keep why a task of several failed: its step may continue all the same."""
        if event.status == "error" and payload.get("error"):
            index = event.meta.get("loop_iteration_index")
            place = (str(event.meta.get("step")), f"{event.entity_id}:failed", index)
            self._keep(place, {"error": {"message": str(payload["error"])}})

    def _retry(self, event: HistoryEvent, payload: Mapping[str, Any]) -> None:
        if event.meta.get("step") or payload.get("step"):
            self.tried_again[str(event.meta.get("step") or payload.get("step"))] += 1

    def _call(self, event: HistoryEvent, payload: Mapping[str, Any]) -> None:
        """Keep what each task of a call returned; ``""`` is the task of a step that has one."""
        step = str(payload.get("step") or event.meta.get("step"))
        index = event.meta.get("loop_iteration_index")
        stage = str(payload.get("stage", "body"))
        labels = payload.get("labels") or {}
        self._answer(event, payload)
        for label, value in labels.items():
            self._keep((step, label, index), {"result": value})
        if event.event_type == "call.error" or payload.get("error"):
            failed = _error_reply(payload.get("error") or {})
            self._keep((step, f"{stage}:error", index), failed)
        elif not labels:
            reply = {"result": payload.get("result")}
            self._keep(
                (step, stage, index), reply | ({"http": http} if (http := event.meta.get("http")) else {})
            )

    def _keep(self, place: tuple[str, str, int | None], reply: dict[str, Any]) -> None:
        self.replies.setdefault(place, []).append(reply)

    def _patched(self, event: HistoryEvent, payload: Mapping[str, Any]) -> None:
        if payload.get("run"):
            return
        patch = {
            one["name"]: one.get("value") for one in payload.get("patches") or () if one["scope"] == "ctx"
        }
        self._happened({"patch": self.hidden(self.resolve(patch))})

    def _awaits(self, event: HistoryEvent, payload: Mapping[str, Any]) -> None:
        self.awaited[_place(event, payload)] = str(payload.get("task", ""))

    def _called_back(self, event: HistoryEvent, payload: Mapping[str, Any]) -> None:
        """Keep an answer; the one that a task waited for is what the task returns."""
        callback: dict[str, Any] = {"step": str(payload["step"])}
        if payload.get("index", -1) >= 0:
            callback["index"] = payload["index"]
        if payload.get("early"):
            callback["body"] = self.hidden(self.resolve((payload.get("outcome") or {}).get("result")))
        else:
            self.unanswered[_place(event, payload)] = callback
        self._happened({"callback": callback})

    def _answer(self, event: HistoryEvent, payload: Mapping[str, Any]) -> None:
        place = _place(event, payload)
        callback = self.unanswered.pop(place, None)
        if callback is not None:
            label = self.awaited.get(place, "")
            found = (payload.get("labels") or {}).get(label, payload.get("result"))
            callback["body"] = self.hidden(self.resolve(found))

    def _paused(self, event: HistoryEvent, payload: Mapping[str, Any]) -> None:
        self._happened(
            {event.event_type.removeprefix("execution.").removesuffix("d"): payload.get("reason", "")}
        )

    def _token(self, event: HistoryEvent, payload: Mapping[str, Any]) -> None:
        arrival = payload.get("arrival") or {}
        self.parallel = True
        self._happened(
            {"token": {"step": str(arrival.get("step")), "args": self.resolve(arrival.get("args") or {})}}
        )

    def _happened(self, what: dict[str, Any]) -> None:
        self.happenings.append({"when": "idle", **what})

    def _ended(self, event: HistoryEvent, payload: Mapping[str, Any]) -> None:
        self.end = event.event_type
        self.error = payload.get("error") or {}
        self.failed_step = str(payload.get("step") or "")
        if self.end == "execution.cancelled":
            self._happened({"cancel": str(payload.get("reason") or "cancelled")})

    # --- the document ---

    def expectation(self) -> dict[str, Any]:
        """Return status, error and the steps that were entered."""
        expect: dict[str, Any] = {"status": _ENDS.get(self.end, "waiting")}
        if expect["status"] == "failed":
            wanted = {key: self.error[key] for key in ("kind", "code") if self.error.get(key)}
            expect["error"] = wanted | ({"step": self.failed_step} if self.failed_step else {})
        if self.parallel:
            expect["runs"] = dict(Counter(self.entered))
        elif self.entered:
            expect["path"] = self.entered
        return expect

    def case(self, program: Program, *, code: bool) -> dict[str, Any]:
        """Return the case without its expectation."""
        real = RUN_IN_TESTS | (CODE if code else frozenset())
        for step in program.steps:
            for stage, pipeline in (("body", step.body), ("compensate", step.compensate)):
                if pipeline is not None:
                    self._reply(step, stage, pipeline.tasks, real)
        if any(task.label.endswith("_sink") and task.kind not in real for task in tasks_in(program.steps)):
            self.tools["sink"] = {"result": None}
        self._say()
        case: dict[str, Any] = {"name": self.name, "now": self.started, "unused_tools": True}
        case["payload"] = self.payload
        if credentials := _made_up(program):
            case["credentials"] = credentials
        if self.tools:
            case["tools"] = self.tools
        if self.happenings:
            case["happenings"] = self.happenings
        return case

    def _reply(self, step: Step, stage: str, tasks: Sequence[Task], real: frozenset[str]) -> None:
        for number, task in enumerate(tasks):
            if task.nested is not None:
                self.notes.append(
                    f"step {step.name}: calls of the loop inside it are not recorded one by one"
                )
            if task.kind in real or task.nested is not None:
                continue
            name = _name(step, task, len(tasks))
            found = list(self._of(step, stage, task, last=number == len(tasks) - 1, alone=len(tasks) == 1))
            for index, replies in found:
                key = name if index is None else f"{name}[{index}]"
                shown = [_shaped(task, self.hidden(self.resolve(one))) for one in replies]
                self.tools[key] = shown[0] if all(one == shown[0] for one in shown) else shown
                if len(self.tools) > MOST_REPLIES:
                    raise _too_large(f"it has more than {MOST_REPLIES} recorded replies")
            if step.name in self.entered and name not in self.tools:
                self.tools[name] = {"result": None, "delay": NEVER_SECONDS}

    def _of(
        self, step: Step, stage: str, task: Task, *, last: bool, alone: bool
    ) -> Iterator[tuple[int | None, list[dict[str, Any]]]]:
        """Yield the replies of a task by index of an item.

        The error of a failed call is that of the task that failed.
        """
        places = {index for name, _, index in self.replies if name == step.name}
        for index in sorted(places, key=lambda one: -1 if one is None else one):
            found = list(self.replies.get((step.name, task.label, index), ()))
            if alone or (last and not found):
                found += self.replies.get((step.name, stage, index), ())
            if alone or not found:
                found += self.replies.get((step.name, f"{stage}:error", index), ())
            found = found or list(self.replies.get((step.name, f"{task.label}:failed", index), ()))[-1:]
            if found:
                yield index, found

    def _say(self) -> None:
        for step, count in self.tried_again.items():
            self.notes.append(f"step {step}: {count} failed attempt(s) that were tried again are left out")
        if self.masked:
            self.notes.append(f"{self.masked} value(s) whose names mean secrets are replaced by {MADE_UP!r}")

    def hidden(self, value: Any) -> Any:
        """Return a value with what secret names hold made up."""
        if isinstance(value, Mapping):
            return {key: self._hidden_entry(key, item) for key, item in value.items()}
        return [self.hidden(item) for item in value] if isinstance(value, list) else value

    def _hidden_entry(self, key: str, item: Any) -> Any:
        if isinstance(item, str) and item and SECRET_NAMES.fullmatch(key) and set(item) != {"*"}:
            self.masked += 1
            return MADE_UP
        return self.hidden(item)


_ADD: Mapping[str, Callable[[_Recording, HistoryEvent, Mapping[str, Any]], None]] = {
    "playbook.initialized": _Recording._begin,
    "step.enter": _Recording._enter,
    "next.evaluated": _Recording._route,
    "task.done": _Recording._task,
    "callback.awaited": _Recording._awaits,
    "retry.scheduled": _Recording._retry,
    "call.done": _Recording._call,
    "call.error": _Recording._call,
    "ctx.patched": _Recording._patched,
    "callback.received": _Recording._called_back,
    "execution.paused": _Recording._paused,
    "execution.resumed": _Recording._paused,
    "token.injected": _Recording._token,
    **dict.fromkeys(_ENDS, _Recording._ended),
}


def _place(event: HistoryEvent, payload: Mapping[str, Any]) -> tuple[str, Any]:
    """Return step and item of an event."""
    index = payload.get("index", event.meta.get("loop_iteration_index", -1))
    return str(payload.get("step") or event.meta.get("step")), index


def _name(step: Step, task: Task, count: int) -> str:
    own = count == 1 and task.label in (step.name, f"{step.name}_task")
    return step.name if own else f"{step.name}/{task.label}"


def _error_reply(error: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("kind", "code", "message", "status", "retryable", "hint")
    return {"error": {key: error[key] for key in kept if error.get(key) not in (None, "", False)}}


def _shaped(task: Task, reply: dict[str, Any]) -> dict[str, Any]:
    """Return a reply of which the task makes the recorded result.

    ``output.path`` takes a part of it, and the event form of ``http`` the body.
    """
    if "result" not in reply:
        return reply
    value, http = reply["result"], reply.get("http")
    if http and task.form == "event" and task.kind == "http":
        headers = {name: str(text) for name, text in (http.get("headers") or {}).items()}
        return {"status": http.get("status", 200), "headers": headers, "body": value}
    for key in reversed(task.part):
        value = {key: value}
    return {"result": value}


def _made_up(program: Program) -> dict[str, Any]:
    """Return made-up credentials with every field that a template of the playbook reads."""
    text = codec.encode(program).decode()
    found: dict[str, Any] = {}
    for entry in program.keychain:
        name = _credential(entry)
        fields = re.findall(rf"keychain\.{re.escape(entry.name)}\.([A-Za-z_][A-Za-z0-9_]*)", text)
        if name and fields:
            found[name] = {"data": dict.fromkeys(sorted(set(fields)), MADE_UP)}
    return found


def _credential(entry: KeychainEntry) -> str:
    params = entry.params
    if isinstance(params, LiteralNode) and isinstance(params.value, dict):
        return str(params.value.get("credential") or "")
    found = dict(params.entries).get("credential") if isinstance(params, Map) else None
    return str(found.value) if isinstance(found, LiteralNode) else ""


class _Writer(yaml.SafeDumper):
    """YAML as people write it: no anchors, texts of several lines as blocks, indented lists."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


_NUMBER = re.compile(r"[-+]?(?:0o[0-7]+|(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)", re.ASCII)
"""Texts that are numbers in YAML 1.2; PyYAML writes by the rules of 1.1, where ``1e5`` and ``0o7`` are none."""
_BREAKS = re.compile("[\x85\u2028\u2029\ufeff]")
"""Line breaks of YAML 1.1, and the mark that some readers drop: kept by double quotes alone."""
_NO_BLOCK = re.compile(r"[ \t]\n|[^\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd]")


def _text(writer: _Writer, value: str) -> yaml.ScalarNode:
    style = None
    if _BREAKS.search(value):
        style = '"'
    elif "\n" in value and not _NO_BLOCK.search(value):
        style = "|"
    elif _NUMBER.fullmatch(value):
        style = "'"
    return writer.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Writer.add_representer(str, _text)
