"""Triggers of this machine."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from noetl.cli.client import runtime_access
from noetl.domain import ids

if TYPE_CHECKING:
    from noetl.api.nouns.triggers import FiredAnswer
    from noetl.services.automations.triggers import TriggerPatch, TriggerRequest, TriggerView


class TriggersHere:
    """The part of ``Here`` that is about triggers."""

    _reading: runtime_access.Reading

    def put_trigger(self, request: TriggerRequest) -> TriggerView:
        from noetl.services.automations.triggers import put_trigger, view
        from noetl.services.automations.webhook_signature import check_signer

        deps = self._reading.triggers
        check_signer(request.source, self._reading.credentials)
        return view(put_trigger(deps, request).row, deps, secret=True)

    def triggers(self, limit: int) -> Sequence[TriggerView]:
        from noetl.services.automations.triggers import view

        deps = self._reading.triggers
        return [view(row, deps, secret=True) for row in deps.store.entries(limit=limit)]

    def trigger(self, name: str) -> TriggerView:
        from noetl.services.automations.triggers import find_trigger, view

        deps = self._reading.triggers
        return view(find_trigger(deps.store, name), deps, secret=True)

    def patch_trigger(self, name: str, patch: TriggerPatch) -> TriggerView:
        from noetl.services.automations.triggers import patch_trigger, view

        deps = self._reading.triggers
        return view(patch_trigger(deps, name, patch), deps, secret=True)

    def delete_trigger(self, name: str) -> None:
        from noetl.services.automations.triggers import delete_trigger

        delete_trigger(self._reading.triggers, name)

    def fire_trigger(self, name: str, body: dict[str, Any], key: str) -> FiredAnswer:
        """Fire a trigger. Any process that runs executions of this database takes the start up."""
        from noetl.api.nouns.triggers import FiredAnswer
        from noetl.services.automations.fire_trigger import TriggerEvent, fire_trigger
        from noetl.services.automations.triggers import find_trigger
        from noetl.services.executions.start_playbook import StartDeps

        reading = self._reading
        row = find_trigger(reading.triggers.store, name)
        start = StartDeps(
            store=reading.store,
            catalog=reading.catalog,
            programs=reading.programs,
            owner="",
            clock=time.time,
            random_bits=lambda: secrets.randbits(ids.RANDOM_BITS),
        )
        happening = TriggerEvent({"body": body, "headers": {}, "query": {}}, f"key:{key}" if key else "")
        started = fire_trigger(row, happening, reading.triggers.store, start)
        status: Literal["started", "existing"] = "existing" if started.event is None else "started"
        return FiredAnswer(name, str(started.execution_id), status)
