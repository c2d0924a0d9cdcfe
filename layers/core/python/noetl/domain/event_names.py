"""Event names: each stored name, its entity, and its names in the other vocabularies.

Stored names are what rows hold (or what a row's facts and traces expand to, see ``noetl.services.history.read_history``). The formal names (of
the DSL's specification) and the canonical ones (of its runtime) are views over the same rows. A name that is not in their tables
keeps its name. docs/events.md shows the three side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Literal, get_args

import msgspec

Vocabulary = Literal["stored", "formal", "canonical"]
VOCABULARIES: tuple[Vocabulary, ...] = get_args(Vocabulary)
EventStatus = Literal["in_progress", "success", "error", "skipped"]
EntityType = Literal[
    "playbook", "workflow", "step", "tool", "task", "loop", "sink", "retry", "case", "next", "batch"
]
Source = Literal["server", "worker"]


class Formal(msgspec.Struct, frozen=True):
    """A formal name; ``status`` None: that of the stored event."""

    name: str
    status: EventStatus | None = None


class Name(msgspec.Struct, frozen=True):
    """What a stored name means.

    ``formal`` empty: it has no other name there and keeps its own.
    """

    entity: EntityType
    source: Source = "server"
    formal: tuple[Formal, ...] = ()


_PROCESSED = (Formal("playbook.processed"),)
_STEP_FINISHED = (Formal("step.finished"),)

NAMES: dict[str, Name] = {
    "playbook.initialized": Name(
        "playbook",
        formal=(
            Formal("playbook.execution.requested", "success"),
            Formal("playbook.request.evaluated", "success"),
            Formal("playbook.started", "in_progress"),
        ),
    ),
    "compensation.started": Name("workflow"),
    "ending.started": Name("workflow"),
    "playbook.completed": Name("playbook", formal=_PROCESSED),
    "playbook.failed": Name("playbook", formal=_PROCESSED),
    "execution.cancelled": Name("playbook", formal=_PROCESSED),
    "execution.paused": Name("playbook"),
    "execution.resumed": Name("playbook"),
    "execution.redriven": Name("playbook"),
    "workflow.initialized": Name("workflow", formal=(Formal("workflow.started"),)),
    "workflow.completed": Name("workflow", formal=(Formal("workflow.finished"),)),
    "command.issued": Name("tool"),
    "command.claimed": Name("tool", "worker"),
    "command.started": Name("tool", "worker"),
    "command.heartbeat": Name("tool", "worker"),
    "command.completed": Name("tool", "worker"),
    "command.failed": Name("tool", "worker"),
    "command.superseded": Name("tool"),
    "step.enter": Name("step", formal=(Formal("step.started"),)),
    "step.exit": Name("step", formal=_STEP_FINISHED),
    "step.failed": Name("step", formal=_STEP_FINISHED),
    "step.skipped": Name("step", formal=_STEP_FINISHED),
    "step.parked": Name("step"),
    "call.done": Name("tool", "worker"),
    "call.error": Name("tool", "worker"),
    "loop.started": Name("loop"),
    "loop.item": Name(
        "loop",
        "worker",
        (Formal("loop.iteration.started", "in_progress"), Formal("loop.iteration.finished")),
    ),
    "loop.closing": Name("loop"),
    "loop.done": Name("loop", formal=(Formal("loop.finished"),)),
    "case.evaluated": Name("case", formal=(Formal("case.started", "in_progress"), Formal("case.evaluated"))),
    "next.evaluated": Name(
        "next",
        formal=(Formal("case.started", "in_progress"), Formal("case.evaluated"), Formal("next.evaluated")),
    ),
    "retry.scheduled": Name("retry", "worker", (Formal("retry.started"),)),
    "retry.processed": Name("retry", "worker"),
    "sink.started": Name("sink", "worker"),
    "sink.processed": Name("sink", "worker"),
    "task.started": Name("task", "worker", (Formal("tool.started"),)),
    "task.done": Name("task", "worker", (Formal("tool.processed"),)),
    "output.patched": Name("step"),
    "task.cached": Name("task", "worker"),
    "wait.started": Name("task", "worker"),
    "callback.awaited": Name("task", "worker"),
    "callback.received": Name("task"),
    "callback.expired": Name("task"),
    "child.started": Name("playbook"),
    "child.ended": Name("playbook"),
    "ctx.patched": Name("workflow"),
    "token.injected": Name("step"),
    "token.absorbed": Name("step"),
    "join.fired": Name("step"),
    "final.fired": Name("step"),
    "timer.set": Name("workflow"),
    "timer.fired": Name("workflow"),
    "batch.accepted": Name("batch"),
    "batch.processing": Name("batch"),
    "batch.completed": Name("batch"),
    "batch.failed": Name("batch"),
}

_ENDED = (Formal("playbook.finished"), Formal("playbook.processed"))

CANONICAL: dict[str, tuple[Formal, ...]] = {
    "playbook.initialized": NAMES["playbook.initialized"].formal,
    "playbook.completed": _ENDED,
    "playbook.failed": _ENDED,
    "execution.cancelled": _ENDED,
    "execution.paused": (Formal("playbook.paused"),),
    "workflow.initialized": (Formal("workflow.started"),),
    "workflow.completed": (Formal("workflow.finished"),),
    "command.issued": (Formal("step.scheduled"),),
    "step.parked": (Formal("policy.admit.evaluated"),),
    "step.enter": (Formal("step.started"),),
    "step.exit": (Formal("step.done"),),
    "token.injected": (Formal("token.enqueued"),),
    "task.started": (Formal("task.started"), Formal("task.attempt.started")),
    "task.done": (Formal("task.attempt.done"), Formal("task.done")),
    "sink.started": (Formal("task.started"),),
    "sink.processed": (Formal("task.done"),),
    "case.evaluated": (Formal("policy.task.evaluated"),),
    "loop.item": (Formal("loop.iteration.started", "in_progress"), Formal("loop.iteration.done")),
}
"""Names of the canonical runtime. Each try of a task is shown as a task with one attempt; a sink is a task like any other."""
_CANONICAL_FAILURES = {
    "task.attempt.done": "task.attempt.failed",
    "task.done": "task.failed",
    "loop.iteration.done": "loop.iteration.failed",
}

TERMINAL_EVENTS: frozenset[str] = frozenset({"playbook.completed", "playbook.failed", "execution.cancelled"})
"""Every round of an execution (up to its first redrive, and from each to the next) has exactly one of these."""

UNREADABLE = "row.unreadable"
"""What a stored row is shown as that cannot be read, in every vocabulary."""

_MAIN_LANE = (
    *(
        "playbook.",
        "workflow.",
        "execution.",
        "compensation.",
        "ending.",
        "command.",
        "step.",
        "next.",
        "ctx.",
    ),
    *("token.", "join.", "final.", "timer.", "batch.", "loop.started", "loop.closing", "loop.done"),
)
"""How names begin of which no row of a loop's item makes an event: they report what the engine decided."""

