"""Operations on the triggers of a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from noetl.api.http.bodies import DeletedAnswer
from noetl.api.nouns.triggers import FiredAnswer, TriggerPage
from noetl.cli.client.http_client import Client, segment
from noetl.services.automations.triggers import TriggerPatch, TriggerRequest, TriggerView

ALL = "/api/triggers"


class RemoteTriggers:
    """The part of ``RemotePlace`` that is about triggers.

    It returns complete webhook addresses.
    """

    _client: Client

    def put_trigger(self, request: TriggerRequest) -> TriggerView:
        return self._whole(self._client.post(ALL, TriggerView, msgspec.to_builtins(request)))

    def triggers(self, limit: int) -> Sequence[TriggerView]:
        found = self._client.entries(ALL, TriggerPage, lambda page: page.triggers, limit)
        return [self._whole(one) for one in found]

    def trigger(self, name: str) -> TriggerView:
        return self._whole(self._client.get(f"{ALL}/{segment(name)}", TriggerView))

    def patch_trigger(self, name: str, patch: TriggerPatch) -> TriggerView:
        body = msgspec.to_builtins(patch)
        return self._whole(self._client.patch(f"{ALL}/{segment(name)}", TriggerView, body))

    def delete_trigger(self, name: str) -> None:
        self._client.delete(f"{ALL}/{segment(name)}", DeletedAnswer)

    def fire_trigger(self, name: str, body: dict[str, Any], key: str) -> FiredAnswer:
        return self._client.post(f"{ALL}/{segment(name)}/fire", FiredAnswer, body, key=key)

    def _whole(self, one: TriggerView) -> TriggerView:
        return (
            one
            if one.hook is None
            else msgspec.structs.replace(one, hook=self._client.context.url + one.hook)
        )
