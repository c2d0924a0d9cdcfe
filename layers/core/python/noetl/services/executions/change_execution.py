"""Changes of an execution that clients request: cancel, pause, patch, inject a token.

Each becomes an event, which is durable when the function returns. The owner of the event publishes it then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from noetl.domain.errors import ConflictError, InvalidInputError
from noetl.domain.events import Cancel, ContextPatched, Event, Pause, Resume, TokenInjected
from noetl.domain.outcomes.outcomes import Patch
from noetl.domain.patches.json_patch import check_operations, refused, roots
from noetl.domain.sizes.gate import check_document, check_names, check_text, check_value
from noetl.domain.sizes.table import CORRELATION_ID, IDENTIFIER, REASON
from noetl.domain.state import TERMINAL
from noetl.domain.variables import VariableType, VariableWrite
from noetl.dsl.program import Program
from noetl.ports.executions.answers import Steering
from noetl.ports.executions.execution_store import ExecutionInfo, ExecutionStore
from noetl.services.history.execution_state import demand_state
from noetl.services.history.steering_order import accepted_before, check_paused
from noetl.services.queries.read_execution import find


class ChangeRequest(msgspec.Struct, frozen=True):
    """A client's request to change an execution.

    ``unique``: a name that no other request has; repeats under one name are applied once. ``owner``: the process that publishes the event.
    Raises InvalidInputError(code="size_limit") for a reason that is too long.
    """

    principal: str
    unique: str
    owner: str
    reason: str = ""

    def __post_init__(self) -> None:
        check_text(REASON, self.reason, "the reason")


def cancel(store: ExecutionStore, execution_id: int, change: ChangeRequest, *, cascade: bool = True) -> Event:
    """End an execution (``cascade``: and its children). Raises NotFoundError, ConflictError."""
    info = live(store, execution_id, "cancelled")
    event = Cancel(execution_id, event_id(change), info.program, change.reason, change.principal, cascade)
    return _posted(store, event, change.owner, "cancelled")


NOT_YET = "it does within moments, at its `trigger_at` or when it has a slot: try again then, cancel it, or change its parent"
NOT_WITHOUT_PARENT = "it was paused with its parent before it began, and begins when that is resumed"


def pause(store: ExecutionStore, execution_id: int, change: ChangeRequest, *, cascade: bool = True) -> Event:
    """Pause an execution, so that the engine begins nothing new in it; a paused one stays so.

    ``cascade``: its children, too. Raises NotFoundError, ConflictError.
    """
    before = _before(store, execution_id, change)
    info = readable(store, execution_id, "paused")
    event = steer(Pause, info, change, before, cascade=cascade)
    return _posted(store, event, change.owner, "paused")


def resume(store: ExecutionStore, execution_id: int, change: ChangeRequest, *, cascade: bool = True) -> Event:
    """Resume an execution that is paused or is about to be.

    ``cascade``: its children, too. Raises NotFoundError, ConflictError.
    """
    before = _before(store, execution_id, change)
    info = readable(store, execution_id, "resumed")
    check_paused(info, before)
    event = steer(Resume, info, change, before, cascade=cascade)
    return _posted(store, event, change.owner, "resumed")


def steer(
    kind: type[Pause | Resume],
    info: ExecutionInfo,
    change: ChangeRequest,
    before: Sequence[Steering],
    *,
    cascade: bool,
) -> Pause | Resume:
    """Make a pause or a resume that counts after those that were accepted ``before``."""
    return kind(
        info.execution_id,
        event_id(change),
        info.program,
        change.reason,
        change.principal,
        cascade,
        after=tuple(one.event_id for one in before),
    )


def _before(store: ExecutionStore, execution_id: int, change: ChangeRequest) -> list[Steering]:
    """Return the pauses and resumes that wait in the outbox.

    Call this before reading the execution's row: a pause or resume that has left the outbox is in the status by then.
    """
    return accepted_before(store.steering((execution_id,)).get(execution_id, ()), event_id(change))


def patch_context(
    store: ExecutionStore,
    execution_id: int,
    change: ChangeRequest,
    patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    correlation_id: str = "",
) -> Event:
    """Change ``ctx``; the engine then checks again the steps that wait for it.

    ``patch``: a JSON Merge Patch (a mapping) or a JSON Patch (operations). Raises NotFoundError, ConflictError,
    InvalidInputError(code="invalid_patch" or "size_limit").
    """
    check_text(CORRELATION_ID, correlation_id, "the correlation_id")
    if isinstance(patch, Mapping):
        if not patch or not all(patch):
            raise refused("the patch names no key of ctx", 'such as {"patch": {"approved": true}}')
        check_document(patch, "patch")
    else:
        check_operations(patch)
        check_value({str(number): one.get("value") for number, one in enumerate(patch)}, "patch")
        check_names(roots(patch), "patch")
    info = readable(store, execution_id, "changed")
    event = ContextPatched(
        execution_id,
        event_id(change),
        info.program,
        [],
        change.principal,
        change.reason,
        correlation_id,
        merge=dict(patch) if isinstance(patch, Mapping) else {},
        operations=[] if isinstance(patch, Mapping) else [dict(one) for one in patch],
    )
    return _posted(store, event, change.owner, "changed")


def set_variables(
    store: ExecutionStore,
    execution_id: int,
    change: ChangeRequest,
    variables: Mapping[str, Any],
    *,
    var_type: VariableType = "user_defined",
    source_step: str = "",
) -> Event:
    """Write variables: their rows at once, ``vars`` of the execution with the event.

    Raises NotFoundError, ConflictError, InvalidInputError(code="invalid_variables" or "size_limit").
    """
    if not variables or not all(variables):
        raise InvalidInputError(
            "no variable is named", code="invalid_variables", hint='such as {"variables": {"total": 3}}'
        )
    check_document(variables, "variables")
    check_text(IDENTIFIER, source_step, "source_step")
    patches = [Patch("vars", name, value) for name, value in variables.items()]
    writes = [VariableWrite(name, value, var_type, source_step) for name, value in variables.items()]
    return _post_variables(store, execution_id, change, patches, writes, var_type, source_step)


def delete_variable(store: ExecutionStore, execution_id: int, change: ChangeRequest, name: str) -> Event:
    """Remove a variable: its row, and ``vars.<name>``. Raises NotFoundError, ConflictError."""
    writes = [VariableWrite(name, deleted=True)]
    return _post_variables(store, execution_id, change, [Patch("vars", name, None, "unset")], writes)


def _post_variables(
    store: ExecutionStore,
    execution_id: int,
    change: ChangeRequest,
    patches: list[Patch],
    writes: list[VariableWrite],
    var_type: VariableType = "user_defined",
    source_step: str = "",
) -> Event:
    info = readable(store, execution_id, "changed")
    event = ContextPatched(
        execution_id,
        event_id(change),
        info.program,
        patches,
        change.principal,
        change.reason,
        var_type=var_type,
        source_step=source_step,
    )
    return _posted(store, event, change.owner, "changed", writes)


def inject_token(
    store: ExecutionStore,
    programs: Callable[[str], Program],
    execution_id: int,
    change: ChangeRequest,
    *,
    step: str,
    args: dict[str, Any],
    correlation_id: str = "",
) -> Event:
    """Let ``step`` run (once more) with ``args``.

    Raises NotFoundError, ConflictError, InvalidInputError(code="unknown_step" or "size_limit").
    """
    check_text(CORRELATION_ID, correlation_id, "the correlation_id")
    check_value(args, "args")
    info = readable(store, execution_id, "given a token")
    known = [one.name for one in programs(info.program).steps]
    if step not in known:
        from noetl.dsl.diagnostics import did_you_mean

        raise InvalidInputError(
            f"the playbook has no step {step[:80]!r}",
            code="unknown_step",
            hint=did_you_mean(step, known, f"its steps are {', '.join(known[:20])}"),
        )
    event = TokenInjected(
        execution_id,
        event_id(change),
        info.program,
        step,
        args,
        change.principal,
        change.reason,
        correlation_id,
    )
    return _posted(store, event, change.owner, "given a token")


def event_id(change: ChangeRequest) -> str:
    """Return the id of a request's event, the same for every repeat of the request."""
    return f"ext:{hashlib.sha256(change.unique.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def live(store: ExecutionStore, execution_id: int, what: str) -> ExecutionInfo:
    """Find an execution that has not ended.

    Raises NotFoundError, and ConflictError for one that can no longer be ``what``.
    """
    info = find(store, execution_id)
    if info.status in TERMINAL:
        raise _ended(execution_id, info.status, what)
    return info


def readable(store: ExecutionStore, execution_id: int, what: str) -> ExecutionInfo:
    """Find an execution that has not ended and whose state the engine can read.

    Raises as ``live`` does, and UnreadableRowError: the engine could not handle the event.
    """
    info = live(store, execution_id, what)
    demand_state(info)
    return info


def _posted(
    store: ExecutionStore, event: Event, owner: str, what: str, variables: Sequence[VariableWrite] = ()
) -> Event:
    """Post an event.

    Raises ConflictError when the execution has ended meanwhile, or has not started yet.
    """
    posted = store.post(event, owner, variables)
    if posted.status in TERMINAL:
        raise _ended(event.execution_id, str(posted.status), what)
    if posted.version == 0 and not isinstance(event, Cancel):
        raise ConflictError(
            f"execution {event.execution_id} has not started yet, so it cannot be {what}",
            code="execution_not_started",
            hint=NOT_WITHOUT_PARENT if posted.status == "paused" else NOT_YET,
            retryable=True,
        )
    return event


def _ended(execution_id: int, status: str, what: str) -> ConflictError:
    return ConflictError(f"execution {execution_id} is {status} and cannot be {what}", code="execution_ended")
