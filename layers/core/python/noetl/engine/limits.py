"""The shared limits that a step run asks for, and the priority of an execution.

The engine only states what is asked. Which command gets a slot, and when, the store decides with the commit (docs/adr/0025-limits.md): it
alone sees all executions, and history does not depend on it.
"""

from __future__ import annotations

import re
from typing import Any

from noetl.domain.errors import NoetlError, TemplateError
from noetl.domain.events import Start
from noetl.domain.limits import LONGEST_KEY, Limit
from noetl.domain.sizes.gate import exceeded
from noetl.domain.sizes.table import PRIORITY
from noetl.domain.state import Token
from noetl.dsl.program import LimitSpec, Node, Pos, Step
from noetl.engine.decision import Decider
from noetl.engine.scopes.scope import EngineScope, workload_scope
from noetl.pipeline.errors import located
from noetl.templating.access import describe

_WHOLE = re.compile(r"-?[0-9]{1,9}", re.ASCII)
HIGHEST = PRIORITY.value
"""Priorities go from minus this to this."""


def limits_of(d: Decider, step: Step, token: Token) -> tuple[Limit, ...]:
    """Compute the limits that a step run asks for. A key that is null or empty limits nothing.

    Raises TemplateError(code="template_type") for what is no key or no number.
    """
    if not step.limits:
        return ()
    scope = d.scope(token.run)
    found: dict[str, Limit] = {}
    for spec in step.limits:
        key = key_of(d, spec.key, scope, f"a key of spec.limits of step {step.name}")
        if key:
            limit = _limit(d, spec, key, scope)
            found[key] = _both(found[key], limit) if key in found else limit
    return tuple(found[key] for key in sorted(found))


def _limit(d: Decider, spec: LimitSpec, key: str, scope: EngineScope) -> Limit:
    def number(node: Node | None, what: str, lowest: float) -> float | None:
        if node is None:
            return None
        value = (d.seconds if what == "per" else d.number)(node, scope, what)
        if value < lowest:
            raise wrong(
                node,
                spec.pos,
                f"{what} of the limit {key!r} is {value:g}",
                f"it has to be at least {lowest:g}",
            )
        return value

    concurrent, burst = number(spec.concurrent, "concurrent", 1), number(spec.burst, "burst", 1)
    return Limit(
        key,
        None if concurrent is None else int(concurrent),
        number(spec.rate, "rate", 1e-6),
        number(spec.per, "per", 1e-3) or 1.0,
        int(burst or 1),
    )


def _both(one: Limit, other: Limit) -> Limit:
    """Combine two limits of one key: slots of one entry, the rate of the other.

    Of two alike, the later one counts.
    """
    rated = other if other.rate is not None else one
    slots = one.concurrent if other.concurrent is None else other.concurrent
    return Limit(one.key, slots, rated.rate, rated.per, rated.burst)


def key_of(d: Decider, node: Node, scope: EngineScope, what: str) -> str:
    """Render a key; empty when there is none. Raises TemplateError(code="template_type")."""
    value = d.whole(node, scope)
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise wrong(
            node,
            Pos(),
            f"{what} is not a name but {describe(value)}",
            "give text, such as the host that is called",
        )
    if len(value) > LONGEST_KEY:
        shown = f"{what} is {len(value)} characters long: {value[:40]!r}…"
        raise wrong(node, Pos(), shown, f"a key has up to {LONGEST_KEY}")
    if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise wrong(
            node, Pos(), f"{what} holds a NUL or half of a surrogate pair: {value[:40]!r}", "give plain text"
        )
    return value


def wrong(node: Node, pos: Pos, message: str, hint: str) -> NoetlError:
    return located(
        TemplateError(message, code="template_type", hint=hint, details={}), getattr(node, "pos", pos)
    )


# --- executions ---


def priority_of(d: Decider, event: Start, workload: dict[str, Any]) -> int:
    """Return the priority that the start asks for, else the playbook's own.

    Raises TemplateError(code="template_type").
    """
    if event.priority is not None:
        if abs(event.priority) > HIGHEST:
            raise exceeded(PRIORITY, abs(event.priority), "the priority of the start, without its sign,")
        return event.priority
    node = d.program.priority
    if node is None:
        return 0
    value = d.value(node, start_scope(d, workload))
    if isinstance(value, str):
        value = int(value) if _WHOLE.fullmatch(value.strip()) else value
    if isinstance(value, bool) or not isinstance(value, int) or not -HIGHEST <= value <= HIGHEST:
        hint = f"write a whole number from -{HIGHEST} to {HIGHEST}"
        raise wrong(node, Pos(), f"executor.spec.priority is {str(value)[:60]!r}", hint)
    return value


def start_scope(d: Decider, workload: dict[str, Any]) -> EngineScope:
    return workload_scope(d.program, d.execution_id, d.slots, d.now, workload)
