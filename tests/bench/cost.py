"""What a million step transitions cost: counted on the real services in this process, priced by the table in prices.py.

Usage: python -m tests.bench.cost [--env prod] [--quick] [--page]   (from the repository's root; `make cost`)

A JSON line per workload and average batch, then one per environment for what it costs while nobody uses it. Three kinds of figures
stand apart: counts (measured here; only the chunks of a loop, which grow with the worker's speed, differ a little between machines),
assumptions (how long an invocation lasts), and dollars. Dollars are the same on every machine: what invocations take here is told, and
not priced. ``--page`` writes the table of docs/deployment-cost.md (cost_page.py), which a test holds to this.
What the tasks themselves do is in none of them: they are the same work under every engine.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType, SimpleNamespace
from typing import Any

from infra import idle_cost
from infra.config import Environment
from infra.environments import load_environment
from infra.prices import AS_OF, AURORA_ACU_HOUR, INSTANCE_HOUR, SOURCE
from noetl.adapters.memory.execution_store import MemoryExecutionStore
from noetl.domain.capability_tokens import KeyRing
from noetl.domain.errors import NotFoundError, TaskError
from noetl.domain.events import Start
from noetl.domain.workers.direct_requests import DecideAnswer, DecideRequest
from noetl.dsl.compiler import compile_playbook
from noetl.dsl.program import Program, encode
from noetl.engine.scopes.slot_view import Limits
from noetl.kinds.registry import Registry, default_registry
from noetl.ports.queue import Delivery
from noetl.runtime.aws.api import report as report_request
from noetl.runtime.aws.engine import report_answer, report_batch
from noetl.runtime.aws.telemetry import Invocation, Telemetry
from noetl.runtime.aws.worker import report as report_commands
from noetl.runtime.stored_programs import StoredPrograms
from noetl.services.executions.direct_starts import DecidedStarts, DirectStarts
from noetl.services.executions.start_execution import StartRequest, start_execution
from noetl.services.messaging.send_events import EventSender
from noetl.services.orchestrator.answer_requests import answer_request, begin_executions
from noetl.services.orchestrator.authenticate import MessageAuthenticator
from noetl.services.orchestrator.consume_events import MessageDeps, handle_messages
from noetl.services.orchestrator.engine_deps import EngineDeps
from noetl.services.orchestrator.publish import Publisher
from noetl.services.orchestrator.snapshot_cache import Recent
from noetl.services.results.hydration import make_hydrate
from noetl.services.worker.batch_deps import BatchDeps
from noetl.services.worker.consume_commands import work_batch
from noetl.services.worker.direct_outcomes import DirectOutcomes
from noetl.services.worker.worker_deps import WorkerDeps
from tests.bench import bulk, tick
from tests.bench.cost_page import readable, write
from tests.bench.meters import (
    REQUEST_BYTES,
    Bill,
    MeteredPrograms,
    MeteredQueue,
    MeteredResults,
    MeteredStore,
)
from tests.bench.playbooks import chain, fan_out
from tests.bench.prices import EXPRESS_MEMORY_GB, PRICES
from tests.doubles.revocations import MemoryRevocations
from tests.doubles.workers import MemoryWorkers

MILLION = 1_000_000
BATCHES = (1, 4, 10)
CALL_MS = {
    "postgres.round_trips": 2.0,
    "calls.sqs": 10.0,
    "s3.put": 30.0,
    "s3.get": 15.0,
    "calls.lambda": 8.0,
}
"""Milliseconds that a call adds to an invocation in AWS, which it does not take in memory. Assumed."""
OWN_MS = {"engine": (1.9, 0.95), "decide": (1.9, 0.95), "worker": (1.6, 0.85)}
"""Milliseconds that an invocation computes: by itself, and for each message. Assumed: what an idle machine with two cores took."""
API_MS = 50
"""Milliseconds of the invocation that starts an execution. Assumed."""
LOG_OVERHEAD = 26
"""Bytes that CloudWatch adds to a line."""
EXPRESS_STEP_SECONDS = 0.05
"""How long a step of an Express workflow is billed, its task doing nothing. Assumed."""
DATABASE_RATES = (10, 100, 1000)
"""Transitions per second at which the hourly price of a database is spread over them."""
WORKER = "io"
LOG = io.StringIO()
FUNCTIONS = ("engine", "decide", "worker")
START = {"rawPath": "/api/execute", "requestContext": {"http": {"method": "POST"}}}
DIRECT_STEPS = 50
"""What an invocation of a worker takes in answers, as environments have it."""
TELEMETRY = {name: Telemetry(f"noetl-prod-{name}", LOG) for name in (*FUNCTIONS, "api")}
CONTEXT = SimpleNamespace(aws_request_id="00000000-0000-0000-0000-000000000000")
"""A request's id is as long as this one, and so is a line that names it."""


