"""Changes of an execution that clients requested, as history records them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.domain.text.timestamps import Timestamp
from noetl.ports.executions.execution_store import StoredEvent


class ExternalChange(msgspec.Struct, frozen=True):
    """A change that a client requested."""

    event_id: str
    name: str
    at: Timestamp
    principal: str
    reason: str
    correlation_id: str = ""
    refused: str = ""
    """Why it was not made, although it was accepted: what it is about had changed meanwhile."""


def change_of(row: StoredEvent, name: str, fact: Mapping[str, Any]) -> ExternalChange | None:
    """Return the external change that a fact records; None when it records none."""
    refused = name == "command.superseded"
    external = row.event_id.startswith("ext:") or (
        refused and str(fact.get("event_id", "")).startswith("ext:")
    )
    if not external or not fact.get("principal"):
        return None
    return ExternalChange(
        row.event_id,
        name,
        Timestamp(row.at),
        str(fact["principal"]),
        str(fact.get("reason", "")),
        str(fact.get("correlation_id", "")),
        str(fact.get("status", "")) if refused else "",
    )
