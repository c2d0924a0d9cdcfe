"""Outcomes by request: a worker asks the engine directly to decide them.

It sends every outcome that such a request fails for through the queue.
"""

from __future__ import annotations

import itertools
import math
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError
from noetl.domain.events import CommandDone
from noetl.domain.messages import VERSION as MESSAGE_VERSION
from noetl.domain.messages import Message, decode_message, encode_message
from noetl.domain.outcomes.outcomes import Outcome
from noetl.domain.workers.direct_requests import MOST_MESSAGES, VERSION, DecideRequest, fitting
from noetl.ports.decisions import Decisions
from noetl.services.messaging.back_off import BackOff

SECONDS = 10.0
"""How long an invocation takes commands from answers. Later ones go through the queue, behind the commands of other executions."""
REQUEST_SECONDS = 28.0
"""Least time left to make a request: a request counts as unanswered after so long."""
PAUSES = BackOff(first=1.0, most=60.0)
"""Pauses after consecutive requests that failed."""
LEASE_BYTES = 64
"""Bytes by which ``unanswered`` makes a message longer, at most."""
NOT_SENT = frozenset({"aws_throttled", "aws_refused", "aws_not_configured"})
"""Failures of requests that did not reach the engine."""


@dataclass(frozen=True, slots=True)
class RequestAnswer:
    """The engine's answer to one request.

    ``left``: places of outcomes that have to go through the queue, each with the lease of the request that was not answered (empty: that
    request leased nothing). ``commands``: texts of messages, leased to this worker.
    """

    left: Mapping[int, str]
    commands: Sequence[str] = ()


@dataclass(slots=True)
class DirectOutcomes:
    """The requests of a process to the engine, for all its threads.

    ``most``: commands that an invocation takes from answers. ``clock``: monotonic seconds.
    """

    decisions: Decisions
    most: int
    clock: Callable[[], float]
    log: Callable[[str], None]
    _failed: int = 0
    _until: float = -math.inf
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _leases: Iterator[str] | None = None

    def is_open(self) -> bool:
        """Return whether requests may be made: none are made for a while after a failure."""
        return self.clock() >= self._until

    def decide(self, outcomes: Sequence[str], most: int) -> RequestAnswer:
        """Ask the engine to decide outcomes. ``most``: commands that the caller takes."""
        count = fitting(outcomes, MOST_MESSAGES)
        left = dict.fromkeys(range(count, len(outcomes)), "")
        if not count:
            return RequestAnswer(left)
        lease = self._next_lease()
        try:
            found = self.decisions.decide(DecideRequest(VERSION, list(outcomes[:count]), max(0, most), lease))
        except InfrastructureError as outage:
            self._note_failure(f"{count} outcome(s) go through the queue", outage)
            refused = outage.code in NOT_SENT
            return RequestAnswer(dict.fromkeys(range(count), "" if refused else lease) | left)
        self._failed = 0
        return RequestAnswer(dict.fromkeys(found.left, "") | left, found.commands)

    def hold(self, heartbeats: Sequence[str]) -> None:
        """Extend the leases of commands that still run.

        Another worker may run a command whose lease could not be extended, once that lease is over.
        """
        for start in range(0, len(heartbeats), MOST_MESSAGES):
            self._send(DecideRequest(VERSION, held=list(heartbeats[start : start + MOST_MESSAGES])))

    def give_back(self, heartbeats: Sequence[str]) -> None:
        """End the leases of commands that this worker does not finish."""
        for start in range(0, len(heartbeats), MOST_MESSAGES):
            self._send(DecideRequest(VERSION, back=list(heartbeats[start : start + MOST_MESSAGES])))

    def _send(self, request: DecideRequest) -> None:
        try:
            self.decisions.decide(request)
        except InfrastructureError as outage:
            self.log(
                f"leases of {len(request.held) + len(request.back)} command(s) expire without being extended or ended: {outage}"
            )

    def _next_lease(self) -> str:
        """Return a new name for the commands that the answer to a request leases."""
        with self._lock:
            # The first request draws it, and not the start of the process: copies of a snapshot of this process would have the same names.
            if self._leases is None:
                self._leases = _lease_names(secrets.token_hex(12))
            return next(self._leases)

    def _note_failure(self, what: str, outage: InfrastructureError) -> None:
        with self._lock:
            self._failed += 1
            pause = PAUSES.after(self._failed)
            self._until = self.clock() + pause
        self.log(f"{what}, as will all outcomes of the next {pause} s: {outage}")


def _lease_names(prefix: str) -> Iterator[str]:
    """Yield names that differ at their end.

    Postgres logs what differs between two versions of a row, and a command that follows another one has a new lease in the same row.
    """
    return (f"{prefix}{number:08x}" for number in itertools.count())


def heartbeat(command: Command, token: str) -> str:
    """Return the message that names a command which its worker has not answered."""
    event = CommandDone.of(command, Outcome("suspended"))
    return encode_message(Message(MESSAGE_VERSION, token=token, event=event))


def unanswered(text: str, lease: str) -> str:
    """Return an outcome's message for the queue, after a request that was not answered."""
    return encode_message(msgspec.structs.replace(decode_message(text), asked=lease)) if lease else text