@dataclass(frozen=True)
class Workload:
    """``transitions``: step runs and loop items of one execution, which is what Step Functions would bill as transitions, at least."""

    name: str
    playbook: str
    transitions: int
    executions: int


def workloads(quick: bool) -> list[Workload]:
    steps, items = (5, 50) if quick else (10, 500)
    return [
        Workload("chain", chain(steps), steps, 20),
        Workload("chain of large results", chain(steps, "bulk"), steps, 20),
        Workload("fan-out", fan_out(items), items + 1, 10 if quick else 5),
    ]


class Deployment:
    """The functions of a deployment, invoked one after the other, over queues and stores that count."""

    def __init__(self, concurrency: int) -> None:
        self.bill: Bill = Counter()
        self.milliseconds: Bill = Counter()
        self.kinds = _kinds()
        self.stored = MeteredPrograms(self.bill)
        self.results = MeteredResults(self.bill)
        self.memory = MemoryExecutionStore()
        self.store: Any = MeteredStore(self.memory, self.bill)
        self.events = MeteredQueue("events", self.bill, fifo=True)
        self.timers = MeteredQueue("timers", self.bill, fifo=False)
        self.commands = MeteredQueue("commands", self.bill, fifo=False)
        self.ring = KeyRing.of(["a key for the cost model"])
        self.programs = StoredPrograms(self.stored)
        self.engine = self._engine(concurrency)
        self.worker = self._worker()
        self.waited = 0.0
        """Milliseconds that a worker has waited for what the engine computes by request."""
        self.sender = EventSender(
            self.store, self.events, self.results, lambda: self.ring, "api", time.time, REQUEST_BYTES
        )

    def _engine(self, concurrency: int) -> MessageDeps:
        publisher = Publisher(
            store=self.store,
            results=self.results,
            events=self.events,
            timers=self.timers,
            commands=lambda worker: self.commands,
            workers=dict.fromkeys(self.kinds.names(), WORKER),
            programs=self.programs,
            keys=lambda: self.ring,
            clock=time.time,
            limit=REQUEST_BYTES,
            log=_complain,
        )
        engine = EngineDeps(
            store=self.store,
            results=self.results,
            programs=self.programs,
            resolve=_unresolved,
            hydrate=make_hydrate(self.results),
            limits=Limits(tier=self.results.name),
            workers=lambda pool: concurrency,
            log=_complain,
            recent=Recent(),
        )
        door = MessageAuthenticator(self.store, self.results, lambda fresh: self.ring, time.time, _complain)
        return MessageDeps(
            door,
            engine,
            publisher,
            MemoryRevocations(),
            time.time,
            "engine",
            _complain,
            leases=MemoryWorkers(self.memory),
        )

    def _worker(self) -> BatchDeps:
        worker = WorkerDeps(
            programs=StoredPrograms(self.stored),
            registry=self.kinds,
            results=self.results,
            credentials=_NoSecrets(),
            deadline=lambda: 60.0,
            log=_complain,
            # Outcomes wait for one another, however long the threads of a busy machine take.
            clock=lambda: 0.0,
        )
        direct = DirectOutcomes(self, DIRECT_STEPS, time.monotonic, _complain)
        return BatchDeps(worker, self.commands, self.events, slots={"io": 10, "cpu": 2}, direct=direct)

    def decide(self, request: DecideRequest) -> DecideAnswer:
        """Answer a worker, which waits for it."""
        self.bill["calls.lambda"] += 1
        before = self.bill.copy()
        with TELEMETRY["decide"].invocation(CONTEXT, brief=True) as call:
            found = answer_request(request, self.engine, lambda: 30.0)
            report_answer(call, request, found)
        base, each = OWN_MS["decide"]
        own = base + each * len(request.outcomes)
        self.milliseconds["decide"] += math.ceil(own + self._waited(before))
        self.waited += own
        self.bill["decide.invocations"] += 1
        self.bill["decide.messages_in"] += len(request.outcomes)
        self.bill["log.lines"] += 1
        return found.answer

    def _waited(self, before: Bill) -> float:
        return sum((self.bill[call] - before[call]) * each for call, each in CALL_MS.items())

    def register(self, text: str) -> Program:
        program = compile_playbook(text, source_name="cost", kinds=self.kinds).program
        self.stored.put(program.hash, encode(program))
        return program

    def start(self, program: Program, number: int) -> int:
        """What POST /api/executions does. Returns the execution's id."""

        def decide(starts: Sequence[Start], deadline: Callable[[], float]) -> DecidedStarts:
            own = replace(self.engine, engine=replace(self.engine.engine, recent=None))
            return begin_executions(starts, own, deadline)

        starts = DirectStarts(decide, self.sender, time.monotonic, _complain)
        started = start_execution(
            program,
            StartRequest({}),
            self.store,
            owner=starts.owner(),
            now_ms=int(time.time() * 1000),
            random_bits=number,
            begin=starts.begin,
        )
        assert started.begun
        with TELEMETRY["api"].invocation(CONTEXT) as call:
            report_request(
                call,
                START,
                {"statusCode": 201, "headers": {"Location": f"/api/executions/{started.execution_id}"}},
            )
        self.bill["api.requests"] += 1
        self.bill["log.lines"] += 1
        return started.execution_id

    def run(self, batch: int) -> None:
        """Until nothing is left to do, with at most ``batch`` messages per invocation."""
        while len(self.events) or len(self.commands):
            while found := self.events.receive(batch):
                self._invoke("engine", found, self.events, self._handle)
            while found := self.commands.receive(batch):
                self._invoke("worker", found, self.commands, self._work)

    def _handle(self, found: Sequence[Delivery], call: Invocation) -> list[str]:
        before = self.bill["postgres.round_trips"]
        managed = handle_messages(found, self.events, self.engine, lambda: 30.0)
        report_batch(call, len(found), managed, self.bill["postgres.round_trips"] - before)
        return managed.give_back

    def _work(self, found: Sequence[Delivery], call: Invocation) -> list[str]:
        worked = work_batch(found, self.worker)
        report_commands(call, worked)
        return worked.give_back

    def _invoke(
        self,
        name: str,
        found: Sequence[Delivery],
        source: MeteredQueue,
        work: Callable[[Sequence[Delivery], Invocation], list[str]],
    ) -> None:
        """As Lambda does it: run, write the line, delete what was handled, bill whole milliseconds with what calls would have taken."""
        before = self.bill.copy()
        began = time.perf_counter()
        with TELEMETRY[name].invocation(CONTEXT) as call:
            give_back = work(found, call)
        took = (time.perf_counter() - began) * 1000
        waited, self.waited = self._waited(before) + self.waited, 0.0
        kept = set(give_back)
        source.ack([one for one in found if one.message_id not in kept])
        self.bill[f"{name}.invocations"] += 1
        self.bill[f"{name}.messages_in"] += len(found)
        base, each_message = OWN_MS[name]
        self.milliseconds[name] += math.ceil(base + each_message * len(found) + waited)
        self.milliseconds[f"{name} here"] += math.ceil(took)
        self.bill["log.lines"] += 1

    def log_bytes(self) -> int:
        return len(LOG.getvalue().encode()) + LOG_OVERHEAD * self.bill["log.lines"]


