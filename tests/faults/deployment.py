"""All functions of a deployment over queues, time and stores that a test owns: any port call of any of them may be its last.

The services are the real ones. What Lambda does is done here: a batch is received, a function handles it, what it did not give back is
deleted; a function that died deletes nothing, and its messages are there again when their visibility is over. Whoever is invoked next
after a death starts cold.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from noetl.adapters.memory import MemoryResultStore
from noetl.domain.capability_tokens import KeyRing
from noetl.domain.errors import InfrastructureError
from noetl.domain.events import Start
from noetl.domain.state import TERMINAL
from noetl.domain.workers.direct_requests import DecideAnswer, DecideRequest, read_answer, read_request
from noetl.dsl.program import encode
from noetl.engine.scopes.slot_view import Limits
from noetl.ports.executions.execution_store import ExecutionInfo, ExecutionStore
from noetl.ports.executions.inspection import Inspection
from noetl.ports.queue import Delivery
from noetl.ports.workers import CommandLeases
from noetl.runtime.programs import Programs
from noetl.runtime.stored_programs import StoredPrograms
from noetl.services.callbacks.complete_callback import CallbackDeps
from noetl.services.executions.direct_starts import DecidedStarts, DirectStarts
from noetl.services.messaging.send_events import EventSender
from noetl.services.orchestrator.answer_requests import answer_request, begin_executions
from noetl.services.orchestrator.authenticate import MessageAuthenticator
from noetl.services.orchestrator.consume_events import MessageDeps, handle_messages
from noetl.services.orchestrator.engine_deps import EngineDeps
from noetl.services.orchestrator.fail_dead_commands import bury
from noetl.services.orchestrator.publish import Publisher
from noetl.services.orchestrator.snapshot_cache import Recent
from noetl.services.orchestrator.sweep import sweep
from noetl.services.queries.analyze import AnalyzeDeps
from noetl.services.results.hydration import make_hydrate
from noetl.services.worker.batch_deps import BatchDeps
from noetl.services.worker.cancellation_marks import RevocationWatch
from noetl.services.worker.consume_commands import work_batch
from noetl.services.worker.direct_outcomes import DirectOutcomes
from noetl.services.worker.worker_deps import WorkerDeps
from noetl.testing.driver import VirtualClock
from noetl.testing.memory import NoCredentials
from tests.conformance.explained import check_explained
from tests.doubles.deliveries import MemoryDeliveries
from tests.doubles.programs import MemoryProgramStore
from tests.doubles.revocations import MemoryRevocations
from tests.doubles.workers import MemoryWorkers
from tests.faults.outside import Asked, Called, Strange, StrangeQueue
from tests.properties.chaos import Crash, FaultyPort
from tests.properties.tools import PureTools

RING = KeyRing.of(["the key of this deployment", "the key before it"])
KINDS = {"http": "http", "noop": "plain"}
"""Kind → worker; what is not named here (and what is of several workers) is run by ``mixed``."""
WORKERS = ("http", "plain", "mixed")
VISIBILITY = 180.0
TICK = 60.0
MOST_MOVES = 20_000

MAX_RECEIVES = 5
"""Deliveries of a command, after which its queue gives it up, as in the stacks."""
Fate = Callable[[int, str, str], str]
"""(number of the port call, function, port call) → ``before``/``after``: the function dies there; ``away``/``lost``: the port
cannot be reached before or after the effect; empty: nothing happens."""


def calm(number: int, function: str, call: str) -> str:
    return ""


class Life:
    """One process of a function. ``call`` is what every port call of it goes through."""

    def __init__(self, deployment: Deployment, function: str) -> None:
        self.deployment = deployment
        self.function = function
        self.dead = False

    def call(self, name: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.dead:
            raise Crash(self.function, f"before {name}, again")
        what = self.deployment.count(self.function, name)
        if what == "before":
            self.die(f"before {name}")
        if what == "away":
            raise InfrastructureError(f"{name}: nobody answers", retryable=True)
        answer = method(*args, **kwargs)
        if what == "after":
            self.die(f"after {name}")
        if what == "lost":
            raise InfrastructureError(f"{name}: the answer was lost", retryable=True)
        self.deployment.stand_still(self)
        return answer

    def die(self, where: str) -> None:
        self.dead = True
        self.deployment.note(f"{self.function} dies {where}")
        raise Crash(self.function, where)

    def port(self, target: Any) -> Any:
        return FaultyPort(target, self)  # type: ignore[arg-type]


@dataclass(eq=False)
class Deployment:
    """``shift``: lets time pass for a store that has a clock of its own. ``short``: how often an invocation has little time left."""

    programs: Programs
    store: ExecutionStore
    inspection: Inspection
    results: MemoryResultStore
    clock: VirtualClock
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    fate: Fate = calm
    strange: Strange = field(default_factory=lambda: Strange(random.Random(0)))
    fifo: bool = True
    inline_bytes: int = 8 * 1024
    window: int = 1000
    message_limit: int = 8 * 1024
    direct: int = 50
    """Commands that an invocation of a worker takes in answers; 0: starts and outcomes go through the queue."""
    remembers: bool = True
    """A process keeps what it has read and committed between its invocations."""
    leases: CommandLeases | None = None
    """Of the store's commands; None: it is one in memory."""
    shift: Callable[[float], None] = lambda seconds: None
    short: float = 0.0
    stalls: float = 0.0
    """How often an invocation stands still between two port calls, while the others go on, until it owns nothing any more."""
    calls: int = 0
    swept_at: float = 0.0
    wishes: list[Asked | Called] = field(default_factory=list)
    vain: bool = False
    """The wish asked for last cannot be granted yet."""
    trace: list[str] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    stalled: int = 0
    spared: str = ""
    """The worker that has a command for the last time; nothing happens to it, since a command that dies more often is given up."""
    sent_on: int = 0
    direct_outcomes: int = 0
    handed: int = 0

    def __post_init__(self) -> None:
        self.lock = threading.Lock()
        self.tools = PureTools(sent=lambda token: self.wishes.append(Called(token, RING, self.rng)))
        self.revocations = MemoryRevocations()
        if self.leases is None:
            self.leases = MemoryWorkers(self.store)  # type: ignore[arg-type]
        self.stored = MemoryProgramStore()
        for program in self.programs.known.values():
            self.stored.put(program.hash, encode(program))
        self.events = self._queue(fifo=self.fifo)
        self.timers = self._queue()
        self.dead_letters = {worker: self._queue() for worker in WORKERS}
        self.commands = {
            worker: self._queue(max_receives=MAX_RECEIVES, dead_letters=self.dead_letters[worker])
            for worker in WORKERS
        }
        self.idle: dict[str, list[tuple[Life, Any]]] = {}

    def _queue(self, **settings: Any) -> StrangeQueue:
        return StrangeQueue(self.strange, visibility=VISIBILITY, clock=self.clock.epoch, **settings)

    @property
    def queues(self) -> list[StrangeQueue]:
        return [self.events, self.timers, *self.commands.values(), *self.dead_letters.values()]

    # --- faults and time ---

    def count(self, function: str, call: str) -> str:
        with self.lock:
            self.calls += 1
            spared = function == self.spared
            return "" if spared else self.fate(self.calls, function, call)

    def note(self, line: str) -> None:
        self.trace.append(line)
        del self.trace[:-300]

    def log(self, line: str) -> None:
        assert not line.startswith("defect"), line
        self.logged.append(line)

    def pass_time(self, seconds: float) -> None:
        self.clock.pass_by(seconds)
        self.shift(seconds)

    def stand_still(self, life: Life) -> None:
        """(A worker's ports are called by threads of its own; it stays out of this.)"""
        if not self.stalls or self.stalled > 2 or life.function.startswith("worker"):
            return
        if self.rng.random() < self.stalls:
            self.stalled += 1
            self.note(f"{life.function} stalls")
            self.pass_time(self.rng.choice((1.0, 70.0, 200.0)))
            for step in self.rng.choices([*self.steps(), self.tick], k=4):
                step()
            self.note(f"{life.function} goes on")
            self.stalled -= 1

    def left(self) -> float:
        return 1.0 if self.short and self.rng.random() < self.short else 25.0

    # --- what is invoked ---

    def invoke(self, function: str, make: Callable[[Life], Any], call: Callable[[Life, Any], None]) -> None:
        """A warm process if one is idle; it may be its last invocation."""
        free = self.idle.setdefault(function, [])
        life, held = free.pop() if free else (Life(self, function), None)
        try:
            if held is None:
                held = make(life)
            call(life, held)
        except Crash as crash:
            assert crash.owner == function
            self.explain(self.live())
        except InfrastructureError as away:
            self.note(f"{function} fails: {away}")
            self.explain(self.live())
        if not life.dead:
            free.append((life, held))

    def engine_deps(self, life: Life) -> MessageDeps:
        store, results = life.port(self.store), life.port(self.results)
        programs = StoredPrograms(life.port(self.stored))
        publisher = self.publisher(life, store, results, programs)
        deps = EngineDeps(
            store=store,
            results=results,
            programs=programs,
            resolve=self.programs.resolve,
            hydrate=make_hydrate(results),
            limits=Limits(inline_bytes=self.inline_bytes, tier="memory", window=self.window),
            workers=lambda pool: 3,
            log=self.log,
            recent=Recent(self.clock.now, age=5.0, whole=200) if self.remembers else None,
        )
        door = MessageAuthenticator(store, results, lambda fresh: RING, self.clock.epoch, self.log)
        return MessageDeps(
            door,
            deps,
            publisher,
            life.port(self.revocations),
            self.clock.epoch,
            life.function,
            self.log,
            leases=life.port(self.leases),
        )

    def publisher(self, life: Life, store: Any, results: Any, programs: Any) -> Publisher:
        queues = {worker: life.port(queue) for worker, queue in self.commands.items()}
        return Publisher(
            store=store,
            results=results,
            events=life.port(self.events),
            timers=life.port(self.timers),
            commands=queues.__getitem__,
            workers=KINDS,
            programs=programs,
            keys=lambda: RING,
            clock=self.clock.epoch,
            limit=self.message_limit,
            log=self.log,
        )

    def engine(self, queue: StrangeQueue) -> bool:
        deliveries = queue.receive(10)

        def handle(life: Life, deps: MessageDeps) -> None:
            source = deps.publisher.timers if queue is self.timers else deps.publisher.events
            managed = handle_messages(deliveries, source, deps, self.left)
            if managed.again:
                self.sweep(deps)
            settle(source, deliveries, managed.give_back)

        if deliveries:
            self.invoke("engine", self.engine_deps, handle)
        return bool(deliveries)

    def worker(self, name: str) -> bool:
        queue = self.commands[name]
        deliveries = queue.receive(10)

        def work(life: Life, deps: BatchDeps) -> None:
            worked = work_batch(deliveries, deps)
            settle(deps.commands, deliveries, worked.give_back)

        if deliveries:
            function = f"worker {name}"
            if max(one.received for one in deliveries) >= MAX_RECEIVES:
                self.spared = function
            self.invoke(function, lambda life: self.worker_deps(life, queue), work)
            self.spared = ""
        return bool(deliveries)

    def worker_deps(self, life: Life, queue: StrangeQueue) -> BatchDeps:
        watch = RevocationWatch(life.port(self.revocations), self.clock.now)
        worker = WorkerDeps(
            programs=StoredPrograms(life.port(self.stored)),
            registry=self.tools,
            results=life.port(self.results),
            credentials=NoCredentials(),
            inline_bytes=self.inline_bytes,
            clock=self.clock.now,
            chance=lambda: 0.5,
            revoked=watch,
            log=self.log,
        )
        return BatchDeps(
            worker=worker,
            commands=life.port(queue),
            events=life.port(self.events),
            slots={"io": 1},
            revoked=watch.now,
            message_limit=self.message_limit,
            now=self.clock.epoch,
            direct=DirectOutcomes(life.port(Requests(self)), self.direct, self.clock.now, self.note),
        )

    def decide(self, request: DecideRequest) -> DecideAnswer:
        """The engine by request. Its process may die, and the worker that asks hears nothing."""
        told: list[DecideAnswer] = []

        def handle(life: Life, deps: MessageDeps) -> None:
            wire = msgspec.json.decode(msgspec.json.encode(request))
            answered = answer_request(read_request(wire), deps, self.left)
            self.direct_outcomes += len(request.outcomes) - len(answered.answer.left)
            self.handed += answered.handed
            told.append(read_answer(msgspec.json.encode(msgspec.to_builtins(answered.answer))))

        self.invoke("decide", self.engine_deps, handle)
        if not told:
            raise InfrastructureError("the engine did not answer", retryable=True)
        return told[0]

    def tick(self) -> None:
        """Maintenance, each minute."""
        self.swept_at = self.clock.now()
        self.invoke("maintenance", self.engine_deps, lambda life, deps: self.sweep(deps))

    def sweep(self, deps: MessageDeps) -> None:
        swept = sweep(
            deps.engine.store, deps.publisher, who=deps.who, clock=deps.clock, deadline=lambda: 50.0
        )
        self.sent_on += swept.commands + swept.events + swept.timers

    def burial(self, queue: StrangeQueue) -> bool:
        deliveries = queue.receive(10)

        def handle(life: Life, deps: MessageDeps) -> None:
            buried = bury(
                deliveries,
                programs=deps.engine.programs,
                results=deps.publisher.results,
                events=deps.publisher.events,
                limit=self.message_limit,
                log=self.log,
            )
            settle(life.port(queue), deliveries, buried.give_back)

        if deliveries:
            self.invoke("maintenance", self.engine_deps, handle)
        return bool(deliveries)

    def ask(self) -> bool:
        """A client asks for the next of its wishes, and asks again until it is answered."""
        self.vain = False
        if self.wishes:
            self.invoke("api", self.engine_deps, lambda life, deps: self.answer(life, deps, self.wishes[0]))
        return bool(self.wishes) and not self.vain

    def answer(self, life: Life, deps: MessageDeps, wish: Asked | Called) -> None:
        store, results = life.port(self.store), life.port(self.results)
        queued = EventSender(
            store, life.port(self.events), results, lambda: RING, "api", self.clock.epoch, self.message_limit
        )

        def decide(starts: Sequence[Start], deadline: Callable[[], float]) -> DecidedStarts:
            return begin_executions(starts, deps, deadline)

        sender = DirectStarts(decide, queued, self.clock.now, self.note) if self.direct else queued
        owner = sender.owner()
        if isinstance(wish, Called):
            accepted = wish.post(
                CallbackDeps(store, results, self.programs, lambda fresh: RING, self.inline_bytes), owner
            )
        elif isinstance(wish.event, Start):
            accepted = wish.start(self.programs, store, owner)
        else:
            accepted = wish.post(store, owner)
        if accepted is None:
            if wish in self.wishes:  # while this request stalled, another one for the same wish was answered
                self.wishes.remove(wish)
                self.wishes.append(wish)
            self.vain = True
            return
        try:
            sender.events(owner, accepted)
        except InfrastructureError as away:
            self.note(f"the API could not publish: {away}")
        if wish in self.wishes:
            self.wishes.remove(wish)

    # --- the run ---

    def steps(self) -> list[Callable[[], object]]:
        return [
            self.ask,
            lambda: self.engine(self.events),
            lambda: self.engine(self.timers),
            *(lambda name=name: self.worker(name) for name in WORKERS),  # type: ignore[misc]
            *(lambda queue=queue: self.burial(queue) for queue in self.dead_letters.values()),  # type: ignore[misc]
        ]

    def run(self, shuffled: bool = False) -> None:
        """Invoke each function that has something to do, until none has.

        `analyze` explains what is not over at every death and outage, and whenever nothing can be done before time passes.
        """
        for _ in range(MOST_MOVES):
            steps = self.steps()
            if shuffled:
                self.rng.shuffle(steps)
            if any([step() for step in steps] if not shuffled else (step() for step in steps)):
                self.clock.pass_by(0.01)
            elif self.over():
                return
            else:
                self.explain(self.live())
                self.rest()
            if self.clock.now() - self.swept_at >= TICK:
                self.tick()
        raise AssertionError(f"no end after {MOST_MOVES} moves; outstanding: {self.outstanding()}")

    def rest(self) -> None:
        """Let time pass until a queue has something to deliver, or maintenance has something to do."""
        if self.clock.now() - self.swept_at < TICK and (wait := self.wait()) is not None:
            self.pass_time(max(0.1, min(wait, TICK)))
            return
        self.tick()
        if self.wait() is None:
            self.pass_time(TICK)

    def live(self) -> list[ExecutionInfo]:
        return [info for info in self.store.executions(limit=10_000) if info.status not in TERMINAL]

    def explain(self, executions: Iterable[ExecutionInfo]) -> None:
        """Check what `analyze` says of them, with what the queues hold."""
        queues = {"events": self.events, **{f"commands-{name}": one for name, one in self.commands.items()}}
        deps = AnalyzeDeps(
            self.store, self.inspection, self.programs, self.clock.epoch, MemoryDeliveries(queues)
        )
        for info in executions:
            check_explained(info, deps)

    def wait(self) -> float | None:
        """Seconds until a queue has something to deliver."""
        now = self.clock.epoch()
        found = [wait for queue in self.queues if (wait := queue.soonest(now)) is not None]
        return min(found, default=None)

    def over(self) -> bool:
        return not self.wishes and not self.outstanding()

    def outstanding(self) -> dict[str, Any]:
        found: dict[str, Any] = {"messages": sum(len(queue) for queue in self.queues)}
        for info in self.store.executions(limit=10_000):
            work = dict(self.store.open_work(info.execution_id))
            if info.status not in TERMINAL or any(work.values()):
                found[f"{info.path} {info.status}"] = work
        return found if len(found) > 1 or found["messages"] else {}


@dataclass(frozen=True)
class Requests:
    """What workers ask the engine by."""

    deployment: Deployment

    def decide(self, request: DecideRequest) -> DecideAnswer:
        return self.deployment.decide(request)


def settle(queue: Any, deliveries: Sequence[Delivery], give_back: Sequence[str]) -> None:
    """What Lambda does with the answer of a function: it deletes what was not given back."""
    queue.ack([delivery for delivery in deliveries if delivery.message_id not in give_back])
