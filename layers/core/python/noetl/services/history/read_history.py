"""History as people and clients read it: stored rows expanded to events.

A row holds several facts and what workers traced; each becomes one event with the id ``<row's event id>:<n>`` (names of another
vocabulary that share a stored event add another ``:<m>``). Rows are read as plain JSON, not as facts, so that a row written by a newer
version is shown as well as it can be. Order: the main lane, and each loop's items in index order before the loop's end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec

from noetl.domain import codec, ids
from noetl.domain.event_names import NAMES, UNREADABLE, EventStatus, Source, Vocabulary, name_of, names_in
from noetl.domain.text.timestamps import TimeText, rfc3339
from noetl.domain.unreadable import Unreadable, attempt
from noetl.ports.executions.execution_store import StoredEvent


class HistoryEvent(msgspec.Struct, frozen=True):
    """The event envelope of the API.

    ``execution_id`` is text: it does not fit a JavaScript number.
    """

    event_id: str
    event_type: str
    execution_id: str
    timestamp: TimeText
    source: Source
    entity_type: str
    entity_id: str
    status: EventStatus
    payload: dict[str, Any]
    meta: dict[str, Any]


class _EventBody(msgspec.Struct, frozen=True):
    """One event before it gets its id."""

    name: str
    status: EventStatus
    entity: str
    payload: dict[str, Any]
    meta: dict[str, Any]
    source: Source | None = None


_STATUS: dict[str, EventStatus] = {
    **dict.fromkeys(
        (
            "workflow.initialized",
            "step.enter",
            "step.parked",
            "command.issued",
            "command.claimed",
            "command.started",
            "loop.started",
            "loop.closing",
            "retry.scheduled",
            "wait.started",
            "callback.awaited",
            "child.started",
            "timer.set",
            "compensation.started",
            "ending.started",
        ),
        "in_progress",
    ),
    **dict.fromkeys(
        (
            "step.failed",
            "call.error",
            "callback.expired",
            "command.failed",
            "playbook.failed",
            "execution.cancelled",
        ),
        "error",
    ),
    **dict.fromkeys(("step.skipped", "command.superseded", "token.absorbed"), "skipped"),
}
_ENTITY_KEYS = {"playbook": ("path", "child"), "workflow": ("timer",), "task": ("step",)}
"""Which field of a fact names what it is about, by the kind of entity."""
_NOT_PAYLOAD = frozenset({"name", "trace", "meta", "word", "proofs"})


Called = Callable[[int, int], int]
"""The index of an item in the whole loop, by its loop's run and its place in that run."""


def _by_place(run: int, place: int) -> int:
    return place


def row_events(
    execution_id: int,
    row: StoredEvent,
    *,
    step: str = "",
    vocabulary: Vocabulary = "stored",
    called: Called = _by_place,
) -> Iterator[HistoryEvent]:
    """Yield the events of one stored row.

    ``step``: the step of a loop's lane, which item rows do not repeat. A row that cannot be read is one event ``row.unreadable``.
    """
    found = attempt(lambda: list(_bodies(execution_id, row, step, called)), f"event {row.event_id}")
    bodies = [_unread_body(row, found)] if isinstance(found, Unreadable) else found
    for number, event in enumerate(bodies):
        event_id = f"{row.event_id}:{number}"
        names = names_in(vocabulary, event.name, event.status)
        for part, (name, status) in enumerate(names):
            part_id = event_id if len(names) == 1 else f"{event_id}:{part}"
            yield _envelope(execution_id, row, event, part_id, name, status)


def _bodies(execution_id: int, row: StoredEvent, step: str, called: Called) -> Iterator[_EventBody]:
    return _item_bodies(row, step, called) if row.lane else _row_bodies(execution_id, row, called)


def _unread_body(row: StoredEvent, found: Unreadable) -> _EventBody:
    return _EventBody(UNREADABLE, "error", row.event_id, {"type": row.type, "why": found.why}, {})


def _envelope(
    execution_id: int, row: StoredEvent, event: _EventBody, event_id: str, name: str, status: EventStatus
) -> HistoryEvent:
    known = name_of(event.name)
    return HistoryEvent(
        event_id=event_id,
        event_type=name,
        execution_id=str(execution_id),
        timestamp=rfc3339(row.at),
        source=event.source or known.source,
        entity_type=known.entity,
        entity_id=event.entity,
        status=status,
        payload=event.payload,
        meta={"lane": row.lane, "seq": row.seq, **event.meta},
    )


