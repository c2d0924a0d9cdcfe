"""The end of commands that no worker could settle: their queue gave up on them, so they fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from noetl.domain.errors import InfrastructureError, InvalidInputError, NotFoundError
from noetl.domain.messages import VERSION, Message, NewerMessageError, event_group
from noetl.ports.queue import Delivery, Outgoing, Queue
from noetl.ports.results import ResultStore
from noetl.services.messages import pack, unpack
from noetl.services.worker_lost import worker_lost


@dataclass(slots=True)
class Buried:
    """``give_back``: ids of messages that stay where they are."""

    give_back: list[str] = field(default_factory=list)
    lost: int = 0
    unreadable: int = 0
    executions: set[int] = field(default_factory=set)


def bury(
    deliveries: Sequence[Delivery],
    *,
    results: ResultStore,
    events: Queue,
    limit: int,
    log: Callable[[str], None],
) -> Buried:
    """Answer commands that no worker could settle: each fails as ``worker_lost``, which the retry policy of its step may answer.

    Raises InfrastructureError when the answers cannot be sent.
    """
    buried = Buried()
    answers: list[tuple[Delivery, Outgoing]] = []
    for delivery in deliveries:
        try:
            message = unpack(delivery.body, results)
        except (NewerMessageError, InfrastructureError) as error:
            log(f"dead letter {delivery.message_id} is left: {error}")
            buried.give_back.append(delivery.message_id)
            continue
        except (InvalidInputError, NotFoundError) as error:
            log(f"dead letter {delivery.message_id} cannot be read: {error}; it was {delivery.body[:4000]!r}")
            buried.unreadable += 1
            continue
        if message.command is None:
            log(f"dead letter {delivery.message_id} holds no command; it was {delivery.body[:4000]!r}")
            buried.unreadable += 1
            continue
        event = worker_lost(message.command, "it was delivered several times and never answered")
        text = pack(Message(VERSION, token=message.token, event=event), results, limit=limit)
        answers.append((delivery, Outgoing(text, event_group(event), dedup=delivery.message_id)))
        buried.executions.add(message.command.execution_id)
    if answers:
        unsent = set(events.send([answer for _, answer in answers]))
        buried.give_back += [delivery.message_id for n, (delivery, _) in enumerate(answers) if n in unsent]
        buried.lost = len(answers) - len(unsent)
    return buried
