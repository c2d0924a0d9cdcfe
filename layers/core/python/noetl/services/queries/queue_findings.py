"""Findings from an execution's queues: dead letters, failed deliveries, idle commands."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.domain.errors import InfrastructureError
from noetl.domain.wait_request import iso
from noetl.ports.deliveries import DeadLetter, Deliveries
from noetl.ports.executions.inspection import OpenCommand
from noetl.services.queries.diagnosis import Finding

QUIET = 60.0
"""Seconds that a command may be due before its queue is asked: most are answered by then."""
RETRY = "mend the cause, then `noetl dead-letters retry`"


def dead_letters(execution_id: int, deliveries: Deliveries | None) -> Iterator[Finding]:
    """Yield a finding for each dead letter of the execution."""
    if deliveries is None:
        return
    try:
        found = deliveries.dead_letters(execution_id)
    except InfrastructureError as outage:
        yield Finding("queues_unknown", "info", f"its dead letters could not be read: {outage}")
        return
    for letter in found:
        text, next_ = reason_of(letter)
        yield Finding(
            "dead_letter",
            "error",
            f"a message of the queue {letter.queue}, sent {iso(letter.sent_at)}, is a dead letter: {text}",
            next=(next_,),
        )


def reason_of(letter: DeadLetter) -> tuple[str, str]:
    """Return why a message is a dead letter, and what to do about it."""
    if letter.why:
        return f"the engine laid it aside: {letter.why}", RETRY
    return (
        "its queue moved it there after hundreds of deliveries",
        "maintenance sends it back by itself, once `GET /ready` is green",
    )


def delivered(
    execution_id: int, what: str, step: str, command: OpenCommand, deliveries: Deliveries | None
) -> Finding | None:
    """Report what happened to a command in its queue; None when it will probably run."""
    if deliveries is None or command.due_for < QUIET:
        return None
    try:
        tries = deliveries.tries(execution_id, command.command_id, command.attempt, command.turn)
        gauges = [] if tries is not None else deliveries.gauges()
    except InfrastructureError:
        return None
    age = f"it has been due for {command.due_for:.0f} s"
    if tries is not None and tries.why:
        text = f"{what} was delivered {tries.received} times and given back, last at {iso(tries.at)}: {tries.why}; {age}"
        return Finding(
            "backing_off",
            "warning",
            text,
            step,
            command.run,
            ("it comes again by itself: at once, or at most a quarter of an hour after an outage",),
        )
    if tries is not None:
        text = (
            f"{what} was delivered {tries.received} times and begun {tries.began} times, last at {iso(tries.at)}, "
            f"and no worker ended it before; {age}"
        )
        return Finding("redelivered", "warning", text, step, command.run, ("the log of its worker",))
    commands = [one for one in gauges if one.name.startswith("commands-")]
    events = [one for one in gauges if one.name == "events"]
    if not commands or not events or any(one.waiting or one.in_flight or one.delayed for one in commands):
        return None
    waiting, held = events[0].waiting, events[0].in_flight
    text = (
        f"{what} is with no worker: the queues of commands are empty, so its outcome is on the way to the engine, "
        f"whose queue has {waiting} messages waiting and {held} being handled or backing off; {age}"
    )
    return Finding(
        "outcome_waits",
        "warning",
        text,
        step,
        command.run,
        (
            "after an outage it comes within a quarter of an hour",
            "docs/operations.md: an execution that does not move",
        ),
    )
