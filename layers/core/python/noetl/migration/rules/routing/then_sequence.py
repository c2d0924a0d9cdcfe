"""Several steps under ``then``, beside a guard such as ``"{{ env }} == prod"``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from noetl.formatting.nodes import Entry, List, Map, Text, Value, comments, inside, items_of, map_of, text_of
from noetl.migration.guards import compared
from noetl.migration.page import Page, names_read
from noetl.migration.rule import Rule

_BRANCHES = ("then", "else")
_OWN = frozenset({"step", "desc", "tool", "type", "args", "input", "with", "workload"})
"""Keys of a step that lead nowhere."""
_OF_CALL = frozenset({"result", "response", "this", "event", "output", "outcome", "error", "args", "input"})
"""Names that mean something else when another step has run."""


def apply(page: Page) -> None:
    """Lead from each of these steps to the next one.

    The runtime that has such guards ran one step at a time.
    """
    steps = {text_of(step.get("step")): step for step in page.steps()}
    led = Counter(name for step in page.steps() for name in _named_in(step) if name in steps)
    for step in page.steps():
        for key in ("case", "next"):
            items = [map_of(item) for item in items_of(step.get(key))]
            if any(compared(text_of(item.get("when"))) is not None for item in items):
                for item in items:
                    for branch in _BRANCHES:
                        _chain(page, item.entry(branch), steps, led)


def _named_in(step: Map) -> Iterator[str]:
    """Yield each text that may name a step to which this one leads."""
    for entry in step.entries:
        if entry.key not in _OWN:
            yield from (text for one in (entry, *inside(entry.value)) if (text := text_of(one.value)))


def _chain(page: Page, branch: Entry | None, steps: dict[str | None, Map], led: Counter[str]) -> None:
    targets = branch.value if branch is not None else None
    if branch is None or not isinstance(targets, List) or len(targets.entries) < 2:
        return
    names = [_name(target) for target in targets.entries]
    if None in names:
        return
    before = [steps.get(name, Map([])) for name in names[:-1]]
    own = any(one.has("case") or not _leads_to_an_end(one.get("next"), steps) for one in before)
    givers = [*(map_of(target.value) for target in targets.entries), *before]
    other = _OF_CALL | {name for one in givers for name in _gives(one)}
    given = any(other & names_read(target.value) for target in targets.entries[1:])
    if own or given or any(led[name or ""] > 1 for name in names):
        page.refuse(
            branch,
            "these steps ran one after the other, and one of them has a way of its own, or two ways lead to it",
            "name the first one here, and lead from it to the next: next: [{ step: … }]",
        )
        return
    for step, target in zip(before, targets.entries[1:], strict=True):
        if isinstance(target.value, Text):
            target.value = Map([Entry("step", target.value, "step", line=target.line)], flow=True)
        gone = step.get("next")
        if gone is not None:
            target.lead = [*(one for entry in inside(gone) for one in comments(entry)), *target.lead]
        step.put("next", List([target]))
    del targets.entries[1:]


def _gives(block: Map) -> Iterator[str]:
    """Yield the names whose values a target or a step sets for other steps."""
    for key in ("data", "args", "input", "with", "params", "payload", "vars", "set"):
        yield from (str(one.key) for one in map_of(block.get(key)).entries)


def _leads_to_an_end(following: Value | None, steps: dict[str | None, Map]) -> bool:
    """Return whether a step leads nowhere, or only to one that does nothing and leads nowhere."""
    if following is None:
        return True
    targets = following.entries if isinstance(following, List) else [Entry(None, following)]
    last = steps.get(_name(targets[0])) if len(targets) == 1 else None
    if last is None or last.has("next") or last.has("case"):
        return False
    tool = last.get("tool", "type")
    return (
        tool is None or "noop" in (text_of(tool), text_of(map_of(tool).get("kind"))) or text_of(tool) == "end"
    )


def _name(target: Entry) -> str | None:
    """Return the step that an entry names, and goes to in any case."""
    block = target.value
    return text_of(block) if not isinstance(block, Map) or block.has("when") else text_of(block.get("step"))


RULE = Rule("then-sequence", "Steps that follow one another lead to each other.", apply)
