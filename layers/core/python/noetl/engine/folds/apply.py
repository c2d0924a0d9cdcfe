"""``apply``: folds facts into state and slots, and is the only thing that makes state.

No template, clock or tool takes part. ``rebuild`` folds a whole history and must yield what is stored; the engine itself folds each fact
it decides through the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from noetl.domain.facts import facts as f
from noetl.domain.outcomes.outcomes import AROUND
from noetl.domain.patches.scope_patches import MISSING
from noetl.domain.state import AWAKE, WAITING, ExecutionState, Slots, Token, copy_state
from noetl.engine.folds import callbacks, rounds
from noetl.engine.folds.compensation import UNDO, register, undone
from noetl.engine.folds.run_results import SKIPPED, envelope, give_result, publish_result, result_of
from noetl.engine.folds.slots import SlotSpace, context_changed
from noetl.engine.folds.tokens import add_token, drop_token


def apply(state: ExecutionState, slots: Slots, fact: f.Fact) -> tuple[ExecutionState, Slots]:
    """Return state and slots after ``fact``; the arguments stay as they are."""
    new_state, new_slots = copy_state(state), dict(slots)
    evolve(new_state, new_slots, fact)
    return new_state, new_slots


def rebuild(rows: Iterable[tuple[int, list[f.Fact]]]) -> tuple[ExecutionState, Slots]:
    """Fold main-lane rows ``(seq, facts)`` in ascending order from nothing."""
    state, slots = ExecutionState(), Slots()
    for seq, facts in rows:
        for fact in facts:
            evolve(state, slots, fact)
        state.seq = seq
    return state, slots


def evolve(state: ExecutionState, slots: SlotSpace, fact: f.Fact) -> None:
    """Fold one fact into a state (and slots) that the caller owns."""
    _FOLDS[type(fact)](state, slots, fact)


def _initialized(state: ExecutionState, slots: SlotSpace, fact: f.Initialized) -> None:
    state.program, state.parent, state.depth, state.started = fact.program, fact.parent, fact.depth, fact.at
    state.priority, state.no_cache = fact.priority, fact.no_cache
    for name, value in fact.workload.items():
        slots[("workload", name)] = value
    add_token(state, slots, f.Arrival(fact.run, fact.entry, sync=False))


def _merge(
    state: ExecutionState, slots: SlotSpace, run: int, merged: tuple[int, ...], args: dict[str, Any]
) -> Token:
    for other in merged:
        drop_token(state, slots, other)
    if args:
        slots[("args", str(run))] = args
    else:
        slots.pop(("args", str(run)), None)
    return state.tokens[run]


def _entered(state: ExecutionState, slots: SlotSpace, fact: f.StepEntered) -> None:
    token = _merge(state, slots, fact.run, fact.merged, fact.args)
    token.phase, token.lock, token.place = "entered", fact.lock, 0
    state.timers.pop(f"admit:{fact.run}", None)


def _parked(state: ExecutionState, slots: SlotSpace, fact: f.StepParked) -> None:
    token = _merge(state, slots, fact.run, fact.merged, fact.args)
    token.phase, token.lock, token.place = "parked", fact.lock, fact.place


def _absorbed(state: ExecutionState, slots: SlotSpace, fact: f.TokensAbsorbed) -> None:
    wave = state.waves.get(fact.step)
    for run in fact.runs:
        if wave is not None and run in state.tokens:
            wave.append(state.tokens[run].arc)
        drop_token(state, slots, run)


def _skipped(state: ExecutionState, slots: SlotSpace, fact: f.StepSkipped) -> None:
    if fact.withdrawn:
        _withdrawn(state, slots, fact)
        return
    token = state.tokens[fact.run]
    give_result(slots, token, dict(SKIPPED))
    publish_result(slots, token)
    token.phase = "called"
    state.steps_done += 1


def _withdrawn(state: ExecutionState, slots: SlotSpace, fact: f.StepSkipped) -> None:
    """Fold the withdrawal of a run.

    A run that had been entered leaves its step skipped; one that was waiting leaves the result of an earlier run.
    """
    if state.tokens[fact.run].phase not in WAITING:
        slots[("step", fact.step)] = dict(SKIPPED)
        state.steps_done += 1
    drop_token(state, slots, fact.run)


def _issued(state: ExecutionState, slots: SlotSpace, fact: f.CommandIssued) -> None:
    if fact.stage == "compensate" and fact.run not in state.tokens:
        state.tokens[fact.run] = Token(fact.run, fact.step)
        state.undo = slots.get((UNDO, str(fact.run)), MISSING)["before"]
    token = state.tokens[fact.run]
    token.phase, token.command, token.turn = fact.stage, fact.command_id, fact.turn
    token.rule = fact.rule
    if not fact.delay:
        token.wakes = AWAKE
    token.counted = fact.calls + (token.counted if fact.turn else 0)
    state.calls += fact.calls


def _call_done(state: ExecutionState, slots: SlotSpace, fact: f.CallDone) -> None:
    if fact.stage == "compensate":
        undone(state, slots, fact.run, fact.step, None)
        return
    state.calls += fact.calls
    token = state.tokens[fact.run]
    before_body = fact.stage == "case" and token.event == "step.enter"
    token.command, token.turn, token.phase = None, 0, "entered" if before_body else "called"
    if fact.stage != "case":
        token.route = fact.route
        status = "success" if fact.error is None else "error"
        slot = envelope(status, fact.result, fact.error, fact.labels)
        if AROUND in fact.meta:
            slot["meta"] = dict(fact.meta)
        give_result(slots, token, slot)


def _call_failed(state: ExecutionState, slots: SlotSpace, fact: f.CallFailed) -> None:
    if fact.stage == "compensate":
        undone(state, slots, fact.run, fact.step, fact.error)
        return
    state.calls += fact.calls
    token = state.tokens[fact.run]
    token.command, token.turn, token.phase, token.error = None, 0, "failed", fact.error
    give_result(slots, token, envelope("error", None, fact.error, fact.labels))


def _turn(state: ExecutionState, slots: SlotSpace, fact: f.Suspended | f.Waiting | f.ChildEnded) -> None:
    """Change nothing: the fact is for history; the CommandIssued beside it moves the token."""


def _loop_started(state: ExecutionState, slots: SlotSpace, fact: f.LoopStarted) -> None:
    token = state.tokens[fact.run]
    token.phase, token.again = "loop", None
    # An empty loop has no row in the store from which a redrive could continue.
    if fact.total or fact.again is not None:
        token.round = fact.round


def _loop_item(state: ExecutionState, slots: SlotSpace, fact: f.LoopItem) -> None:
    state.tokens[fact.run].closing = fact.cause


def _loop_finished(state: ExecutionState, slots: SlotSpace, fact: f.LoopFinished) -> None:
    state.calls += fact.calls
    token = state.tokens[fact.run]
    token.phase, token.closing, token.route = ("failed" if fact.error else "called"), None, fact.route
    token.error, token.applied = fact.error, fact.applied
    data = (
        fact.value
        if fact.has_value
        else {
            "kind": "loop_result",
            "results": fact.results,
            "count": fact.done + fact.failed,
            "failed": fact.failed,
        }
    )
    give_result(slots, token, envelope("error" if fact.error else "success", data, fact.error, {}))


def _case_evaluated(state: ExecutionState, slots: SlotSpace, fact: f.CaseEvaluated) -> None:
    token = state.tokens[fact.run]
    token.event, token.rule = fact.event, fact.rule


def _case_applied(state: ExecutionState, slots: SlotSpace, fact: f.CaseApplied) -> None:
    token = state.tokens[fact.run]
    if fact.route is not None:
        token.route = fact.route
    if fact.has_result:
        slot = envelope("success", fact.result, None, {})
        before = result_of(slots, token)
        if before is not None and "meta" in before:
            slot["meta"] = before["meta"]
        give_result(slots, token, slot)


def _exited(state: ExecutionState, slots: SlotSpace, fact: f.StepExited) -> None:
    state.steps_done += 1
    token = state.tokens[fact.run]
    publish_result(slots, token)
    if fact.compensable:
        register(state, slots, token)


def _failed_step(state: ExecutionState, slots: SlotSpace, fact: f.StepFailed) -> None:
    token = state.tokens[fact.run]
    state.calls += fact.calls
    if token.phase in WAITING:
        token.lock, token.place = "", 0
    called = result_of(slots, token) if token.phase == "failed" else None
    labels = called.get("labels", {}) if called is not None else {}
    token.phase, token.error, token.command = "failed", fact.error, None
    give_result(slots, token, envelope("error", None, fact.error, labels))
    publish_result(slots, token)
    state.steps_done += 1


def _next(state: ExecutionState, slots: SlotSpace, fact: f.NextEvaluated) -> None:
    drop_token(state, slots, fact.run)
    if fact.ended and state.verdict is None and fact.step not in state.ends:
        state.ends.append(fact.step)
    for arrival in fact.targets:
        add_token(state, slots, arrival)


def _token_added(state: ExecutionState, slots: SlotSpace, fact: f.TokenAdded) -> None:
    add_token(state, slots, fact.arrival)


def _join_fired(state: ExecutionState, slots: SlotSpace, fact: f.JoinFired) -> None:
    if fact.open and fact.step not in state.fired:
        state.fired.append(fact.step)
        if fact.arcs:
            state.waves[fact.step] = list(fact.arcs)
    elif not fact.open and fact.step in state.fired:
        state.fired.remove(fact.step)
        state.waves.pop(fact.step, None)


def _timer_set(state: ExecutionState, slots: SlotSpace, fact: f.TimerSet) -> None:
    state.timers[fact.timer] = fact.generation


def _timer_rang(state: ExecutionState, slots: SlotSpace, fact: f.TimerExpired) -> None:
    state.timers.pop(fact.timer, None)


def _superseded(state: ExecutionState, slots: SlotSpace, fact: f.Superseded) -> None:
    """Change nothing: the fact is recorded only."""


def _final_fired(state: ExecutionState, slots: SlotSpace, fact: f.FinalFired) -> None:
    state.final = True
    add_token(state, slots, fact.arrival)


def _paused(state: ExecutionState, slots: SlotSpace, fact: f.Paused) -> None:
    state.status, state.heard = "paused", max(state.heard, fact.word)


def _resumed(state: ExecutionState, slots: SlotSpace, fact: f.Resumed) -> None:
    state.status, state.heard = "running", max(state.heard, fact.word)


def _note_family_request(state: ExecutionState, slots: SlotSpace, fact: f.FamilyRequestNoted) -> None:
    state.heard = fact.word


_FOLDS: dict[type, Callable[[ExecutionState, SlotSpace, Any], None]] = {
    f.Initialized: _initialized,
    f.StepEntered: _entered,
    f.StepParked: _parked,
    f.TokensAbsorbed: _absorbed,
    f.StepSkipped: _skipped,
    f.CommandIssued: _issued,
    f.CallDone: _call_done,
    f.CallFailed: _call_failed,
    f.Suspended: _turn,
    f.Waiting: _turn,
    f.ChildEnded: _turn,
    **callbacks.FOLDS,
    **rounds.FOLDS,
    f.LoopStarted: _loop_started,
    f.LoopItem: _loop_item,
    f.LoopFinished: _loop_finished,
    f.ContextChanged: context_changed,
    f.CaseEvaluated: _case_evaluated,
    f.CaseApplied: _case_applied,
    f.StepExited: _exited,
    f.StepFailed: _failed_step,
    f.NextEvaluated: _next,
    f.TokenAdded: _token_added,
    f.JoinFired: _join_fired,
    f.FinalFired: _final_fired,
    f.TimerSet: _timer_set,
    f.TimerExpired: _timer_rang,
    f.Superseded: _superseded,
    f.Paused: _paused,
    f.Resumed: _resumed,
    f.FamilyRequestNoted: _note_family_request,
}
