"""Which workers there are, from the registry of kinds: pure, so that a test of it needs no synthesis.

A kind appears by being registered. It gets a worker of its own, unless it is light and the environment pools light kinds into
the worker `io`. Kinds that run code of playbooks (pool `python`) never share one. The worker `mixed` runs the pipelines whose
tasks belong to several workers; `long`, where the environment has it, those with a task that says it takes longer than a function may.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Literal

from noetl.domain.errors import PlaybookError
from noetl.domain.kinds import KindLookup, KindSpec
from noetl.kinds.registry import ENTRY_POINT_GROUP

from .config import ConfigError, Environment

MIXED = "mixed"
POOLED = "io"
LONG = "long"
DIRECT = "direct"
"""The pool of leases of commands that workers get in answers (``noetl.domain.workers.direct_requests``)."""
DEAD = "dlq"
"""Replaces the worker's name in the name of the queue of dead letters of all commands."""
TIMEOUT = 900
"""Seconds: the longest a function may run. A task that needs longer is long-running, and its worker a Fargate service."""
CONTROL = "control"
ISOLATED = "python"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One deployment of functions/worker.

    ``batch``: commands per invocation; they overlap in it, so code of playbooks gets few.
    """

    name: str
    kinds: tuple[str, ...]
    compute: Literal["function", "fargate"]
    pool: str
    isolated: bool
    """Runs code of playbooks: may reach its queue, its results and the engine's queue, and no secret."""
    needs_network: bool
    layers: tuple[str, ...]
    memory: int
    storage: int
    concurrency: int
    batch: int


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """``routes``: kind → worker (NOETL_QUEUES)."""

    workers: tuple[Worker, ...]
    routes: Mapping[str, str]

    def concurrency(self) -> dict[str, int]:
        """Worker → most invocations at once (NOETL_WORKERS)."""
        return {worker.name: worker.concurrency for worker in self.workers}


def plan_workers(env: Environment, kinds: KindLookup, has_layer: Callable[[str], bool]) -> WorkerPlan:
    """``has_layer``: whether a kind brings a layer of its own. Raises ConfigError."""
    specs = [_spec(kinds, name) for name in kinds.names()]
    working = [spec for spec in specs if not spec.lowered and spec.pool != CONTROL]
    _check_access(env, working)
    groups: dict[str, list[KindSpec]] = {}
    for spec in working:
        groups.setdefault(_worker_name(env, spec, has_layer(_layer(spec))), []).append(spec)
    _check_names(groups, {spec.name for spec in working})
    workers = [_worker(env, name, members, has_layer) for name, members in sorted(groups.items())]
    workers.append(_mixed(env, working, has_layer))
    if env.workers.long:
        workers.append(
            replace(workers[-1], name=LONG, compute="fargate", concurrency=env.worker_concurrency(LONG))
        )
    routes = {spec.name: name for name, members in groups.items() for spec in members}
    home = _home_of_control(workers)
    routes |= {LONG: LONG} if env.workers.long else {}
    routes |= {spec.name: home for spec in specs if spec.pool == CONTROL and not spec.lowered}
    return WorkerPlan(tuple(workers), dict(sorted(routes.items())))


def kinds_of_packages() -> dict[str, str]:
    """Kinds that installed packages bring, each with the package that does."""
    points = metadata.entry_points(group=ENTRY_POINT_GROUP)
    return {point.name: point.dist.name if point.dist else point.value for point in points}


def _spec(kinds: KindLookup, name: str) -> KindSpec:
    try:
        return kinds.spec(name)
    except PlaybookError as error:
        raise ConfigError(f"a worker for the kind {name!r} cannot be planned: {error}") from error


def _worker_name(env: Environment, spec: KindSpec, has_layer: bool) -> str:
    alone = has_layer or (spec.own_worker and env.containers is not None)
    light = spec.pool == "io" and not alone and _compute(env, spec) == "function"
    return POOLED if light and env.workers.pooled else spec.name


def _check_names(groups: Mapping[str, list[KindSpec]], kinds: set[str]) -> None:
    for name in groups:
        if not re.fullmatch(r"[a-z][a-z0-9_-]{0,31}", name):
            raise ConfigError(
                f"the kind {name!r} cannot name a queue: use at most 32 of a-z, 0-9, - and _, beginning with a letter"
            )
    if taken := {MIXED, POOLED, LONG, DEAD, DIRECT} & kinds:
        raise ConfigError(f"a kind cannot be called {' or '.join(sorted(taken))}: workers of that name exist")


def _check_access(env: Environment, working: list[KindSpec]) -> None:
    """Access is for kinds that exist, keep code of playbooks out, and name what they may do and where."""
    pools = {spec.name: spec.pool for spec in working}
    for kind, statements in env.workers.access.items():
        if kind not in pools:
            raise ConfigError(f"workers.access names the kind {kind!r}; there are {', '.join(sorted(pools))}")
        if pools[kind] == ISOLATED:
            raise ConfigError(
                f"workers.access names {kind!r}, which runs code of playbooks: it must be able to do nothing in the account"
            )
        for one in statements:
            for action in one.actions:
                if not re.fullmatch(r"[a-z0-9-]+:[A-Za-z]+", action):
                    raise ConfigError(
                        f"workers.access of {kind}: {action!r} is no action; write s3:GetObject"
                    )
            for resource in one.resources:
                if not re.fullmatch(r"arn:aws[a-z-]*:[a-z0-9-]+:[^*?]*:[^*?]*:[^*?]+.*", resource):
                    raise ConfigError(
                        f"workers.access of {kind}: {resource!r} is no ARN of something; * may only stand behind its beginning"
                    )


def _layer(spec: KindSpec) -> str:
    return spec.layer or spec.name


def _layers(members: Iterable[KindSpec], has_layer: Callable[[str], bool]) -> tuple[str, ...]:
    return tuple(sorted({_layer(spec) for spec in members if has_layer(_layer(spec))}))


def _worker(env: Environment, name: str, members: list[KindSpec], has_layer: Callable[[str], bool]) -> Worker:
    first = members[0]
    isolated = first.pool == ISOLATED
    return Worker(
        name=name,
        kinds=tuple(spec.name for spec in members),
        compute=_compute(env, first),
        pool=first.pool,
        isolated=isolated,
        needs_network=any(spec.needs_network for spec in members),
        layers=_layers(members, has_layer),
        memory=env.workers.memory[first.pool],
        storage=env.workers.storage[first.pool],
        concurrency=env.worker_concurrency(name),
        batch=5 if isolated else 10,
    )


def _mixed(env: Environment, working: list[KindSpec], has_layer: Callable[[str], bool]) -> Worker:
    kinds = [spec for spec in working if _compute(env, spec) == "function"]
    return Worker(
        name=MIXED,
        kinds=tuple(spec.name for spec in kinds),
        compute="function",
        pool=MIXED,
        isolated=False,
        needs_network=True,
        layers=_layers(kinds, has_layer),
        memory=env.workers.memory[MIXED],
        storage=env.workers.storage[MIXED],
        concurrency=env.worker_concurrency(MIXED),
        batch=5,
    )


def _compute(env: Environment, spec: KindSpec) -> Literal["function", "fargate"]:
    return "fargate" if spec.long_running or spec.name in env.workers.fargate_kinds else "function"


def _home_of_control(workers: list[Worker]) -> str:
    """Control kinds inside a pipeline cost nothing: they go where light work goes."""
    light = [worker.name for worker in workers if worker.pool == "io" and worker.compute == "function"]
    return next((name for name in (POOLED, "http") if name in light), min(light, default=MIXED))