# --- main lane ----------------------------------------------------------------------------------


def events_of_fact(row: StoredEvent) -> list[int]:
    """Return how many events show each fact of a main-lane row, in order.

    Raises ValueError for what is no list of facts.
    """
    return [len(bodies) for bodies in _facts_bodies(0, row, _by_place)]


def _row_bodies(execution_id: int, row: StoredEvent, called: Called) -> Iterator[_EventBody]:
    return chain.from_iterable(_facts_bodies(execution_id, row, called))


def _facts_bodies(execution_id: int, row: StoredEvent, called: Called) -> Iterator[list[_EventBody]]:
    """Yield the events of each fact of a row; none for a fact that only folding needs."""
    command = _command_of(row.event_id)
    for fact in read_facts(row):
        if fact.get("name") in SILENT or fact.get("stage") == "route":
            yield []
            continue
        if fact.get("index", -1) >= 0:
            fact = {**fact, "index": called(int(fact["run"]), int(fact["index"]))}
        by_worker = command is not None and fact.get("run") == _run_of(command[0])
        yield list(_fact_bodies(execution_id, fact, command if by_worker else None))
        if by_worker and fact.get("name") in _WORKER_FACTS:
            command = None


def _fact_bodies(
    execution_id: int, fact: Mapping[str, Any], command: tuple[str, int] | None
) -> Iterator[_EventBody]:
    name = str(fact.get("name", ""))
    body = _fact_event(execution_id, fact, name)
    if name in _WORKER_FACTS:
        yield from _call_bodies(body, fact, command)
    elif name == "playbook.initialized":
        yield body
        yield _EventBody("workflow.initialized", "in_progress", str(execution_id), {}, {})
    elif name in ("playbook.completed", "playbook.failed", "execution.cancelled"):
        yield _EventBody("workflow.completed", body.status, str(execution_id), {}, {})
        yield body
    else:
        yield body


def _fact_event(execution_id: int, fact: Mapping[str, Any], name: str) -> _EventBody:
    if name == "loop.item":
        name = "loop.closing"
    status: EventStatus = _STATUS.get(name, "success")
    if name == "loop.done" and fact.get("error"):
        status = "error"
    meta = dict(fact.get("meta") or {})
    for key in ("run", "turn", "principal", "correlation_id"):
        if fact.get(key):
            meta[key] = fact[key]
    payload = {key: value for key, value in fact.items() if key not in _NOT_PAYLOAD}
    return _EventBody(name, status, _entity(execution_id, fact, name), payload, meta)


def _entity(execution_id: int, fact: Mapping[str, Any], name: str) -> str:
    arrival = fact.get("arrival")
    if isinstance(arrival, Mapping):
        return str(arrival.get("step", ""))
    known = NAMES.get(name)
    keys = _ENTITY_KEYS.get(known.entity if known else "step", ("command_id", "step", "path"))
    return str(next((fact[key] for key in keys if fact.get(key)), execution_id))


SILENT = frozenset({"case.applied", "family.told"})
"""Facts that only folding needs."""

_WORKER_FACTS = frozenset(
    {"call.done", "call.error", "retry.scheduled", "child.started", "wait.started", "callback.awaited"}
)
"""Facts that tell what a worker reported, when it was a worker that ran the step (control kinds run in the engine)."""


def _call_bodies(
    body: _EventBody, fact: Mapping[str, Any], command: tuple[str, int] | None
) -> Iterator[_EventBody]:
    meta = {"run": fact.get("run"), "step": fact.get("step")}
    if fact.get("stage") == "compensate":
        meta["stage"] = "compensate"
    if command is not None:
        command_meta = {**meta, "turn": command[1]}
        yield _EventBody("command.claimed", "in_progress", command[0], {}, command_meta)
        yield _EventBody("command.started", "in_progress", command[0], {}, command_meta)
    yield from _task_bodies(fact, body, meta)
    if body.name == "retry.scheduled" and _ends_with(fact.get("trace"), body.name):
        return
    yield _EventBody(
        body.name, body.status, body.entity, body.payload, body.meta, "worker" if command else "server"
    )
    if command is not None and body.name in ("call.done", "call.error"):
        ended = "command.completed" if body.name == "call.done" else "command.failed"
        yield _EventBody(ended, body.status, command[0], {}, command_meta)


