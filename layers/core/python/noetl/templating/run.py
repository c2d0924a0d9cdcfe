"""One evaluation: where its names come from, its own variables, and its meter."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from noetl.templating.access import check_int
from noetl.templating.contract import Scope
from noetl.templating.limits import Allowance, Meter, over_limit
from noetl.templating.plain import unwrap
from noetl.templating.undefined import Undefined
from noetl.templating.views import MISSING, DerivedView, View, wrap


class Run:
    """State of one evaluation. ``line`` is the line of the source being evaluated, for errors.

    ``lenient``: a guard, in which a missing value is false, unequal to everything, and empty for filters.
    ``chooses``: a name without a value is false where it is the test of an inline ``if``.
    """

    __slots__ = ("_allowance", "chooses", "lenient", "line", "names", "scope", "vars")

    def __init__(
        self, scope: Scope, allowance: Allowance, *, lenient: bool = False, chooses: bool = False
    ) -> None:
        self.scope = scope
        self.lenient = lenient
        self.chooses = chooses
        self.vars: dict[str, Any] = {}
        self.names: dict[str, Any] = {}
        self.line = 1
        self._allowance = allowance

    @property
    def meter(self) -> Meter:
        """Made when first needed: most expressions never do."""
        if not isinstance(self._allowance, Meter):
            self._allowance = Meter(self._allowance)
        return self._allowance

    def load(self, name: str) -> Any:
        """Load the wrapped value of a bare name, or ``Undefined``; ask the scope once."""
        if name in self.vars:
            return self.vars[name]
        found = self.names.get(name, MISSING)
        if found is MISSING:
            found = self.names[name] = self._lookup(name)
        return found

    def _lookup(self, name: str) -> Any:
        try:
            return wrap(self.scope.lookup(name))
        except KeyError:
            make = GLOBALS.get(name)
            if make is not None:
                return make(self)
            if name == "null":
                return None
            return Undefined(name, "no such name here", self._known_names)

    def _known_names(self) -> Iterable[str]:
        yield from self.vars
        yield from self.scope.names()


class Namespace(DerivedView):
    """``namespace(x=0)``: variables a loop body may change with ``{% set ns.x = … %}``."""

    __slots__ = ("values",)

    def __init__(self, **values: Any) -> None:
        self.values = values

    def attribute(self, name: str) -> Any:
        return self.values.get(name, MISSING)

    def made(self) -> dict[str, Any]:
        return self.values

    def plain(self) -> Any:
        return unwrap(self)

    def keys(self) -> Iterable[Any]:
        return self.values.keys()


class LoopState(View):
    """``loop`` inside ``{% for %}``."""

    __slots__ = ("_items", "index0")

    def __init__(self, items: list[Any]) -> None:
        self._items = items
        self.index0 = 0

    def attribute(self, name: str) -> Any:
        index, size = self.index0, len(self._items)
        if name in ("previtem", "nextitem"):
            place = index - 1 if name == "previtem" else index + 1
            return (
                self._items[place] if 0 <= place < size else Undefined(name, "there is none here", self.keys)
            )
        if name == "cycle":
            return lambda *values: values[index % len(values)]
        return {
            "index": index + 1,
            "index0": index,
            "revindex": size - index,
            "revindex0": size - index - 1,
            "first": index == 0,
            "last": index == size - 1,
            "length": size,
        }.get(name, MISSING)

    def plain(self) -> Any:
        return {name: self.attribute(name) for name in ("index", "first", "last", "length")}

    def keys(self) -> Iterable[Any]:
        return (
            "index",
            "index0",
            "revindex",
            "revindex0",
            "first",
            "last",
            "length",
            "previtem",
            "nextitem",
            "cycle",
        )


def _range(run: Run) -> Callable[..., range]:
    def bounded(*args: Any) -> range:
        numbers = range(*(check_int(arg) for arg in args))
        limit = run.meter.limits.max_range
        if numbers and (abs(numbers[-1] - numbers[0]) // abs(numbers.step)) >= limit:
            raise over_limit(
                f"range counts more than {limit} numbers", "move heavy work into a python or duckdb task"
            )
        run.meter.tick(1 + (len(numbers) >> 4))
        return numbers

    return bounded


GLOBALS: dict[str, Callable[[Run], Any]] = {
    "range": _range,
    "dict": lambda run: lambda **values: values,
    "namespace": lambda run: Namespace,
}


def callee(name: str) -> Callable[[Run], Any] | None:
    """Return what ``range(…)`` calls: the function, even if the scope has a key of that name.

    Only a variable of the template hides it.
    """
    make = GLOBALS.get(name)
    if make is None:
        return None
    return lambda run: run.vars[name] if name in run.vars else make(run)