def measure(workload: Workload, batch: int, env: Environment) -> dict[str, Any]:
    """One line of the report: counts of a workload at one batch size, and their price."""
    deployed = Deployment(env.workers.default_concurrency)
    program = deployed.register(workload.playbook)
    deployed.bill.clear()
    LOG.truncate(LOG.seek(0))
    started = [deployed.start(program, number) for number in range(workload.executions)]
    deployed.run(batch)
    for execution_id in started:
        info = MemoryExecutionStore.info(deployed.store._store, execution_id)
        if info is None or info.status != "completed":
            raise RuntimeError(f"{workload.name}: execution {execution_id} did not complete")
    transitions = workload.transitions * workload.executions
    scale = MILLION / transitions
    dollars = price(deployed, env, scale)
    bill = deployed.bill
    return {
        "line": "transitions",
        "workload": workload.name,
        "transitions": transitions,
        "per_execution": workload.transitions,
        "average_batch": {
            "engine": round(_average(bill, "engine", "decide"), 2),
            "worker": round(_average(bill, "worker"), 2),
        },
        "counts_per_million": {
            name: round(value * scale) for name, value in sorted(bill.items()) if "messages_in" not in name
        }
        | {"log.bytes": round(deployed.log_bytes() * scale)},
        "assumed": assumed(deployed, env, scale),
        "dollars_per_million": {name: round(value, 3) for name, value in dollars.items()},
        "postgres_dollars_per_million": database(env),
        "step_functions_dollars_per_million": step_functions(workload, env),
    }


