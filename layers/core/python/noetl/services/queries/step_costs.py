"""Costs of an execution by step.

They are calls of tools, the time that these took, and what tasks added to ``ctx.cost``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from noetl.domain.errors import NoetlError
from noetl.domain.kinds import CONTROL_KINDS
from noetl.domain.long_work import begin_long_work
from noetl.domain.outcomes.work import work_of
from noetl.domain.patches.cost import COST
from noetl.domain.unreadable import Unreadable, attempt
from noetl.dsl.program import Program, RunAction, SinkAction, Step, tasks_in
from noetl.ports.executions.answers import ExecutionFilter
from noetl.ports.executions.execution_store import ExecutionInfo, ExecutionStore, StoredEvent
from noetl.services.history.moments import LONG
from noetl.services.history.read_history import read_facts
from noetl.services.queries.read_execution import find

Programs = Callable[[str], Program]
PAGE = 500
MOST_ITEMS = 200_000
"""Items of an execution's loops that one request adds up, with the turns before their last."""
MOST_EXECUTIONS = 500
"""Sub-executions that one request adds up."""

_FINAL = ("call.done", "call.error")
_SUSPENDED = ("retry.scheduled", "child.started", "wait.started", "callback.awaited")


class StepCost(msgspec.Struct):
    """What all runs of a step cost.

    ``runs``: how often it began. ``items``: of its loops. ``calls``: of tools, retries, pages and compensations among them; stored results
    and what calls no tool (``noop``, ``wait``, ``playbook``) are none. ``tool_ms``: what these calls took together. ``cost``: what its
    tasks added to ``ctx.cost``, null where they added nothing.
    """

    step: str
    runs: int = 0
    items: int = 0
    calls: int = 0
    tool_ms: float = 0.0
    cost: float | None = None


class PlaybookCost(msgspec.Struct):
    """What all sub-executions of one playbook cost."""

    path: str
    executions: int = 0
    calls: int = 0
    tool_ms: float = 0.0
    cost: float | None = None


class FamilyCost(msgspec.Struct, frozen=True):
    """What an execution and all that it started cost.

    ``playbooks``: its sub-executions and theirs, by playbook, in the order in which they were found. ``calls``, ``tool_ms`` and ``cost``: of
    all of them and of the execution itself.
    """

    playbooks: list[PlaybookCost]
    calls: int
    tool_ms: float
    cost: float | None


class CostView(msgspec.Struct, frozen=True):
    """What an execution cost, by step, in the order in which steps began first.

    ``calls``, ``tool_ms`` and ``cost``: of all steps together, without sub-executions. ``family``: with them, where it was asked for.
    ``complete``: whether everything was added up: false where there were more items of loops, or more sub-executions, than one request adds
    up, and where a row or a number cannot be read.
    """

    execution_id: str
    steps: list[StepCost]
    calls: int
    tool_ms: float
    cost: float | None
    complete: bool
    family: FamilyCost | None = None


def read_costs(
    store: ExecutionStore, programs: Programs, execution_id: int, *, family: bool = False
) -> CostView:
    """Add up what an execution cost until now. Raises NotFoundError.

    ``family``: its sub-executions, too.
    """
    look = _Look(store, programs)
    own = look.at(find(store, execution_id))
    if not family:
        return own
    begin_long_work()
    playbooks: dict[str, PlaybookCost] = {}
    complete, left = own.complete, [execution_id]
    found = 0
    while left and look.items_left > 0 and found <= MOST_EXECUTIONS:
        for child in _children(store, left.pop(0)):
            found += 1
            if found > MOST_EXECUTIONS or look.items_left <= 0:
                complete = False
                break
            left.append(child.execution_id)
            cost = look.at(child)
            complete = complete and cost.complete
            _add(playbooks.setdefault(child.path, PlaybookCost(child.path)), cost)
    every: list[PlaybookCost | CostView] = [own, *playbooks.values()]
    total = FamilyCost(list(playbooks.values()), *_sums(every))
    return msgspec.structs.replace(own, family=total, complete=complete)


def _children(store: ExecutionStore, parent: int) -> Iterator[ExecutionInfo]:
    """Yield the executions that one started, read in pages."""
    before: int | None = None
    while page := store.executions(limit=PAGE, before=before, wanted=ExecutionFilter(parent=parent)):
        yield from page
        before = page[-1].execution_id


def _add(to: PlaybookCost, cost: CostView) -> None:
    to.executions += 1
    to.calls, to.tool_ms, to.cost = _sums([to, cost])


def _sums(costs: Sequence[StepCost | PlaybookCost | CostView]) -> tuple[int, float, float | None]:
    """Return calls, milliseconds and cost of all; None as cost where none has one."""
    priced = [one.cost for one in costs if one.cost is not None]
    return (
        sum(one.calls for one in costs),
        round(sum(one.tool_ms for one in costs), 3),
        sum(priced) if priced else None,
    )


