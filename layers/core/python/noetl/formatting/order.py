"""The order of keys, and a blank line between steps.

Where order has a meaning (``set``, ``vars``, actions) nothing moves.
"""

from __future__ import annotations

from noetl.formatting.nodes import (
    Document,
    Entry,
    List,
    Map,
    Text,
    Value,
    inside,
    items_of,
    last_tools,
    map_of,
)
from noetl.formatting.writing import WIDTH, one_line

Order = tuple[tuple[str, ...], tuple[str, ...]]
"""(keys that come first, keys that come last); all others keep their place between them."""

_ROOT: Order = (
    (
        *("apiVersion", "kind", "metadata", "input", "workload", "modules", "keychain"),
        *("executor", "workbook", "workflow", "on_success", "on_failure", "finally"),
    ),
    (),
)
_METADATA: Order = (("name", "path", "version", "description", "labels", "schedule", "triggers"), ())
_SCHEDULE: Order = (
    ("name", "cron", "rate", "timezone", "payload", "enabled", "catch_up", "catch_up_max", "overlap"),
    (),
)
_STEP: Order = (
    ("step", "desc", "spec", "args", "input", "loop"),
    ("tool", "retry", "cache", "output", "as", "vars", "case", "sink", "set", "set_ctx", "next"),
)
_TASK: Order = (
    ("name", "kind", "desc"),
    (
        "args",
        "input",
        "with",
        "code",
        "output",
        "set",
        "set_ctx",
        "set_iter",
        "sink",
        "retry",
        "cache",
        "spec",
    ),
)
_LOOP: Order = (("in", "iterator", "mode", "max_in_flight"), ("spec",))
_LOOP_SPEC: Order = (("mode", "max_in_flight"), ())
_RULE: Order = (("when", "else", "then"), ())
_THEN: Order = (
    ("do", "allow", "to", "attempts", "backoff", "multiplier", "delay", "max_delay", "jitter", "message"),
    ("set", "set_ctx", "set_iter", "result", "sink"),
)
_NEXT: Order = (("spec", "arcs"), ())
_ARC: Order = (("step", "on", "when", "args", "input", "set", "set_ctx"), ())
_SINK: Order = (("tool", "table", "args"), ("when",))
_RETRY: Order = (
    (
        *(
            "attempts",
            "max_attempts",
            "delay",
            "initial_delay",
            "backoff",
            "multiplier",
            "backoff_multiplier",
        ),
        *("max_delay", "jitter", "when", "retry_when", "until", "stop_when"),
    ),
    (),
)
_CACHE: Order = (("ttl", "key"), ())
_WORKBOOK: Order = (("name", "desc", "tool", "sink"), ())
_TOGETHER = frozenset({"set_ctx", "set_iter"})
"""Written in the order they stand in, ``set`` among them."""


def order(document: Document) -> None:
    """Sort the keys of every block that the language has, in place.

    A document with anchors keeps its order: an alias follows its anchor.
    """
    if not document.anchors:
        _document(document.root)
    _hoist(document.root)
    _space(document)


def _sort(block: Map, wanted: Order) -> None:
    first, last = wanted
    ranks = {name: place for place, name in enumerate(first)}
    ranks |= {name: 1000 + place for place, name in enumerate(last)}
    together = [name for name in ("set", *_TOGETHER) if name in ranks]
    for name in together:
        ranks[name] = ranks[together[0]]
    block.entries.sort(key=lambda entry: ranks.get(str(entry.key), 500))


def _document(root: Map) -> None:
    _sort(root, _ROOT)
    metadata = map_of(root.get("metadata"))
    _sort(metadata, _METADATA)
    _sort(map_of(metadata.get("schedule")), _SCHEDULE)
    workbook = root.get("workbook")
    tasks = items_of(workbook) if isinstance(workbook, List) else [e.value for e in map_of(workbook).entries]
    for task in tasks:
        block = map_of(task)
        _sort(block, _WORKBOOK if block.has("tool") else _TASK)
        _tool(block.get("tool") if block.has("tool") else block)
        _sink(block.get("sink"))
    for step in items_of(root.get("workflow")):
        _step(map_of(step))
    for tool in last_tools(root):
        _tool(tool)


def _step(step: Map) -> None:
    _sort(step, _STEP)
    loop = map_of(step.get("loop"))
    _sort(loop, _LOOP)
    _sort(map_of(loop.get("spec")), _LOOP_SPEC)
    _tool(step.get("tool"))
    _sink(step.get("sink"))
    _sort(map_of(step.get("retry")), _RETRY)
    _sort(map_of(step.get("cache")), _CACHE)
    for entry in items_of(step.get("case")):
        _case(map_of(entry))
    spec = map_of(step.get("spec"))
    for rule in items_of(map_of(map_of(spec.get("policy")).get("admit")).get("rules")):
        _rule(map_of(rule))
    _tool(spec.get("compensate"))
    following = step.get("next")
    if isinstance(following, Map) and not following.has("step"):
        _sort(following, _NEXT)
    _arcs(following)


def _arcs(following: Value | None) -> None:
    arcs = items_of(following.get("arcs")) if isinstance(following, Map) else items_of(following)
    for arc in arcs:
        _sort(map_of(arc), _ARC)


def _tool(tool: Value | None) -> None:
    for task in tasks_of(tool):
        _sort(task, _TASK)
        _sort(map_of(task.get("retry")), _RETRY)
        _sort(map_of(task.get("cache")), _CACHE)
        for rule in items_of(map_of(map_of(task.get("spec")).get("policy")).get("rules")):
            _rule(map_of(rule))
        _tool(task.get("task"))


def tasks_of(tool: Value | None) -> list[Map]:
    """Return every task mapping of a tool, labels taken off."""
    found: list[Map] = []
    for entry in items_of(tool) if isinstance(tool, List) else [tool]:
        block = map_of(entry)
        inner = block.entries[0].value if len(block.entries) == 1 else None
        if isinstance(inner, Map) and block.keys()[0] not in ("kind", "name", "tool"):
            found.append(inner)
        elif block.entries:
            found.append(block)
    return found


def _rule(rule: Map) -> None:
    _sort(rule, _RULE)
    then = map_of(map_of(rule.get("else")).get("then") if rule.has("else") else rule.get("then"))
    _sort(then, _THEN)
    _sink(then.get("sink"))


def _sink(sink: Value | None) -> None:
    _sort(map_of(sink), _SINK)
    _tool(map_of(sink).get("tool"))


def _case(entry: Map) -> None:
    _sort(entry, _RULE)
    then = entry.get("then")
    for action in items_of(then) if isinstance(then, List) else [then]:
        block = map_of(action)
        _sink(block.get("sink"))
        _sort(map_of(block.get("retry")), _RETRY)
        if block.has("kind"):
            _tool(block)


def _hoist(value: Value) -> None:
    """Move a comment above the first key of an item to above the item."""
    for entry in inside(value):
        block = entry.value
        if entry.key is None and isinstance(block, Map) and block.entries and block.entries[0].lead:
            first = block.entries[0]
            entry.lead = [*entry.lead, *first.lead]
            first.lead = []


def _space(document: Document) -> None:
    """Put one blank line between steps that take more than a line."""
    workflow = document.root.get("workflow")
    if not isinstance(workflow, List):
        return
    for before, entry in zip(workflow.entries, workflow.entries[1:], strict=False):
        if not (_one_line(before) and _one_line(entry)):
            entry.gap = True


def _one_line(entry: Entry) -> bool:
    text = one_line(entry.value)
    return text is not None and len(text) + 4 <= WIDTH and not isinstance(entry.value, Text)
