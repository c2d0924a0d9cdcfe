"""A step of the event form as a step of the canonical form."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from noetl.domain.kinds import KindLookup
from noetl.formatting.cases import Case, read_cases
from noetl.formatting.nodes import (
    Document,
    Entry,
    List,
    Map,
    Text,
    comments,
    inside,
    items_of,
    made,
    map_of,
    plain,
    text_of,
)
from noetl.formatting.pages import Pages
from noetl.formatting.routes import Routes
from noetl.formatting.rules import Rules
from noetl.formatting.spelling import kind_of, move_mode
from noetl.formatting.templates import NoSpellingError, Replace, names_in
from noetl.formatting.words import after_call, at_exit, reworded

_MARKS = ("case", "vars", "sink")


@dataclass(frozen=True, slots=True)
class UnconvertedStep:
    """A step that stays in the event form, and why."""

    step: str
    line: int
    reason: str


@dataclass(slots=True, eq=False)
class StepChange:
    """A step in both forms."""

    name: str
    entry: Entry
    before: Map
    after: Map


def refused_form(problem: str) -> str:
    """Say why a step keeps its form although the canonical one could be written."""
    return f"the compiler refuses its canonical form: {problem}"


@dataclass(slots=True)
class Converter:
    """The steps of one document. ``kinds`` are those the compiler knows."""

    document: Document
    kinds: KindLookup

    def candidates(self) -> list[Entry]:
        """Steps that are written in the event form."""
        steps = self.document.root.get("workflow")
        return [
            e for e in (steps.entries if isinstance(steps, List) else []) if is_event_form(map_of(e.value))
        ]

    def changes(self) -> tuple[list[StepChange], list[tuple[Entry, UnconvertedStep]]]:
        """Convert every candidate, as new trees; the document stays as it is.

        The second list has those that the canonical form cannot say.
        """
        changes: list[StepChange] = []
        kept: list[tuple[Entry, UnconvertedStep]] = []
        for entry in self.candidates():
            before = map_of(entry.value)
            name = text_of(before.get("step")) or ""
            try:
                changes.append(StepChange(name, entry, before, self.convert(entry)))
            except NoSpellingError as reason:
                kept.append((entry, UnconvertedStep(name, entry.line, str(reason))))
        return changes, kept

    def convert(self, entry: Entry) -> Map:
        """Convert the step to the canonical form, as a new tree; ``entry`` stays as it is.

        Raises NoSpellingError.
        """
        step: Map = copy.deepcopy(map_of(entry.value))
        tool = self._tool(step)
        loop = map_of(step.get("loop"))
        looped = bool(loop.entries)
        mode = text_of(loop.get("mode")) or text_of(map_of(loop.get("spec")).get("mode"))
        block = step.get("case")
        cases = read_cases(block, loops=looped, calls=tool is not None)
        routes = Routes()
        if tool is None and looped and step.get("sink") is not None:
            raise NoSpellingError("a loop without a tool has no task that could write")
        if tool is None and not looped and step.get("vars", "sink") is not None:
            tool = Map([Entry("kind", Text("noop"), "kind")], flow=True)
            step.put("tool", tool)
        if tool is not None:
            self._calls(step, tool, cases, parallel=mode == "parallel")
        if any(case.has("skip") for case in cases) and any(case.at for case in cases):
            raise NoSpellingError("a step that may be skipped has entries on `step.exit`")
        if self._continues(step) and any(
            case.at or (case.ok is not False and case.has("next")) for case in cases
        ):
            raise NoSpellingError("after a failure `on_error: continue` takes arcs, and no entries of `case`")
        routes.after_calls(cases, loops=looped)
        if looped:
            # Of all items at once, and before the entries of `case` are read.
            routes.sets.entries += _vars(step, at_exit).entries
            routes.at_boundary(cases, "loop.done")
        routes.at_boundary(cases, "step.exit")
        routes.structural(step.get("next"))
        self._leave(step, routes)
        move_mode(loop)
        for name in _MARKS:
            step.take(name)
        return _with_comments(entry, step)

    def _tool(self, step: Map) -> Map | None:
        tool = step.get("tool")
        if tool is None:
            return None
        if not isinstance(tool, Map):
            raise NoSpellingError("the step mixes both forms")
        if text_of(tool.get("kind")) == "iterator":
            raise NoSpellingError("`kind: iterator` keeps variables of its own; a `loop` does not")
        return tool

    def _kind(self, tool: Map, seen: tuple[str, ...] = ()) -> str:
        """Return the kind that is called in the end, workbook calls followed."""
        kind = text_of(tool.get("kind")) or ""
        if kind != "workbook":
            return kind
        name = text_of(tool.get("task", "name")) or ""
        found = self._workbook().get(name)
        if found is None or name in seen:
            raise NoSpellingError("which workbook task is called is not known before it runs")
        inner = map_of(found.get("tool")) if found.has("tool") else found
        if map_of(inner.get("spec")).has("policy"):
            raise NoSpellingError("the workbook task has rules of its own")
        return self._kind(inner, (*seen, name))

    def _workbook(self) -> dict[str, Map]:
        workbook = self.document.root.get("workbook")
        if isinstance(workbook, Map):
            return {str(entry.key): map_of(entry.value) for entry in workbook.entries}
        return {text_of(map_of(item).get("name")) or "": map_of(item) for item in items_of(workbook)}

    def _calls(self, step: Map, tool: Map, cases: list[Case], *, parallel: bool) -> None:
        kind = self._kind(tool)
        label = f"{text_of(step.get('step'))}_task"
        pages = Pages(tool, label, kind_of(self.kinds, kind), _iter_names(step))
        rules = Rules(pages, parallel)
        writes = Map([], flow=True)
        if not map_of(step.get("loop")).entries:
            writes = _vars(step, after_call)
            if writes.entries and any(case.ok is not False or case.failed is not False for case in cases):
                raise NoSpellingError("`vars` are evaluated after the entries of `case`")
        sink = step.get("sink")
        rules.cases(cases)
        if sink is not None:
            if self._continues_unmatched(step):
                raise NoSpellingError("`on_unmatched: continue` would let failures pass")
            rules.sink(sink)
        if rules.sets is not None:
            writes.entries = [*rules.sets.entries, *writes.entries]
        if kind == "http":
            tool.put("output", made({"path": "$.data"}))
        if writes.entries:
            tool.put("set", writes)
        if rules.rules:
            spec = tool.get("spec")
            block = spec if isinstance(spec, Map) else Map([], flow=True)
            block.put("policy", Map([Entry("rules", List(rules.rules, flow=True), "rules")], flow=True))
            tool.put("spec", block)

    def _continues(self, step: Map) -> bool:
        """Report whether a failure of the step lets its ordinary arcs fire."""
        executor = map_of(map_of(self.document.root.get("executor")).get("spec"))
        own = map_of(step.get("spec"))
        return text_of(own.get("on_error") if own.has("on_error") else executor.get("on_error")) == "continue"

    def _continues_unmatched(self, step: Map) -> bool:
        executor = map_of(map_of(self.document.root.get("executor")).get("spec"))
        policies = [map_of(owner.get("policy")) for owner in (executor, map_of(step.get("spec")))]
        return any(text_of(policy.get("on_unmatched")) == "continue" for policy in policies)

    def _leave(self, step: Map, routes: Routes) -> None:
        executor = map_of(map_of(self.document.root.get("executor")).get("spec"))
        strict = plain(executor.get("no_next_is_error")) is True
        following = routes.block()
        if strict and following is not None and step.get("next") is None and not routes.closed:
            raise NoSpellingError("`no_next_is_error` would fail the step when none of its arcs is taken")
        if routes.sets.entries:
            step.put("set", routes.sets)
        if following is None:
            step.take("next")
        else:
            step.put("next", following)


def is_event_form(step: Map) -> bool:
    """Report whether a step has a mark of the event form.

    An older shape of its loop counts, too.
    """
    following = step.get("next")
    arcs = isinstance(following, Map) and not following.has("step")
    if any(step.get(name) is not None for name in _MARKS) or (following is not None and not arcs):
        return True
    loop = map_of(step.get("loop"))
    iterator = text_of(map_of(step.get("tool")).get("kind")) == "iterator"
    return loop.has("mode") or loop.has("max_in_flight") or iterator


def _vars(step: Map, change: Replace) -> Map:
    """Convert ``vars`` to writes of the task, or of the step. Raises NoSpellingError."""
    block = map_of(step.get("vars"))
    if set(block.keys()) & {"before", "after"}:
        raise NoSpellingError("`vars: {before, after}` are written whether the call succeeds or not")
    found = Map([], flow=block.flow)
    for entry in block.entries:
        name = f"vars.{entry.key}"
        value = reworded(entry.value, change)
        found.entries.append(Entry(name, value, name, entry.lead, entry.trail, entry.after))
    return found


def _iter_names(step: Map) -> set[str]:
    loop = map_of(step.get("loop"))
    names = {"index", "parent", text_of(loop.get("iterator")) or "item"}
    for entry in inside(step):
        if str(entry.key).startswith("iter."):
            names.add(str(entry.key).partition(".")[2])
        if isinstance(entry.value, Text) and "iter" in names_in(entry.value.value):
            names |= {part.split(".")[0] for part in str(entry.value.value).split("iter.")[1:]}
    return names


def _with_comments(entry: Entry, step: Map) -> Map:
    """Comments whose place is gone stand above the step's first key."""
    before = [text for inner in inside(entry.value) for text in comments(inner) if text]
    after = [text for inner in inside(step) for text in comments(inner) if text]
    for text in after:
        if text in before:
            before.remove(text)
    if before and step.entries:
        step.entries[0].lead = [*before, *step.entries[0].lead]
    return step
