"""Events of paused executions: held in the outbox until the execution continues."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from noetl.domain import ids
from noetl.domain.commands import Command
from noetl.domain.events import CommandDone, Event, Held, ItemsDone, LoopDone, Start, encode_event
from noetl.domain.outcomes.report_checks import fitting
from noetl.domain.workers.lease_owners import HELD
from noetl.engine.pausing import Waiting
from noetl.ports.executions.execution_store import Published
from noetl.services.orchestrator.engine_deps import BatchEffects, EngineDeps


def held(event: Waiting | Start) -> Held | Start:
    """Wrap ``event`` as ``Held``; a Start stays as it is, because it has its row already.

    A loop's summary is dropped: the engine gathers it again when it releases the event.
    """
    if isinstance(event, Start):
        return event
    if isinstance(event, LoopDone):
        event = msgspec.structs.replace(event, summary=None)
    return Held(event.execution_id, held_id(event), event.program, event)


def held_id(event: Event) -> str:
    """Return a name of ``event`` that no other event has.

    Outcomes of two attempts have different names, and so have the messages of a chunk that two runs split at different items.
    """
    attempt = event.attempt if isinstance(event, (CommandDone, ItemsDone)) else 0
    digest = hashlib.sha256(encode_event(event)).hexdigest()[:16] if isinstance(event, ItemsDone) else ""
    return ids.held_event(event.event_id, attempt, digest)


class Holding(msgspec.Struct):
    """The held ones among a batch, and those that its executions cannot take now."""

    released: dict[str, Held] = msgspec.field(default_factory=dict)
    """By their own id, per execution and event."""
    again: set[str] = msgspec.field(default_factory=set)
    came: dict[tuple[int, str], list[tuple[Event, Event]]] = msgspec.field(default_factory=dict)
    """What the batch brought → the event within it that is handled. One event id may come several times: two attempts have the same one, and
    so have the messages of a chunk that two runs split at different items. An event may also come both as itself and as a held copy."""
    back: set[int] = msgspec.field(default_factory=set)
    """Identities of the objects that were handed back."""

    def unwrap(self, events: Sequence[Event]) -> list[Event]:
        """Return the batch with every ``Held`` replaced by the event inside it."""
        found: list[Event] = []
        for event in events:
            inner = event
            if isinstance(event, Held):
                self.released[_key(event)] = event
                inner = event.event
            self.came.setdefault((inner.execution_id, inner.event_id), []).append((inner, event))
            found.append(inner)
        return found

    def hold(self, events: Sequence[Waiting | Start], deps: EngineDeps, handled: BatchEffects) -> None:
        """Hold ``events`` until their executions continue.

        Events of executions that continued meanwhile are handed back.
        """
        if not events:
            return
        by_key = {_key(one): (one, event) for event in events for one in (held(event),)}
        refused = deps.store.hold([one for one, _ in by_key.values()])
        self.again.update(by_key)
        self.hand_back([by_key[_key(one)][1] for one in refused], handled)

    def settle(self, deps: EngineDeps) -> None:
        """Remove the outbox rows of released events that are applied now."""
        done = [
            (one.execution_id, one.event_id) for key, one in self.released.items() if key not in self.again
        ]
        if done:
            deps.store.record_superseded([], done)

    def hand_back(self, events: Iterable[Event], handled: BatchEffects) -> None:
        """Return ``events`` to be handled again, every copy of them once.

        Each copy has a row or a message of its own, which stays until that copy is handled.
        """
        for event in events:
            for one in self._as_it_came(event):
                if isinstance(one, Held):
                    self.again.add(_key(one))
                if id(one) not in self.back:
                    self.back.add(id(one))
                    handled.events.append(one)

    def free(self, early: Sequence[ItemsDone], deps: EngineDeps) -> None:
        """Release commands whose held messages came before an earlier message of the same command.

        That earlier message may never come: it was lost with its process unless it is held as well. No worker has the commands of held
        messages, so other workers run them again; their new outcomes supersede the held ones.
        """
        left = [event for event in early if any(isinstance(one, Held) for one in self._as_it_came(event))]
        if left:
            commands = tuple(
                Command(one.execution_id, one.command_id, one.run, one.step, one.program, "") for one in left
            )
            deps.store.hand_over(HELD, Published(), freed=Published(commands))

    def _as_it_came(self, event: Event) -> list[Event]:
        """Return the copies of ``event`` as the batch brought them.

        They are compared by id: completing and fitting an event change it.
        """
        came = self.came.get((event.execution_id, event.event_id), [])
        if len(came) > 1:
            name = held_id(event)
            came = [pair for pair in came if held_id(fitting(pair[0])) == name]
        return [one for _, one in came] or [event]


def _key(event: Held | Start) -> str:
    return f"{event.execution_id}/{event.event_id}"
