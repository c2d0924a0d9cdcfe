"""Builder of the ``Change`` of an execution from the decisions of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from typing import Any

import msgspec

from noetl.domain import ids
from noetl.domain.commands import Command, FrozenScope
from noetl.domain.events import Cancel, CommandDone, LoopDone, MainEvent, Pause, Redrive, Start
from noetl.domain.facts.facts import Compensating, Ending, Failed, Superseded, encode_facts
from noetl.domain.outcomes.report_checks import plain_text
from noetl.domain.results.retention import KeptResult, mentioned, own_results
from noetl.domain.state import encode_state, rest_until
from noetl.dsl.program import limited_steps
from noetl.engine.decision import Decision, LoopStart, worker_pool
from noetl.engine.scopes.slot_view import DELETED
from noetl.ports.executions.execution_store import (
    Change,
    ChildrenWord,
    CreatedExecution,
    EventRow,
    GateChange,
    LoopRow,
    Snapshot,
    TimerChange,
    Wake,
)
from noetl.services.executions.start_execution import created_by
from noetl.services.orchestrator.engine_deps import EngineDeps

_LISTS = tuple(one.name for one in msgspec.structs.fields(Decision) if one.default_factory is list)
"""The fields of a decision that hold what it does, one after the other."""


def make_change(
    execution_id: int,
    snapshot: Snapshot | None,
    decisions: list[tuple[MainEvent, Decision]],
    times: Sequence[float],
    deps: EngineDeps,
) -> Change:
    """Build one Change for all decisions, in order. Blobs are durable before it is returned.

    ``times``: when each was decided.
    """
    slots: dict[tuple[str, str], Any] = {}
    rows: list[EventRow] = []
    for (event, decision), at in zip(decisions, times, strict=True):
        for uri, data in decision.blobs:
            deps.results.put(uri, data)
        slots |= decision.slots
        rows.append(
            EventRow(
                event.event_id, decision.state.seq, _leading(decision), encode_facts(decision.facts), at=at
            )
        )
    last = decisions[-1][1]
    each = [decision for _, decision in decisions]
    _forget_answered(each)
    _forget_dropped(each)
    all_of = _joined(each)
    state = last.state
    return Change(
        execution_id=execution_id,
        expected=snapshot.version if snapshot is not None else 0,
        status=state.status,
        state=encode_state(state),
        rests_until=rest_until(state),
        program=state.program,
        events=tuple(rows),
        slots={key: value for key, value in slots.items() if value is not DELETED},
        unset=tuple([key for key, value in slots.items() if value is DELETED]),
        issue=tuple(all_of.issue),
        waiting=tuple(all_of.waiting),
        close=tuple(_close(all_of)),
        drop_runs=tuple(all_of.drop_runs),
        left_runs=tuple(all_of.left_runs),
        over_runs=tuple(all_of.over_runs),
        loops=tuple([_loop_row(start, state.program, state.priority, deps) for start in all_of.loops]),
        gates=tuple(starmap(GateChange, all_of.gates)),
        wakes=tuple([Wake(woken.command_id, woken.turn, woken.outcome) for woken in all_of.wakes]),
        timers=tuple([TimerChange(one.timer, one.generation, one.seconds) for one in all_of.timers]),
        outbox=tuple(all_of.outbox),
        handled=tuple([event.event_id for event, _ in decisions if not isinstance(event, CommandDone)]),
        end=all_of.end,
        cancel_children=all_of.cancel_children,
        spared=_spared(each) if all_of.cancel_children else (),
        words=tuple(
            ChildrenWord(what, ids.word_event(what, execution_id, d.state.seq), d.state.seq)
            for d in each
            for what in d.steer_children
        ),
        release=all_of.release,
        redriven=any(isinstance(event, Redrive) for event, _ in decisions),
        cancel_reason=next(filter(None, starmap(_reason, decisions)), GIVEN_UP),
        variables=tuple(all_of.variables),
        created=_created(decisions[0][0], last, deps, snapshot),
        limited=_limited(decisions, deps),
        priority=state.priority,
        kept=tuple([one for event, _ in decisions for one in _kept(event)]),
        reaches=_reaches(execution_id, rows, decisions),
    )


def _joined(each: list[Decision]) -> Decision:
    """Return one decision with what all of them do, in order; its state is that of the last."""
    if len(each) == 1:
        return each[0]
    joined = msgspec.structs.replace(each[-1], **{name: [] for name in _LISTS})
    for name in _LISTS:
        whole = getattr(joined, name)
        for decision in each:
            whole += getattr(decision, name)
    for decision in each:
        joined.end |= decision.end
        joined.cancel_children |= decision.cancel_children
        joined.release |= decision.release
    return joined


def _kept(event: MainEvent) -> list[KeptResult]:
    """Return an event's large results that are kept for another time than their execution.

    A worker may state this only of results of its own execution, and of permanent ones.
    """
    if isinstance(event, CommandDone):
        return own_results(event.execution_id, event.outcome.kept) if event.outcome.kept else []
    return list(event.summary.kept) if isinstance(event, LoopDone) and event.summary is not None else []


def _reaches(
    execution_id: int, rows: list[EventRow], decisions: list[tuple[MainEvent, Decision]]
) -> tuple[int, ...]:
    """Return the executions whose results this one's history or large results refer to."""
    found: set[int] = set()
    for row in rows:
        found |= mentioned(row.facts, execution_id)
    for event, _ in decisions:
        if isinstance(event, CommandDone):
            found.update(event.outcome.reaches)
    return tuple(sorted(found))


