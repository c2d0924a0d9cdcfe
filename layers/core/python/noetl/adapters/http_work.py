"""Adapters of a worker that reaches its server over HTTP alone.

They are its queue of commands, the way back for events, programs and large values.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import msgspec

from noetl.adapters.buffered_stream import HeldStreams
from noetl.adapters.http_credentials import PAUSES
from noetl.domain import codec
from noetl.domain.errors import InfrastructureError, InvalidInputError, NotFoundError
from noetl.domain.task_logs import LinePage, TaskLine
from noetl.domain.workers.command_token import HEADER
from noetl.ports.queue import Delivery, Outgoing

LONGEST_REST = 5
"""Seconds for which a worker claims nothing, at most, after it gave back a command that it could not run now.

Short, because the commands that it can run wait as well."""
HOLD_SECONDS = 59
"""What a worker asks for when it continues with a command; any other delay means that it returns the command."""
WAIT_SECONDS = 1.0
"""How long a claim waits for a command, at most. A worker that stops waits for the answer to its last claim."""
FIRST_PAUSE = 0.01
"""Between two claims, at first, where the server does not wait; each pause is twice as long as the one before, up to ``POLL_SECONDS``."""
POLL_SECONDS = 0.5
EXECUTIONS = 10_000
"""Whose tokens a worker remembers: many times what it can have under way."""
Exchange = Callable[[str, str, bytes | None, Mapping[str, str]], tuple[int, bytes]]
"""(method, path, body, headers) → (status, body). Raises InfrastructureError when there is no answer."""


class _Problem(msgspec.Struct, frozen=True):
    code: str = ""
    detail: str = ""


class _Claimed(msgspec.Struct, frozen=True):
    execution_id: str
    command_id: str
    attempt: int
    turn: int
    command: str
    message: str


class _Claims(msgspec.Struct, frozen=True):
    commands: list[_Claimed]


class _Kept(msgspec.Struct, frozen=True):
    store: str = ""


class _Answer(msgspec.Struct, frozen=True):
    wanted: bool = True


_KEPT = codec.decoder(_Kept)
_ANSWER = codec.decoder(_Answer)


def call(exchange: Exchange, method: str, path: str, value: Any = None) -> bytes:
    """The answer's body.

    Raises NotFoundError, InvalidInputError (the server refuses it for good), InfrastructureError.
    """
    status, body = exchange(method, path, None if value is None else codec.encode(value), {})
    return _answer(status, body, path)


def _answer(status: int, body: bytes, path: str) -> bytes:
    if 200 <= status < 300:
        return body
    try:
        problem = codec.decode_as(codec.decoder(_Problem), body)
    except ValueError:
        problem = _Problem("", f"status {status}")
    message = f"{path.partition('?')[0]}: {problem.detail or status}"[:500]
    if status == 404:
        raise NotFoundError(message, code=problem.code or "not_found")
    if status in (408, 429) or status >= 500:
        raise InfrastructureError(message, code=problem.code or "server_unreachable")
    raise InvalidInputError(message, code=problem.code or "refused")


class CommandTokens:
    """The newest command of each execution that this worker was given.

    What the worker keeps for an execution, it keeps in that command's name.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: OrderedDict[int, str] = OrderedDict()
        self._here = threading.local()

    def add(self, execution_id: int, command: str) -> None:
        with self._lock:
            self._newest[execution_id] = command
            self._newest.move_to_end(execution_id)
            while len(self._newest) > EXECUTIONS:
                self._newest.popitem(last=False)

    def header(self, execution_id: int) -> Mapping[str, str]:
        """Return the headers of a request for this execution.

        For what belongs to none (0), those of any command.
        """
        with self._lock:
            newest = next(reversed(self._newest.values()), None)
            command = self._newest.get(execution_id) if execution_id else newest
        return {HEADER: command} if command else {}

    @contextmanager
    def about(self, execution_id: int) -> Iterator[None]:
        """What this thread reads from here on, it reads for this execution."""
        self._here.execution_id = execution_id
        try:
            yield
        finally:
            del self._here.execution_id

    def reader(self, execution_id: int) -> Mapping[str, str]:
        """Return the headers to read what belongs to this execution.

        It may be another execution than the one this thread works for.
        """
        return self.header(getattr(self._here, "execution_id", execution_id))


