"""Callbacks: what a token asks for, and the answer of a client.

The token is the only credential; this module never passes it on.

An answer is an event like any other, durable when ``answer`` returns. Its id is that of the callback, so that it counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NoReturn

import msgspec

from noetl.domain import codec, ids
from noetl.domain.callbacks import (
    SCOPE,
    CallbackId,
    awaited_in,
    digest_of,
    holder,
    proven,
    read_token,
    token_name,
)
from noetl.domain.capability_tokens import KeyRing
from noetl.domain.commands import Command
from noetl.domain.errors import ConflictError, GoneError, InvalidInputError, NotFoundError
from noetl.domain.events import CallbackDone, Held, decode_event
from noetl.domain.outcomes.outcomes import Outcome
from noetl.domain.results.references import INLINE_LIMIT, make_ref, ref_uri
from noetl.domain.sizes.gate import check_value
from noetl.domain.state import TERMINAL, Token
from noetl.domain.text.timestamps import Timestamp, maybe_timestamp
from noetl.domain.wait_request import iso
from noetl.dsl.json_schema.check import misfits
from noetl.dsl.program import LiteralNode, Map, Program, Task, calls_back_task, tasks_in
from noetl.ports.executions.execution_store import ExecutionStore, LoadRequest
from noetl.ports.results import ResultStore
from noetl.services.history.execution_state import state_of
from noetl.services.support.handing_on import handing_on

_PROBLEMS_SHOWN = 3
"""Problems of a body in a message; ``details`` have more."""


class CallbackQuestion(msgspec.Struct, frozen=True, omit_defaults=True):
    """The question that a callback token answers.

    ``waiting``: a step waits for the answer. Otherwise a step will ask later; the callback may be answered before.
    ``index``: of the item of a loop.
    """

    execution_id: str
    step: str
    task: str
    waiting: bool
    message: str = ""
    approve: bool = False
    index: int | None = None
    since: Timestamp | None = None
    until: Timestamp | None = None
    schema: dict[str, Any] | None = None


class CompletedCallback(msgspec.Struct, frozen=True):
    """``event``: durable, to be published. None: it was answered so before."""

    callback: CallbackId
    event: CallbackDone | None


@dataclass(frozen=True, slots=True)
class CallbackDeps:
    """``keys(fresh)``: the key ring, read again when ``fresh``."""

    store: ExecutionStore
    results: ResultStore
    programs: Callable[[str], Program]
    keys: Callable[[bool], KeyRing]
    inline_bytes: int = INLINE_LIMIT


@dataclass(frozen=True, slots=True)
class _Found:
    callback: CallbackId
    program: str
    question: CallbackQuestion
    candidates: tuple[dict[str, Any] | None, ...]
    """Schemas of the tasks that may be what it is for; one when that is known."""


def look(token: str, deps: CallbackDeps) -> CallbackQuestion:
    """Return the question that a token answers.

    Raises NotFoundError (no such token), ConflictError(code="callback_used"), GoneError(code="callback_expired" or "callback_closed").
    """
    callback = _known(token, deps)
    if (used := _used(callback, deps)) is not None:
        _refuse_used(used[0])
    return _find(callback, deps).question


def answer(token: str, body: Any, deps: CallbackDeps, owner: str) -> CompletedCallback:
    """Say ``body`` to the task that waits (or will).

    Raises as ``look`` does, and InvalidInputError(code="callback_schema", "body_invalid" or "size_limit").
    """
    callback = _known(token, deps)
    check_value(body, "body")
    digest = digest_of(body)
    if _is_repeat(callback, digest, deps):
        return CompletedCallback(callback, None)
    event = plan(callback, body, digest, deps)
    posted = deps.store.post(event, owner)
    if posted.posted:
        with handing_on(deps.store, owner, [event]):
            _give_way(event, deps)
        return CompletedCallback(callback, event)
    if posted.status in TERMINAL:
        raise _closed(f"execution {callback.execution_id} is {posted.status}")
    if _is_repeat(callback, digest, deps):
        return CompletedCallback(callback, None)
    raise _closed("it is over")


def plan(callback: CallbackId, body: Any, digest: str, deps: CallbackDeps) -> CallbackDone:
    """Make the event of an answer without posting it.

    Raises GoneError and InvalidInputError, as ``answer`` does.
    """
    found = _find(callback, deps)
    _check_schema(found, body)
    return CallbackDone(
        callback.execution_id,
        ids.callback_event(callback.place, callback.serial),
        found.program,
        callback.place,
        callback.serial,
        Outcome("ok", result=_kept(callback, found.question.step, body, digest, deps)),
        digest,
    )


def _known(token: str, deps: CallbackDeps) -> CallbackId:
    """Read a token, with the keys of the ring or from the store.

    Raises NotFoundError, the same one for a text that is no token and for a token of an unknown execution.
    """
    found = (
        read_token(token, deps.keys(False)) or read_token(token, deps.keys(True)) or _remembered(token, deps)
    )
    if found is None or deps.store.info(found.execution_id) is None:
        raise NotFoundError("there is no such callback", code="callback_not_found")
    return found


def _remembered(token: str, deps: CallbackDeps) -> CallbackId | None:
    """Return the open callback of a token whose key has left the ring.

    A wait may last longer than every key.
    """
    found = token_name(token)
    if found is None:
        return None
    loaded = deps.store.load([LoadRequest(found.execution_id, names=(found.place,))]).executions
    snapshot = loaded.get(found.execution_id)
    awaited = None if snapshot is None else awaited_in(snapshot.slots.get((SCOPE, found.place), {}))
    if awaited is None or awaited.serial != found.serial or not proven(token, awaited):
        return None
    return found


# --- used before ---


def _is_repeat(callback: CallbackId, digest: str, deps: CallbackDeps) -> bool:
    """Return whether the callback has this answer already.

    Raises ConflictError(code="callback_used") when it has another one.
    """
    used = _used(callback, deps)
    if used is None:
        return False
    if used[1] != digest:
        _refuse_used(used[0])
    return True


def _give_way(event: CallbackDone, deps: CallbackDeps) -> None:
    """Withdraw an answer that was posted after another one had left the outbox.

    The engine had just applied that one, or held it for a pause. So the first answer counts, and only the second is withdrawn. Raises
    ConflictError(code="callback_used").
    """
    used = _used(CallbackId(event.execution_id, event.place, event.serial), deps)
    if used is not None and used[1] != event.digest:
        deps.store.record_superseded([], [(event.execution_id, event.event_id)])
        _refuse_used(used[0])


def _used(callback: CallbackId, deps: CallbackDeps) -> tuple[float, str] | None:
    """Return (when, digest) of the answer that counts.

    That answer was applied, is held for a pause, or waits in the outbox.
    """
    event_id = ids.callback_event(callback.place, callback.serial)
    waiting: list[tuple[bool, float, str]] = []
    for found in deps.store.find_events(callback.execution_id, (event_id, ids.held_event(event_id))):
        if found.event is None:
            facts = codec.decode(found.facts or b"[]")
            return found.at, next((str(fact["digest"]) for fact in facts if "digest" in fact), "")
        event = decode_event(found.event)
        inner = event.event if isinstance(event, Held) else event
        digest = inner.digest if isinstance(inner, CallbackDone) else ""
        waiting.append((inner is event, found.at, digest))
    return min(waiting)[1:] if waiting else None


def _refuse_used(at: float) -> NoReturn:
    raise ConflictError(
        f"this callback was answered at {iso(at)}",
        code="callback_used",
        hint="it counts once",
        details={"used_at": iso(at)},
    )


# --- what it is for ---


def _find(callback: CallbackId, deps: CallbackDeps) -> _Found:
    """Find the step that waits, or will wait, for a callback.

    Raises GoneError when no step waits for it any more and none will.
    """
    over = [ids.timer_event(ids.callback_timer(callback.place, callback.serial), 0)]
    if callback.item is not None:
        over.append(ids.item_event(callback.run, *callback.item))
    request = LoadRequest(callback.execution_id, names=(callback.place,), events=tuple(over))
    loaded = deps.store.load([request])
    snapshot = loaded.executions.get(callback.execution_id)
    if snapshot is None or not snapshot.version or snapshot.status in TERMINAL:
        status = "gone" if snapshot is None else snapshot.status
        raise _closed(f"execution {callback.execution_id} is {status}")
    if over[0] in snapshot.applied:
        raise _expired()
    state = state_of(callback.execution_id, snapshot.state)
    token = holder(state, callback.place)
    if token is None or snapshot.applied:
        raise _closed("the step run it is for is over")
    slot = snapshot.slots.get((SCOPE, callback.place), {})
    awaited = awaited_in(slot)
    item = None if callback.item is None else callback.item[1]
    execution_id = str(callback.execution_id)
    if awaited is not None and awaited.serial == callback.serial:
        if awaited.until is not None and awaited.until <= loaded.now:
            raise _expired()
        question = CallbackQuestion(
            execution_id,
            awaited.step,
            awaited.task,
            True,
            awaited.message,
            awaited.approve,
            item,
            Timestamp(awaited.since),
            maybe_timestamp(awaited.until),
            awaited.schema,
        )
        return _Found(callback, snapshot.program, question, (awaited.schema,))
    if awaited is not None or callback.serial < int(slot.get("over", 0)):
        raise _expired()
    return _ahead(callback, token, snapshot.program, item, deps)


def _ahead(callback: CallbackId, token: Token, program: str, item: int | None, deps: CallbackDeps) -> _Found:
    """Describe a callback that its pipeline has not reached, from the playbook alone."""
    tasks = list(_waits(deps.programs(program), token))
    if not tasks:
        raise _closed("nothing waits for it")
    given = [_literals(task) for task in tasks]
    schemas = tuple({codec.encode(one.get("schema")): one.get("schema") for one in given}.values())
    question = CallbackQuestion(
        str(callback.execution_id),
        token.step,
        tasks[0].label if len(tasks) == 1 else "",
        False,
        approve=all(one.get("approve") is True for one in given),
        index=item,
        schema=schemas[0] if len(schemas) == 1 else None,
    )
    return _Found(callback, program, question, schemas)


def _waits(program: Program, token: Token) -> Iterator[Task]:
    """Yield the tasks that wait for callbacks, of those that a token runs now."""
    from noetl.pipeline.inline import (
        stage_pipeline,  # templates come with it: most tokens are asked for while somebody waits
    )

    stage: Any = token.phase if token.phase in ("case", "compensate") else "body"
    command = Command(0, "", token.run, token.step, "", "", stage=stage, rule=token.rule)
    try:
        pipeline = stage_pipeline(program.step(token.step), command)
    except LookupError:
        return
    yield from filter(calls_back_task, tasks_in(pipeline))


def _literals(task: Task) -> dict[str, Any]:
    """Return the parameters of a task that hold no template."""
    if isinstance(task.params, LiteralNode):
        return dict(task.params.value)
    entries = task.params.entries if isinstance(task.params, Map) else ()
    return {name: node.value for name, node in entries if isinstance(node, LiteralNode)}


def _expired() -> GoneError:
    return GoneError("this callback is not waited for any more: it came too late", code="callback_expired")


def _closed(why: str) -> GoneError:
    return GoneError(f"this callback is not waited for any more: {why}", code="callback_closed")


# --- what is said ---


def _check_schema(found: _Found, body: Any) -> None:
    """Check a body against the schema of its callback.

    Raises InvalidInputError(code="callback_schema"), and ConflictError when it is not known yet which schema applies.
    """
    if len(found.candidates) > 1:
        raise ConflictError(
            f"step {found.question.step} has not reached this callback yet",
            code="callback_early",
            hint="try again in a moment",
            retryable=True,
        )
    schema = found.candidates[0]
    problems = [] if schema is None else misfits(schema, body)
    if problems:
        raise InvalidInputError(
            f"the body does not fit: {'; '.join(problems[:_PROBLEMS_SHOWN])}",
            code="callback_schema",
            hint="GET the same address: it returns the schema",
            details={"problems": problems},
        )


def _kept(callback: CallbackId, step: str, body: Any, digest: str, deps: CallbackDeps) -> Any:
    """Return the body, or a reference when it is too large for a message.

    Raises InfrastructureError when it cannot be stored.
    """
    encoded = codec.encode(body)
    if len(encoded) <= deps.inline_bytes:
        return body
    uri = ref_uri(callback.execution_id, step, f"callback:{callback.place}:{callback.serial}:{digest}")
    tier = deps.results.choose(len(encoded))
    tier.put(uri, encoded)
    return make_ref(
        uri,
        store=tier.name,
        size=len(encoded),
        sha256=sha256(encoded).hexdigest(),
        value=body,
        encoded=encoded,
    )
