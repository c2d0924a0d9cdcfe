"""Loops: how the engine starts one, closes its gate, and folds its end in the main lane.

Items never pass through the main lane one by one: they count themselves in the loop's row (the item lane, services/item_lane.py), and
return as one ``LoopDone`` with a summary.
"""

from __future__ import annotations

from typing import Any

from noetl.domain import codec
from noetl.domain.commands import Collected
from noetl.domain.errors import NoetlError, TemplateError
from noetl.domain.events import LoopAlert, LoopDone, LoopSummary
from noetl.domain.facts.facts import LoopFinished, LoopItem, LoopStarted
from noetl.domain.loop_resume import LoopResume, count
from noetl.domain.outcomes.outcomes import ErrorInfo, Outcome
from noetl.domain.results.paged_list import PartsWriter
from noetl.domain.sizes.gate import exceeded
from noetl.domain.sizes.table import LOOP_ITEMS
from noetl.domain.state import Token
from noetl.dsl.program import Loop, Step
from noetl.engine.budget import calls_of_items
from noetl.engine.callbacks import call_off
from noetl.engine.collections import collection_of, issue_reading
from noetl.engine.decision import Decider, LoopStart
from noetl.engine.limits import limits_of
from noetl.engine.outcomes import suspend
from noetl.engine.routing import fail_step, patch_context
from noetl.engine.scopes.scope import EngineScope, freeze


def start_loop(d: Decider, step: Step, token: Token) -> bool:
    """Store the loop run and let the store issue its first window. True for an empty list.

    True means that the run leaves the loop at once. What the engine cannot or should not hold is read by a worker first; then the loop begins
    with ``collected``.
    """
    loop = step.loop
    assert loop is not None
    if token.again is not None:
        _go_on(d, step, token, token.again)
        return False
    try:
        items = collection_of(d, step, token)
    except NoetlError as error:
        fail_step(d, token, step, d.error_of(error))
        return False
    if items is None:
        issue_reading(d, step, token)
        return False
    return _begin(d, step, token, _kept(d, step, token, items))


def collected(d: Decider, step: Step, token: Token, outcome: Outcome) -> bool:
    """Begin the loop over the collection that a worker has read. True as ``start_loop``."""
    if outcome.status == "suspended":
        suspend(d, step, token, outcome)
        return False
    if outcome.status != "ok":
        error = outcome.error or ErrorInfo(message="the collection could not be read")
        fail_step(d, token, step, d.at_step(error, step.name))
        return False
    try:
        found = codec.convert(outcome.result, Collected)
    except ValueError:
        error = ErrorInfo("the worker's answer is no collection", "unknown", "internal")
        fail_step(d, token, step, d.at_step(error, step.name))
        return False
    return _begin(d, step, token, found)


def _begin(d: Decider, step: Step, token: Token, found: Collected) -> bool:
    loop = step.loop
    assert loop is not None and step.body is not None
    try:
        if not 0 <= found.total <= LOOP_ITEMS.value:
            raise exceeded(LOOP_ITEMS, found.total, f"the loop of step {step.name}")
        scope = d.scope(token.run)
        window = _window(d, loop, scope, found.total)
        limits = limits_of(d, step, token)
    except NoetlError as error:
        fail_step(d, token, step, d.error_of(error))
        return False
    round_ = token.round + 1
    keys = tuple(limit.key for limit in limits)
    d.emit(LoopStarted(token.run, step.name, round_, found.total, loop.mode, window, limits=keys))
    if not found.total:
        d.emit(LoopFinished(token.run, step.name, round_, 0, 0, 0, results=[]))
        return True
    frozen = freeze(scope, step.body.reads)
    d.decision.loops.append(
        LoopStart(token.run, round_, step, found.total, window, found.items, found.ref, frozen, limits=limits)
    )
    return False


