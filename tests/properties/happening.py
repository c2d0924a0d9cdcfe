"""What a client asks for while the simulator runs, and how moves are told of in a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from noetl.domain.commands import Command
from noetl.domain.events import Event

if TYPE_CHECKING:
    from tests.properties.world import Process


@dataclass
class Happening:
    """Something a client asks for, and asks again until it is told that it was accepted."""

    event: Event | None
    after: int
    """Moves before it is asked for."""
    door: Callable[[Process], Sequence[Event]] | None = None
    """Instead of an event: asks a service of the product, which may refuse."""
    what: str = ""
    tries: int = 0


def names(events: list[Event]) -> str:
    return ", ".join(f"{str(event.execution_id)[-4:]}/{event.event_id}" for event in events)


def label(command: Command) -> str:
    return (
        f"{str(command.execution_id)[-4:]}/{command.command_id} attempt {command.attempt} turn {command.turn}"
    )
