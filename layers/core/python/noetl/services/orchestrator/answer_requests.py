"""Decisions by request: a worker sends outcomes, and the answer holds its next commands.

The engine decides these outcomes as it decides those of a queue: the same authentication, decision and commit. The answer contains the
next commands of the worker's own queue, leased to this worker. All other commands go to their queues. The engine returns every outcome
that it could not decide, for any reason. The worker sends those through the queue, where failed events are retried and, in the end, set
aside as dead letters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from noetl.domain.commands import Command
from noetl.domain.errors import as_exception
from noetl.domain.events import CommandDone, Event, Start
from noetl.domain.workers.direct_requests import LEASE_SECONDS, VERSION, DecideAnswer, DecideRequest, fitting
from noetl.ports.queue import Delivery
from noetl.services.executions.direct_starts import DecidedStarts
from noetl.services.orchestrator.consume_events import EventBatchResult, MessageBatch, MessageDeps
from noetl.services.orchestrator.select_worker import worker_of
from noetl.services.orchestrator.sweep import sweep
from noetl.services.support.lease_owner_id import direct_owner


@dataclass(slots=True)
class AnsweredRequest:
    """The answer to a request, with its counts.

    ``managed``: what the batch did. ``handed``: commands in the answer. ``returned``: commands that the worker returned to their queues.
    """

    answer: DecideAnswer
    managed: EventBatchResult
    handed: int = 0
    returned: int = 0


def answer_request(
    request: DecideRequest, deps: MessageDeps, deadline: Callable[[], float]
) -> AnsweredRequest:
    """Decide a worker's outcomes, and extend or end the leases that its request names.

    ``deadline`` returns the seconds left. Raises InfrastructureError; the worker then sends its outcomes through the queue.
    """
    returned = _update_leases(request, deps, deadline)
    if not request.outcomes:
        return AnsweredRequest(DecideAnswer(VERSION), EventBatchResult(), returned=returned)
    batch = _Request(deps, deadline, request)
    managed = batch.handle([Delivery(str(place), "", text, 1) for place, text in enumerate(request.outcomes)])
    left = sorted({int(one) for one in managed.give_back})
    answer = DecideAnswer(VERSION, left, batch.texts)
    return AnsweredRequest(answer, managed, handed=len(batch.texts), returned=returned)


class _Request(MessageBatch):
    """A batch of the outcomes of one request.

    ``texts``: messages of the commands in the answer, at most ``most``.
    """

    def __init__(self, deps: MessageDeps, deadline: Callable[[], float], request: DecideRequest) -> None:
        super().__init__(None, deps, deadline, direct_owner(deps.clock(), request.lease))
        self.most = request.most
        self.texts: list[str] = []
        self.decided: list[Event] = []

    def _decide(self, pairs: list[tuple[Delivery, Event]]) -> None:
        error = self._try(pairs)
        if error is None:
            self.decided += [event for _, event in pairs]
            return
        self.deps.log(f"{len(pairs)} event(s) are left to the queue: {error!r}")
        self.managed.failures += len(pairs)
        self._back_off([delivery for delivery, _ in pairs])

    def _to_send(self) -> list[Command]:
        """Put the chosen commands into the answer; return the others, which go to their queues.

        The commit has already leased the chosen commands to the caller.
        """
        chosen = self._chosen()
        if not chosen:
            return self.commands
        handed: list[Command] = []
        texts: list[str] = []
        for command in chosen:
            try:
                texts.append(self.deps.publisher.command_message(command))
                handed.append(command)
            except BaseException as error:
                self.deps.log(f"command {command.command_id} goes to its queue: {as_exception(error)!r}")
        count = fitting(texts, self.most)
        self.texts = texts[:count]
        kept = {id(command) for command in handed[:count]}
        return [command for command in self.commands if id(command) not in kept]

    def _chosen(self) -> list[Command]:
        """Choose the commands that the caller gets in the answer.

        They are commands of the worker whose commands the caller answered, at most as many as it answered, and at most one of each
        execution: other workers of the queue run the other branches of a fork at the same time. A chunk of a loop is never chosen,
        since it is one of many.
        """
        answered = [event for event in self.decided if isinstance(event, CommandDone)]
        workers = {worker for event in answered if (worker := self._worker_of(event))}
        fetched = self.deps.publisher.fetched() if workers else frozenset()
        chosen: dict[int, Command] = {}
        for command in self.commands:
            if len(chosen) >= min(self.most, len(answered)):
                break
            if command.loop is not None or command.delay > 0 or command.execution_id in chosen:
                continue
            worker = self._name_of(command)
            if worker in workers and worker not in fetched:
                chosen[command.execution_id] = command
        return list(chosen.values())

    def _worker_of(self, event: CommandDone) -> str:
        """Return the name of the worker that runs the command which ``event`` answers.

        The step and stage come from the event because its token proves them; a name that the caller states would prove nothing. Returns
        an empty string for tasks of a case: their kinds choose the worker.
        """
        if event.stage == "case":
            return ""
        answered = Command(
            event.execution_id, event.command_id, event.run, event.step, event.program, "", event.stage
        )
        return self._name_of(answered)

    def _name_of(self, command: Command) -> str:
        try:
            publisher = self.deps.publisher
            return worker_of(command, publisher.programs(command.program), publisher.workers)
        except BaseException as error:
            self.deps.log(f"command {command.command_id} goes to its queue: {as_exception(error)!r}")
            return ""


def _update_leases(request: DecideRequest, deps: MessageDeps, deadline: Callable[[], float]) -> int:
    """Extend or end the leases that the request names; return how many ended.

    The request ends the lease of a command that its worker cannot finish. That command goes to its queue at once, as the next attempt.
    """
    leases = deps.leases
    if leases is None:
        return 0
    for event in _heartbeats(request.held, deps):
        leases.extend(*_turn(event), LEASE_SECONDS)
    freed = sum(leases.give_back(*_turn(event)) for event in _heartbeats(request.back, deps))
    if freed:
        sweep(deps.engine.store, deps.publisher, who=deps.who, clock=deps.clock, deadline=deadline)
    return freed


def _heartbeats(texts: Sequence[str], deps: MessageDeps) -> list[CommandDone]:
    """Authenticate a worker's messages about commands that it has not answered."""
    if not texts:
        return []
    found = deps.door.admit([Delivery(f"heartbeat-{place}", "", text, 1) for place, text in enumerate(texts)])
    return [event for _, event in found.events if isinstance(event, CommandDone)]


