"""The trigger service: create, list, change, disable, enable and delete triggers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from noetl.domain.automations.schedules import instant
from noetl.domain.automations.triggers import Source, SqsSource, check_name, check_source, hook, kind_of
from noetl.domain.capability_tokens import KeyRing
from noetl.domain.errors import ConflictError, InvalidInputError, NotFoundError
from noetl.domain.sizes.gate import check_document, check_text
from noetl.domain.sizes.table import TRIGGER_TEMPLATE
from noetl.domain.text.timestamps import TimeText
from noetl.domain.unreadable import UnreadableRowError
from noetl.ports.automations.trigger_sources import TriggerSources
from noetl.ports.automations.trigger_store import TriggerRow, TriggerStore
from noetl.ports.catalog import Catalog
from noetl.services.automations.fire_trigger import check_templates
from noetl.services.catalog.find_playbook import check_path, find_playbook

HOOKS = "/api/hooks/"
SUGGESTED_FROM = 1000


@dataclass(frozen=True, slots=True)
class TriggerDeps:
    """Dependencies of the trigger service.

    ``keys``: what addresses of webhooks are signed with (read again when True); None: this process has no webhooks.
    """

    store: TriggerStore
    sources: TriggerSources
    catalog: Catalog
    keys: Callable[[bool], KeyRing] | None = None


class TriggerRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A trigger to create.

    ``source``: what is watched. ``payload``: the workload, with templates over ``event``; without it, the workload is ``{event}``.
    ``event_id``: a template whose text identifies a happening: the same one starts one execution.
    """

    name: str
    path: str
    source: Source
    version: int | None = None
    payload: dict[str, Any] | None = None
    event_id: str = ""
    enabled: bool = True


class TriggerPatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The changes of a trigger.

    ``rotate``: the webhook gets a new address, and the old one is none any more.
    """

    enabled: bool | msgspec.UnsetType = msgspec.UNSET
    version: int | msgspec.UnsetType | None = msgspec.UNSET
    payload: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    event_id: str | msgspec.UnsetType = msgspec.UNSET
    rotate: bool = False


class TriggerView(msgspec.Struct, frozen=True):
    """A trigger as it is shown.

    ``fired``: executions it started; ``failed``: happenings that started none, ``last_error`` says why. ``hook``: path of a webhook's
    own address, which needs no other credentials; only for clients that may change triggers.
    """

    name: str
    type: str
    path: str
    version: int | None
    source: Source
    payload: dict[str, Any] | None
    event_id: str
    enabled: bool
    created_at: TimeText
    last_at: TimeText | None
    last_execution_id: str | None
    last_error: str | None
    fired: int
    failed: int
    hook: str | None = None


def view(row: TriggerRow, deps: TriggerDeps, *, secret: bool) -> TriggerView:
    """Build the view of a trigger. ``secret``: with the address of a webhook."""
    address = None
    if secret and row.kind == "webhook" and deps.keys is not None:
        address = HOOKS + hook(row.name, row.generation, deps.keys(False))
    return TriggerView(
        row.name,
        row.kind,
        row.path,
        row.version,
        row.source,
        row.payload,
        row.event_key,
        row.enabled,
        instant(row.created_at),
        None if row.last_at is None else instant(row.last_at),
        None if row.last_execution is None else str(row.last_execution),
        row.unreadable or row.last_error or None,
        row.fired,
        row.failed,
        address,
    )


def find_trigger(store: TriggerStore, name: str) -> TriggerRow:
    """Find a trigger by name.

    Raises NotFoundError(code="trigger_not_found") with what was probably meant.
    """
    row = store.get(name)
    if row is None:
        from noetl.dsl.diagnostics import did_you_mean

        names = [one.name for one in store.entries(limit=SUGGESTED_FROM)]
        other = "`noetl trigger list` shows them; those of metadata.triggers belong to their playbook"
        raise NotFoundError(
            f"there is no trigger {name[:200]!r}",
            code="trigger_not_found",
            hint=did_you_mean(name, names, other),
        )
    return row


class StoredTrigger(msgspec.Struct, frozen=True):
    """A stored trigger. ``fresh``: there was none of this name."""

    row: TriggerRow
    fresh: bool


def put_trigger(deps: TriggerDeps, request: TriggerRequest) -> StoredTrigger:
    """Create a trigger, or replace one of the same kind.

    Raises InvalidInputError (codes ``invalid_trigger…``, ``trigger_template``, ``trigger_source_…``, ``trigger_refused``),
    NotFoundError (of the playbook), ConflictError (``trigger_exists``: of another kind).
    """
    name = check_name(request.name)
    source = check_source(request.source)
    find_playbook(deps.catalog, check_path(request.path), request.version)
    old = deps.store.get(name)
    kind = kind_of(source)
    if old is not None and old.kind != kind:
        raise ConflictError(
            f"there is a trigger {name} already, of type {old.kind}",
            code="trigger_exists",
            hint="delete it first, or choose another name",
        )
    row = TriggerRow(
        name,
        kind,
        request.path,
        source,
        version=request.version,
        payload=request.payload,
        event_key=request.event_id,
        enabled=request.enabled,
        generation=1 if old is None else old.generation,
    )
    return StoredTrigger(_keep(deps, row, old), old is None)


def patch_trigger(deps: TriggerDeps, name: str, patch: TriggerPatch) -> TriggerRow:
    """Change a trigger. Raises as ``put_trigger`` does, and UnreadableRowError."""
    old = find_trigger(deps.store, name)
    if old.unreadable:
        raise UnreadableRowError(old.unreadable, hint="make the trigger again, whole: that replaces it")
    row = old
    if patch.enabled is not msgspec.UNSET:
        row = replace(row, enabled=patch.enabled)
    if patch.payload is not msgspec.UNSET:
        row = replace(row, payload=patch.payload)
    if patch.event_id is not msgspec.UNSET:
        row = replace(row, event_key=patch.event_id)
    if patch.version is not msgspec.UNSET:
        find_playbook(deps.catalog, row.path, patch.version)
        row = replace(row, version=patch.version)
    if patch.rotate:
        if row.kind != "webhook":
            raise InvalidInputError(
                f"the trigger {name} is of type {row.kind}, which has no address",
                code="invalid_trigger",
                hint="only webhooks have addresses",
            )
        row = replace(row, generation=row.generation + 1)
    return _keep(deps, row, old)


def _keep(deps: TriggerDeps, row: TriggerRow, old: TriggerRow | None) -> TriggerRow:
    """Set up a trigger's source, then store the row.

    What the source does not accept is not stored.
    """
    check_text(TRIGGER_TEMPLATE, row.event_key, "event_id", code="invalid_trigger")
    if row.payload is not None:
        check_document(row.payload, "payload")
    check_templates(row)
    row = deps.sources.whole(row)
    _check_queue(deps.store, row)
    refused = deps.sources.refusal(row)
    if refused is None:
        deps.sources.put(row, old)
    elif row.enabled:
        reason, hint = refused
        raise InvalidInputError(reason, code="trigger_source_unavailable", hint=hint)
    elif old is not None:
        deps.sources.delete(old)
    return deps.store.put(row)


def _check_queue(store: TriggerStore, row: TriggerRow) -> None:
    """Refuse a second trigger on one queue: a message goes to one reader.

    Two triggers on one queue would share its messages' reading, switches and batches.
    """
    if not isinstance(row.source, SqsSource):
        return
    others = [one.name for one in store.of_queue(row.source.queue) if one.name != row.name]
    if others:
        raise InvalidInputError(
            f"the queue {row.source.queue} is read for the trigger {others[0]} already",
            code="trigger_source_taken",
            hint="delete that first, or send to another queue as well (by a topic of SNS)",
        )


def delete_trigger(deps: TriggerDeps, name: str) -> TriggerRow:
    """Delete a trigger and return it as it was. Raises NotFoundError."""
    row = find_trigger(deps.store, name)
    deps.sources.delete(row)
    deps.store.delete(name)
    return row
