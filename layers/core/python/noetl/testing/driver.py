"""The whole engine in one thread, without queues, threads or real time.

The driver owns what a process would hold in memory: events to handle, commands to run, and commands that wait for their delay. One
``tick`` does one thing. The order in which ready commands run is a choice (``pick``), time is virtual: when nothing is ready it jumps to
the next moment at which something is due.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError
from noetl.domain.events import CommandDone, Event
from noetl.ports.executions.execution_store import Fence, LoadRequest
from noetl.services.orchestrator.engine_deps import BatchEffects, EngineDeps
from noetl.services.orchestrator.handle_events import handle_events

EPOCH = 1_800_000_000.0
"""Epoch seconds at which virtual time begins."""
MOST_TICKS = 20_000
TIMERS_AT_ONCE = 100
LEASE = 10.0**9


class EndlessError(AssertionError):
    """A run that does not end."""


class Time(Protocol):
    """Virtual time, moved by the driver alone."""

    def now(self) -> float:
        """Seconds since the beginning."""

    def pass_by(self, seconds: float) -> None:
        """Let time pass, for the store as well."""


@dataclass(slots=True)
class VirtualClock:
    """Time for a store that asks for it: ``clock.epoch`` is what it calls."""

    start: float = EPOCH
    seconds: float = 0.0

    def now(self) -> float:
        return self.seconds

    def epoch(self) -> float:
        return self.start + self.seconds

    def pass_by(self, seconds: float) -> None:
        self.seconds += seconds


Pick = Callable[[Sequence[Command]], int]
"""Which of the ready commands runs next: its place."""


def first(ready: Sequence[Command]) -> int:
    return 0


def last(ready: Sequence[Command]) -> int:
    return len(ready) - 1


Run = Callable[[Command, Callable[[Event], None]], None]
"""Run one command and emit its events: ``services.worker.run_command`` with its own dependencies."""


@dataclass
class Driver:
    """A driver of executions in virtual time, without queues or processes.

    ``pick``: which of the ready commands runs next. ``watch``: called with every command before it runs.
    """

    deps: EngineDeps
    run_command: Run
    time: Time
    pick: Pick = first
    watch: Callable[[Command], None] = lambda command: None
    ahead: Callable[[Command], CommandDone | None] | None = None
    """Runs a command before it is issued (``BatchEffects.ahead``)."""
    events: list[Event] = field(default_factory=list)
    ready: list[Command] = field(default_factory=list)
    delayed: list[tuple[float, int, Command]] = field(default_factory=list)
    under_way: list[tuple[float, int, Event]] = field(default_factory=list)
    """Outcomes of calls that take their time, each with the moment at which it is there."""
    lag: Callable[[], float] = lambda: 0.0
    """Seconds that the current command has taken so far."""
    ended: dict[int, float] = field(default_factory=dict)
    """Execution id → when it reached its terminal event."""
    in_flight: dict[str, int] = field(default_factory=dict)
    """Step → most items of its loops that were out at the same time."""
    ticks: int = 0
    order: Iterator[int] = field(default_factory=itertools.count)
    """Breaks ties of commands that become ready at the same moment."""

    def __post_init__(self) -> None:
        owner = self.deps.owner
        if owner is not None:
            self.deps.store.heartbeat(owner, LEASE)

    def submit(self, *events: Event) -> None:
        self.events.extend(events)

    @property
    def idle(self) -> bool:
        """Nothing can be done before time passes."""
        return not self.events and not self.ready

    def settle(self) -> None:
        """Continue until nothing is left to do now."""
        while not self.idle:
            self.tick()

    def tick(self) -> None:
        """Handle all events that are waiting, or run one command."""
        self.ticks += 1
        if self.ticks > MOST_TICKS:
            raise EndlessError(f"no end after {MOST_TICKS} moves")
        if self.events:
            batch, self.events = self.events, []
            self.handle(batch)
        else:
            command = self.ready.pop(self.pick(self.ready))
            if not command.delay or self.is_open(command) or self.is_left_behind(command):
                self.execute(command)

    def handle(self, batch: Sequence[Event]) -> None:
        """Handle a batch.

        What was committed before an event broke the engine is followed up, as in every runtime.
        """
        handled = BatchEffects(ahead=self.ahead)
        try:
            handle_events(batch, self.deps, handled)
        except InfrastructureError:
            raise
        except Exception:
            self.follow(handled)
            raise
        self.follow(handled)

    def follow(self, handled: BatchEffects) -> None:
        """Take the result of events: commands to run, events to handle, ended executions."""
        for command in handled.commands:
            self.take(command)
        self.events.extend(handled.events)
        for execution_id in handled.redriven:
            self.ended.pop(execution_id, None)
        for execution_id, _ in handled.ended:
            self.ended[execution_id] = self.time.now()
        self._count_items()

    def take(self, command: Command) -> None:
        """A command given out: it is ready now, or after its delay."""
        if command.delay > 0:
            heapq.heappush(self.delayed, (self.time.now() + command.delay, next(self.order), command))
        else:
            self.ready.append(command)

    def execute(self, command: Command) -> None:
        self.watch(command)
        self.run_command(command, self._outcome)

    def _outcome(self, event: Event) -> None:
        lag = self.lag()
        if lag > 0:
            heapq.heappush(self.under_way, (self.time.now() + lag, next(self.order), event))
        else:
            self.events.append(event)

    def is_open(self, command: Command) -> bool:
        """Return whether the engine still waits for this command.

        A worker looks before it runs one that is not fresh.
        """
        fence = self._fence(command)
        return fence is not None and (fence.attempt, fence.turn) == (command.attempt, command.turn)

    def is_left_behind(self, command: Command) -> bool:
        """Return whether a command's work in another system is no longer wanted: a worker ends it."""
        return command.remote and self._fence(command) is None

    def _fence(self, command: Command) -> Fence | None:
        request = LoadRequest(command.execution_id, commands=(command.command_id,))
        found = self.deps.store.load([request]).executions.get(command.execution_id)
        return found.fences.get(command.command_id) if found is not None else None

    def advance(self, limit: float | None = None) -> bool:
        """Let time pass to the next moment at which something is due, at most to ``limit``.

        False: nothing is due before it.
        """
        moments = [] if limit is None else [limit]
        moments += [heap[0][0] for heap in (self.delayed, self.under_way) if heap]
        wait = self._due_timers()
        if self.events:
            return True
        if wait is not None:
            moments.append(self.time.now() + wait)
        if not moments:
            return False
        self.time.pass_by(max(0.0, min(moments) - self.time.now()))
        while self.delayed and self.delayed[0][0] <= self.time.now() + 1e-9:
            self.ready.append(heapq.heappop(self.delayed)[2])
        while self.under_way and self.under_way[0][0] <= self.time.now() + 1e-9:
            self.events.append(heapq.heappop(self.under_way)[2])
        self._due_timers()
        return not self.idle

    def _due_timers(self) -> float | None:
        owner = self.deps.owner or "driver"
        fired, wait = self.deps.store.due_timers(owner, TIMERS_AT_ONCE)
        self.events.extend(fired)
        return wait

    def _count_items(self) -> None:
        out: dict[str, int] = {}
        for command in [*self.ready, *(entry[2] for entry in self.delayed)]:
            if command.loop is not None:
                items = command.loop.stop - command.loop.start - len(command.loop.skip)
                out[command.step] = out.get(command.step, 0) + items
        for step, count in out.items():
            self.in_flight[step] = max(self.in_flight.get(step, 0), count)