def assumed(deployed: Deployment, env: Environment, scale: float) -> dict[str, Any]:
    """How long invocations last: what they compute, plus what calls take in AWS. ``ms_here``: what they took on this machine."""
    bill, took = deployed.bill, deployed.milliseconds
    found: dict[str, Any] = {"ms_per_call": CALL_MS, "ms_of_its_own": OWN_MS}
    for name in FUNCTIONS:
        count = bill[f"{name}.invocations"]
        if not count:
            continue
        found[name] = {
            "mib": _memory(env, name),
            "ms_here": round(took[f"{name} here"] / count, 1),
            "ms_billed": round(took[name] / count, 1),
            "gb_seconds_per_million": round(_gb_seconds(deployed, env, name) * scale),
        }
    return found


def price(deployed: Deployment, env: Environment, scale: float) -> dict[str, float]:
    """Dollars per million transitions, by what they are paid for. The database is not among them: it is paid by the hour."""
    bill = deployed.bill
    sqs = {"events": PRICES.sqs_fifo, "timers": PRICES.sqs_standard, "commands": PRICES.sqs_standard}
    starts = bill["api.requests"]
    duration = sum(_gb_seconds(deployed, env, name) for name in FUNCTIONS)
    duration += starts * API_MS / 1000 * env.functions["api"].memory / 1024
    invocations = sum(bill[f"{name}.invocations"] for name in FUNCTIONS) + starts
    parts = {
        "sqs": sum(_requests(bill, queue) * each for queue, each in sqs.items()) / MILLION,
        "lambda_requests": invocations * PRICES.lambda_requests / MILLION,
        "lambda_duration": duration * _gb_second(env),
        "s3": (bill["s3.put"] * PRICES.s3_put + bill["s3.get"] * PRICES.s3_get) / MILLION,
        "logs": deployed.log_bytes() / 1e9 * PRICES.logs_gb,
        "http_api": starts * PRICES.http_api / MILLION,
    }
    return {name: value * scale for name, value in parts.items()} | {"total": sum(parts.values()) * scale}


def step_functions(workload: Workload, env: Environment) -> dict[str, float]:
    """The same steps there. ``with_tasks``: and a function invoked for each, as ours are in the figures above."""
    task = PRICES.lambda_requests + MILLION * 0.001 * _memory(env, "worker") / 1024 * _gb_second(env)
    seconds = workload.transitions * EXPRESS_STEP_SECONDS
    express = PRICES.express_requests / workload.transitions
    express += MILLION * seconds * EXPRESS_MEMORY_GB * PRICES.express_gb_second / workload.transitions
    found = {"standard": PRICES.step_functions_transitions, "express": express}
    found |= {f"{name}_with_tasks": value + task for name, value in found.items()}
    return {name: round(value, 3) for name, value in found.items()}


