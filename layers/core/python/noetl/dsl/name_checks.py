"""Names inside templates: known ones, iterators out of scope, secrets out of place."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from noetl.dsl.diagnostics import MAX_REPORTED, Diagnostics, listing
from noetl.dsl.expressions import BUILT_INS, FUNCTIONS, GLOBALS, name_offset
from noetl.dsl.lowering.context import (
    ADMIT,
    BOUNDARY,
    BOUNDARY_TOOL,
    BOUNDARY_VALUE,
    GUARDS,
    KEYCHAIN,
    START,
    STEP_ARGS,
    Frame,
    Lowering,
    Names,
    TemplateUse,
)
from noetl.dsl.lowering.tasks import CALLBACK
from noetl.dsl.program import Pos
from noetl.dsl.yaml_text.tree import Mapping

_ALWAYS = BUILT_INS | FUNCTIONS | GLOBALS
_OF_A_TRY = frozenset({"data", "success", "max_attempts"})


def check_names(lowering: Lowering) -> None:
    """Check every template of the document.

    A ctx key that is guarded in one place, or that an admission waits for, is expected from outside.
    """
    expected = {
        entry
        for use in lowering.uses
        if "ctx" in use.analysis.guarded or use.frame.place is ADMIT
        for scope, entry in use.analysis.entries
        if scope == "ctx"
    }
    outside = frozenset(expected - lowering.names.ctx)
    lowering.names.ctx |= expected
    enough = len(lowering.diagnostics) + 2 * MAX_REPORTED
    for use in lowering.uses:
        meaning = lowering.semantics
        _Check(use, lowering.names, lowering.diagnostics, enough, outside, meaning > 2, meaning > 7).run()


@dataclass(slots=True)
class _Check:
    use: TemplateUse
    names: Names
    diagnostics: Diagnostics
    enough: int
    """Problems after which nothing is looked for any more: more would not be shown."""
    outside: frozenset[str]
    """Keys of ``ctx`` that only an operator can set."""
    lenient: bool
    """A name in a guard that is not defined is false."""
    strict: bool
    """What only a ``retry`` knows is an error in any other place."""

    @property
    def frame(self) -> Frame:
        return self.use.frame

    def run(self) -> None:
        iterator = self.names.iterators.get(self.frame.step)
        known = _Known(_known(self.names, self.frame))
        for name in sorted(self.use.analysis.names):
            if len(self.diagnostics) > self.enough:
                return
            if name == "keychain":
                self.secret(name)
            elif name == CALLBACK and self.frame.step in self.names.calls_back:
                self.address(name)
            elif name == "iter" and not self.frame.place.iteration and self.frame.step:
                self.out_of_scope(name)
            elif name in known or (name in _ALWAYS and not self.is_of_a_try(name)):
                continue
            elif name == iterator:
                if not self.frame.place.iteration:
                    self.out_of_scope(name)
            elif name in self.names.keychain:
                self.secret(name)
            elif name not in self.use.analysis.guarded and not self.is_open():
                self.undefined(name, known.all() | ({iterator} if iterator else set()))
        for scope, entry in sorted(self.use.analysis.entries):
            if len(self.diagnostics) > self.enough:
                return
            self.entry(scope, entry)
        if "raw_sql" in self.use.analysis.filters:
            hint = "an expression without it becomes a bound parameter; `| identifier` quotes a name"
            self.diagnostics.warning(
                "raw-sql", "`raw_sql` puts text into SQL as it is", self.at("raw_sql"), hint=hint
            )

    def is_of_a_try(self, name: str) -> bool:
        """Return whether only the guards of a ``retry`` know the name, and this place is no guard."""
        return self.strict and name in _OF_A_TRY and self.frame.place not in GUARDS

    def is_open(self) -> bool:
        if self.frame.open or self.frame.step in self.names.args_open:
            return True
        given = self.names.own_args.get(self.frame.step)
        return given is not None and not isinstance(given, Mapping)

    def at(self, name: str) -> Pos:
        scalar = self.use.scalar
        return scalar.locate(name_offset(scalar.value, name))

    def undefined(self, name: str, known: set[str]) -> None:
        """Report a name that nothing in the playbook defines.

        In a guard it is false; in any other template it is an error.
        """
        owners = [step for step, iterator in self.names.iterators.items() if iterator == name]
        hint = self.diagnostics.suggest(
            name,
            known | (_ALWAYS - GLOBALS),
            "write `workload.…`, `ctx.…`, the name of a step, or `| default(…)`",
        )
        if name == CALLBACK:
            hint = "it is known to the tasks of a step that has a `wait` with `callback: true`"
        if self.is_of_a_try(name):
            hint = "only the guards of a `retry` know it; what a task gave is `output.data`, in the event form `result`"
        if owners and self.diagnostics.nearest(name, known) is None:
            hint = (
                f"{name!r} is the iterator of step {owners[0]!r}; hand it on through the step's result or ctx"
            )
        message = f"nothing in this playbook is called {name!r}"
        if self.lenient and self.frame.place in GUARDS:
            message = f"{message}: it is false in this guard"
            self.diagnostics.warning("undefined-name", message, self.at(name), hint=hint)
            return
        self.diagnostics.error("undefined-name", message, self.at(name), hint=hint)

    def out_of_scope(self, name: str) -> None:
        hint = "use the step's result (a list in order), or a reducer in the tool's own `set`: each item writes it"
        if self.frame.place in (BOUNDARY, BOUNDARY_VALUE, BOUNDARY_TOOL) and self.frame.form == "event":
            hint = "ask in `when` for an event of the iteration, such as event.name == 'call.done'"
        self.diagnostics.error(
            "iterator-out-of-scope",
            f"{name!r} belongs to one iteration; {self.frame.place.name} of step {self.frame.step!r} is read outside of the loop",
            self.at(name),
            hint=hint,
        )

    def secret(self, name: str) -> None:
        if self.frame.place.secrets:
            return
        self.diagnostics.error(
            "secret-in-control-flow",
            f"{self.frame.place.name} cannot read the keychain: its values are stored, and secrets must not be",
            self.at(name),
            hint="use keychain values only in a tool's parameters or input",
        )

    def address(self, name: str) -> None:
        """Check the use of a callback's address, which is stored nowhere.

        Who has the address may answer the callback.
        """
        if self.frame.place.secrets:
            return
        self.diagnostics.error(
            "secret-in-control-flow",
            f"{self.frame.place.name} cannot read `callback`: its values are stored, and the address is a secret",
            self.at(name),
            hint="use it only in a tool's parameters or input, in a task before the `wait`",
        )

    def entry(self, scope: str, entry: str) -> None:
        names, where = self.names, self.at
        if scope in self.use.analysis.guarded:
            return
        if scope == "keychain" and entry not in names.keychain:
            known = listing("keychain", sorted(names.keychain), "empty")
            hint = self.diagnostics.suggest(entry, names.keychain, known)
            self.diagnostics.error(
                "undefined-name", f"the keychain has no {entry!r}", where(scope), hint=hint
            )
        elif scope == "workload" and entry not in names.workload:
            hint = self.diagnostics.suggest(
                entry, names.workload, "unless the request payload brings it, add it to `workload`"
            )
            self.diagnostics.warning(
                "unknown-workload-key", f"the workload has no {entry!r}", where(scope), hint=hint
            )
        elif scope == "ctx" and entry not in names.ctx and entry not in names.vars:
            hint = self.diagnostics.suggest(
                entry,
                names.ctx | names.vars,
                f"the workload has this name: write workload.{entry}"
                if entry in names.workload
                else "unless an operator patches it in, set it, or write `| default(…)`",
            )
            self.diagnostics.warning("unset-ctx", f"nothing sets ctx.{entry}", where(scope), hint=hint)
        elif scope == "ctx" and entry in self.outside and self.frame.place is ADMIT:
            hint = (
                "until a step sets it, it is false in this guard; write `| default(false)` to say so"
                if self.lenient
                else "write `| default(false)`: until a step sets it, this guard is an error and fails the step"
            )
            self.diagnostics.warning("unset-ctx", f"nothing sets ctx.{entry}", where(scope), hint=hint)
        elif scope == "vars" and entry not in names.vars:
            hint = self.diagnostics.suggest(
                entry, names.vars, "unless the variables API brings it, add it to a step's `vars`"
            )
            self.diagnostics.warning("unset-variable", f"nothing sets vars.{entry}", where(scope), hint=hint)


class _Known:
    """Several sets of names as one, joined only when a message needs similar names."""

    def __init__(self, parts: list[Collection[str]]) -> None:
        self._parts = parts

    def __contains__(self, name: str) -> bool:
        return any(name in part for part in self._parts)

    def all(self) -> set[str]:
        return set().union(*self._parts)


def _known(names: Names, frame: Frame) -> list[Collection[str]]:
    """Names that mean something at this place, iterators and built-ins aside."""
    if frame.place in (START, KEYCHAIN):
        return [names.workload]
    given = names.args.get(frame.step, ()) if frame.place is STEP_ARGS else names.arguments(frame.step)
    own = [given, names.labels.get(frame.step, ()), frame.names]
    return [*own, names.ctx, names.vars, names.steps, names.aliases, names.workload]
