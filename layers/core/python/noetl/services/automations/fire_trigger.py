"""Firing of a trigger: one happening starts one execution, however often it is delivered."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.domain import codec
from noetl.domain.errors import ConflictError, InfrastructureError, InvalidInputError, NoetlError
from noetl.ports.automations.trigger_store import TriggerRow, TriggerStore
from noetl.services.executions.start_execution import Started
from noetl.services.executions.start_from_trigger import event_key, message_event, message_key
from noetl.services.executions.start_playbook import StartDeps, start_playbook
from noetl.services.support.handing_on import handing_on


class TriggerEvent(msgspec.Struct, frozen=True):
    """An event outside that a trigger reacts to.

    ``event``: what the playbook sees of it. ``id``: the same on every delivery; empty: deliveries cannot be recognized.
    """

    event: dict[str, Any]
    id: str = ""


def fire_trigger(row: TriggerRow, happening: TriggerEvent, store: TriggerStore, deps: StartDeps) -> Started:
    """Start the execution of a happening; the trigger's row counts the outcome.

    Raises ConflictError(code="trigger_disabled"), NotFoundError (of the playbook), InvalidInputError (codes ``payload_invalid``,
    ``trigger_template``), InfrastructureError (deliver again).
    """
    if not row.enabled:
        raise ConflictError(
            f"the trigger {row.name} is disabled",
            code="trigger_disabled",
            hint=f"`noetl trigger enable {row.name}` lets it fire",
        )
    try:
        started = _start(row, happening, deps)
    except NoetlError as error:
        if not isinstance(error, InfrastructureError) and not error.retryable:
            store.fired(row.name, None, error=f"{error.code}: {error}")
        raise
    with handing_on(deps.store, deps.owner, [started.event]):
        store.fired(row.name, started.execution_id, fresh=started.event is not None)
    return started


def fire_by_rule(name: str, event: Mapping[str, Any], store: TriggerStore, deps: StartDeps) -> Started | None:
    """Fire a trigger for an event of EventBridge.

    None: there is no such trigger any more, or it is disabled.
    """
    row = store.get(name)
    if row is None or not row.enabled:
        return None
    return fire_trigger(row, TriggerEvent(dict(event), event_key(name, event)), store, deps)


def fire_by_message(
    row: TriggerRow, record: Mapping[str, Any], store: TriggerStore, deps: StartDeps
) -> Started:
    """Fire a trigger for a message of SQS, as Lambda delivers it.

    Raises what ``fire_trigger`` raises, and InvalidInputError(code="not_a_message").
    """
    message = message_event(record)
    return fire_trigger(row, TriggerEvent(message, message_key(row.name, message)), store, deps)


def _start(row: TriggerRow, happening: TriggerEvent, deps: StartDeps) -> Started:
    id_ = happening.id
    payload: dict[str, Any] = {"event": happening.event}
    if row.payload is not None or row.event_key:
        mapped, key = render_mapping(row, happening.event)
        payload = payload if mapped is None else mapped
        id_ = key or id_
    return start_playbook(
        row.path,
        row.version,
        payload,
        by=row.name,
        kind="trigger",
        key=_key(row, id_) if id_ else "",
        deps=deps,
    )


def _key(row: TriggerRow, happening: str) -> str:
    """Make the idempotency key of a happening.

    The trigger's creation time is part of it: one with the name of a deleted trigger starts its own. A changed one keeps its keys.
    """
    made = round(row.created_at * 1_000_000)
    return f"trigger:{hashlib.sha256(codec.encode([row.name, happening])).hexdigest()}:{made}"


def render_mapping(row: TriggerRow, event: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """Render the workload and the happening's id from ``event`` by the row's templates.

    Raises InvalidInputError(code="trigger_template").
    """
    # Templates are loaded with it: most triggers have none.
    from noetl.services.support.template_writer import TemplateWriter
    from noetl.templating import MappingScope, wrap

    writer = TemplateWriter(MappingScope({"event": wrap(dict(event))}))
    mapped = None if row.payload is None else writer.render(row.payload, "payload", 0)
    key = writer.render(row.event_key, "event_id", 0)
    if writer.errors:
        first = writer.errors[0]
        raise InvalidInputError(
            f"{first.path} of the trigger {row.name}: {first.message}",
            code="trigger_template",
            hint=first.hint or "the happening does not have what the template reads",
        )
    text = key if isinstance(key, str) else codec.encode(key).decode()
    return mapped, text


def check_templates(row: TriggerRow) -> None:
    """Check a trigger's templates.

    Raises InvalidInputError(code="trigger_template") for what can never be rendered.
    """
    from noetl.dsl.expressions import analyse, has_template
    from noetl.dsl.template_rules import TemplateProblem

    left: list[tuple[str, Any]] = [("payload", row.payload), ("event_id", row.event_key)]
    while left:
        path, value = left.pop()
        if isinstance(value, dict):
            left += [(f"{path}.{key}", one) for key, one in value.items()]
        elif isinstance(value, list):
            left += [(f"{path}[{place}]", one) for place, one in enumerate(value)]
        elif isinstance(value, str) and has_template(value):
            try:
                analyse(value)
            except TemplateProblem as problem:
                raise InvalidInputError(
                    f"{path}: {problem.message}", code="trigger_template", hint=problem.hint
                ) from None