def database(env: Environment) -> dict[str, Any]:
    """Hourly prices spread over transitions, at rates that are busy all the time."""
    servers = 2 if env.database.multi_az else 1
    hourly = {
        f"aurora {max(env.database.min_acu, 0.5)} ACU x {servers}": AURORA_ACU_HOUR
        * max(env.database.min_acu, 0.5)
        * servers,
        "db.t4g.medium": INSTANCE_HOUR["db.t4g.medium"],
        "db.r7g.large": INSTANCE_HOUR["db.r7g.large"],
    }
    return {
        name: {"per_hour": round(dollars, 3)}
        | {f"at_{rate}_per_s": round(dollars / (rate * 3600) * MILLION, 3) for rate in DATABASE_RATES}
        for name, dollars in hourly.items()
    }


def idle(name: str, folder: Path) -> dict[str, Any]:
    """Dollars a month of an idle deployment, counted in its synthesized templates."""
    found = idle_cost.report(folder)
    return {
        "line": "idle",
        "env": name,
        "dollars_per_month": found["dollars_per_month"] | {"total": found["total"]},
    }


def synthesized(name: str, folder: Path, context: Mapping[str, str] = MappingProxyType({})) -> Path:
    """Templates of an environment, without copies of its code beside them."""
    import aws_cdk as cdk

    from infra.stacks_of import build

    flags = json.loads(Path("cdk.json").read_text("utf-8"))["context"]
    app = cdk.App(outdir=str(folder), context=flags | {"aws:cdk:disable-asset-staging": True})
    build(app, load_environment(name, context), default_registry())
    app.synth()
    return folder


def _gb_seconds(deployed: Deployment, env: Environment, name: str) -> float:
    return deployed.milliseconds[name] / 1000 * _memory(env, name) / 1024


def _average(bill: Bill, *names: str) -> float:
    """Messages of an invocation."""
    return sum(bill[f"{name}.messages_in"] for name in names) / sum(
        bill[f"{name}.invocations"] for name in names
    )


def _memory(env: Environment, name: str) -> int:
    return env.workers.memory[WORKER] if name == "worker" else env.functions[name].memory


def _gb_second(env: Environment) -> float:
    return PRICES.lambda_gb_second_arm64 if env.arch == "arm64" else PRICES.lambda_gb_second_x86_64


def _requests(bill: Bill, queue: str) -> int:
    return sum(bill[f"{queue}.{call}"] for call in ("send", "receive", "delete", "visibility"))


class _NoSecrets:
    def get(self, name: str, execution_id: int) -> Any:
        raise TaskError(name)


def _kinds() -> Registry:
    found = Registry()
    found.add(tick)
    found.add(bulk)
    return found


def _complain(line: str) -> None:
    """Nothing should go wrong here, so whatever is said is worth seeing."""
    print(line, file=sys.stderr)


def _unresolved(path: str, version: int | None) -> str:
    raise NotFoundError(f"no playbook {path}")


def report(
    env: Environment, *, quick: bool = False, measured: Sequence[Workload] = ()
) -> list[dict[str, Any]]:
    """All lines of transitions, the price table first. ``measured``: workloads in place of those of ``make cost``."""
    lines: list[dict[str, Any]] = [
        {"line": "prices", "as_of": AS_OF, "source": SOURCE, "env": env.name, **asdict(PRICES)}
    ]
    lines += [measure(workload, batch, env) for workload in measured or workloads(quick) for batch in BATCHES]
    return lines


def idle_months() -> list[dict[str, Any]]:
    """The bill of each environment, synthesized one after the other in this process."""
    with TemporaryDirectory() as folder:
        names = ("dev", "staging", "prod")
        return [idle(name, synthesized(name, Path(folder) / name)) for name in names]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", default="prod", help="whose memory sizes and database are priced")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true", help="every count and assumption, a line of JSON each")
    parser.add_argument("--page", action="store_true", help="write the tables of docs/deployment-cost.md")
    options = parser.parse_args()
    lines = [*report(load_environment(options.env), quick=options.quick), *idle_months()]
    if options.json:
        for line in lines:
            print(json.dumps(line), flush=True)
    else:
        print(readable(lines))
    if options.page:
        write(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
