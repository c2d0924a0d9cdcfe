"""The names that templates of the engine see.

Such templates are guards, arcs, admission, arguments and loop collections.
A bare name resolves: step-run arguments → tasks of a step that is over → vars → ctx → step results → workload → built-ins (docs/dsl.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from noetl.domain.commands import FrozenScope
from noetl.domain.patches.scope_patches import MISSING
from noetl.domain.redrive import LOCAL
from noetl.domain.state import Token
from noetl.dsl.program import Program, Reads, aliases_of
from noetl.engine.folds.run_results import STEP, result_of
from noetl.engine.scopes.slot_view import Loader, Overlay, ScopeMapping
from noetl.templating import StepView, wrap
from noetl.templating.contract import Hydrate
from noetl.templating.views import MISSING as UNKNOWN

ALIASES: dict[str, frozenset[str]] = {
    "done": frozenset({"step.done", "step.exit", "call.done", "loop.done"}),
    "failed": frozenset({"step.failed", "call.error"}),
}
"""``event.name`` at a step's boundary equals every alias of it, so guards of every generation match."""


class BoundaryName(str):
    """The name of a boundary: compares equal to all its aliases (``==``, ``!=``, ``in``)."""

    __slots__ = ("aliases",)
    aliases: frozenset[str]

    def __new__(cls, name: str, boundary: str) -> BoundaryName:
        made = super().__new__(cls, name)
        made.aliases = ALIASES[boundary]
        return made

    def __eq__(self, other: object) -> bool:
        return other in self.aliases if type(other) is str else str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)


class EngineScope:
    """Lazy lookups over slots, for one step run.

    ``extra`` are names of the moment (``event``, ``result``, ``error`` …). ``run``: the token; its step's name means the token's own
    result, once it has one.
    """

    __slots__ = ("args", "execution_id", "extra", "hydrate", "no_cache", "now", "program", "run", "slots")

    def __init__(
        self,
        program: Program,
        execution_id: int,
        slots: Overlay,
        now: float,
        args: Mapping[str, Any] | None = None,
        extra: Mapping[str, Any] | None = None,
        run: Token | None = None,
        no_cache: bool = False,
    ) -> None:
        self.program = program
        self.execution_id = execution_id
        self.slots = slots
        self.now = now
        self.args = args or {}
        self.extra = extra or {}
        self.run = run
        self.no_cache = no_cache
        self.hydrate: Hydrate = Loader(slots.view)

    def lookup(self, name: str) -> Any:
        if name in self.extra:
            return self.extra[name]
        special = _SPECIAL.get(name)
        if special is not None:
            return special(self)
        if name in self.args:
            return self._wrap(self.args[name])
        tasks = self.extra.get("_results")
        found = tasks.attribute(name) if tasks is not None else UNKNOWN
        if found is not UNKNOWN:
            return found
        for where in ("vars", "ctx"):
            value = self.slots.get((where, name))
            if value is not MISSING:
                return self._wrap(value)
        value = self.step_slot(aliases_of(self.program).get(name, name))
        if value is not MISSING:
            return StepView(value, self.hydrate)
        value = self.slots.get(("workload", name))
        if value is not MISSING:
            return self._wrap(value)
        raise KeyError(name)

    def step_slot(self, step: str) -> Any:
        """Return the result slot of a step, MISSING when there is none.

        A run that was called sees its own result under its step's name.
        """
        own = result_of(self.slots, self.run) if self.run is not None and self.run.step == step else None
        return self.slots.get((STEP, step)) if own is None else own

    def names(self) -> Iterable[str]:
        yield from self.extra
        yield from _SPECIAL
        yield from self.args
        yield from self.extra["_results"].keys() if "_results" in self.extra else ()
        for _, name in self.slots.view.slots:
            yield name
        for step in self.program.steps:
            yield step.name
        yield from aliases_of(self.program)

    def _wrap(self, value: Any) -> Any:
        return wrap(value, self.hydrate)

    def mapping(self, where: str, also: str | None = None) -> ScopeMapping:
        return ScopeMapping(self.slots, where, self._wrap, also)

    def local(self) -> Any:
        local = self.args.get(LOCAL)
        return self._wrap(dict(local) if isinstance(local, dict) else {})

    def plain_args(self) -> Any:
        return self._wrap({name: value for name, value in self.args.items() if name != LOCAL})

    def job(self) -> dict[str, Any]:
        about: dict[str, Any] = job_of(self.program, self.execution_id)
        return {**about, "no_cache": True} if self.no_cache else about


def workload_scope(
    program: Program, execution_id: int, slots: Overlay, now: float, workload: Mapping[str, Any]
) -> EngineScope:
    """Return the scope of what is read before a workload is kept; its large values are loaded."""
    whole = wrap(workload, Loader(slots.view))
    return EngineScope(program, execution_id, slots, now, args=workload, extra={"workload": whole})


def job_of(program: Program, execution_id: int) -> dict[str, Any]:
    """Return the built-in ``job``."""
    return {
        "uuid": str(execution_id),
        "execution_id": str(execution_id),
        "name": program.name,
        "path": program.path,
    }


_SPECIAL: dict[str, Callable[[EngineScope], Any]] = {
    "workload": lambda scope: scope.mapping("workload"),
    "ctx": lambda scope: scope.mapping("ctx", "vars"),
    "vars": lambda scope: scope.mapping("vars"),
    "args": EngineScope.plain_args,
    "input": EngineScope.plain_args,
    "step": EngineScope.local,
    "execution_id": lambda scope: str(scope.execution_id),
    "job": EngineScope.job,
    "now": lambda scope: lambda: scope.now,
    "attempt": lambda scope: 1,
}


def freeze(scope: EngineScope, reads: Reads, extra: Mapping[str, Any] | None = None) -> FrozenScope:
    """Freeze the values that templates of a command may read (large ones stay references)."""
    slots = scope.slots
    frozen: dict[str, dict[str, Any]] = {"workload": {}, "ctx": {}, "vars": {}, "step": {}}
    for read in reads.names:
        where, dot, name = read.partition(".")
        if not dot:
            _freeze_name(slots, frozen, where, ("vars", "ctx", "workload"))
            step = scope.step_slot(where)
            if step is not MISSING:
                frozen["step"][where] = step
        elif where in ("ctx", "vars", "workload"):
            places = ("ctx", "vars") if where == "ctx" else (where,)
            if name == "*":
                for place in places:
                    frozen[place].update(slots.scope(place))
            else:
                _freeze_name(slots, frozen, name, places)
    return FrozenScope(
        workload=frozen["workload"],
        ctx=frozen["ctx"],
        vars=frozen["vars"],
        steps=frozen["step"],
        args={name: value for name, value in scope.args.items() if name != LOCAL},
        extra=dict(extra or {}),
        job=scope.job(),
        now=scope.now,
    )


def _freeze_name(
    slots: Overlay, frozen: dict[str, dict[str, Any]], name: str, places: tuple[str, ...]
) -> None:
    for place in places:
        value = slots.get((place, name))
        if value is not MISSING:
            frozen[place][name] = value