def _go_on(d: Decider, step: Step, token: Token, again: LoopResume) -> None:
    """Run some items of an earlier run again, over the collection it had.

    With none to run, the store ends the loop at once.
    """
    loop = step.loop
    assert loop is not None and step.body is not None
    try:
        scope = d.scope(token.run)
        earlier = d.view.earlier(
            again, fail_fast=loop.failure == "fail_fast", sequential=loop.mode == "sequential"
        )
        total = count(earlier.picked)
        window = _window(d, loop, scope, total)
        limits = limits_of(d, step, token)
    except NoetlError as error:
        fail_step(d, token, step, d.error_of(error))
        return
    round_ = token.round + 1
    d.emit(
        LoopStarted(
            token.run,
            step.name,
            round_,
            total,
            loop.mode,
            window,
            again,
            earlier.picked,
            earlier.whole,
            tuple(limit.key for limit in limits),
        )
    )
    d.decision.loops.append(
        LoopStart(
            token.run,
            round_,
            step,
            total,
            window,
            earlier.items,
            earlier.items_ref,
            freeze(scope, step.body.reads),
            again,
            earlier.picked,
            earlier.whole,
            earlier.overlay,
            limits,
        )
    )


def _window(d: Decider, loop: Loop, scope: EngineScope, total: int) -> int:
    """Return how many items may be in flight at most."""
    if loop.mode == "sequential":
        return max(total, 1)
    cap = d.view.limits.window
    if loop.max_in_flight is None:
        return cap
    wanted = int(d.number(loop.max_in_flight, scope, "max_in_flight"))
    if wanted < 1:
        raise TemplateError(
            f"max_in_flight is {wanted}",
            code="template_type",
            hint="it has to be at least 1",
            details={"line": loop.pos.line, "column": loop.pos.column},
        )
    return min(wanted, cap)


def _kept(d: Decider, step: Step, token: Token, items: list[Any]) -> Collected:
    """Keep a list that templates produced: inline, or in parts.

    The parts are written before the decision is committed.
    """
    if len(codec.encode(items)) <= d.view.limits.inline_bytes:
        return Collected(len(items), items)
    writer = PartsWriter(
        lambda uri, data: d.decision.blobs.append((uri, data)),
        d.execution_id,
        step.name,
        run=token.run,
        tier=d.view.limits.tier,
        item_limit=d.view.limits.inline_bytes,
    )
    writer.extend(items)
    return Collected(writer.count, ref=writer.close())


def loop_alert(d: Decider, event: LoopAlert) -> bool:
    """Close the gate of a loop: issue nothing more, and let the items in flight end.

    An item failed under fail_fast, or took a ``next``.
    """
    token = _looping(d, event.run, event.round)
    if token is None or token.closing is not None:
        return False
    d.emit(LoopItem(token.run, token.step, event.index, event.cause))
    call_off(d, token)
    d.decision.gates.append((event.run, event.round))
    return True


def loop_done(d: Decider, event: LoopDone) -> tuple[Step, Token] | None:
    """Fold a finished loop; return the step run to leave over its cases and arcs.

    None: the failure is settled already, or the event belongs to no current loop run.
    """
    token = _looping(d, event.run, event.round)
    summary = event.summary
    if token is None or summary is None:
        return None
    step = d.steps[token.step]
    assert step.loop is not None
    try:
        patch_context(d, summary.patches, token.run, step.name)
    except NoetlError as problem:
        _finish(d, token, step, event, summary, d.error_of(problem), applied=False)
        fail_step(d, token, step, d.error_of(problem))
        return None
    failed = summary.failed > 0 and step.loop.failure == "fail_fast"
    error = (summary.error or ErrorInfo(message="an iteration failed")) if failed else None
    _finish(d, token, step, event, summary, error)
    if error is not None:
        fail_step(d, token, step, error)
        return None
    return step, token


def _finish(
    d: Decider,
    token: Token,
    step: Step,
    event: LoopDone,
    summary: LoopSummary,
    error: ErrorInfo | None,
    *,
    applied: bool = True,
) -> None:
    d.emit(
        LoopFinished(
            token.run,
            step.name,
            event.round,
            summary.total,
            summary.done,
            summary.failed,
            results=summary.results,
            has_value=summary.has_value,
            value=summary.value,
            error=error,
            route=summary.route if error is None else None,
            applied=applied,
            calls=calls_of_items(d, step, summary),
        )
    )


def _looping(d: Decider, run: int, round_: int) -> Token | None:
    token = d.token(run)
    return token if token is not None and token.phase == "loop" and token.round == round_ else None
