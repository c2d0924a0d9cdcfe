"""Every function of a deployment is killed before and after every call of a port: nothing is lost, and no transition is repeated.

``NOETL_SOAK_FUNCTIONS=1000`` runs as many seeds; ``NOETL_SOAK_POINTS=all`` kills at every point of the large playbooks, too.
"""

from __future__ import annotations

import functools
import itertools
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from noetl.adapters.memory import MemoryResultStore
from noetl.adapters.postgres import Database, PostgresExecutionStore
from noetl.adapters.postgres.executions.inspection import PostgresInspection
from noetl.adapters.postgres.workers import PostgresWorkers
from noetl.domain.events import Start
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.ports.executions.inspection import Inspection
from noetl.ports.workers import CommandLeases
from noetl.testing.driver import VirtualClock
from tests.faults.deployment import Deployment, Fate
from tests.faults.outside import Asked, Strange
from tests.parts import WHOLE, parted, repeated
from tests.properties.accounts import family
from tests.properties.invariants import audit_one, check_ended
from tests.properties.places import MemoryPlace
from tests.properties.workloads import (
    EPOCH_MS,
    FIXED,
    Seen,
    Workload,
    check_keys,
    compare,
    happenings,
    observe,
    undisturbed,
)
from tests.properties.world import World, compile_all

SEEDS = int(os.environ.get("NOETL_SOAK_FUNCTIONS", "60"))
GATE = range(3)
"""Seeds of `make test`, which are drawn in memory."""
FIRST = int(os.environ.get("NOETL_FIRST_SEED", "0"))
EVERY_POINT = os.environ.get("NOETL_SOAK_POINTS") == "all"
POSTGRES_SEEDS = max(4, SEEDS // 10)
POSTGRES_GATE = range(2)
SAMPLE = repeated(gate=2, full=40)
SHOWN = 60
DAMAGE = ("before", "after", "away", "lost")
"""A death before or after the effect, and a port that is away or whose answer is lost."""

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: {name}, path: properties/{name} }}\nworkflow:\n"
SHORT = HEAD.format(name="short") + (
    '  - step: start\n    tool: { kind: http, url: "http://api.test/a" }\n'
    '    next: { arcs: [{ step: many, args: { v: "{{ start.v }}" } }] }\n'
    "  - step: many\n    loop: { in: [1, 2, 3], iterator: n, spec: { mode: parallel } }\n"
    '    tool: { kind: http, url: "http://api.test/b", params: { n: "{{ iter.n }}", v: "{{ args.v }}" } }\n'
    "    next: { arcs: [{ step: end }] }\n"
    "  - { step: end, tool: { kind: playbook, path: properties/child, payload: { n: 4 } } }\n"
)
PATIENT = HEAD.format(name="patient") + (
    "  - step: start\n    spec: { timeout: 9000 }\n"
    '    tool: { kind: http, url: "http://api.test/a", params: { fail_first: 2 }, spec: { policy: { rules: '
    "[{ when: \"{{ outcome.status == 'error' }}\", then: { do: retry, attempts: 3, backoff: none, delay: 2000 } }] } } }\n"
    "    next: { arcs: [{ step: slow }] }\n"
    "  - step: slow\n    spec: { timeout: 60 }\n"
    '    tool: { kind: http, url: "http://api.test/a", params: { fail_first: 9 }, spec: { policy: { rules: '
    "[{ when: \"{{ outcome.status == 'error' }}\", then: { do: retry, attempts: 9, backoff: none, delay: 100 } }] } } }\n"
    "    next: { arcs: [{ step: late, when: \"{{ event.name == 'step.failed' }}\" }] }\n"
    '  - { step: late, tool: { kind: noop, args: { kind: "{{ slow.error.kind }}" } } }\n'
)
WORKLOADS = {
    one.path: one
    for one in (*FIXED, Workload("properties/short"), Workload("properties/patient"))
    if not one.waits
}
SMALL = ("short", "chain", "failing_child")
LARGE = (
    "patient",
    "parallel_loop",
    "sequential_loop",
    "children",
    "joins",
    "pages",
    "timeouts",
    "admission",
    "cancelled",
)


@functools.cache
def programs() -> Any:
    return compile_all((SHORT, PATIENT))


@functools.cache
def wanted(path: str) -> Seen:
    return undisturbed(programs(), WORKLOADS[path])


