"""Loops: how one starts, what closes its gate, and what the main lane makes of a finished one.

Items never pass here one by one: they count themselves in the loop's row (the item lane, services/item_lane.py), and come back as one
``LoopDone`` with a summary.
"""

from __future__ import annotations

import hashlib
from typing import Any

from noetl.domain import codec
from noetl.domain.again import Again, count
from noetl.domain.errors import NoetlError, TemplateError
from noetl.domain.events import LoopAlert, LoopDone, LoopSummary
from noetl.domain.facts import LoopFinished, LoopItem, LoopStarted
from noetl.domain.outcomes import ErrorInfo
from noetl.domain.results import is_ref, make_ref, ref_uri
from noetl.domain.state import Token
from noetl.dsl.program import Loop, Step
from noetl.engine.callbacks import call_off
from noetl.engine.decision import Decider, LoopStart
from noetl.engine.limits import limits_of
from noetl.engine.routing import fail_step, patch_context
from noetl.engine.scope import EngineScope, freeze
from noetl.templating.access import describe


def start_loop(d: Decider, step: Step, token: Token) -> bool:
    """Store the loop run and let the store issue its first window. True when there was nothing to do (an empty list)."""
    loop = step.loop
    assert loop is not None and step.body is not None
    if token.again is not None:
        _go_on(d, step, token, token.again)
        return False
    try:
        scope = d.scope(token.run)
        items = _collection(d, loop, scope)
        window = _window(d, loop, scope, len(items))
        limits = limits_of(d, step, token)
    except NoetlError as error:
        fail_step(d, token, step, d.error_of(error))
        return False
    round_ = token.round + 1
    keys = tuple(limit.key for limit in limits)
    d.emit(LoopStarted(token.run, step.name, round_, len(items), loop.mode, window, limits=keys))
    if not items:
        d.emit(LoopFinished(token.run, step.name, round_, 0, 0, 0, results=[]))
        return True
    inline, ref = _keep(d, step, token.run, round_, items)
    frozen = freeze(scope, step.body.reads)
    d.decision.loops.append(
        LoopStart(token.run, round_, step, len(items), window, inline, ref, frozen, limits=limits)
    )
    return False


def _go_on(d: Decider, step: Step, token: Token, again: Again) -> None:
    """Run some items of an earlier run again, over the collection it had. With none to run, the store ends the loop at once."""
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


def _collection(d: Decider, loop: Loop, scope: EngineScope) -> list[Any]:
    """The list to go over. Raises TemplateError(code="template_type") for anything else: never one silent iteration over a text."""
    value = d.value(loop.collection, scope)
    if is_ref(value):
        value = d.view.load(value)
    if isinstance(value, dict) and isinstance(value.get("rows"), list) and "row_count" in value:
        value = value["rows"]
    if isinstance(value, list):
        return value
    shown = repr(value)
    place = getattr(loop.collection, "pos", loop.pos)
    raise TemplateError(
        f"loop.in is not a list but {describe(value)}: {shown[:80]}",
        code="template_type",
        hint="give a list; a mapping needs `| list` or `.items()`",
        details={"line": place.line, "column": place.column, "value": shown[:80]},
    )


def _window(d: Decider, loop: Loop, scope: EngineScope, total: int) -> int:
    """Most items in flight."""
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


def _keep(
    d: Decider, step: Step, run: int, round_: int, items: list[Any]
) -> tuple[list[Any] | None, dict[str, Any] | None]:
    """The collection inline, or as a blob that is written before the decision is committed."""
    encoded = codec.encode(items)
    if len(encoded) <= d.view.limits.inline_bytes:
        return items, None
    uri = ref_uri(d.execution_id, step.name, f"collection:{run}:{round_}")
    d.decision.blobs.append((uri, encoded))
    digest = hashlib.sha256(encoded).hexdigest()
    return None, make_ref(
        uri, store=d.view.limits.tier, size=len(encoded), sha256=digest, value=items, encoded=encoded
    )


def loop_alert(d: Decider, event: LoopAlert) -> bool:
    """An item failed under fail_fast, or took a ``next``: issue nothing more, let what is in flight drain."""
    token = _looping(d, event.run, event.round)
    if token is None or token.closing is not None:
        return False
    d.emit(LoopItem(token.run, token.step, event.index, event.cause))
    call_off(d, token)
    d.decision.gates.append((event.run, event.round))
    return True


def loop_done(d: Decider, event: LoopDone) -> tuple[Step, Token] | None:
    """Fold a finished loop. Returns the step run to leave over its cases and arcs, or None when that is settled (or not ours)."""
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
    if summary.broken is not None:
        _finish(d, token, step, event, summary, summary.broken, applied=False)
        fail_step(d, token, step, summary.broken)
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
        )
    )


def _looping(d: Decider, run: int, round_: int) -> Token | None:
    token = d.token(run)
    return token if token is not None and token.phase == "loop" and token.round == round_ else None
