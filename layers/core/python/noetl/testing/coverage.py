"""Branch coverage of a playbook by its test cases.

Branches: steps, arcs, case entries, task rules, admission rules, compensations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from noetl.dsl.program import AdmitRule, Arc, Program, Rule, Step, Task
from noetl.testing.mocks import own_label
from noetl.testing.testfile import structs

Kind = Literal["step", "arc", "failure arc", "case entry", "task rule", "admission rule", "compensation"]


@dataclass(frozen=True, order=True)
class Branch:
    """One branch, by its place in the playbook. ``what``: ``arc decide → refuse``."""

    line: int
    column: int
    kind: Kind
    what: str


@dataclass
class Coverage:
    """Branches of one playbook, and those that were taken."""

    source: str
    branches: Sequence[Branch]
    taken: set[Branch] = field(default_factory=set)

    @property
    def missed(self) -> list[Branch]:
        return sorted(set(self.branches) - self.taken)

    @property
    def percent(self) -> float:
        """0 to 100; a playbook without branches is covered."""
        return 100.0 * len(self.taken) / len(self.branches) if self.branches else 100.0


class Meter:
    """A counter of the branches and steps of one program.

    It receives branch objects (``domain.branch_coverage``) and the steps that were entered.
    """

    def __init__(self, program: Program) -> None:
        self.by_object: dict[int, Branch] = {}
        self.by_place: dict[tuple[int, int], Branch] = {}
        self.by_step: dict[str, Branch] = {}
        self.undone: dict[str, Branch] = {}
        self.kept = program
        """Branches are known by their identity: the program must outlive the meter."""
        for step in program.steps:
            self.by_step[step.name] = Branch(step.pos.line, step.pos.column, "step", f"step {step.name}")
            if step.compensate is not None:
                what = f"compensation of step {step.name}"
                self.undone[step.name] = Branch(step.pos.line, step.pos.column, "compensation", what)
            self._collect(step)
        found = {*self.by_object.values(), *self.by_step.values(), *self.undone.values()}
        self.coverage = Coverage(program.source_name, sorted(found))

    def __call__(self, branch: object) -> None:
        found = self.by_object.get(id(branch))
        if found is not None:
            self.coverage.taken.add(found)

    def entered(self, steps: Iterable[str]) -> None:
        self.coverage.taken.update(self.by_step[name] for name in steps if name in self.by_step)

    def compensated(self, steps: Iterable[str]) -> None:
        self.coverage.taken.update(self.undone[name] for name in steps if name in self.undone)

    def _collect(self, step: Step) -> None:
        """Collect the branches of a program.

        Places that two objects share (a workbook task used twice, a handler of all steps) are one branch.
        """
        for arc in step.arcs:
            self._add(arc, "failure arc" if arc.on == ("failed",) else "arc", _arc(step, arc))
        for rule in step.cases:
            self._add(rule, "case entry", f"a case entry of step {step.name}")
        for admit in step.admit.rules if step.admit is not None else ():
            self._add(admit, "admission rule", f"an admission rule of step {step.name} ({admit.allow})")
        for task in structs(step, Task):
            for rule in task.rules:
                if task.form == "event":
                    self._add(rule, "case entry", f"a case entry of step {step.name}")
                else:
                    name = step.name if task.label == own_label(step.name) else f"{step.name}/{task.label}"
                    self._add(rule, "task rule", f"a rule of task {name}")

    def _add(self, branch: Arc | Rule | AdmitRule, kind: Kind, what: str) -> None:
        line, column = branch.pos.line, branch.pos.column
        if line > 0:
            made = Branch(line, column, kind, what)
            self.by_object[id(branch)] = self.by_place.setdefault((line, column), made)


def _arc(step: Step, arc: Arc) -> str:
    return f"arc {step.name} → {arc.target}"
