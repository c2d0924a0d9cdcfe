"""``when``, ``then`` and ``else`` in a list under ``next``."""

from __future__ import annotations

from dataclasses import dataclass

from noetl.formatting.nodes import Entry, List, Map, Text, Value, made, map_of, plain, text_of
from noetl.migration.exclusive import exclusive
from noetl.migration.guards import both, inner, none_of
from noetl.migration.page import Page
from noetl.migration.rule import Rule

_EVENT = ("case", "retry", "vars", "sink")


@dataclass(frozen=True, slots=True)
class _Branch:
    entry: Entry
    guard: Value | None
    targets: tuple[Map, ...]


def apply(page: Page) -> None:
    """Write arcs with guards; a step of the event form gets them as entries of its ``case``."""
    for step in page.steps():
        entry = step.entry("next")
        if entry is None or not isinstance(entry.value, List):
            continue
        branches = [_branch(item) for item in entry.value.entries]
        if not any(
            isinstance(item.value, Map) and {"when", "then", "else"} & set(item.value.keys())
            for item in entry.value.entries
        ):
            continue
        if any(branch is None for branch in branches):
            page.refuse(
                entry, "an entry of `next` names no step", "write next: { arcs: [{ step: …, when: … }] }"
            )
            continue
        known = [branch for branch in branches if branch is not None]
        guards = [inner(plain(branch.guard)) for branch in known if branch.guard is not None]
        if len(guards) > 1:
            apart = exclusive([guard or "" for guard in guards])
            page.note(entry, "of several guards that are true, the first is taken", safe=apart)
        if any(step.has(name) for name in _EVENT):
            _to_case(page, step, entry, known)
        else:
            _to_arcs(page, entry, known)


def _branch(item: Entry) -> _Branch | None:
    block = item.value
    if isinstance(block, Text):
        return _Branch(item, None, (Map([Entry("step", block, "step")]),))
    if not isinstance(block, Map):
        return None
    given = block.get("else") if block.has("else") and not block.has("when") else block.get("then")
    if given is None:
        if block.get("step") is None:
            return None
        arc = Map([entry for entry in block.entries if entry.key != "when"], block.flow)
        return _Branch(item, block.get("when"), (arc,))
    targets = tuple(_target(one) for one in (given.values() if isinstance(given, List) else [given]))
    return _Branch(item, block.get("when"), targets) if all(one.has("step") for one in targets) else None


def _target(value: Value) -> Map:
    return Map([Entry("step", value, "step")]) if isinstance(value, Text) else map_of(value)


def _to_arcs(page: Page, entry: Entry, branches: list[_Branch]) -> None:
    forks = any(len(branch.targets) > 1 for branch in branches)
    guards = [inner(plain(branch.guard)) for branch in branches if branch.guard is not None]
    if forks and any(guard is None for guard in guards):
        page.refuse(entry, "a guard of `next` is no single expression", 'write when: "{{ … }}"')
        return
    arcs: list[Entry] = []
    taken: list[str] = []
    for branch in sorted(branches, key=lambda one: one.guard is None):
        guard = branch.guard
        if forks and guard is None and taken:
            guard = Text(none_of(*taken))
        elif forks and guard is not None and taken:
            guard = Text(both(inner(none_of(*taken)) or "", inner(plain(branch.guard)) or ""))
        if branch.guard is not None:
            taken.append(inner(plain(branch.guard)) or "")
        for target in branch.targets:
            arcs.append(_arc(branch, target, guard))
    block = made({"arcs": None}, flow=False)
    assert isinstance(block, Map)
    block.put("arcs", List(arcs))
    if forks:
        block.entries.insert(0, Entry("spec", made({"mode": "inclusive"}), "spec"))
    entry.value = block


def _arc(branch: _Branch, target: Map, guard: Value | None) -> Entry:
    keys = [
        Entry(str(one.key), one.value, one.raw_key, line=one.line, column=one.column)
        for one in target.entries
    ]
    for one in keys:
        if one.key in ("with", "input", "data"):
            one.key = one.raw_key = "args"
    if guard is not None:
        keys.insert(1, Entry("when", guard, "when", line=branch.entry.line))
    first = branch.targets[0] is target
    arc = Entry(None, Map(keys), line=branch.entry.line, column=branch.entry.column)
    if first:
        arc.lead, arc.trail, arc.gap = branch.entry.lead, branch.entry.trail, branch.entry.gap
    return arc


def _to_case(page: Page, step: Map, entry: Entry, branches: list[_Branch]) -> None:
    guarded = [branch for branch in branches if branch.guard is not None]
    guards = [inner(plain(branch.guard)) for branch in guarded]
    if any(guard is None for guard in guards):
        page.refuse(entry, "a guard of `next` is no single expression", 'write when: "{{ … }}"')
        return
    case = step.get("case")
    if case is None:
        place = step.entries.index(entry)
        step.put("case", List([]))
        step.entries.insert(place, step.entries.pop())
        case = step.get("case")
    assert isinstance(case, List)
    for branch, guard in zip(guarded, guards, strict=True):
        block = {
            "when": both("event.name == 'step.exit'", guard or ""),
            "then": {"next": List(_list(branch))},
        }
        case.entries.append(Entry(None, made(block, flow=False), line=branch.entry.line))
    rest = [target for branch in branches if branch.guard is None for target in _list(branch)]
    if rest:
        entry.value = List(rest)
    else:
        step.entries.remove(entry)


def _list(branch: _Branch) -> list[Entry]:
    return [
        Entry(None, target, line=branch.entry.line)
        for target in branch.targets
        if text_of(target.get("step"))
    ]


RULE = Rule("next-conditions", "Transitions out of a step are arcs with guards.", apply)
