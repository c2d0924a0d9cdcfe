"""Writes of a run over the frozen scope of its command.

Later tasks, and later items of a sequential loop, see them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from noetl.domain.outcomes.outcomes import Patch
from noetl.domain.patches.scope_patches import MISSING, apply_patch, misfit, word
from noetl.domain.results.references import is_ref
from noetl.templating.contract import Hydrate


class _Tail:
    """A list that only grows, joined when it is read, so that n appends cost linear time."""

    __slots__ = ("added", "base")

    def __init__(self, base: Any) -> None:
        self.base = base
        self.added: list[Any] = []


class Overlay:
    """Values by (scope, name) over ``bases``.

    ``step`` values are here alone, and in ``bases`` when an earlier stage left some.
    """

    __slots__ = ("_bases", "_cells", "_hydrate", "elapsed_ms")

    def __init__(self, bases: Mapping[str, Mapping[str, Any]], hydrate: Hydrate | None = None) -> None:
        self._bases = bases
        self._cells: dict[tuple[str, str], Any] = {}
        self._hydrate = hydrate
        self.elapsed_ms = 0.0
        """Milliseconds that calls have taken since the scope was frozen."""

    def get(self, scope: str, name: str) -> Any:
        """Return the value as it is now; ``MISSING`` when it was never set."""
        if self._cells:
            value = self._cells.get((scope, name), MISSING)
            if type(value) is _Tail:
                value = self._cells[(scope, name)] = self._joined(value)
            if value is not MISSING:
                return value
        return self._bases[scope].get(name, MISSING)

    def all(self, scope: str) -> dict[str, Any]:
        """Return all values of a scope."""
        names = dict.fromkeys(self._bases[scope])
        names |= {name: None for where, name in self._cells if where == scope}
        return {name: self.get(scope, name) for name in names}

    def names(self, scope: str) -> Iterable[str]:
        yield from self._bases[scope]
        yield from (name for where, name in self._cells if where == scope)

    def write(self, patch: Patch) -> None:
        """Apply a patch.

        Raises InvalidInputError(code="patch_type") when it does not fit the value.
        """
        key = (patch.scope, patch.name)
        if patch.op in ("append", "extend"):
            self._grow(key, patch)
        elif patch.op in ("set", "replace"):
            self._cells[key] = patch.value
        else:
            current = self.get(*key)
            if is_ref(current) and patch.op != "first" and self._hydrate is not None:
                current = self._hydrate(current)
            self._cells[key] = apply_patch(current, patch)

    def _grow(self, key: tuple[str, str], patch: Patch) -> None:
        if patch.op == "extend" and not isinstance(patch.value, list):
            raise misfit(patch, f"extend takes a list, not {word(patch.value)}", "use append for one value")
        cell = self._cells.get(key, MISSING)
        if type(cell) is not _Tail:
            current = self._bases[patch.scope].get(patch.name, MISSING) if cell is MISSING else cell
            if not (current is MISSING or current is None or isinstance(current, list) or is_ref(current)):
                raise misfit(patch, f"it holds {word(current)}, not a list", "start it as an empty list")
            cell = self._cells[key] = _Tail(current)
        if patch.op == "extend":
            cell.added.extend(patch.value)
        else:
            cell.added.append(patch.value)

    def _joined(self, tail: _Tail) -> list[Any]:
        base = tail.base
        if is_ref(base) and self._hydrate is not None:
            base = self._hydrate(base)
        return [*(base if isinstance(base, list) else []), *tail.added]