class Ground:
    """Makes deployments over one store (Postgres) or over a fresh one each (memory), and judges what came of them."""

    def __init__(
        self,
        shared: ExecutionStore | None = None,
        inspection: Inspection | None = None,
        results: MemoryResultStore | None = None,
        shift: Callable[[float], None] | None = None,
        leases: CommandLeases | None = None,
    ) -> None:
        self.shared, self.inspection, self.shift, self.leases = shared, inspection, shift, leases
        self.results = results or MemoryResultStore()
        self.numbers = 0

    def deployment(self, **settings: Any) -> Deployment:
        results = self.results if self.shared is not None else MemoryResultStore()
        if self.shared is None:
            clock = VirtualClock()
            place = MemoryPlace(clock.epoch)
            return Deployment(programs(), place.store, place.inspection, results, clock, **settings)
        assert self.shift is not None and self.inspection is not None
        # The database's clock goes on by itself; ours starts long ago, so that whoever died is dead for the database at once.
        clock = VirtualClock(start=time.time() - 1_000_000)
        settings |= {"shift": self.shift, "leases": self.leases}
        return Deployment(programs(), self.shared, self.inspection, results, clock, **settings)

    def ask(self, deployment: Deployment, workload: Workload, rng: random.Random) -> int:
        self.numbers += 1
        world = World(programs())
        wishes = happenings(workload, world, self.numbers, rng)
        born = (EPOCH_MS + self.numbers, self.numbers * 7919 + 1)
        deployment.wishes += [Asked(one.event, born) for one in wishes]
        root = wishes[0].event
        assert isinstance(root, Start)
        return root.execution_id

    def run(self, paths: list[str], seed: int = 0, shuffled: bool = False, **settings: Any) -> Deployment:
        """Run these to their end and judge them. ``settings``: of the deployment."""
        rng = random.Random(seed)
        deployment = self.deployment(rng=rng, **settings)
        roots = [(WORKLOADS[path], self.ask(deployment, WORKLOADS[path], rng)) for path in paths]
        try:
            deployment.run(shuffled)
            for workload, root in roots:
                judge(deployment, workload, root)
            check_keys(deployment.tools.calls)
        except BaseException:
            print("\n".join([*deployment.logged[-SHOWN:], "---", *deployment.trace[-SHOWN:]]))
            raise
        return deployment


def judge(deployment: Deployment, workload: Workload, root: int) -> None:
    """Its undisturbed end, history is the truth, one terminal fact, legal moves only, nothing outstanding."""
    store = deployment.store
    members = family(store.executions(limit=100_000), root)
    for info in members:
        audit_one(store, info)
        applied = Counter(row.event_id for row in store.events(info.execution_id, limit=100_000))
        assert max(applied.values()) == 1, f"{info.path} was moved on twice by {applied.most_common(1)}"
    check_ended(store, members)
    deployment.explain(members)
    seen = observe(store, deployment.results, deployment.tools.calls, root)
    compare(workload, wanted(workload.path), seen)


def at(number: int, what: str) -> Fate:
    return lambda count, function, call: what if count == number else ""


def points(
    calls: int, exhaustive: bool, rng: random.Random, sample: int = SAMPLE
) -> Iterator[tuple[int, str]]:
    every = [(number, what) for number in range(1, calls + 1) for what in ("before", "after")]
    yield from every if exhaustive else rng.sample(every, min(sample, len(every)))


@pytest.mark.parametrize(
    ("name", "direct"), [*((name, 50) for name in (*SMALL, *LARGE)), ("chain", 0), ("chain", 1)]
)
def test_a_function_may_die_at_any_point(name: str, direct: int) -> None:
    """``direct``: how many commands a worker takes in answers before the queue has the rest."""
    path, ground = f"properties/{name}", Ground()
    plain = ground.run([path], direct=direct)
    assert plain.calls > 20 and (name in LARGE or bool(plain.direct_outcomes) == bool(direct))
    deaths: Counter[str] = Counter()
    exhaustive = name == "short" or (name in SMALL and WHOLE)
    for number, what in points(plain.calls, exhaustive or EVERY_POINT, random.Random(name)):
        ground.numbers = 0
        died = ground.run([path], fate=at(number, what), direct=direct)
        (line,) = [line for line in died.trace if " dies " in line]
        deaths[line.partition(" ")[0]] += 1
    print(f"{name}: {plain.calls} port calls undisturbed, deaths: {dict(deaths)}")
    deciding = "decide" if direct else "engine"
    assert not exhaustive or {"api", deciding, "worker"} <= deaths.keys()


