"""Writes of large values, which the result store keeps.

What a reducer looks into is read first, and what it makes is kept again.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from noetl.domain import codec
from noetl.domain.outcomes.outcomes import Patch
from noetl.domain.patches.scope_patches import MISSING, apply_patch
from noetl.domain.redrive import LOCAL
from noetl.domain.results.references import is_ref
from noetl.dsl.program import Node, Pos
from noetl.engine.decision import Decider
from noetl.engine.limits import wrong
from noetl.engine.scopes.scope import EngineScope

_FORGETS = frozenset({"set", "replace", "unset"})
"""What makes a value without the one before."""
_STORES = _FORGETS | {"append", "first"}
"""What stores its value as it is."""


def value_to_write(d: Decider, name: str, op: str, value: Any, step: str) -> Any:
    """Return the value of a write.

    A reference if it is large, and whole if its reducer looks into it.
    """
    if op in _STORES:
        return d.keep({name: value}, step)[name]
    return d.loaded(value)


def arguments(d: Decider, node: Node | None, scope: EngineScope, what: str) -> dict[str, Any]:
    """Render arguments of a step, an arc or a target to names and values.

    No template, or null, gives none. Raises TemplateError for what is no mapping.
    """
    if node is None:
        return {}
    value = d.whole(node, scope)
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    problem = f"{what} must be a mapping of names to values, not {str(value)[:60]!r}"
    raise wrong(node, Pos(), problem, "write input: {name: value}")


def merged_names(d: Decider, base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Lay the names of ``over`` over those of ``base`` as ``deep_merge`` does.

    It looks into large mappings. Raises TaskError for a value that is not available.
    """
    found = dict(base)
    for name, value in over.items():
        found[name] = merged_value(d, base[name], value) if name in base else value
    return found


def merged_value(d: Decider, base: Any, over: Any) -> Any:
    """Lay one value over another.

    Two mappings are merged, large or not; anything else is replaced.
    """
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    one, other = d.loaded(base), d.loaded(over)
    return merged_names(d, one, other) if isinstance(one, dict) and isinstance(other, dict) else over


def resolved(d: Decider, patches: list[Patch], run: int, step: str) -> list[Patch]:
    """Return patches that fold without the result store.

    A reducer of a large value, or over one, becomes a ``set`` of what it makes. Raises InvalidInputError for what does not fit, and
    TaskError for a value that is not available.
    """
    several = {key for key, count in Counter((one.scope, one.name) for one in patches).items() if count > 1}
    now: dict[tuple[str, str], Any] = {}
    found: list[Patch] = []
    for patch in patches:
        key = (patch.scope, patch.name)
        if patch.op not in _FORGETS:
            current = now[key] if key in now else _current(d, patch, run)
            patch = _resolved(d, patch, current, step)
        if key in several:
            now[key] = apply_patch(MISSING if patch.op in _FORGETS else current, patch)
        found.append(patch)
    return found


def _resolved(d: Decider, patch: Patch, current: Any, step: str) -> Patch:
    if patch.op == "first" or not (is_ref(current) or _is_large(d, patch)):
        return patch
    if patch.op == "extend" and is_ref(patch.value) and (current is MISSING or current is None):
        return Patch(patch.scope, patch.name, patch.value, "set")
    value = patch.value if patch.op in _STORES else d.loaded(patch.value)
    whole = apply_patch(d.loaded(current), Patch(patch.scope, patch.name, value, patch.op))
    return Patch(patch.scope, patch.name, d.keep({patch.name: whole}, step)[patch.name], "set")


def _is_large(d: Decider, patch: Patch) -> bool:
    if patch.op in _STORES:
        return False
    if is_ref(patch.value):
        return True
    return (
        isinstance(patch.value, (str, list, dict))
        and len(codec.encode(patch.value)) > d.view.limits.inline_bytes
    )


def _current(d: Decider, patch: Patch, run: int) -> Any:
    if patch.scope != "step":
        return d.slots.get((patch.scope, patch.name), MISSING)
    local = d.args_of(run).get(LOCAL)
    return local.get(patch.name, MISSING) if isinstance(local, dict) else MISSING
