"""In which order events can come: one machine for an execution, one for each step run, one for each item of its loops.

The events that a history tells of one of these (``meta.run``, ``meta.loop_iteration_index``) are a word of its machine, in stored names:
history promises no more about order, and no less. docs/events.md draws the machines; tests compare the two, and read the history of
every conformance case and of every random playbook with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Order:
    """``moves``: state → event name → next state. ``ends``: where it stands when an execution has completed."""

    start: str
    moves: Mapping[str, Mapping[str, str]]
    ends: frozenset[str]

    def follow(self, names: Iterable[str]) -> str:
        """The state after these events. Raises ValueError when one of them may not come there."""
        state = self.start
        for number, name in enumerate(names):
            after = self.moves.get(state, {}).get(name)
            if after is None:
                raise ValueError(f"{name} (event {number}) may not come in state {state}")
            state = after
        return state


def _to(state: str, *names: str) -> dict[str, str]:
    return dict.fromkeys(names, state)


_JOURNAL = (
    "task.started",
    "task.done",
    "case.evaluated",
    "sink.started",
    "sink.processed",
    "retry.processed",
    "task.cached",
)
"""What a worker traces of the tasks it runs, in whatever order the playbook makes of them."""
_CALLED = ("call.done", "call.error")
_AFTER_CALL = {
    **_to("called", "command.completed", "command.failed", "child.started", "ctx.patched", "case.evaluated"),
    **_to("issued", "command.issued"),
    **_to("looping", "loop.started"),
    **_to("exited", "step.exit"),
    **_to("failed", "step.failed"),
    **_to("skipped", "step.skipped"),
}
_HANDED_BACK = ("retry.scheduled", "wait.started", "child.started")
_SUSPENDED = (*_HANDED_BACK, "callback.awaited")
_ISSUED = {
    **_to("issued", "ctx.patched"),
    **_to("heard", "callback.received"),
    **_to("answered", "child.ended", "callback.expired"),
    **_to("claimed", "command.claimed"),
    **_to("working", "task.started", "task.cached"),
    **_to("suspended", *_SUSPENDED),
    **_to("called", *_CALLED),
    **_to("failed", "step.failed"),
    **_to("skipped", "step.skipped"),
}

EXECUTION = Order(
    "new",
    {
        "new": _to("created", "playbook.initialized"),
        "created": _to("running", "workflow.initialized"),
        "running": {
            **_to("running", "ctx.patched", "token.injected", "token.absorbed", "join.fired", "final.fired"),
            **_to("running", "timer.set", "timer.fired"),
            **_to("paused", "execution.paused"),
            **_to("compensating", "compensation.started"),
            **_to("ending", "ending.started"),
            **_to("finished", "workflow.completed"),
        },
        "paused": {
            **_to("paused", "ctx.patched", "token.injected", "timer.fired"),
            **_to("running", "execution.resumed"),
            **_to("ending", "ending.started"),
            **_to("finished", "workflow.completed"),
        },
        "compensating": {
            **_to("compensating", "ctx.patched", "timer.fired"),
            **_to("ending", "ending.started"),
            **_to("finished", "workflow.completed"),
        },
        "ending": {
            **_to("ending", "ctx.patched", "timer.set", "timer.fired"),
            **_to("finished", "workflow.completed"),
        },
        "finished": _to("over", "playbook.completed", "playbook.failed", "execution.cancelled"),
        "over": _to("running", "execution.redriven"),
    },
    frozenset({"over"}),
)

STEP_RUN = Order(
    "arrived",
    {
        "arrived": {
            **_to("parked", "step.parked"),
            **_to("entered", "step.enter"),
            **_to("skipped", "step.skipped"),
        },
        "parked": {
            **_to("parked", "step.parked", "timer.set"),
            **_to("entered", "step.enter"),
            **_to("failed", "step.failed"),
            **_to("skipped", "step.skipped"),
        },
        "entered": {
            **_to("working", "output.patched"),
            **_to("entered", "timer.set", "ctx.patched", "case.evaluated"),
            **_to("issued", "command.issued"),
            **_to("looping", "loop.started"),
            **_to("exited", "step.exit"),
            **_to("failed", "step.failed"),
            **_to("skipped", "step.skipped"),
        },
        "issued": {**_ISSUED, **_to("looping", "loop.started")},
        "heard": {**_ISSUED, **_to("issued", "command.issued")},
        "answered": {
            **_to("issued", "command.issued"),
            **_to("failed", "step.failed"),
            **_to("skipped", "step.skipped"),
        },
        "claimed": _to("working", "command.started"),
        "working": {
            **_to("working", *_JOURNAL),
            **_to("suspended", *_SUSPENDED),
            **_to("called", *_CALLED),
        },
        "suspended": {
            **_to("suspended", "child.started", "wait.started"),
            **_to("working", *_JOURNAL),
            **_to("issued", "command.issued"),
        },
        "looping": {
            **_to("looping", "ctx.patched", "child.ended", "loop.closing"),
            **_to("looping", "callback.awaited", "callback.received", "callback.expired"),
            **_to("called", "loop.done"),
            **_to("failed", "step.failed"),
            **_to("skipped", "step.skipped"),
        },
        "called": _AFTER_CALL,
        "exited": _to("routed", "next.evaluated"),
        "failed": {**_to("failed", "ctx.patched"), **_to("routed", "next.evaluated")},
        "skipped": _to("routed", "next.evaluated"),
        "routed": _to("issued", "command.issued"),
    },
    frozenset({"routed", "skipped"}),
)
"""``heard``: a callback came; whoever waits goes on (``command.issued``), or it is kept for later.

``routed`` → ``issued``: the run is undone (compensation), and stays ``called`` afterwards."""

ITEM = Order(
    "waiting",
    {
        "waiting": {
            **_to("working", "task.started", "task.cached"),
            **_to("suspended", *_HANDED_BACK),
            **_to("called", *_CALLED),
        },
        "working": {
            **_to("working", *_JOURNAL),
            **_to("suspended", *_HANDED_BACK),
            **_to("called", *_CALLED),
        },
        "suspended": {
            **_to("suspended", *_HANDED_BACK),
            **_to("working", *_JOURNAL),
            **_to("called", *_CALLED),
        },
        "called": _to("told", "loop.item"),
        "told": {},
    },
    frozenset({"told"}),
)