def _turn(event: CommandDone) -> tuple[int, str, int, int]:
    """Return (execution, command, attempt, turn), by which the store knows the lease."""
    return event.execution_id, event.command_id, event.attempt, event.turn


# --- starts -----------------------------------------------------------------------------------------


def begin_executions(
    starts: Sequence[Start], deps: MessageDeps, deadline: Callable[[], float]
) -> DecidedStarts:
    """Decide Starts that this process made, and publish the commands that follow.

    These Starts need no token.
    """
    return _Starts(None, deps, deadline).begin(starts)


class _Starts(MessageBatch):
    def begin(self, starts: Sequence[Start]) -> DecidedStarts:
        pairs = [(Delivery(str(place), "", "", 1), start) for place, start in enumerate(starts)]
        try:
            self._decide(list[tuple[Delivery, Event]](pairs))
            self._follow()
        finally:
            self._publish()
        back = set(self.managed.give_back)
        left = [start for delivery, start in pairs if delivery.message_id in back]
        return DecidedStarts(left, self.taken, self.managed.failed)

    def _decide(self, pairs: list[tuple[Delivery, Event]]) -> None:
        error = self._try(pairs)
        if error is not None:
            self.deps.log(f"{len(pairs)} start(s) go through the queue: {error!r}")
            self._back_off([delivery for delivery, _ in pairs])