_UNKNOWN = Name("workflow")


def name_of(event_type: str) -> Name:
    """Return what a stored name means; an unknown (newer) name belongs to the workflow."""
    return NAMES.get(event_type, _UNKNOWN)


def formal_names(event_type: str, status: EventStatus) -> list[tuple[str, EventStatus]]:
    """Return the formal events of one stored event, in order: (name, status)."""
    formal = name_of(event_type).formal or (Formal(event_type),)
    return [(entry.name, entry.status or status) for entry in formal]


def canonical_names(event_type: str, status: EventStatus) -> list[tuple[str, EventStatus]]:
    """Return the canonical events, (name, status) in order, that one stored event is shown as.

    Failures have names of their own.
    """
    failures = _CANONICAL_FAILURES if status == "error" else {}
    canonical = CANONICAL.get(event_type) or (Formal(event_type),)
    return [(failures.get(entry.name, entry.name), entry.status or status) for entry in canonical]


def names_in(vocabulary: Vocabulary, event_type: str, status: EventStatus) -> list[tuple[str, EventStatus]]:
    """Return the names of a stored event in a vocabulary: one or more (name, status)."""
    if vocabulary == "stored":
        return [(event_type, status)]
    return (formal_names if vocabulary == "formal" else canonical_names)(event_type, status)


@cache
def known_types(vocabulary: Vocabulary) -> Mapping[str, frozenset[str]]:
    """Map every name of a vocabulary to the stored names that are shown under it."""
    found: dict[str, set[str]] = {UNREADABLE: {UNREADABLE}}
    for stored in NAMES:
        for status in get_args(EventStatus):
            for name, _ in names_in(vocabulary, stored, status):
                found.setdefault(name, set()).add(stored)
    return MappingProxyType({name: frozenset(stored) for name, stored in found.items()})


def may_be_of_item(stored: str) -> bool:
    """Check whether an event of this stored name can belong to a single item of a loop."""
    return not stored.startswith(_MAIN_LANE)
