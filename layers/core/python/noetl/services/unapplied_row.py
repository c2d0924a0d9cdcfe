"""The row that records an event which was not applied, beside the history of its execution."""

from __future__ import annotations

import hashlib

from noetl.domain.events import CommandDone, Event, ItemsDone
from noetl.domain.facts import Superseded, encode_facts
from noetl.ports.execution_store import EventRow


def unapplied_row(event: Event, text: bytes, status: str, reason: str = "") -> EventRow:
    """Return the row, beside the history of its execution, of an event that was not applied; once per ``text``."""
    command = event.command_id[:200].replace("\0", "") if isinstance(event, (CommandDone, ItemsDone)) else ""
    fact = Superseded(type(event).__name__, command, status=status, reason=reason)
    event_id = f"{status}:{hashlib.sha256(text).hexdigest()[:16]}"
    return EventRow(event_id, 0, "command.superseded", encode_facts([fact]), lane=-1)
