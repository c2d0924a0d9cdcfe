"""Runner of test cases, once or in many random orders.

Each run has virtual time and its own store.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from noetl.adapters.memory.task_cache import MemoryTaskCache
from noetl.domain.branch_coverage import listening
from noetl.domain.commands import Command
from noetl.domain.errors import NoetlError, NotFoundError, TaskError
from noetl.domain.events import Event
from noetl.domain.kinds import Credential, TaskSettings
from noetl.dsl.program import Pipeline, Program, Step
from noetl.ports.credentials import Credentials
from noetl.services.callbacks.callback_keys import callback_key
from noetl.services.worker.run_command import run_command
from noetl.services.worker.worker_deps import WorkerDeps
from noetl.testing.assertions import Finding, ObservedValues, check, differences, path_text
from noetl.testing.callbacks import BASE, RING, unanswered
from noetl.testing.coverage import Coverage, Meter
from noetl.testing.driver import EPOCH, EndlessError, Pick, VirtualClock
from noetl.testing.memory import MemoryBackend, is_gone
from noetl.testing.mocks import MockRegistry
from noetl.testing.play_case import PICKS, Cast, Observed, perform
from noetl.testing.testfile import TestCase, TestFile, prefixed

LOOPBACK = ("localhost", "127.0.0.0/8", "::1")
"""What live calls may reach besides public addresses."""


@dataclass(frozen=True)
class Options:
    """Options of a test run.

    ``live``: kinds that may reach outside. ``shuffle``: random orders per case, with seeds from ``seed`` on.
    """

    live: frozenset[str] = frozenset()
    shuffle: int = 0
    seed: int = 1
    credentials: Credentials | None = None
    """What live calls sign in with, when the case does not say."""


@dataclass(frozen=True)
class CaseReport:
    """How a case went.

    ``seed``: of the first order that went wrong; ``calls``: how often each step or task was called.
    """

    name: str
    line: int
    findings: Sequence[Finding]
    seconds: float
    status: str = ""
    path: Sequence[str] = ()
    calls: Mapping[str, int] = field(default_factory=dict)
    orders: int = 0
    seed: int | None = None

    @property
    def passed(self) -> bool:
        return not self.findings


@dataclass
class FileRun:
    """The cases of a file, run when they are asked for; then their coverage is complete."""

    file: TestFile
    options: Options

    def __post_init__(self) -> None:
        self.meter = Meter(self.file.program)
        self.prefixes = {
            program.hash: prefix for prefix, program in prefixed(self.file.program, self.file.programs)
        }

    @property
    def coverage(self) -> Coverage:
        return self.meter.coverage

    def run(self, cases: Sequence[TestCase]) -> Iterator[CaseReport]:
        for case in cases:
            yield self.case(case)

    def case(self, case: TestCase) -> CaseReport:
        began = time.perf_counter()
        try:
            seen = self._play(case, PICKS[case.order])
        except (NoetlError, EndlessError) as error:
            finding = Finding("start", message=str(error))
            return CaseReport(case.name, case.line, [finding], time.perf_counter() - began)
        findings = check(seen, case.expect)
        seed, orders = None, 0
        if not findings:
            findings, seed, orders = self._shuffled(case, seen)
        calls = {key: len(made) for key, made in seen.calls.items()}
        return CaseReport(
            case.name,
            case.line,
            findings,
            time.perf_counter() - began,
            seen.status,
            seen.path,
            calls,
            orders,
            seed,
        )

    def _shuffled(self, case: TestCase, first: ObservedValues) -> tuple[list[Finding], int | None, int]:
        """Return the findings of the first order that differs from ``first``, with its seed.

        An order differs in its outcome or its steps.
        """
        for number in range(self.options.shuffle):
            seed = self.options.seed + number
            other = self._play(case, random_pick(seed))
            findings = check_same(first, other)
            if findings:
                return findings, seed, number + 1
        return [], None, self.options.shuffle

    def _play(self, case: TestCase, pick: Pick) -> ObservedValues:
        tools = MockRegistry(case.tools, self.options.live)
        programs = {
            program.hash: dispatched(program, case.tools, prefix)
            for prefix, program in prefixed(self.file.program, self.file.programs)
        }
        missing: list[str] = []
        backend = MemoryBackend(VirtualClock(case.now))
        with listening(self.meter):
            run = _worker(tools, backend, programs, self.prefixes, self._credentials(case))
            cast = Cast(
                programs[self.file.program.hash], programs.__getitem__, self._resolve(missing), tools, run
            )
            observed = perform(cast, case, backend, pick)
        events = observed.events[observed.execution_id]
        self.meter.entered(event.entity_id for event in events if event.event_type == "step.enter")
        self.meter.compensated(
            str(event.payload.get("step")) for event in events if event.payload.get("stage") == "compensate"
        )
        return seen_of(observed, _problems(case, observed, tools, missing))

    def _resolve(self, missing: list[str]) -> Callable[[str, int | None], str]:
        def resolve(path: str, version: int | None) -> str:
            found = self.file.programs.get(path)
            if found is not None:
                return found.hash
            known = ", ".join(sorted(self.file.programs))
            missing.append(
                f"no playbook here is {path} (there are: {known})\n"
                f"name its file under `playbooks`, or reply in its place under `tools`:  <step>: {{ result: … }}"
            )
            raise NotFoundError(f"no playbook is registered as {path}", code="playbook_not_found")

        return resolve

    def _credentials(self, case: TestCase) -> Credentials:
        return CaseCredentials(case.credentials, self.options.credentials if self.options.live else None)


class CaseCredentials:
    """Credentials that the case makes up; others only for live calls."""

    def __init__(self, given: Mapping[str, Mapping[str, Any]], otherwise: Credentials | None) -> None:
        self.given = given
        self.otherwise = otherwise

    def get(self, name: str, execution_id: int) -> Credential:
        """Raises TaskError(kind="auth", code="credential_not_found")."""
        spec = self.given.get(name)
        if spec is not None:
            data = spec.get("data", {key: value for key, value in spec.items() if key != "type"})
            return Credential(name, str(spec.get("type", "")), data)
        if self.otherwise is not None:
            return self.otherwise.get(name, execution_id)
        raise TaskError(
            f"the case has no credential {name!r}",
            kind="auth",
            code="credential_not_found",
            hint=f"add under `credentials`:  {name}: {{ data: {{ … }} }}",
        )


def _worker(
    tools: MockRegistry,
    backend: MemoryBackend,
    programs: Mapping[str, Program],
    prefixes: Mapping[str, str],
    credentials: Credentials,
) -> Callable[[Command, Callable[[Event], None]], None]:
    deps = WorkerDeps(
        programs=programs.__getitem__,
        registry=tools,
        results=backend.results,
        credentials=credentials,
        settings=TaskSettings(http_allow=LOOPBACK),
        clock=lambda: backend.time.now() + tools.spent,
        now=lambda: EPOCH + backend.time.now() + tools.spent,
        chance=lambda: 0.0,
        given_up=lambda execution_id, run: is_gone(backend.store, execution_id, run),
        folder_of=lambda program: str(Path(program.source_name).parent),
        callback_key=lambda command: callback_key(command, programs.__getitem__, RING),
        callback_base=BASE,
        cache=MemoryTaskCache(),
    )

    def run(command: Command, emit: Callable[[Event], None]) -> None:
        tools.spent, tools.playbook = 0.0, prefixes[command.program]
        run_command(command, deps, emit)

    return run


def dispatched(program: Program, tools: Mapping[str, Any], prefix: str = "") -> Program:
    """Return ``program`` with mocked tasks of the engine moved to the worker.

    Tasks of the engine are ``noop`` and ``playbook``. A task is mocked when a reply takes its place.
    """
    names = {key.partition("[")[0] for key in tools}

    def moved(step: Step, pipeline: Pipeline | None) -> Pipeline | None:
        if pipeline is None or pipeline.pool != "control":
            return pipeline
        own = {name for task in pipeline.tasks for name in (task.label, f"{step.name}/{task.label}")}
        if len(pipeline.tasks) == 1:
            own.add(step.name)
        mocked = any(f"{prefix}{name}" in names for name in own)
        return msgspec.structs.replace(pipeline, pool="io") if mocked else pipeline

    steps = []
    for step in program.steps:
        body, compensate = moved(step, step.body), moved(step, step.compensate)
        same = body is step.body and compensate is step.compensate
        steps.append(step if same else msgspec.structs.replace(step, body=body, compensate=compensate))
    return msgspec.structs.replace(program, steps=tuple(steps))


def random_pick(seed: int) -> Pick:
    """Ready commands in an order that the seed decides."""
    chance = random.Random(seed)
    return lambda ready: chance.randrange(len(ready))


def _problems(case: TestCase, observed: Observed, tools: MockRegistry, missing: Sequence[str]) -> list[str]:
    found = list(dict.fromkeys([*tools.unexpected, *missing]))
    if not found and not case.unused_tools:
        found += [
            f"{key}: {count} {'reply was' if count == 1 else 'replies were'} never asked for (or write unused_tools: true)"
            for key, count in tools.left_over().items()
            if key.partition(" #")[0] in case.own
        ]
    for moment in observed.left:
        found.append(f"this never happened, its moment did not come: {dict(moment)}")
    return found


def seen_of(observed: Observed, problems: Sequence[str]) -> ObservedValues:
    """What a run is compared by."""
    events = observed.events[observed.execution_id]
    return ObservedValues(
        status=observed.status,
        result=observed.result,
        error=observed.error,
        ctx=observed.ctx,
        vars=observed.vars,
        elapsed=observed.elapsed,
        path=[event.entity_id for event in events if event.event_type == "step.enter"],
        calls=observed.tools.calls,
        executions=observed.executions,
        events=[(event.event_type, event.entity_id) for event in events],
        problems=problems,
        unanswered=unanswered(observed.execution_id, observed.driver.deps.store),
    )


def check_same(first: ObservedValues, other: ObservedValues) -> list[Finding]:
    """Two orders of one case: the same outcome, and the same steps as often."""
    found = [Finding("tools", message=problem) for problem in other.problems]
    if first.status != other.status:
        found.append(Finding("status", first.status, other.status))
    for name in ("result", "ctx", "vars", "error"):
        found += differences(_plain(getattr(first, name)), _plain(getattr(other, name)), name)
    if Counter(first.path) != Counter(other.path):
        found.append(Finding("path", path_text(first.path), path_text(other.path)))
    return found


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)