def _limited(decisions: list[tuple[MainEvent, Decision]], deps: EngineDeps) -> bool:
    """Return whether the decisions may take or free slots of a limit.

    Playbooks without limits cost no look at the slots.
    """
    name = decisions[-1][1].state.program
    if not name:
        return True
    program = deps.programs(name)
    if program.concurrency is not None and any(d.end for _, d in decisions):
        return True
    limited = limited_steps(program)
    if not limited:
        return False
    return any(
        d.end
        or d.release
        or d.drop_runs
        or any(command.limits for command in d.issue)
        or any(loop.limits for loop in d.loops)
        # A paused execution is passed over: its place may be what others waited behind.
        or isinstance(event, Pause)
        or (isinstance(event, CommandDone) and event.step in limited)
        for event, d in decisions
    )


def _forget_dropped(decisions: list[Decision]) -> None:
    """Drop commands that one event of a batch began and a later one dropped.

    A step's timeout does that, for example. The store closes their loops.
    """
    if not any(decision.drop_runs for decision in decisions):
        return
    dropped: set[int] = set()
    for decision in reversed(decisions):
        decision.issue = [command for command in decision.issue if command.run not in dropped]
        decision.waiting = [command for command in decision.waiting if command.run not in dropped]
        dropped.update(decision.drop_runs)


def _forget_answered(decisions: list[Decision]) -> None:
    """Drop commands that one event of a batch issued and a later one answered.

    They ran ahead; the store never has them.
    """
    issued: set[tuple[str, int, int]] = set()
    answered: set[tuple[str, int, int]] = set()
    for decision in decisions:
        answered |= issued.intersection(decision.close)
        issued.update(map(_fence, decision.issue))
    for decision in decisions if answered else ():
        decision.close = [fence for fence in decision.close if fence not in answered]
        decision.issue = [command for command in decision.issue if _fence(command) not in answered]


def _fence(command: Command) -> tuple[str, int, int]:
    return command.command_id, command.attempt, command.turn


def _spared(decisions: list[Decision]) -> tuple[int, ...]:
    """Return the children that were started after the last time that children were cancelled.

    One of the decisions cancels children.
    """
    spared: list[int] = []
    for decision in decisions:
        if decision.cancel_children:
            spared.clear()
        later = decision.outbox[decision.abandoned :]
        spared += [event.execution_id for event in later if isinstance(event, Start)]
    return tuple(spared)


def _leading(decision: Decision) -> str:
    """Return the stored name of the row: that of its first fact."""
    return str(decision.facts[0].__struct_config__.tag)


def _close(all_of: Decision) -> list[tuple[str, int, int]]:
    """Return the commands to close.

    A command that continues with another turn keeps its row, which the new turn replaces.
    """
    again = {command.command_id for command in (*all_of.issue, *all_of.waiting)}
    return [closed for closed in all_of.close if closed[0] not in again]


BUSY = 2
"""Commands a loop keeps out per worker: one that runs, one that waits."""


def _loop_row(start: LoopStart, program: str, priority: int, deps: EngineDeps) -> LoopRow:
    step = start.step
    assert step.loop is not None and step.body is not None
    scope: FrozenScope = start.scope
    pool = worker_pool(step.body.pool)
    return LoopRow(
        run=start.run,
        round=start.round,
        step=step.name,
        pool=pool,
        program=program,
        total=start.total,
        window=start.window,
        mode=step.loop.mode,
        iterator=step.loop.iterator,
        fail_fast=step.loop.failure == "fail_fast",
        iterator_vars=step.loop.iterator_vars,
        scope=scope,
        first=BUSY * deps.workers(pool),
        items=start.items,
        items_ref=start.items_ref,
        again=start.again,
        picked=start.picked,
        whole=start.whole,
        overlay=start.overlay,
        priority=priority,
        limits=start.limits,
    )


GIVEN_UP = "the step run that waited for it was given up"


PARENT_FAILED = "the parent execution failed"
MOST_REPORTED = 300
"""Characters of a parent's error that its children receive."""


def _reason(event: MainEvent, decision: Decision) -> str:
    """Return why a decision cancels children; empty where it ends no execution.

    The facts say it, and not ``event``: one on which the engine failed is decided as a Cancel, and the execution fails.
    """
    for fact in decision.facts:
        if isinstance(fact, (Failed, Compensating, Ending)) and fact.error is not None:
            return f"{PARENT_FAILED}: {plain_text(fact.error.message, MOST_REPORTED)}"
    if isinstance(event, Cancel):
        return event.reason or "the parent execution was cancelled"
    return ""


def _created(
    event: MainEvent, decision: Decision, deps: EngineDeps, snapshot: Snapshot | None
) -> CreatedExecution | None:
    """Describe the execution that ``event`` begins.

    The store makes its row unless ``create`` or ``admit`` did.
    """
    if isinstance(event, Cancel) and snapshot is None:
        parent = ids.cascade_parent(event.event_id)
        return CreatedExecution("", "cancelled before its start", parent_execution_id=parent)
    if not isinstance(event, Start):
        return None
    return created_by(event, deps.programs(decision.state.program) if decision.state.program else None)


def late_row(event: MainEvent, now: float, why: str = "") -> EventRow:
    """Return the row that records an event which came too late or does not fit (``why``)."""
    command = event.command_id if isinstance(event, CommandDone) else ""
    attempt = event.attempt if isinstance(event, CommandDone) else 0
    turn = event.turn if isinstance(event, CommandDone) else 0
    status = event.outcome.status if isinstance(event, CommandDone) else why
    who, reason = getattr(event, "principal", ""), getattr(event, "reason", "")
    correlation = getattr(event, "correlation_id", "")
    fact = Superseded(event.event_id, command, attempt, turn, status, who, reason, correlation)
    return EventRow(
        ids.late_event(event.event_id, attempt),
        0,
        "command.superseded",
        encode_facts([fact]),
        lane=-1,
        at=now,
    )
