"""Drives pipelines of compiled playbooks with scripted outcomes, straight and with the state sent through JSON before every call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from noetl.domain import codec
from noetl.domain.commands import FrozenScope
from noetl.domain.kinds import KindSpec, ParamProblem
from noetl.domain.outcomes.outcomes import ChildRequest, ErrorInfo, Outcome, Patch, Trace
from noetl.dsl.compiler import compile_playbook
from noetl.dsl.program import Pipeline, Program
from noetl.pipeline import Finish, Item, Op, PipelineRun, RunTask, Surroundings, TaskOutcome

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: t }\n"
SPECS = {
    spec.name: spec
    for spec in (
        KindSpec("http", "Calls a URL.", "io", aliases={"endpoint": "url"}),
        KindSpec("python", "Runs Python.", "python", raw_fields=("code",)),
        KindSpec("postgres", "Runs SQL.", "io", aliases={"query": "command"}, sql_fields=("command",)),
        KindSpec("noop", "Does nothing.", "control"),
        KindSpec("playbook", "Runs a playbook.", "control"),
        KindSpec("workbook", "Runs a named task.", "control", lowered=True),
        KindSpec("iterator", "Loops.", "control", aliases={"in": "collection"}, lowered=True),
    )
}


class AnyParams:
    """A registry that takes every parameter."""

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(SPECS))

    def spec(self, name: str) -> KindSpec:
        return SPECS[name]

    def check(self, name: str, params: Mapping[str, Any]) -> list[ParamProblem]:
        return []

    def sql_problem(self, text: str) -> tuple[str, str | None, int] | None:
        return None

    def sql_escapes(self, text: str) -> tuple[()]:
        return ()

    def sql_lists(self, text: str) -> tuple[()]:
        return ()

    def schema(self, name: str) -> dict[str, Any]:
        return {"type": "object"}


def compile_text(body: str) -> Program:
    """A document given without its first three lines."""
    return compile_playbook(HEAD + body, source_name="t.yaml", kinds=AnyParams()).program


@dataclass
class Driven:
    """``outcome`` with the trace of all turns; ``calls`` in order; ``delays`` and ``children`` it was suspended for."""

    outcome: Outcome
    calls: list[RunTask] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    children: list[ChildRequest] = field(default_factory=list)

    def params(self) -> list[Any]:
        return [call.params for call in self.calls]

    def patches(self) -> dict[str, Any]:
        return {f"{patch.scope}.{patch.name}": (patch.op, patch.value) for patch in self.outcome.patches}

    def facts(self) -> list[str]:
        return [trace.name for trace in self.outcome.trace]


Script = Mapping[str, list[Any]]
"""Label → what its calls give in turn (the last one again and again): a result, an ErrorInfo, a ChildRequest."""


def _told(script: Script, label: str, number: int) -> TaskOutcome:
    given = script.get(label, [None])
    answer = given[min(number, len(given) - 1)]
    if isinstance(answer, ErrorInfo):
        return TaskOutcome(error=answer)
    if isinstance(answer, ChildRequest):
        return TaskOutcome(child=answer)
    if isinstance(answer, TaskOutcome):
        return answer
    return TaskOutcome(answer)


def drive(
    pipeline: Pipeline,
    script: Script,
    around: Surroundings,
    item: Item | None = None,
    *,
    through_json: bool = False,
    child: Outcome | None = None,
    overlay: list[Patch] | None = None,
    most: int = 5000,
) -> Driven:
    """Run a pipeline to its end. ``child``: what every sub-execution gives."""
    made = Driven(Outcome("ok"))
    counts: dict[str, int] = {}
    trace: list[Trace] = []

    def fresh() -> PipelineRun:
        run = PipelineRun(pipeline, around, item)
        for patch in overlay or ():
            run.overlay.write(patch)
        return run

    run = fresh()
    op: Op = run.begin()
    for _ in range(most):
        if isinstance(op, RunTask):
            if through_json:
                parked = run.park()
                trace += parked.trace
                run = fresh()
                again = run.resume(_copied(parked))
                assert again == op
            made.calls.append(op)
            number = counts.get(op.label, 0)
            counts[op.label] = number + 1
            op = run.feed(_told(script, op.label, number))
            continue
        assert isinstance(op, Finish)
        trace += op.outcome.trace
        suspend = op.outcome.suspend
        if suspend is None:
            made.outcome = msgspec.structs.replace(op.outcome, trace=trace)
            return made
        run = fresh()
        if suspend.child is not None:
            made.children.append(suspend.child)
            op = run.resume(_copied(op.outcome), child)
        else:
            assert suspend.delay is not None
            made.delays.append(suspend.delay)
            op = run.resume(_copied(op.outcome))
    raise AssertionError("the pipeline does not end")


def _copied(outcome: Outcome) -> dict[str, Any]:
    assert outcome.suspend is not None
    machine: dict[str, Any] = codec.decode(codec.encode(outcome.suspend.machine))
    return machine


Run = Callable[..., Driven]


@pytest.fixture
def run() -> Run:
    """Runs the first step's body of a playbook, both ways, and insists that they agree."""

    def both(
        body: str,
        script: Script | None = None,
        *,
        scope: FrozenScope | None = None,
        item: Item | None = None,
        child: Outcome | None = None,
        overlay: list[Patch] | None = None,
        **doors: Any,
    ) -> Driven:
        program = compile_text(body)
        step = program.steps[0]
        assert step.body is not None
        around = Surroundings(scope or FrozenScope(), 7, step.name, program.source_name, **doors)
        ways = [
            drive(
                step.body, script or {}, around, item, through_json=through_json, child=child, overlay=overlay
            )
            for through_json in (False, True)
        ]
        assert ways[0].calls == ways[1].calls
        assert msgspec.to_builtins(ways[0].outcome) == msgspec.to_builtins(ways[1].outcome)
        waits = [[delay for delay in way.delays if delay] for way in ways]
        assert waits[0] == waits[1]
        assert ways[0].children == ways[1].children
        return ways[0]

    return both