def _task_bodies(report: Mapping[str, Any], body: _EventBody, meta: dict[str, Any]) -> Iterator[_EventBody]:
    """Yield the events of the tasks that a worker traced.

    A worker traces nothing for a single task that was called once: those events come from the report itself.
    """
    trace = report.get("trace")
    done = body.name in ("call.done", "call.error") and report.get("stage", "body") in ("body", "compensate")
    if trace or not done:
        yield from _trace_bodies(trace, meta)
        return
    facts = {key: value for key, value in (report.get("meta") or {}).items() if key == "duration_ms"}
    yield _EventBody("task.started", "in_progress", body.entity, {}, meta)
    yield _EventBody("task.done", body.status, body.entity, facts, meta)


def _ends_with(trace: Any, name: str) -> bool:
    """Check whether the trace ends with event ``name``.

    That event already shows why the run stopped.

    A retry earlier in the trace was carried out in the same turn.
    """
    return isinstance(trace, list) and bool(trace) and trace[-1].get("name") == name


def _trace_bodies(trace: Any, meta: dict[str, Any]) -> Iterator[_EventBody]:
    for entry in trace if isinstance(trace, list) else ():
        yield _EventBody(
            str(entry.get("name", "")),
            entry.get("status", "success"),
            str(entry.get("entity", "")),
            dict(entry.get("payload") or {}),
            meta,
        )


# --- items --------------------------------------------------------------------------------------


def _item_bodies(row: StoredEvent, step: str, called: Called) -> Iterator[_EventBody]:
    outcome = codec.decode(row.facts)
    status = outcome.get("status")
    index = called(row.lane, row.seq)
    meta = {
        "run": row.lane,
        "step": step,
        "loop_event_id": _loop_of(row.event_id),
        "loop_iteration_index": index,
    }
    if status == "suspended":
        suspend = outcome.get("suspend") or {}
        name = "child.started" if suspend.get("child") else "retry.scheduled"
        if suspend.get("task"):
            name = "wait.started"
        shown = {
            key: suspend[key] for key in ("delay", "until", "task", "child") if suspend.get(key) is not None
        }
        trace = outcome.get("trace") or ()
        yield from _trace_bodies(trace, meta)
        if suspend.get("callback") or _ends_with(trace, name):
            return
        yield _EventBody(name, "in_progress", step, shown, meta)
        return
    body = _item_call(outcome, status, step, meta)
    yield from _task_bodies(outcome, body, meta)
    yield body
    yield _EventBody("loop.item", body.status, step, {"index": index}, meta)


def _item_call(outcome: Mapping[str, Any], status: Any, step: str, meta: dict[str, Any]) -> _EventBody:
    name = "call.error" if status == "error" else "call.done"
    event_status: EventStatus = (
        "error" if status == "error" else "skipped" if status == "skipped" else "success"
    )
    payload = {key: meta[key] for key in ("loop_event_id", "loop_iteration_index")}
    for key in ("result", "error", "labels", "route"):
        if outcome.get(key) is not None:
            payload[key] = outcome[key]
    return _EventBody(name, event_status, step, payload, {**meta, **(outcome.get("meta") or {})})


# --- reading ids --------------------------------------------------------------------------------


def facts_of(row: StoredEvent) -> list[dict[str, Any]]:
    """Return the facts of a row as plain JSON; none when it cannot be read."""
    found = attempt(lambda: read_facts(row), row.event_id)
    return [] if isinstance(found, Unreadable) else found


def read_facts(row: StoredEvent) -> list[dict[str, Any]]:
    """Decode the facts of a row. Raises ValueError for what is no list of facts."""
    found = codec.decode(row.facts)
    if not isinstance(found, list):
        raise ValueError("it is not a list of facts")
    facts = [fact for fact in found if isinstance(fact, dict)]
    if any(not isinstance(fact.get("run", 0), int) for fact in facts):
        raise ValueError("the run of a fact is no number")
    return facts


def _command_of(event_id: str) -> tuple[str, int] | None:
    """Return (command, turn) of ``cmd:<command>:<turn>``."""
    parts = event_id.split(":")
    if len(parts) != 3 or parts[0] != "cmd" or not parts[2].isdigit():
        return None
    return parts[1], int(parts[2])


def _run_of(command: str) -> int:
    head = command.split(".", 1)[0]
    return int(head) if head.isdigit() else -1


def _loop_of(event_id: str) -> str:
    """Return the id of the loop's end for ``item:<run>:<round>:<index>…``."""
    parts = event_id.split(":")
    if len(parts) < 4 or not (parts[1].isdigit() and parts[2].isdigit()):
        return event_id
    return ids.loop_done_event(int(parts[1]), int(parts[2]))
