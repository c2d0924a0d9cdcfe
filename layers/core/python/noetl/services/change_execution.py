"""Changes of a running execution that are asked for from outside: cancel, patch its context, inject a token.

Each becomes an event, durable when these return; whoever owns it publishes it then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from noetl.domain.errors import ConflictError, InvalidInputError
from noetl.domain.events import Cancel, ContextPatched, Event, TokenInjected
from noetl.domain.outcomes import Patch
from noetl.domain.state import TERMINAL
from noetl.dsl.program import Program
from noetl.ports.execution_store import ExecutionInfo, ExecutionStore
from noetl.services.read_execution import find


@dataclass(frozen=True, slots=True)
class Asked:
    """``unique``: names this request among all; a repeat under the same name is applied once. ``owner``: who publishes the event."""

    principal: str
    unique: str
    owner: str
    reason: str = ""


def cancel(store: ExecutionStore, execution_id: int, asked: Asked, *, cascade: bool = True) -> Event:
    """End an execution (``cascade``: and its children). Raises NotFoundError, ConflictError."""
    info = _live(store, execution_id, "cancelled")
    event = Cancel(execution_id, _event_id(asked), info.program, asked.reason, asked.principal, cascade)
    return _posted(store, event, asked.owner, "cancelled")


def patch_context(
    store: ExecutionStore,
    execution_id: int,
    asked: Asked,
    patches: list[Patch],
    *,
    correlation_id: str = "",
) -> Event:
    """Change ``ctx``; steps that wait for it are looked at again. Raises NotFoundError, ConflictError."""
    info = _live(store, execution_id, "changed")
    event = ContextPatched(
        execution_id,
        _event_id(asked),
        info.program,
        patches,
        asked.principal,
        asked.reason,
        correlation_id,
    )
    return _posted(store, event, asked.owner, "changed")


def inject_token(
    store: ExecutionStore,
    programs: Callable[[str], Program],
    execution_id: int,
    asked: Asked,
    *,
    step: str,
    args: dict[str, Any],
) -> Event:
    """Let ``step`` run (once more) with ``args``. Raises NotFoundError, ConflictError, InvalidInputError(code="unknown_step")."""
    info = _live(store, execution_id, "given a token")
    known = [one.name for one in programs(info.program).steps]
    if step not in known:
        from noetl.dsl.diagnostics import did_you_mean

        raise InvalidInputError(
            f"the playbook has no step {step[:80]!r}",
            code="unknown_step",
            hint=did_you_mean(step, known, f"its steps are {', '.join(known[:20])}"),
        )
    event = TokenInjected(
        execution_id, _event_id(asked), info.program, step, args, asked.principal, asked.reason
    )
    return _posted(store, event, asked.owner, "given a token")


def _event_id(asked: Asked) -> str:
    return f"ext:{hashlib.sha256(asked.unique.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _live(store: ExecutionStore, execution_id: int, what: str) -> ExecutionInfo:
    info = find(store, execution_id)
    if info.status in TERMINAL:
        raise _ended(execution_id, info.status, what)
    return info


def _posted(store: ExecutionStore, event: Event, owner: str, what: str) -> Event:
    """Raises ConflictError when the execution has ended meanwhile, or has not started yet."""
    posted = store.post(event, owner)
    if posted.status in TERMINAL:
        raise _ended(event.execution_id, str(posted.status), what)
    if posted.version == 0 and not isinstance(event, Cancel):
        raise ConflictError(
            f"execution {event.execution_id} has not started yet, so it cannot be {what}",
            code="execution_not_started",
            hint="it does within moments: try again",
            retryable=True,
        )
    return event


def _ended(execution_id: int, status: str, what: str) -> ConflictError:
    return ConflictError(f"execution {execution_id} is {status} and cannot be {what}", code="execution_ended")


# --- what a patch of a context may say --------------------------------------------------------------


def context_patches(patch: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> list[Patch]:
    """A mapping (names → values; mappings merge into what is there) or JSON Patch operations (``add``, ``replace``) → changes of ``ctx``.

    Raises InvalidInputError(code="invalid_patch").
    """
    if isinstance(patch, Mapping):
        found = [
            Patch("ctx", name, value, "merge" if isinstance(value, dict) else "set")
            for name, value in patch.items()
        ]
    else:
        found = [_operation(number, operation) for number, operation in enumerate(patch)]
    if not found:
        raise InvalidInputError(
            "the patch is empty", code="invalid_patch", hint='such as {"patch": {"approved": true}}'
        )
    for one in found:
        if not one.name:
            raise InvalidInputError("a patch names a key of ctx", code="invalid_patch")
    return found


def _operation(number: int, operation: Mapping[str, Any]) -> Patch:
    name, path = operation.get("op"), operation.get("path")
    where = f"patch[{number}]"
    if name not in ("add", "replace") or "value" not in operation:
        raise InvalidInputError(
            f"{where}: only add and replace, with a value, are understood",
            code="invalid_patch",
            hint='such as {"op": "add", "path": "/approved", "value": true}',
        )
    if not isinstance(path, str) or not path.startswith("/"):
        raise InvalidInputError(
            f"{where}.path: not a JSON pointer", code="invalid_patch", hint="such as /approved"
        )
    keys = [key.replace("~1", "/").replace("~0", "~") for key in path.removeprefix("/").split("/")]
    value = operation["value"]
    if len(keys) == 2 and keys[1] == "-" and name == "add":
        return Patch("ctx", keys[0], value, "append")
    if any(key == "-" or key.isdigit() for key in keys[1:]):
        raise InvalidInputError(
            f"{where}.path: places in a list cannot be changed",
            code="invalid_patch",
            hint="set the whole list",
        )
    for key in reversed(keys[1:]):
        value = {key: value}
    return Patch("ctx", keys[0], value, "set" if len(keys) == 1 else "merge")