@pytest.mark.parametrize("what", parted(["before", "after"], ["after"]))
def test_so_may_the_sweep_that_comes_after_it(what: str) -> None:
    """The engine dies with committed and unpublished work, and whoever sends that on dies as well, at each of its calls."""
    path = "properties/short"
    ends, sent_on = [], 0
    for death, call in itertools.product(range(1, 7), range(1, 9)):
        engine, sweeper = itertools.count(1), itertools.count(1)

        def fate(number: int, function: str, name: str) -> str:
            if function == "engine" and name in ("commit", "commit_items"):
                return "after" if next(engine) == death else ""  # noqa: B023
            if function == "maintenance":
                return what if next(sweeper) == call else ""  # noqa: B023
            return ""

        died = Ground().run([path], fate=fate)
        ends.append(sum(" dies " in line for line in died.trace))
        sent_on += died.sent_on
    assert ends.count(2) > 20 and sent_on > 20


def damage(rng: random.Random, budget: int, chance: float) -> Fate:
    left = [budget]

    def fate(number: int, function: str, call: str) -> str:
        if left[0] <= 0 or rng.random() > chance:
            return ""
        left[0] -= 1
        return rng.choice(DAMAGE)

    return fate


@pytest.mark.soak("seeds of functions")
@pytest.mark.parametrize("seed", parted(range(FIRST, FIRST + SEEDS), GATE))
def test_whatever_else_happens_at_the_same_time(seed: int) -> None:
    """Several executions, deaths and outages by chance, messages twice and in any order, invocations with little time, stalled ones."""
    rng = random.Random(f"functions {seed}")
    paths = rng.choices(sorted(WORKLOADS), k=rng.choice((1, 2, 3)))
    Ground().run(paths, seed=seed, shuffled=True, **trouble(rng))


def trouble(rng: random.Random) -> dict[str, Any]:
    return {
        "fate": damage(rng, rng.randint(0, 40), rng.choice((0.01, 0.05, 0.2))),
        "strange": Strange(rng, rng.randint(0, 60)),
        "fifo": rng.random() < 0.5,
        "inline_bytes": rng.choice((1024, 8 * 1024)),
        "message_limit": rng.choice((2048, 256 * 1024)),
        "window": rng.choice((2, 1000)),
        "short": rng.choice((0.0, 0.3)),
        "stalls": rng.choice((0.0, 0.02)),
        "direct": rng.choice((0, 1, 3, 50, 50)),
        "remembers": rng.random() < 0.7,
    }


# --- the same over Postgres ---


@pytest.fixture
def postgres_ground(database: str) -> Iterator[Ground]:
    connection = psycopg.connect(database, autocommit=True)

    def shift(seconds: float) -> None:
        """Time passes: what was to come is nearer."""
        connection.execute(
            "UPDATE noetl.command SET not_before = not_before - make_interval(secs => %s)", [seconds]
        )
        connection.execute("UPDATE noetl.timer SET fire_at = fire_at - make_interval(secs => %s)", [seconds])

    opened = Database(database)
    results = MemoryResultStore()
    store, inspection = PostgresExecutionStore(opened), PostgresInspection(opened)
    yield Ground(store, inspection, results, shift, PostgresWorkers(opened))
    opened.close()
    connection.close()


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("name", "sample"), parted([("short", SAMPLE), ("admission", 10), ("patient", 3)], [("patient", 3)])
)
def test_a_function_may_die_at_any_point_over_postgres(
    postgres_ground: Ground, name: str, sample: int
) -> None:
    path = f"properties/{name}"
    calls = postgres_ground.run([path]).calls
    for number, what in points(calls, EVERY_POINT, random.Random(name), sample):
        postgres_ground.run([path], fate=at(number, what))


@pytest.mark.postgres
@pytest.mark.soak("seeds of functions over Postgres")
@pytest.mark.parametrize("seed", parted(range(FIRST, FIRST + POSTGRES_SEEDS), POSTGRES_GATE))
def test_whatever_else_happens_over_postgres(postgres_ground: Ground, seed: int) -> None:
    rng = random.Random(f"postgres {seed}")
    paths = rng.choices(sorted(WORKLOADS), k=2)
    postgres_ground.run(paths, seed=seed, shuffled=True, **trouble(rng))
