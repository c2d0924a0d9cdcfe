"""Failure of dead commands, which no worker could finish and their queue gave up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError, InvalidInputError, NotFoundError, as_exception
from noetl.domain.messages import VERSION, Message, NewerMessageError, event_group
from noetl.domain.text.masking import loggable
from noetl.dsl.program import Program
from noetl.ports.queue import Delivery, Outgoing, Queue
from noetl.ports.results import ResultStore
from noetl.services.messaging.large_messages import pack, unpack
from noetl.services.worker.worker_lost import answer_lost

REASON = "it was delivered several times and never answered"
SHOWN = 4000
"""Characters of an unreadable message that the log keeps."""


@dataclass(slots=True)
class DeadBatchResult:
    """``give_back``: ids of messages that stay where they are."""

    give_back: list[str] = field(default_factory=list)
    lost: int = 0
    unreadable: int = 0
    executions: set[int] = field(default_factory=set)


def bury(
    deliveries: Sequence[Delivery],
    *,
    programs: Callable[[str], Program],
    results: ResultStore,
    events: Queue,
    limit: int,
    log: Callable[[str], None],
    worker: Callable[[Command], str] = lambda command: command.pool,
) -> DeadBatchResult:
    """Report each dead command as failed with ``worker_lost``.

    The task's rules and retries may answer that error. ``worker``: names the worker whose queue gave the command up. No tool of the
    playbook is called. Raises InfrastructureError when the answers cannot be sent.
    """
    buried = DeadBatchResult()
    answers: list[tuple[Delivery, Outgoing]] = []
    for delivery in deliveries:
        try:
            message = unpack(delivery.body, results)
        except (NewerMessageError, InfrastructureError) as error:
            log(f"dead letter {delivery.message_id} is left: {error}")
            buried.give_back.append(delivery.message_id)
            continue
        except (InvalidInputError, NotFoundError) as error:
            log(
                f"dead letter {delivery.message_id} cannot be read: {error}; it was {loggable(delivery.body, SHOWN)!r}"
            )
            buried.unreadable += 1
            continue
        except BaseException as error:
            log(f"dead letter {delivery.message_id} is left: {as_exception(error)!r}")
            buried.give_back.append(delivery.message_id)
            continue
        if message.command is None:
            log(
                f"dead letter {delivery.message_id} holds no command; it was {loggable(delivery.body, SHOWN)!r}"
            )
            buried.unreadable += 1
            continue
        try:
            reason = f"worker {worker(message.command)}: {REASON}"
            log(f"command {message.command.command_id} of execution {message.command.execution_id}: {reason}")
            outcomes = answer_lost(message.command, programs, results, reason, log)
            outgoing = [
                Outgoing(
                    pack(Message(VERSION, token=message.token, event=event), results, limit=limit),
                    event_group(event),
                    dedup=f"{delivery.message_id}.{number}",
                )
                for number, event in enumerate(outcomes)
            ]
        except BaseException as error:
            log(f"dead letter {delivery.message_id} is left: {as_exception(error)!r}")
            buried.give_back.append(delivery.message_id)
            continue
        answers += [(delivery, one) for one in outgoing]
        buried.executions.add(message.command.execution_id)
    if answers:
        unsent = set(events.send([answer for _, answer in answers]))
        left = {delivery.message_id for n, (delivery, _) in enumerate(answers) if n in unsent}
        buried.give_back += sorted(left)
        buried.lost = len({delivery.message_id for delivery, _ in answers} - left)
    return buried
