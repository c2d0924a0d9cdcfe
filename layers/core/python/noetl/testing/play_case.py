"""One run of a playbook under test.

It starts the playbook, applies its happenings, and observes the result.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec import UNSET

from noetl.adapters.memory.catalog import MemoryCatalog
from noetl.adapters.memory.execution_store import MemoryExecutionStore
from noetl.domain.commands import Command
from noetl.domain.errors import NoetlError
from noetl.domain.events import Cancel, ContextPatched, Event, Pause, Resume, TokenInjected, WorkAdvanced
from noetl.domain.outcomes.outcomes import Patch
from noetl.dsl.program import Program
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.ports.results import ResultStore
from noetl.runtime.programs import Programs
from noetl.services.executions.change_execution import ChangeRequest
from noetl.services.executions.redrive_execution import plan
from noetl.services.executions.start_execution import start_event
from noetl.services.history.history_pages import history
from noetl.services.history.read_history import HistoryEvent
from noetl.services.orchestrator.engine_deps import EngineDeps
from noetl.services.orchestrator.snapshot_cache import Recent
from noetl.services.queries import read_execution
from noetl.services.results.hydration import make_hydrate
from noetl.testing.callbacks import answered
from noetl.testing.driver import Driver, EndlessError, Pick, Time, first, last
from noetl.testing.scripted import ScriptedRegistry

OWNER = "testing"
EPOCH_MS = 1_800_000_000_000
MOST_CALLS = 50_000
"""Calls of a run before it is called endless: one that pages through replies which always say that there is more."""
PICKS = {"forward": first, "reversed": last}
_numbers = itertools.count(1)


class Tools(Protocol):
    """The interface of the tools of a run.

    ``total`` calls so far, ``calls`` by step and task, and what went wrong with the script.
    ``spent``: seconds that the current command has taken so far.
    """

    total: int
    calls: dict[str, list[Mapping[str, Any]]]
    unexpected: list[str]
    spent: float

    def left_over(self) -> dict[str, int]:
        """Return the number of replies without a call, by key."""


class Plot(Protocol):
    """What a run is given: its payload, and what comes from outside."""

    @property
    def payload(self) -> Mapping[str, Any]: ...
    @property
    def happenings(self) -> Sequence[Mapping[str, Any]]: ...


@dataclass(frozen=True)
class Cast:
    """Who takes part.

    ``programs``: hash → Program, ``resolve``: path and version → hash; ``run``: runs a command and emits its events.
    """

    program: Program
    programs: Callable[[str], Program]
    resolve: Callable[[str, int | None], str]
    tools: Tools
    run: Callable[[Command, Callable[[Event], None]], None]


@dataclass(frozen=True)
class Scenario:
    """What is played.

    ``sources``: texts of playbooks by file name, all registered; ``main``: the file that is started.

    ``happenings``: what comes from outside, in order, each with its moment (``at`` seconds, ``when: idle``, ``when: {calls: n}``).
    """

    sources: Mapping[str, str]
    main: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    tools: Mapping[str, Any] = field(default_factory=dict)
    happenings: Sequence[Mapping[str, Any]] = ()
    order: str = "forward"


class Backend(Protocol):
    """Where a run keeps its state, and its time."""

    @property
    def store(self) -> ExecutionStore: ...
    @property
    def results(self) -> ResultStore: ...
    @property
    def time(self) -> Time: ...


@dataclass
class Observed:
    """The outcome of a run.

    ``histories``: per execution (``""`` is the first, children by path and number), per step run.
    """

    status: str
    result: Any
    error: Mapping[str, Any] | None
    ctx: Mapping[str, Any]
    vars: Mapping[str, Any]
    elapsed: float | None
    executions: dict[str, list[str]]
    histories: dict[str, dict[str, list[str]]]
    events: dict[int, list[HistoryEvent]]
    driver: Driver
    tools: Tools
    execution_id: int
    program: Program
    left: list[Any] = field(default_factory=list)
    """Happenings whose moment never came."""

    def runs(self, step: str) -> int:
        return sum(
            event.event_type == "step.enter" and event.entity_id == step
            for event in self.events[self.execution_id]
        )


Worker = Callable[[ScriptedRegistry, Backend, Programs], AbstractContextManager[Callable[..., None]]]


def play(scenario: Scenario, backend: Backend, worker: Worker, pick: Pick | None = None) -> Observed:
    """Run a scenario to the point where nothing more can happen.

    ``pick``: which ready command runs next.

    Raises InvalidPlaybookError, and InvalidInputError for a payload that the playbook refuses.
    """
    tools = ScriptedRegistry(scenario.tools)
    programs = Programs(MemoryCatalog(), tools)
    for name, text in scenario.sources.items():
        programs.register(text, source_name=name)
    program = programs.compile(scenario.sources[scenario.main], scenario.main).program
    with worker(tools, backend, programs) as run:
        cast = Cast(program, programs, programs.resolve, tools, run)
        return perform(cast, scenario, backend, pick or PICKS[scenario.order], next(_numbers))


def perform(cast: Cast, plot: Plot, backend: Backend, pick: Pick, number: int = 0) -> Observed:
    """Start ``cast.program`` and run it until nothing more can happen.

    ``number`` makes the execution's id: the same one, the same id. Raises InvalidInputError for a payload that is refused.
    """
    deps = EngineDeps(
        store=backend.store,
        results=backend.results,
        programs=cast.programs,
        resolve=cast.resolve,
        hydrate=make_hydrate(backend.results),
        owner=OWNER,
        recent=Recent(backend.time.now) if isinstance(backend.store, MemoryExecutionStore) else None,
    )
    program = cast.program
    start = start_event(program, dict(plot.payload), now_ms=EPOCH_MS + number, random_bits=1)
    driver = Driver(deps, cast.run, backend.time, pick, lag=lambda: cast.tools.spent)
    driver.submit(start)
    left = _drive(plot.happenings, driver, cast.tools, start.execution_id, program.hash)
    return _observe(backend, driver, cast.tools, start.execution_id, program, left)


def _drive(
    happenings: Sequence[Mapping[str, Any]], driver: Driver, tools: Tools, execution_id: int, program: str
) -> list[Any]:
    pending = list(happenings)
    begin = driver.time.now()
    number = 0
    while True:
        moment = pending[0] if pending else None
        if moment is not None and _is_due(moment, driver, tools, begin):
            number += 1
            driver.submit(*_events(pending.pop(0), execution_id, program, number, driver.deps, tools))
        elif not driver.idle:
            driver.tick()
            _check_calls(tools)
        else:
            limit = begin + moment["at"] if moment is not None and "at" in moment else None
            moved = driver.advance(limit)
            if not moved and (moment is None or not _is_due(moment, driver, tools, begin)):
                return pending


def _check_calls(tools: Tools) -> None:
    if tools.total > MOST_CALLS:
        key, calls = max(tools.calls.items(), key=lambda entry: (len(entry[1]), "/" in entry[0]))
        raise EndlessError(
            f"no end after {MOST_CALLS} calls: {key} was called {len(calls)} times; do its replies always ask for more?"
        )


def _is_due(moment: Mapping[str, Any], driver: Driver, tools: Tools, begin: float) -> bool:
    if "at" in moment:
        return driver.idle and driver.time.now() - begin >= moment["at"] - 1e-6
    if moment["when"] == "idle":
        return driver.idle
    return bool(tools.total >= moment["when"]["calls"])


def _events(
    moment: Mapping[str, Any], execution_id: int, program: str, number: int, deps: EngineDeps, tools: Tools
) -> list[Event]:
    """What a happening is to the engine.

    A callback may be refused at its door: nothing happens then.
    """
    if "callback" not in moment:
        return [_event(moment, execution_id, program, number, deps)]
    try:
        return answered(moment["callback"], execution_id, deps, OWNER)
    except NoetlError as error:
        tools.unexpected.append(f"a callback was refused ({error.code}): {error}")
        return []


def _event(
    moment: Mapping[str, Any], execution_id: int, program: str, number: int, deps: EngineDeps
) -> Event:
    event_id, principal, reason = f"happening:{number}", moment.get("principal", ""), moment.get("reason", "")
    if "patch" in moment:
        patches = [Patch("ctx", name, value) for name, value in moment["patch"].items()]
        return ContextPatched(execution_id, event_id, program, patches, principal=principal, reason=reason)
    if "wake" in moment:
        return WorkAdvanced(execution_id, event_id, "", moment["wake"])
    if "token" in moment:
        token = moment["token"]
        return TokenInjected(
            execution_id, event_id, program, token["step"], token.get("args", {}), principal, reason
        )
    for kind, what in ((Pause, "pause"), (Resume, "resume")):
        if what in moment:
            return kind(execution_id, event_id, program, moment[what], principal, moment.get("cascade", True))
    if "redrive" in moment:
        change = ChangeRequest(principal, event_id, OWNER, reason)
        wanted = moment["redrive"]
        return plan(
            deps.store,
            deps.programs,
            execution_id,
            change,
            step=wanted.get("step", ""),
            args=wanted.get("args"),
            output=wanted.get("output", UNSET),
        )
    return Cancel(execution_id, event_id, program, moment["cancel"], principal, moment.get("cascade", True))


def _observe(
    backend: Backend,
    driver: Driver,
    tools: Tools,
    execution_id: int,
    program: Program,
    left: list[Any],
) -> Observed:
    store, results = backend.store, backend.results
    view = read_execution.describe(store, driver.deps.programs, execution_id, now=backend.time.now())
    slots = store.slots(execution_id)
    scopes = {
        scope: read_execution.resolve(
            {name: value for (where, name), value in slots.items() if where == scope}, results
        )
        for scope in ("ctx", "vars")
    }
    family = _family(store, execution_id)
    numbers: dict[str, int] = {}
    observed = Observed(
        status=view.status,
        result=read_execution.result(store, results, execution_id) if view.status == "completed" else None,
        error=view.error,
        ctx=scopes["ctx"],
        vars=scopes["vars"],
        elapsed=driver.ended.get(execution_id),
        executions={},
        histories={},
        events={},
        driver=driver,
        tools=tools,
        execution_id=execution_id,
        program=program,
        left=left,
    )
    for info in family:
        observed.events[info.execution_id] = list(history(store, info.execution_id))
        numbers[info.path] = numbers.get(info.path, 0) + 1
        name = "" if info.execution_id == execution_id else f"{info.path}#{numbers[info.path]}"
        observed.histories[name] = per_step_run(observed.events[info.execution_id])
        if name:
            observed.executions.setdefault(info.path, []).append(info.status)
    return observed


def _family(store: ExecutionStore, root: int) -> list[Any]:
    """Return the execution and its descendants, each after its parent.

    They are in the order in which they were started.
    """
    everyone = sorted(store.executions(limit=1000), key=lambda info: (info.started_at, info.execution_id))
    found = [info for info in everyone if info.execution_id == root]
    for info in found:
        found += [child for child in everyone if child.parent_execution_id == info.execution_id]
    return found


def per_step_run(events: list[HistoryEvent]) -> dict[str, list[str]]:
    """Group stored event names by step run.

    Keys are ``fetch``, ``fetch#2``, ``fetch[0]`` for an item of its loop; the rest is ``execution``.
    """
    names: dict[int, str] = {}
    seen: dict[str, int] = {}
    names_by_run: dict[str, list[str]] = {}
    for event in events:
        run = event.meta.get("run")
        if not run or event.event_type.split(".")[0] in ("playbook", "workflow", "execution"):
            names_by_run.setdefault("execution", []).append(event.event_type)
            continue
        if run not in names:
            step = event.meta.get("step") or event.payload.get("step") or event.entity_id
            seen[step] = seen.get(step, 0) + 1
            names[run] = step if seen[step] == 1 else f"{step}#{seen[step]}"
        index = event.meta.get("loop_iteration_index")
        key = names[run] if index is None else f"{names[run]}[{index}]"
        names_by_run.setdefault(key, []).append(event.event_type)
    return names_by_run
