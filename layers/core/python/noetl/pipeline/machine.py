"""The task sequence as a machine: ``begin`` or ``resume``, then ``feed`` until ``Finish``.

Pure: no I/O of its own, no clock, no chance (a retry's jitter comes with the outcome). It is a stack of frames, each a sequence of
tasks: the body, the inline tasks of a rule, a sink. ``task_call`` makes a call, ``call_result`` binds its outcome, ``rules`` decides what
the outcome means, and ``actions`` carries that out. These parts see the run as the protocol of ``run``; only this module knows them all.

Order of a run: ``vars_before`` → for each task: input, params, call, own sinks, ``set``, rules → ``vars`` → sinks → ``vars_after``.
``vars`` are looked at after each successful call as well, so that rules may read them; what counts is their last evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from noetl.domain.errors import NoetlError
from noetl.domain.outcomes.outcomes import ErrorInfo, Outcome, Patch, Suspend
from noetl.domain.patches.cost import check_cost, is_cost
from noetl.domain.patches.scope_patches import combine
from noetl.domain.results.references import is_ref, plain_loop
from noetl.dsl.program import Action, Node, Pipeline, RunAction, SinkAction, Task
from noetl.pipeline import (
    call_result,
    children,
    dynamic_task,
    lifecycle,
    nested,
    rules,
    scope,
    task_call,
    tracing,
    waits,
)
from noetl.pipeline.errors import error_info_at
from noetl.pipeline.overlay import Overlay
from noetl.pipeline.requests import CallCache, Finish, Op, TaskOutcome
from noetl.pipeline.run import Levels
from noetl.pipeline.state import EACH, Frame, LatestOutcome, State, dump, forget, load
from noetl.pipeline.surroundings import Item, Surroundings
from noetl.templating import is_true, render

Sequence = tuple[Task, ...]


class PipelineRun:
    """One pass over a pipeline: a step run, one item of its loop, or the tasks of a case.

    ``overlay`` is shared by the items of a sequential loop, so that each sees the writes of those before it.
    """

    __slots__ = (
        "around",
        "block",
        "cache_plans",
        "fresh",
        "item",
        "levels",
        "max_attempts",
        "overlay",
        "pipeline",
        "plain",
        "progressed",
        "retrying",
        "sequences",
        "state",
        "to_cache",
    )
    around: Surroundings
    item: Item | None
    state: State
    max_attempts: int

    def __init__(
        self,
        pipeline: Pipeline,
        around: Surroundings,
        item: Item | None = None,
        overlay: Overlay | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.around = around
        self.item = item
        self.overlay = overlay or around.overlay()
        self.state = State()
        self.sequences: list[Sequence] = []
        self.levels = Levels()
        self.block: dict[str, Any] = {}
        self.retrying = False
        self.max_attempts = 1
        self.plain = False
        self.cache_plans: dict[int, CallCache] = {}
        self.fresh: dict[int, tuple[CallCache, TaskOutcome]] = {}
        self.to_cache: list[tuple[CallCache, TaskOutcome]] = []
        """Results of calls that succeeded, and whose task was left well: later calls may take them."""
        self.progressed = True
        """Something was done since the machine was resumed, besides asking for an external job."""

    # --- the four doors ---------------------------------------------------------------------------

    def begin(self) -> Op:
        """Start the run from its first task."""
        if not is_plain(self.pipeline) or (self.item is not None and self.item.variables):
            return self._advance()
        self.plain = True
        return task_call.begin_plain(self) or self._advance()

    def resume(self, machine: Mapping[str, Any], child: Outcome | None = None) -> Op:
        """Continue from a suspension. ``child`` is the outcome of the sub-execution it waited for.

        Raises InvalidInputError(code="machine_state") when the machine was written by another version or for another pipeline.
        """
        self._restore(load(dict(machine)))
        frame = self.state.frames[-1] if self.state.frames else None
        if frame is not None and frame.phase == "wait":
            if child is not None:
                return self.feed(waits.child_outcome(child))
            if frame.waited is not None:
                return self.feed(waits.over(frame))
            if frame.pending is not None:
                self.progressed = False
                return task_call.ask_again(self, frame) or self._advance()
            frame.phase = "call"
            frame.attempt -= 1
        return self._advance()

    def feed(self, outcome: TaskOutcome) -> Op:
        """Take the outcome of the RunTask that was asked for last."""
        self.progressed = self.progressed or outcome.pending is None
        outcome = children.held(self, outcome)
        if outcome.child is not None and outcome.child.wait:
            return Finish(self._suspended(Suspend({}, child=outcome.child)))
        if outcome.wait is not None:
            return Finish(self._suspended(waits.suspension(self, outcome.wait)))
        if outcome.pending is not None:
            return Finish(self._suspended(waits.poll(self, outcome.pending, outcome.delay)))
        if outcome.child is not None:
            outcome = children.detached(self, outcome.child)
        elif self.plain and outcome.error is None:
            return task_call.finish_plain(self, outcome)
        call_result.bind(self, outcome)
        return self._advance()

    def park(self) -> Outcome:
        """Suspend the run between two calls, because the worker's time is up.

        The next turn continues from the same place, at once, on any worker.
        """
        return self._suspended(Suspend({}, delay=0.0))

    # --- scope ------------------------------------------------------------------------------------

    def lookup(self, name: str) -> Any:
        return scope.lookup(self, name)

    def names(self) -> Iterable[str]:
        return scope.names(self)

    def render(self, node: Node) -> Any:
        """Render a template. Raises TemplateError."""
        return render(node, self)

    def loaded(self, value: Any) -> Any:
        """Load a rendered value if it is large. Raises TaskError if it is not available."""
        hydrate = self.around.hydrate
        return hydrate(value) if hydrate is not None and is_ref(value) else value

    def is_true(self, node: Node) -> bool:
        """Evaluate a condition. Raises TemplateError."""
        return is_true(node, self)

    def written(self, where: str, name: str) -> Any:
        """Return a value of ``ctx``, ``vars`` or ``step`` as this run sees it.

        ``patches.MISSING`` when there is none.
        """
        if where == "vars" and name in self.block:
            return self.block[name]
        return self.overlay.get(where, name)

    def all_written(self, where: str) -> dict[str, Any]:
        found = self.overlay.all(where)
        return {**found, **self.block} if where == "vars" else found

    def write(self, patch: Patch) -> None:
        """Make a write visible to later tasks and report it at the end.

        Raises InvalidInputError(code="patch_type" or "negative_cost").
        """
        if self.around.bounded:
            check_cost(patch)
        self.overlay.write(patch)
        self.state.patches.append(patch)

    @property
    def here(self) -> Item | None:
        """Return the current iteration of the innermost loop."""
        return self.levels.items[-1] if self.levels.items else self.item

    @property
    def input(self) -> Mapping[str, Any]:
        """Return the current task's rendered input, over those of the tasks around it."""
        frames = self.state.frames
        if len(frames) == 1:
            return frames[0].input or _NOTHING
        merged: dict[str, Any] = {}
        for frame in frames:
            merged.update(frame.input or _NOTHING)
        return merged

    def current_task(self) -> Task | None:
        if not self.sequences or self.state.frames[-1].pc >= len(self.sequences[-1]):
            return None
        return self.sequences[-1][self.state.frames[-1].pc]

    # --- frames -----------------------------------------------------------------------------------

    def push(self, address: list[Any]) -> None:
        """Run the sequence at ``address`` before the current one continues."""
        self.sequences.append(self._sequence(address))
        self.state.frames.append(Frame(address=address))

    def pop(self) -> None:
        """End the top sequence."""
        self.state.frames.pop()
        self.sequences.pop()

    def inside_sink(self) -> bool:
        return any(_is_sink(frame.address) for frame in self.state.frames)

    def sink_at(self, address: list[Any]) -> SinkAction:
        """Return the sink of an address, seen from the top frame (or from the pipeline)."""
        if address[0] == "step-sink":
            step_sink: SinkAction = self.pipeline.sinks[address[1]]
            return step_sink
        task = self.current_task()
        if address[0] == "task-sink" and task is not None:
            task_sink: SinkAction = task.sinks[address[1]]
            return task_sink
        action: Action | None = task.rules[address[1]].actions[address[2]] if task is not None else None
        if not isinstance(action, SinkAction):
            raise LookupError(address)
        return action

    def _sequence(self, address: list[Any]) -> Sequence:
        if not address:
            return self.pipeline.tasks
        if _is_sink(address):
            return (self.sink_at(address).task,)
        task = self.current_task()
        if address == EACH:
            if task is None or task.nested is None:
                raise LookupError(address)
            return task.nested.tasks
        action: Action | None = task.rules[address[1]].actions[address[2]] if task is not None else None
        if not isinstance(action, RunAction):
            raise LookupError(address)
        return action.tasks

    def _restore(self, state: State) -> None:
        frames, state.frames = state.frames, []
        self.state = state
        for patch in state.patches:
            self.overlay.write(patch)
        self.block = {patch.name: patch.value for patch in state.block}
        try:
            for frame in frames:
                self.push(frame.address)
                state.frames[-1] = frame
                if frame.variant:
                    dynamic_task.put(self, frame)
            nested.restore(self)
        except (LookupError, TypeError) as error:
            raise task_call.foreign_machine() from error

    # --- the course of a run ----------------------------------------------------------------------

    def _advance(self) -> Op:
        while True:
            try:
                state = self.state
                op = (
                    _PHASES[state.frames[-1].phase](self)
                    if state.frames
                    else lifecycle.STAGES[state.stage](self)
                )
            except NoetlError as error:
                self.fail(
                    self._entry_error(error_info_at(error, self.current_task(), self.around.source_name))
                )
                continue
            if op is not None:
                return op

    def _entry_error(self, error: ErrorInfo) -> ErrorInfo:
        """Return the error of an entry that failed, or the failed call's own error.

        An entry may fail because it uses a name that a failed call does not have. The call's own error is returned then, with the entry's
        message in its details.
        """
        frame = self.state.frames[-1] if self.state.frames else None
        last = frame.last if frame is not None and frame.event == "call.done" else None
        if error.code != "undefined" or last is None or last.error is None:
            return error
        return msgspec.structs.replace(
            last.error, details={**last.error.details, "case_error": error.message}
        )

    def fail(self, error: ErrorInfo) -> None:
        """Fail the iteration of a nested loop, or else the run (``vars_after`` still follow)."""
        state = self.state
        error = self.around.hide(error)
        error = tracing.sink_failed(self, error) if self.inside_sink() else error
        if nested.catch(self, error):
            return
        state.error = error = tracing.after_failed(state.error, error)
        state.route, state.skipped = None, False
        state.last = LatestOutcome(error=error)
        self._unwind()
        state.stage = "done" if state.stage == "after" else "after"

    def finish_tasks(self) -> None:
        """End the body, regardless of the frames that are open (``next``, ``skip``)."""
        self._unwind()
        self.state.stage = "vars"

    def _unwind(self) -> None:
        nested.clear(self)
        self.state.frames.clear()
        self.sequences.clear()

    def suspend(self, delay: float, *, spends: bool = False) -> Finish:
        """Suspend the run for ``delay`` seconds.

        ``spends``: it continues as long as the budget of the execution lasts.
        """
        return Finish(self._suspended(Suspend({}, delay=delay, spends=spends)))

    def _suspended(self, suspend: Suspend) -> Outcome:
        state = self.state
        trace, about = tracing.take(state), tracing.children(state)
        state.moves = 0
        state.patches, spent = combine(state.patches), list[Patch]()
        if self.around.bounded and self.item is None:
            # The engine holds calls and costs against the budget before the run is over.
            about["calls"] = tracing.calls_made(state)
            spent = [patch for patch in state.patches if is_cost(patch)]
            state.patches = [patch for patch in state.patches if not is_cost(patch)]
        forget(state)
        pending = state.frames[-1].pending if state.frames else None
        if pending is not None:
            suspend = msgspec.structs.replace(
                suspend, remote=True, deadline=pending.until, again=not self.progressed
            )
        return Outcome(
            "suspended",
            patches=spent,
            trace=trace,
            suspend=msgspec.structs.replace(suspend, machine=dump(state)),
            meta=about,
        )

    def start_tasks(self) -> None:
        self.state.stage = "tasks"
        self.push([])

    def evaluate_block(self) -> None:
        """Evaluate ``vars`` from the top.

        Each entry sees those before it, and none sees an earlier evaluation.
        """
        self.block = {}
        for name, node in self.pipeline.vars:
            self.block[name] = self.render(node)
        self.state.block = [Patch("vars", name, value) for name, value in self.block.items()]

    def outcome(self) -> Outcome:
        """Return the outcome that is reported when the run is over."""
        state = self.state
        patches = combine(state.patches)
        result = state.result if self.item is None else plain_loop(state.result)
        trace = tracing.take(state)
        meta = tracing.meta(self.pipeline, state, bounded=self.around.bounded, item=self.item is not None)
        if state.error is not None:
            return Outcome("error", None, state.error, state.labels, patches, trace=trace, meta=meta)
        if state.skipped:  # the message is the reason of a step; an iteration has no result
            result = state.message if self.item is None else None
        return Outcome(
            "skipped" if state.skipped else "ok",
            result,
            self._answered(),
            {**state.chosen, **state.labels},
            patches,
            state.route,
            trace,
            meta=meta,
        )

    def _answered(self) -> ErrorInfo | None:
        """Return the failure that a ``next`` answered: the step has failed all the same."""
        state = self.state
        failed = state.last is not None and not state.last.ok and not state.skipped and not state.pinned
        return state.last.error if failed and state.last is not None and state.route is not None else None


def is_plain(pipeline: Pipeline) -> bool:
    """One task and nothing around it: most steps. They take a short way with the same outcome."""
    if (
        len(pipeline.tasks) != 1
        or pipeline.vars
        or pipeline.sinks
        or pipeline.vars_before
        or pipeline.vars_after
    ):
        return False
    task = pipeline.tasks[0]
    kept = task.gather or task.alias or (task.result is not None and task.result.select)
    return not (
        task.rules
        or task.retry
        or task.sets
        or task.sinks
        or task.nested
        or task.choices
        or task.part
        or kept
    )


_NOTHING: dict[str, Any] = {}


def _is_sink(address: list[Any]) -> bool:
    return bool(address) and str(address[0]).endswith("sink")


_PHASES: dict[str, Callable[[PipelineRun], Op | None]] = {
    "enter": task_call.enter,
    "call": task_call.call,
    "judge": task_call.judge,
    "rules": rules.find,
    "actions": rules.act,
    "sinks": rules.run_sinks,
    "settle": rules.settle,
    "leave": rules.leave,
}