class HttpCommands:
    """The commands of one pool, as a queue: claimed, held with signs of life, given back.

    ``name``: of this worker, unique.

    ``tokens``: learns the token of each. ``stopping``: true once nothing more is to be received; a wait ends then.
    """

    def __init__(
        self,
        exchange: Exchange,
        name: str,
        pool: str,
        capacity: int,
        tokens: CommandTokens,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._exchange, self._clock, self._sleep, self._stopping = exchange, clock, sleep, stopping
        self._tokens = tokens
        self._worker = {"name": name, "pool": pool, "capacity": capacity}
        self._name = name
        self._rest_until = 0.0
        self._may_wait = True
        """The server is not of a version whose claims do not wait."""

    def register(self) -> None:
        """Register this worker.

        Raises InvalidInputError (no such pool, or the name belongs to another principal), InfrastructureError.
        """
        call(self._exchange, "POST", "/api/worker/pool/register", self._worker)

    def deregister(self) -> None:
        """What is still held goes to others."""
        call(self._exchange, "POST", "/api/worker/pool/deregister", {"name": self._name})

    def receive(self, limit: int, wait_seconds: float = 0.0) -> Sequence[Delivery]:
        until = self._clock() + wait_seconds
        pause = FIRST_PAUSE  # what follows an outcome that was just reported is there soon
        while True:
            found: list[Delivery] = []
            began = self._clock()
            wait = max(0.0, min(WAIT_SECONDS, until - began))
            if began >= self._rest_until:
                found = self._claim(limit, wait)
            now = self._clock()
            if found or now >= until:
                return found
            if (rest := self._rest_until - now) > 0:
                self._sleep(min(rest, POLL_SECONDS))
            elif now - began < wait / 2:  # a deployment answers at once, and so does a server where many wait
                self._sleep(pause)
                pause = min(2 * pause, POLL_SECONDS)
            if self._stopping():
                return []

    def _claim(self, limit: int, wait: float) -> list[Delivery]:
        """A server that was restarted does not know its workers any more."""
        claim = {"name": self._name, "limit": min(limit, 100)}
        try:
            body = self._claimed(claim, wait)
        except NotFoundError:
            self.register()
            body = self._claimed(claim, wait)
        return [self._delivery(one) for one in codec.decode_as(codec.decoder(_Claims), body).commands]

    def _claimed(self, claim: dict[str, Any], wait: float) -> bytes:
        if self._may_wait and wait:
            try:
                return call(self._exchange, "POST", "/api/commands/claim", {**claim, "wait": round(wait, 3)})
            except InvalidInputError as refused:
                if refused.code != "body_invalid":
                    raise
                self._may_wait = False
        return call(self._exchange, "POST", "/api/commands/claim", claim)

    def _delivery(self, one: _Claimed) -> Delivery:
        self._tokens.add(int(one.execution_id), one.command)
        name = f"{one.execution_id}/{one.command_id}/{one.attempt}.{one.turn}"
        return Delivery(name, one.command, one.message, one.attempt, self._clock(), one.execution_id)

    def send(self, messages: Sequence[Outgoing]) -> Sequence[int]:
        """Raises InvalidInputError: commands come from the engine alone."""
        raise InvalidInputError("a worker sends no commands", code="not_sent")

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """What was answered is over by its answer."""

    def nack(self, deliveries: Sequence[Delivery], delay_seconds: int = 0) -> None:
        """Hold commands, or give them back: to other workers at once, to this one after a rest."""
        if delay_seconds and delay_seconds != HOLD_SECONDS:
            self._rest_until = max(self._rest_until, self._clock() + min(delay_seconds, LONGEST_REST))
        for delivery in deliveries:
            try:
                if delay_seconds == HOLD_SECONDS:
                    call(self._exchange, "POST", "/api/events", _heartbeat(delivery.receipt))
                else:
                    call(self._exchange, "POST", "/api/commands/give-back", {"command": delivery.receipt})
            except (InvalidInputError, NotFoundError) as late:
                raise InfrastructureError(
                    f"the server does not take back {delivery.message_id}: {late}", retryable=False
                ) from late


class HttpMarks:
    """Whether one command is still wanted: its sign of life is answered with that.

    ``command``: what was claimed with it.
    """

    def __init__(self, exchange: Exchange, command: str) -> None:
        self._exchange, self._command = exchange, command

    def revoke(self, execution_id: int, run: int | None = None) -> None:
        """Refuse: the engine decides what is wanted. Raises InvalidInputError."""
        raise InvalidInputError("a worker revokes nothing", code="not_revoked")

    def is_revoked(self, execution_id: int, run: int) -> bool:
        """Return whether the command is revoked.

        Raises InfrastructureError; a server that refuses to say counts as one that cannot be reached.
        """
        try:
            body = call(self._exchange, "POST", "/api/events", _heartbeat(self._command))
        except (InvalidInputError, NotFoundError) as refused:
            raise InfrastructureError(
                f"the server does not say whether the command is wanted: {refused}"
            ) from refused
        return not codec.decode_as(_ANSWER, body).wanted


def _heartbeat(command: str) -> dict[str, str]:
    return {"name": "command.heartbeat", "command": command}


class HttpEvents:
    """Outcomes on their way to the engine.

    ``log``: one line per outcome that the server refuses.
    """

    def __init__(
        self,
        exchange: Exchange,
        log: Callable[[str], None],
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._exchange, self._log, self._sleep = exchange, log, sleep

    def send(self, messages: Sequence[Outgoing]) -> Sequence[int]:
        """What the server refuses for good is done with; it is logged here and recorded there.

        An outcome whose key the server does not know yet is sent again: its command would run a second time otherwise."""
        unsent: list[int] = []
        pauses = iter(PAUSES)
        for place, message in enumerate(messages):
            try:
                self._send(message, pauses)
            except (InvalidInputError, NotFoundError) as refused:
                self._log(f"an outcome is refused: {refused}")
            except InfrastructureError as outage:
                if len(messages) == 1:
                    raise
                self._log(f"an outcome cannot be sent: {outage}")
                unsent.append(place)
        return unsent

    def _send(self, message: Outgoing, pauses: Iterator[float]) -> None:
        while True:
            status, body = self._exchange("POST", "/api/events", message.body.encode(), {})
            try:
                _answer(status, body, "/api/events")
                return
            except InfrastructureError as later:
                pause = next(pauses, None) if later.code == "key_unknown" else None
                if pause is None:
                    raise
            self._sleep(pause)

    def receive(self, limit: int, wait_seconds: float = 0.0) -> Sequence[Delivery]:
        """Nothing: events are for the engine."""
        return ()

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """There is nothing to acknowledge."""

    def nack(self, deliveries: Sequence[Delivery], delay_seconds: int = 0) -> None:
        """There is nothing to give back."""


class HttpPrograms:
    """Compiled programs of a server."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def get(self, program: str) -> bytes | None:
        try:
            return call(self._exchange, "GET", f"/api/programs/{quote(program, safe='')}")
        except NotFoundError:
            return None

    def put(self, program: str, data: bytes) -> None:
        """Raises InvalidInputError: workers compile nothing."""
        raise InvalidInputError("a worker keeps no programs", code="not_kept")


class HttpTaskLogs:
    """A server's place for lines of tasks: they are only written from here."""

    def __init__(self, exchange: Exchange, tokens: CommandTokens) -> None:
        self._exchange, self._tokens = exchange, tokens

    def append(self, execution_id: int, lines: Sequence[TaskLine]) -> None:
        path = f"/api/executions/{execution_id}/logs"
        body = codec.encode({"lines": lines})
        _answer(*self._exchange("POST", path, body, self._tokens.header(execution_id)), path)

    def read(self, execution_id: int, after: str, limit: int, *, everything: bool) -> LinePage:
        """Raises InvalidInputError."""
        raise InvalidInputError("a worker reads no lines", code="not_read")

    def end(self, execution_id: int, *, everything: bool) -> str:
        """Raises InvalidInputError."""
        raise InvalidInputError("a worker reads no lines", code="not_read")

    def read_back(self, execution_id: int, before: str, limit: int) -> LinePage:
        """Raises InvalidInputError."""
        raise InvalidInputError("a worker reads no lines", code="not_read")

    def delete_execution(self, execution_id: int) -> None:
        """Raises InvalidInputError."""
        raise InvalidInputError("a worker removes no lines", code="not_removed")


_BYTES = {"Content-Type": "application/octet-stream"}


class HttpResults(HeldStreams):
    """A server's tiers of results.

    ``store``: the one to read from; ``wish``: the one that a playbook asks for.
    """

    def __init__(self, exchange: Exchange, tokens: CommandTokens, store: str = "", tier: str = "") -> None:
        self._exchange, self._tokens = exchange, tokens
        self._tier = tier
        self.name = self._store = store

    def choose(self, size: int | None, tier: str | None = None) -> HttpResults:
        """Return a store for one value; the server chooses the tier when it sees the value.

        ``name`` is the tier it has chosen, after ``put``.
        """
        return HttpResults(self._exchange, self._tokens, tier=tier or "")

    def at(self, store: str | None) -> HttpResults:
        return HttpResults(self._exchange, self._tokens, store or "")

    def doubt(self, uri: str) -> bool:
        """There are no copies here."""
        return False

    def put(self, uri: str, data: bytes) -> None:
        execution, _, name = uri.removeprefix("noetl://execution/").partition("/result/")
        path = f"/api/result/{execution}/{quote(name)}"
        tier_query = f"?wish={quote(self._tier, safe='')}" if self._tier else ""
        status, body = self._exchange(
            "PUT", path + tier_query, data, {**_BYTES, **self._tokens.header(int(execution))}
        )
        try:
            kept = _answer(status, body, path)
        except (InvalidInputError, NotFoundError) as refused:
            raise InfrastructureError(f"{uri} cannot be kept: {refused}", retryable=False) from refused
        self.name = codec.decode_as(_KEPT, kept).store

    def get(self, uri: str) -> bytes:
        store = f"&store={quote(self._store, safe='')}" if self._store else ""
        try:
            path = f"/api/result/resolve?ref={quote(uri, safe='')}{store}"
            owner = uri.removeprefix("noetl://execution/").partition("/")[0]
            shown = self._tokens.reader(int(owner) if owner.isdecimal() else 0)
            return _answer(*self._exchange("GET", path, None, shown), path)
        except (InvalidInputError, NotFoundError) as gone:
            raise NotFoundError(f"{uri} is not there: {gone}", code="REFERENCE_NOT_AVAILABLE") from gone

    def delete(self, uris: Sequence[str]) -> None:
        """Raises InvalidInputError: workers remove nothing."""
        raise InvalidInputError("a worker removes no results", code="not_removed")

    def delete_execution(self, execution_id: int) -> int:
        """Raises InvalidInputError: workers remove nothing."""
        raise InvalidInputError("a worker removes no results", code="not_removed")
