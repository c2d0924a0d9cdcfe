"""Patches of scopes: the effect of each operation, and how patches are combined.

The same rules serve ``set_ctx``, reducers, ``collect`` and context patches. Reducers (add, append, max, min, union, first) give the
same outcome in any order of arrival because loops fold them in index order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from noetl.domain.errors import InvalidInputError
from noetl.domain.outcomes.outcomes import Patch
from noetl.domain.sizes.gate import exceeded, number_fits
from noetl.domain.sizes.table import INTEGER_DIGITS

FOLD_ABOVE = 5000
"""Patches that wait in a ``PatchBuffer`` before it combines them."""
REDUCERS = ("add", "append", "max", "min", "union", "first")
MISSING: Any = type("Missing", (), {"__repr__": lambda self: "MISSING"})()


def apply_patch(current: Any, patch: Patch) -> Any:
    """Return the value after ``patch`` (``MISSING`` after ``unset``).

    ``current`` is ``MISSING`` when the name was not set.

    Raises InvalidInputError(code="patch_type") when the operation does not fit the values, and code="size_limit" for a sum of more
    digits than numbers have.
    """
    try:
        value = _OPERATIONS[patch.op](current, patch.value)
    except OverflowError as error:
        why = "one number is a fraction, and the other one a whole number beyond what fractions reach"
        raise misfit(patch, why, "give whole numbers only, or smaller ones") from error
    except (TypeError, ValueError) as error:
        why, hint = _why(patch.op, current, patch.value)
        raise misfit(patch, why, hint) from error
    if patch.op == "add" and not number_fits(value):
        raise exceeded(INTEGER_DIGITS, None, f"{patch.scope}.{patch.name[:80]}: the sum")
    return value


def misfit(patch: Patch, why: str, hint: str) -> InvalidInputError:
    """Build the error of an operation that does not fit.

    ``why`` states which of the two values is not what the operation takes.
    """
    return InvalidInputError(
        f"{patch.scope}.{patch.name}: cannot {patch.op}: {why}", code="patch_type", hint=hint
    )


def word(value: Any) -> str:
    """What kind of value it is, with an article."""
    words = {dict: "a mapping", list: "a list", str: "a text", bool: "a boolean", type(None): "none"}
    return words.get(type(value), "a number")


def _why(op: str, current: Any, value: Any) -> tuple[str, str]:
    if op in ("max", "min"):
        return f"{word(value)} does not compare with {word(current)}", "give numbers only, or texts only"
    wanted, taken = _TAKES[op]
    if not isinstance(value, taken) or isinstance(value, bool):
        hint = "use append for one value" if op == "extend" else f"give {wanted}, or use another operation"
        return f"{op} takes {wanted}, not {word(value)} ({_show(value)})", hint
    holds = _HOLDS.get(op, wanted)
    return (
        f"it holds {word(current)} ({_show(current)}), not {holds}",
        f"set it to {holds} first, or use another name",
    )


_TAKES: dict[str, tuple[str, Any]] = {
    "add": ("a number", (int, float)),
    "append": ("a value", object),
    "extend": ("a list", list),
    "merge": ("a mapping", dict),
    "union": ("a value", object),
}
_HOLDS = {"append": "a list", "union": "a list"}


def combine(patches: Iterable[Patch]) -> list[Patch]:
    """Fold patches, in order, into at most one per name and kind of change.

    The effect is the same.

    Consecutive ``add`` add up, ``append``/``extend`` become one ``extend``, ``max``/``min`` keep the extreme, ``set`` forgets what came
    before. Never fails: what exceeds a limit together stays apart.
    """
    folded: dict[tuple[str, str], list[Patch]] = {}
    for patch in patches:
        pending = folded.setdefault((patch.scope, patch.name), [])
        if patch.op in ("set", "replace", "unset"):
            pending[:] = [patch]
        elif pending and (merged := _merge(pending[-1], patch)) is not None:
            pending[-1] = merged
        else:
            pending.append(patch)
    return [patch for pending in folded.values() for patch in pending]


class PatchBuffer:
    """Patches in their order, combined whenever their number has doubled.

    Memory follows what they write, not how many there are.
    """

    def __init__(self) -> None:
        self._patches: list[Patch] = []
        self._combine_above = FOLD_ABOVE

    def add(self, patches: Iterable[Patch]) -> None:
        """Put patches after those there are."""
        self._patches += patches
        if len(self._patches) > self._combine_above:
            self._patches = combine(self._patches)
            # Patches that do not become one are not compared again with every one that follows.
            self._combine_above = max(FOLD_ABOVE, 2 * len(self._patches))

    def combined(self) -> list[Patch]:
        """Return all of them, as ``combine`` does."""
        return combine(self._patches)


def _merge(first: Patch, second: Patch) -> Patch | None:
    """Merge two patches into one with the effect of both; None when they have to stay two.

    Changes that do not fit each other stay two: a list behind a reference that is appended to, or numbers whose sum has too many digits
    (the value they are added to may be negative). Applying them to the value reports the misfit, where it can be answered.
    """
    try:
        return _merged(first, second)
    except (TypeError, InvalidInputError):
        return None


def _merged(first: Patch, second: Patch) -> Patch | None:
    """As ``_merge``.

    Raises InvalidInputError and TypeError for values that do not fit each other.
    """
    if first.op in ("set", "replace"):
        return Patch(first.scope, first.name, apply_patch(first.value, second), "set")
    if first.op in ("append", "extend") and second.op in ("append", "extend"):
        left = first.value if first.op == "extend" else [first.value]
        right = second.value if second.op == "extend" else [second.value]
        return Patch(first.scope, first.name, _Growing.join(left, right), "extend")
    if first.op == second.op == "union":
        return Patch(first.scope, first.name, _union(_union(MISSING, first.value), second.value), "union")
    if first.op == second.op and first.op in ("add", "max", "min", "merge", "first"):
        return Patch(first.scope, first.name, apply_patch(first.value, second), first.op)
    return None


class _Growing(list[Any]):
    """A list that this module made itself, so that it may grow in place.

    Folding n appends stays linear.
    """

    @classmethod
    def join(cls, left: Any, right: Any) -> _Growing:
        grown = left if isinstance(left, cls) else cls(_items(left))
        grown.extend(_items(right))
        return grown


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _set(current: Any, value: Any) -> Any:
    return value


def _add(current: Any, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError("not a number")
    if current is MISSING or current is None:
        return value
    if isinstance(current, bool) or not isinstance(current, (int, float)):
        raise TypeError("not a number")
    return current + value


def _append(current: Any, value: Any) -> Any:
    return [value] if current is MISSING or current is None else [*_items(current), value]


def _extend(current: Any, value: Any) -> Any:
    return (
        list(_items(value)) if current is MISSING or current is None else [*_items(current), *_items(value)]
    )


def _merge_maps(current: Any, value: Any) -> Any:
    if not isinstance(value, dict) or not (
        current is MISSING or current is None or isinstance(current, dict)
    ):
        raise TypeError("not a mapping")
    return value if current is MISSING or current is None else deep_merge(current, value)


def _max(current: Any, value: Any) -> Any:
    return value if current is MISSING or current is None else max(current, value)


def _min(current: Any, value: Any) -> Any:
    return value if current is MISSING or current is None else min(current, value)


def _union(current: Any, value: Any) -> Any:
    known = [] if current is MISSING or current is None else list(_items(current))
    for item in value if isinstance(value, list) else [value]:
        if item not in known:
            known.append(item)
    return known


def _first(current: Any, value: Any) -> Any:
    return value if current is MISSING else current


def _unset(current: Any, value: Any) -> Any:
    return MISSING


_OPERATIONS = {
    "set": _set,
    "replace": _set,
    "add": _add,
    "append": _append,
    "extend": _extend,
    "merge": _merge_maps,
    "max": _max,
    "min": _min,
    "union": _union,
    "first": _first,
    "unset": _unset,
}


def deep_merge(base: Any, over: Any) -> Any:
    """Lay ``over`` over ``base``: mappings merge by key, other values are replaced."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    merged = dict(base)
    for key, value in over.items():
        merged[key] = deep_merge(base[key], value) if key in base else value
    return merged


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