class _Look:
    """The executions that one request reads.

    ``items_left``: rows of items that it may still read, of all of them together.
    """

    def __init__(self, store: ExecutionStore, programs: Programs) -> None:
        self._store, self._programs = store, programs
        self.items_left = MOST_ITEMS

    def at(self, info: ExecutionInfo) -> CostView:
        costs = Costs(without_tools(self._programs, info.program))
        after = 0
        while page := self._store.step_events(info.execution_id, after=after, limit=PAGE):
            for row in page:
                costs.add(row)
            after = page[-1].seq
            if costs.facts > LONG:
                begin_long_work()
            if len(page) < PAGE:
                break
        if costs.facts + costs.items > LONG:
            begin_long_work()
        items = self._store.item_work(info.execution_id, self.items_left) if costs.loops else ()
        for one in items:
            costs.add_items(one.run, one.items, one.calls, one.ms)
        self.items_left -= sum(one.rows for one in items)
        return costs.view(info.execution_id, complete=self.items_left > 0)


Stage = tuple[str, str, int]
"""A step, its body, compensation or case, and which case; -1 for the others."""


def without_tools(programs: Programs, program: str) -> frozenset[Stage]:
    """Return the stages that call no tool; none where the program cannot be read."""
    try:
        steps = programs(program).steps
    except NoetlError:
        return frozenset()
    return frozenset(stage for step in steps for stage in _without_tools(step))


def _without_tools(step: Step) -> Iterator[Stage]:
    for name, pipeline in (("body", step.body), ("compensate", step.compensate)):
        if pipeline is not None and pipeline.pool == "control":
            yield step.name, name, -1
    for number, rule in enumerate(step.cases):
        called = [one for one in rule.actions if isinstance(one, (RunAction, SinkAction))]
        if all(task.kind in CONTROL_KINDS for task in tasks_in(called)):
            yield step.name, "case", number


class Costs:
    """A fold of history. ``free``: stages that call no tool."""

    def __init__(self, free: Collection[Stage] = ()) -> None:
        self.free = free
        self.facts = 0
        self.items = 0
        """Of the loops that began."""
        self.loops = False
        self._steps: dict[str, StepCost] = {}
        self._step_of: dict[int, str] = {}
        self._inline: set[tuple[int, str]] = set()
        """Runs (and stages) that the engine ran itself."""
        self._stage: dict[int, tuple[str, int]] = {}
        """The stage of a run that is under way, and which case."""
        self._made: dict[tuple[int, str], int] = {}
        """Calls of the turns after which a run continued, in its stage."""
        self._partly = False

    def add(self, row: StoredEvent) -> None:
        """Fold the next main-lane row."""
        if isinstance(attempt(lambda: self._add_row(row), f"event {row.event_id} of history"), Unreadable):
            self._partly = True

    def _add_row(self, row: StoredEvent) -> None:
        for fact in read_facts(row):
            self.facts += 1
            self.add_fact(fact)

    def add_fact(self, fact: Mapping[str, Any]) -> None:
        name, run, step = fact.get("name"), fact.get("run"), fact.get("step")
        if not isinstance(step, str) or not step:
            return
        if name == "ctx.patched":
            self._add_cost(step, fact.get("patches") or ())
            return
        if not isinstance(run, int):
            return
        if name == "step.enter":
            self._step_of[run] = step
            self._of(step).runs += 1
        elif name == "loop.started":
            self._step_of[run] = step
            self.loops = True
            self.items += int(fact.get("total", 0))
        elif name == "command.issued":
            place = (run, str(fact.get("stage", "body")))
            self._stage[run] = place[1], fact.get("rule", -1)
            (self._inline.add if fact.get("pool") == "control" else self._inline.discard)(place)
        elif name in _SUSPENDED:
            self._add_turn(step, (run, self._stage.get(run, ("body", -1))[0]), fact)
        elif name in _FINAL:
            self._add_end(step, (run, str(fact.get("stage", "body"))), fact)

    def _add_turn(self, step: str, place: tuple[int, str], fact: Mapping[str, Any]) -> None:
        calls, ms = work_of(fact, final=False)
        self._made[place] = self._made.get(place, 0) + calls
        self._add_work(step, calls, ms)

    def _add_end(self, step: str, place: tuple[int, str], fact: Mapping[str, Any]) -> None:
        run, stage = place
        rule = self._stage.get(run, ("", -1))[1] if stage == "case" else -1
        free = place in self._inline or stage == "route" or (step, stage, rule) in self.free
        self._add_work(step, *work_of(fact, final=not free, before=self._made.pop(place, 0)))

    def add_items(self, run: int, items: int, calls: int, ms: float) -> None:
        """Add the items of a loop, by its step run."""
        if step := self._step_of.get(run):
            self._of(step).items += items
            if (step, "body", -1) not in self.free:
                self._add_work(step, calls, ms)

    def view(self, execution_id: int, *, complete: bool) -> CostView:
        steps = list(self._steps.values())
        for one in steps:
            one.tool_ms = round(one.tool_ms, 3)
        return CostView(str(execution_id), steps, *_sums(steps), complete and not self._partly)

    def _of(self, step: str) -> StepCost:
        return self._steps.setdefault(step, StepCost(step))

    def _add_work(self, step: str, calls: int, ms: float) -> None:
        self._of(step).calls += calls
        self._of(step).tool_ms += ms

    def _add_cost(self, step: str, patches: Any) -> None:
        for patch in patches:
            if (patch.get("scope"), patch.get("name"), patch.get("op")) != ("ctx", COST, "add"):
                continue
            value = patch.get("value")
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                found = self._of(step)
                try:
                    total = (found.cost or 0.0) + float(value)
                except OverflowError:  # an integer of thousands of digits
                    total = math.inf
                if math.isfinite(total):
                    found.cost = total
                else:
                    self._partly = True
