"""Actions for one item of a loop that are written for the end of the step.

Releases with the event form ended a step once for each item, with the item in scope, and continued from there. Today a step
ends once, after its loop, and ``next`` for an item breaks the loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from noetl.formatting.nodes import (
    Entry,
    List,
    Map,
    Text,
    Value,
    comments,
    inside,
    made,
    map_of,
    plain,
    text_of,
)
from noetl.formatting.spelling import rename, rewrite
from noetl.formatting.templates import names_in
from noetl.migration.guards import both, inner
from noetl.migration.page import Page, kind_of, names_read
from noetl.migration.rule import Rule
from noetl.migration.rules.paging.pages import blocks_of
from noetl.migration.rules.reading.rows_list import tasks_of
from noetl.migration.rules.routing import item_scope
from noetl.migration.rules.routing.ways import cases_of, nexts_of, targets_of

_EXIT = re.compile(r"""(["'])step\.exit\1""")
_CALL = re.compile(r"""(["'])call\.(?:done|error)\1""")
_OF_A_CALL = frozenset({"response", "result", "this", "error", "data", "status_code", "output", "outcome"})
_GIVEN = frozenset({"args", "input"})
_INPUTS = ("args", "input", "with")
_AGAIN = ("retry", "call", "fail", "skip")
"""Actions after which the item does not end, or ends as failed."""
_WORD = re.compile(r"[A-Za-z_]\w*\Z")
_PATHS = ("from", "path")
"""Keys of actions that name a value without a template."""
_HINT = "let the loop collect what the next step needs, and loop over that there"
_MOST = 20
"""Steps that follow an item, one behind the other."""


@dataclass(slots=True)
class _Flow:
    """The steps of a page, with what each leads to and which names it reads."""

    page: Page
    steps: list[Map]
    ways: dict[int, set[str]] = field(default_factory=dict)
    names: dict[int, frozenset[str]] = field(default_factory=dict)

    def leads_to(self, step: Map) -> set[str]:
        if id(step) not in self.ways:
            self.ways[id(step)] = _leads_to(step)
        return self.ways[id(step)]

    def reads(self, step: Map) -> frozenset[str]:
        if id(step) not in self.names:
            self.names[id(step)] = _names(step)
        return self.names[id(step)]

    def called(self, name: str) -> Map | None:
        return next((step for step in self.steps if text_of(step.get("step")) == name), None)

    def forget(self, step: Map) -> None:
        """Read a step again: it was rewritten."""
        self.ways.pop(id(step), None)
        self.names.pop(id(step), None)


def apply(page: Page) -> None:
    """Do it for each item; the step after an item loops over what the first one collects."""
    flow = _Flow(page, page.steps())
    for step in flow.steps:
        loop = map_of(step.get("loop"))
        iterator = text_of(loop.get("iterator"))
        if iterator is None or loop.has("cursor"):
            continue
        own = frozenset({iterator, "iter"})
        found = next((entry for entry in cases_of(step) if _is_for_an_item(entry, own)), None)
        if found is None:
            continue
        reason = _reason(flow, step, own)
        if reason is not None:
            page.refuse(found, reason, _HINT)
        else:
            _spread(flow, step, own)


def _guard(entry: Entry) -> str:
    return str(plain(map_of(entry.value).get("when")) or "")


def _is_for_an_item(entry: Entry, own: frozenset[str]) -> bool:
    """Return whether it reads the item where none is in scope today."""
    guard = _guard(entry)
    if _CALL.search(guard):
        return any(_names(target) & own for target in nexts_of(entry))
    return bool(_EXIT.search(guard) and _names(entry.value) & own)


def _of_items(step: Map, own: frozenset[str], *, new: bool) -> Iterator[Entry]:
    """Yield the entries that are done for each item.

    ``new``: the step had no loop before, so all that it does after a call was done for each item.
    """
    for entry in cases_of(step):
        guard = _guard(entry)
        if _CALL.search(guard):
            if nexts_of(entry) and (new or _is_for_an_item(entry, own)):
                yield entry
        elif (_EXIT.search(guard) or "event" not in names_in(guard)) and _names(entry.value) & (
            own | _OF_A_CALL
        ):
            yield entry


def _names(value: Value) -> frozenset[str]:
    """Return the names that a value reads: in templates, and by paths."""
    paths = (text_of(entry.value) for entry in inside(value) if entry.key in _PATHS)
    return names_read(value) | {path.split(".")[0] for path in paths if path is not None}


def _names_of(targets: Iterable[Map]) -> set[str]:
    return {name for target in targets if (name := text_of(target.get("step")))}


def _leads_to(step: Map) -> set[str]:
    nexts = [target for entry in cases_of(step) for target in nexts_of(entry)]
    return _names_of([*nexts, *targets_of(step.get("next"))])


# --- what stands against it ---


def _reason(flow: _Flow, step: Map, own: frozenset[str], depth: int = 0) -> str | None:
    """Return why a step, or one that it leads to, cannot continue for each item."""
    entries = list(_of_items(step, own, new=depth > 0))
    targets = [target for entry in entries for target in nexts_of(entry)]
    names = _names_of(targets)
    name = text_of(step.get("step")) or ""
    if _is_done_twice(step, entries):
        return f"step '{name}' answers a call and the end of the same item: an item has one event for both"
    if entries and not step.has("tool") and _is_read(flow, step):
        return f"the result of step '{name}', a loop without a tool, is read by another step"
    if depth and item_scope.begins_at_enter(step):
        return f"step '{name}' answers `step.enter`, which would be once for all items"
    if not depth and (kept := _begun_twice(flow, step, entries)) is not None:
        return f"'{kept}' begins before the loop, and the next step gets it with each item"
    if any(name in _names(entry.value) for entry in (cases_of(step) if depth else entries)):
        return (
            f"step '{name}' reads its own result by its name, which is the list of all items after the loop"
        )
    if not names:
        return None
    if depth == _MOST:
        return f"more than {_MOST} steps follow an item, one behind the other"
    others = [one for entry in cases_of(step) if entry not in entries for one in nexts_of(entry)]
    if len(names) > 1 or _names_of([*others, *targets_of(step.get("next"))]) - names:
        return f"step '{name}' goes to several steps, some of them for each item"
    (target,) = names
    following = flow.called(target)
    if following is None or not _WORD.match(target):
        return f"step '{name}' goes for each item to {target!r}, which is no step with a word as name"
    if following.has("loop") or following.has("vars") or _is_behind(flow, name, target):
        return f"step '{name}' goes for each item to '{target}', which has a loop or `vars`, or leads back"
    if any(target in flow.leads_to(one) for one in flow.steps if one is not step):
        return f"step '{name}' goes for each item to '{target}', and another step goes there once"
    given = {str(entry.key) for one in targets for entry in _given(one).entries}
    after = following.get("next")
    if after is not None and _names(after) & (_OF_A_CALL | _GIVEN | given):
        return f"`next` of step '{target}' reads what belongs to one item of '{name}'"
    if _reads_its_caller(flow.page, following, given):
        return f"a task of the workbook reads in its input what step '{target}' is given for each item"
    if _is_read(flow, following):
        return f"the result of step '{target}' is read, which would be a list: step '{name}' goes there for each item"
    return _reason(flow, following, frozenset({*_GIVEN, *given, _item(target)}), depth + 1)


def _handed_on(step: Map, entries: list[Entry]) -> tuple[dict[str, Value], set[str]]:
    """Return what begins before the loop and goes with an item, and to which steps."""
    targets = [target for entry in entries for target in nexts_of(entry)]
    return item_scope.handed_on(step, entries, [_given(target) for target in targets]), _names_of(targets)


def _begun_twice(flow: _Flow, step: Map, entries: list[Entry]) -> str | None:
    """Return a value that goes with each item, and is not the item's alone."""
    handed, after = _handed_on(step, entries)
    return next(
        (
            name
            for name, first in handed.items()
            if not item_scope.is_of_items(flow.page, step, entries, name, first, after)
        ),
        None,
    )


def _is_done_twice(step: Map, entries: list[Entry]) -> bool:
    """Return whether a call has entries of its own beside those that move to it."""
    moved = [entry for entry in entries if not _CALL.search(_guard(entry))]
    stay = [entry for entry in cases_of(step) if "call.done" in _guard(entry)]
    return bool(moved) and any(not _is_tried_again(entry) for entry in stay)


def _is_tried_again(entry: Entry) -> bool:
    return any(block.has(name) for block in blocks_of(map_of(entry.value).get("then")) for name in _AGAIN)


def _is_read(flow: _Flow, step: Map) -> bool:
    """Return whether the result of a step is read in another one."""
    return any(text_of(step.get("step")) in flow.reads(one) for one in flow.steps if one is not step)


def _reads_its_caller(page: Page, step: Map, given: set[str]) -> bool:
    """Return whether the input of a workbook task reads arguments of the step.

    Those of an item are part of the caller's input, which such a template cannot read.
    """
    if not any(kind_of(task) == "workbook" for _, task in tasks_of(step.get("tool"))):
        return False
    inputs = [entry.value for task in page.workbook() for entry in inside(task) if entry.key in _INPUTS]
    return any(_names(value) & (given | _GIVEN) for value in inputs)


def _is_behind(flow: _Flow, name: str, target: str) -> bool:
    """Return whether ``name`` can be reached from ``target``."""
    ways = {text_of(step.get("step")): flow.leads_to(step) for step in flow.steps}
    found, left = {target}, [target]
    while left:
        fresh = ways.get(left.pop(), set()) - found
        found |= fresh
        left += fresh
    return name in found


# --- the rewriting ---


def _spread(flow: _Flow, step: Map, own: frozenset[str], *, new: bool = False) -> None:
    """Move what is done for each item to its event, and collect for ``next``."""
    following: dict[str, list[str]] = {}
    entries = list(_of_items(step, own, new=new))
    if entries and not step.has("tool"):
        _with_tool(step)
    if not new and (handed := _handed_on(step, entries)[0]):
        item_scope.begin_again(flow.page, step, entries, handed)
    for entry in entries:
        block = map_of(entry.value)
        guard = block.get("when")
        if isinstance(guard, Text) and not _CALL.search(str(guard.value)):
            flow.page.note(entry, "this entry is done for each item, and not once when the loop is over")
            rewrite(guard, _for_an_item(guard))
        for target in nexts_of(entry):
            name = text_of(target.get("step")) or ""
            given = following.setdefault(name, [])
            given += [str(one.key) for one in _given(target).entries if one.key not in given]
            flow.page.note(
                entry, f"'{name}' is done for each item when the loop is over, not between its items"
            )
        then = block.entry("then")
        if then is not None:
            then.value = _collecting(then.value)
    flow.forget(step)
    for name, given in following.items():
        following_step = flow.called(name)
        assert following_step is not None
        if not step.has("next"):
            step.put("next", made([{"step": name}]))
            flow.forget(step)
        _over_items(following_step, name, given)
        flow.forget(following_step)
        _spread(flow, following_step, frozenset({*_GIVEN, *given, _item(name)}), new=True)


def _with_tool(step: Map) -> None:
    """Give a loop without a tool one that returns the item: only calls have events for items."""
    iterator = text_of(map_of(step.get("loop")).get("iterator")) or ""
    block = made({"kind": "noop", "args": {iterator: Text(f"{{{{ {iterator} }}}}", style='"')}})
    place = next(at for at, one in enumerate(step.entries) if one.key == "loop")
    step.entries.insert(place + 1, Entry("tool", block, "tool", line=step.entries[place].line))


def _for_an_item(guard: Text) -> str:
    text = str(guard.value)
    expression = inner(guard.value)
    if "event" not in names_in(text) and expression is not None:
        return both("event.name == 'call.done'", expression)
    return _EXIT.sub(r"\1call.done\1", text)


def _collecting(then: Value) -> Value:
    """Return the actions with a ``collect`` in place of ``next``, after all others."""
    made_blocks: list[Entry] = []
    for item in then.entries if isinstance(then, List) else [Entry(None, then)]:
        block = map_of(item.value)
        found = block.entry("next")
        if found is None:
            made_blocks.append(item)
            continue
        block.entries.remove(found)
        if block.entries:
            made_blocks.append(item)
        made_blocks += [_collect(found, target) for target in targets_of(found.value)]
    if len(made_blocks) == 1:
        return made_blocks[0].value
    return List(made_blocks)


def _collect(following: Entry, target: Map) -> Entry:
    """Return the action that keeps what ``next`` hands to a step, with all comments."""
    given = _given(target)
    taken: Value = given if given.entries else made({"index": "{{ iter.index }}"})
    kept = list(inside(given))
    lost = [comment for entry in inside(following.value) if entry not in kept for comment in comments(entry)]
    collect = made(
        {"from": taken, "into": _items(text_of(target.get("step")) or ""), "mode": "append"}, flow=False
    )
    for entry in map_of(collect).entries:
        entry.line, entry.column = following.line, following.column
    lead = [*following.lead, *filter(None, lost)]
    action = Entry(
        "collect",
        collect,
        "collect",
        lead,
        following.trail,
        following.after,
        False,
        following.line,
        following.column,
    )
    return Entry(None, Map([action]), line=following.line, column=following.column)


def _over_items(step: Map, name: str, given: list[str]) -> None:
    """Let a step loop over the collected items, and read from them what it was given."""
    head = step.entry("step")
    assert head is not None
    item = _item(name)

    def change(word: str, attribute: str | None) -> tuple[str, bool] | None:
        if word in _GIVEN and attribute in given:
            return item, False
        return (f"{item}.{word}", False) if word in given and word not in _OF_A_CALL else None

    for entry in inside(step):
        rename(entry.value, change)
    loop = made({"in": f"{{{{ ctx.{_items(name)} | default([]) }}}}", "iterator": item})
    place = 1 + max(step.entries.index(one) for one in step.entries if one.key in ("step", "desc"))
    step.entries.insert(place, Entry("loop", loop, "loop", line=head.line, column=head.column))
    known = next((step.get(key) for key in _INPUTS if step.has(key)), None)
    missing = [one for one in given if not (isinstance(known, Map) and known.has(one))]
    if isinstance(known, Map):
        known.entries += [Entry(one, Text(f"{{{{ {item}.{one} }}}}", style='"'), one) for one in missing]
    elif missing and known is None:
        block = Map([Entry(one, Text(f"{{{{ {item}.{one} }}}}", style='"'), one) for one in missing])
        step.entries.insert(place + 1, Entry("args", block, "args", line=head.line, column=head.column))


def _given(target: Map) -> Map:
    return map_of(target.get("args", "input"))


def _items(name: str) -> str:
    return f"{name}_items"


def _item(name: str) -> str:
    return f"{name}_item"


RULE = Rule(
    "item-targets",
    "What a loop does at the end of an item, and the step after it, is done for each item.",
    apply,
)
