"""Filter of an execution's events: by type, and by the step that they name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Literal

import msgspec

from noetl.domain.errors import InvalidInputError
from noetl.domain.event_names import VOCABULARIES, Vocabulary, known_types, may_be_of_item
from noetl.services.history.read_history import HistoryEvent

_NEAR = 3
"""Most names that a refusal suggests."""
_WORD = 64
"""Characters of an unknown type that are compared with the known ones."""

_OF_FAILED = frozenset({"call.error"})
"""Stored names that of all items only those have that failed."""

ItemShare = Literal["all", "failed", "none"]


class EventFilter(msgspec.Struct, frozen=True):
    """The events that a reader wants: of one of these types, and of this step; empty is any.

    ``items``: the items of loops that can have such events.
    """

    types: frozenset[str] = frozenset()
    step: str = ""
    items: ItemShare = "all"

    def __bool__(self) -> bool:
        return bool(self.types or self.step)

    def fits(self, event: HistoryEvent) -> bool:
        """Check whether an event is wanted."""
        if self.types and event.event_type not in self.types:
            return False
        return not self.step or step_of(event) == self.step

    def items_of(self, step: str) -> ItemShare:
        """Return which items of a loop of ``step`` can have wanted events."""
        return self.items if self.step in ("", step) else "none"


EVERYTHING = EventFilter()


def make_filter(vocabulary: Vocabulary, types: Iterable[str] = (), step: str = "") -> EventFilter:
    """Make a filter of events that are shown in a vocabulary.

    A step that no event names is no mistake: another version of the playbook may have had it. Raises
    InvalidInputError(code="invalid_event_type") for a type that is no name of the vocabulary.
    """
    wanted = frozenset(types)
    for name in sorted(wanted - known_types(vocabulary).keys()):
        raise InvalidInputError(
            f"{name[:80]!r} is not an event type of the vocabulary {vocabulary}",
            code="invalid_event_type",
            hint=_near(vocabulary, name[:_WORD]),
        )
    return EventFilter(wanted, step, _items(vocabulary, wanted))


def _items(vocabulary: Vocabulary, types: frozenset[str]) -> ItemShare:
    stored = {one for name in types for one in known_types(vocabulary)[name] if may_be_of_item(one)}
    if not types or stored - _OF_FAILED:
        return "all"
    return "failed" if stored else "none"


def _near(vocabulary: Vocabulary, name: str) -> str:
    """Suggest what an unknown type is called here, or the names like it."""
    known = known_types(vocabulary)
    for other in VOCABULARIES:
        stored = known_types(other).get(name, frozenset())
        if here := [one for one, shown in known.items() if shown & stored]:
            return f"the vocabulary {other} has it; {vocabulary} calls it {' or '.join(here)}"
    found = difflib.get_close_matches(name, list(known), n=_NEAR)
    if not found:
        return "`noetl docs events` lists the names"
    return f"did you mean {' or '.join(repr(one) for one in found)}?"


def step_of(event: HistoryEvent) -> str:
    """Return the step that an event names, or nothing.

    An event about the execution may name one, too: the step that made it fail, or that a redrive begins with.
    """
    for named in (event.meta.get("step"), event.payload.get("step")):
        if isinstance(named, str) and named:
            return named
    return event.entity_id if event.entity_type == "step" else ""
