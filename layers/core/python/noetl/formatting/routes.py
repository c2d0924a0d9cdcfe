"""Entries on ``step.exit`` and the structural ``next`` → arcs, and writes of the step."""

from __future__ import annotations

from dataclasses import dataclass, field

from noetl.dsl.boundaries import answers_failure
from noetl.dsl.expressions import analyse
from noetl.formatting.cases import Case, texts_of
from noetl.formatting.nodes import Entry, List, Map, Text, Value, made, map_of, text_of
from noetl.formatting.rules import writes
from noetl.formatting.templates import NoSpellingError, Replace, names_in, substitute
from noetl.formatting.words import at_exit, reworded

_CHANGING = frozenset({"ctx", "vars", "iter", "step", "loop", "_attempt", "attempt", "_prev"})
_MOMENT = frozenset({"error", "this"})


@dataclass(slots=True)
class Routes:
    """What a step does when it is over: ``sets``, and the arcs it leaves over."""

    sets: Map = field(default_factory=lambda: Map([], flow=True))
    arcs: list[Entry] = field(default_factory=list)
    inclusive: bool = False
    closed: bool = False
    """An arc without a guard is among them: what follows is never taken."""

    def after_calls(self, cases: list[Case], *, loops: bool) -> None:
        """Convert ``next`` on the success of a call. Raises NoSpellingError."""
        before: list[Case] = []
        for case in cases:
            if case.ok is False:
                continue
            if case.has("next"):
                if loops:
                    raise NoSpellingError("`next` breaks the loop")
                if any(not earlier.has("next", "call", "retry") for earlier in before):
                    raise NoSpellingError("an entry above the one with `next` may win over it")
                self._check_stable(case, [*before, case])
                self._go(case, case.ok, _of_calls)
            before.append(case)

    def _check_stable(self, case: Case, cases: list[Case]) -> None:
        """Check that no entry changes what the guard reads.

        The guard is evaluated later than it was.
        """
        writing = any(other.has("set", "collect") for other in cases)
        texts = [f"{{{{ {case.ok} }}}}"] if isinstance(case.ok, str) else []
        read = {name for text in texts for name in names_in(text)}
        read |= {name for action in case.all("next") for name in _names(action.value)}
        if read & _MOMENT or (writing and read & _CHANGING):
            raise NoSpellingError("a guard of `next` reads what changes before the step ends")

    def at_boundary(self, cases: list[Case], event: str) -> None:
        """Entries on ``loop.done`` or ``step.exit``. Raises NoSpellingError."""
        for case in cases:
            left = case.at.get(event, False)
            if left is False:
                continue
            if not {action.name for action in case.actions} <= {"set", "collect", "next"}:
                name = next(a.name for a in case.actions if a.name not in ("set", "collect", "next"))
                raise NoSpellingError(f"`{name}` on `{event}`")
            self._take(case, left)
            if left is True:
                if not case.has("next"):
                    return
                self.closed = True
                return

    def _take(self, case: Case, left: bool | str) -> None:
        if case.has("next"):
            self._go(case, left, at_exit)
        elif left is True and not self.arcs:
            block = writes(case.actions, at_exit, parallel=False)
            if block.entries:
                block.entries[0].lead = [*case.entry.lead, *block.entries[0].lead]
            self.sets.entries += block.entries
        else:
            raise NoSpellingError("an entry on `step.exit` writes only sometimes, and goes nowhere")

    def _go(self, case: Case, left: bool | str, change: Replace) -> None:
        names = [action.name for action in case.actions]
        if names.index("next") != len(names) - 1 or names.count("next") > 1:
            raise NoSpellingError("an entry does something after its `next`")
        targets = _targets(case.actions[-1].value)
        sets = writes(case.actions, change, parallel=False) if change is at_exit else Map([], flow=True)
        if len(targets) != 1:
            if left is not True or self.arcs:
                raise NoSpellingError("a guarded `next` goes to several steps")
            self.inclusive = True
            self.sets.entries += sets.entries
            sets = Map([], flow=True)
        for target in targets:
            arc = _arc(target, left, change)
            if sets.entries:
                arc.put("set", sets)
            self.arcs.append(Entry(None, arc, lead=list(case.entry.lead)))
        self.closed = self.closed or left is True

    def structural(self, following: Value | None) -> None:
        """Convert ``next`` of the step. Raises NoSpellingError."""
        targets = _targets(following) if following is not None else []
        if self.closed or not targets:
            return
        if len(targets) > 1 and self.arcs:
            raise NoSpellingError("`next` goes to several steps when no entry does")
        self.inclusive = len(targets) > 1
        self.arcs += [_structural(target) for target in targets]

    def block(self) -> Map | None:
        """Return ``next`` in the canonical form."""
        if not self.arcs:
            return None
        found = Map([])
        if self.inclusive:
            found.put("spec", made({"mode": "inclusive"}))
        found.put("arcs", List(self.arcs, flow=True))
        found.flow = True
        return found


def _of_calls(name: str, attribute: str | None) -> tuple[str, bool] | None:
    """Names of a call's success as they are at the end of the step."""
    if name == "response" and attribute in (None, "data", "status_code", "headers", "url", "elapsed"):
        raise NoSpellingError("a guard of `next` looks at what is around the response")
    return at_exit(name, attribute)


def _targets(value: Value | None) -> list[Entry]:
    """Targets as entries, each a name or ``{step, input}``."""
    if isinstance(value, List):
        return value.entries
    return [Entry(None, value)] if value is not None else []


def _arc(target: Entry, left: bool | str, change: Replace) -> Map:
    block = map_of(target.value)
    name = text_of(block.get("step")) if block.entries else text_of(target.value)
    arc = Map([], flow=True)
    arc.put("step", made(name))
    if isinstance(left, str):
        guard = substitute(f"{{{{ {left} }}}}", change)
        if answers_failure(analyse(guard)):
            raise NoSpellingError("a guard looks at the status or error of the step")
        arc.put("when", Text(guard))
    given = block.get("args", "input")
    if given is not None:
        arc.put("input", reworded(given, change))
    return arc


def _structural(target: Entry) -> Entry:
    arc = _arc(target, True, at_exit)
    return Entry(None, arc, lead=target.lead, trail=target.trail, after=target.after)


def _names(value: Value) -> set[str]:
    return {name for text in texts_of(value) for name in names_in(text)}
