"""Alternative spellings replaced by the newest one; the form of a step does not change."""

from __future__ import annotations

from collections.abc import Iterable

from noetl.domain.errors import PlaybookError
from noetl.domain.kinds import KindLookup, KindSpec
from noetl.dsl.lowering.values import SCOPES
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
    text_of,
)
from noetl.formatting.order import tasks_of
from noetl.formatting.templates import NoSpellingError, Replace, substitute

_INPUTS = ("args", "with", "input")
RETRY_WORDS = {
    "max_attempts": "attempts",
    "initial_delay": "delay",
    "backoff_multiplier": "multiplier",
    "retry_when": "when",
    "stop_when": "until",
}
_WORDS = {("backoff", "fixed"): "none", ("mode", "all"): "inclusive", ("mode", "async"): "parallel"}


def respell(document: Document, kinds: KindLookup) -> None:
    """Rewrite spellings in place. A spelling without a new form stays; nothing is raised."""
    root = document.root
    last = [Map([Entry("tool", tool, "tool")]) for tool in last_tools(root)]
    blocks = [*_workbook(root), *map(map_of, items_of(root.get("workflow"))), *last]
    for block in blocks:
        for owner in _maps(block):
            _words(owner)
            _sets(owner, step=owner is block)
        for tool in _tools(block):
            _tool(tool, kinds)
        if block.has("step"):
            _rename_input(block)
            if isinstance(block.get("tool"), List):
                move_mode(map_of(block.get("loop")))
            for arc in _arcs(block):
                _rename_input(arc)
            for owner in (block, *_actions(block)):
                _retry(map_of(owner.get("retry")))
    _rename_input(map_of(map_of(map_of(root.get("executor")).get("spec")).get("on_error")))
    raw = _raw_fields(kinds)
    taken = _assigned_names(root)
    old = {"outcome", "output"} if not taken & {"outcome", "output"} else set()
    if not taken & {"args", "input"}:
        old.add("args")
    for block in blocks:
        _templates(block, raw, old)


_NAMING = frozenset(
    {"workload", "vars", "set", "set_ctx", "set_iter", "ctx", "args", "input", "with", "before", "after"}
)


def _assigned_names(root: Map) -> set[str]:
    """Return the names that the document assigns: one of them may hide a built-in name."""
    found: set[str] = set()
    for entry in inside(root):
        if entry.key in _NAMING:
            found.update(str(inner.key).split(".")[-1] for inner in map_of(entry.value).entries)
        elif entry.key in ("step", "into", "name", "iterator", "as"):
            found.add(text_of(entry.value) or "")
    return found


def move_mode(loop: Map) -> None:
    """Move ``loop: {mode, max_in_flight}`` to ``loop.spec``."""
    older = [loop.take(name) for name in ("mode", "max_in_flight")]
    moved = [entry for entry in older if entry is not None]
    if not moved:
        return
    spec = loop.get("spec")
    block = spec if isinstance(spec, Map) else Map([], flow=True)
    block.entries = [*(entry for entry in moved if not block.has(str(entry.key))), *block.entries]
    loop.put("spec", block)


def _arcs(step: Map) -> Iterable[Map]:
    """Blocks that say where to go with which payload."""
    following = step.get("next")
    arcs = following.get("arcs") if isinstance(following, Map) and following.has("arcs") else following
    for arc in items_of(arcs) if isinstance(arcs, List) else [arcs, map_of(step.get("spec")).get("on_error")]:
        yield map_of(arc)
    if isinstance(arcs, List):
        yield map_of(map_of(step.get("spec")).get("on_error"))


def _workbook(root: Map) -> list[Map]:
    workbook = root.get("workbook")
    if isinstance(workbook, List):
        return [map_of(task) for task in workbook.values()]
    return [map_of(entry.value) for entry in map_of(workbook).entries]


def _maps(block: Map) -> Iterable[Map]:
    yield block
    for entry in inside(block):
        if isinstance(entry.value, Map):
            yield entry.value


def _tools(block: Map) -> list[Value]:
    """Everything that is called: the step's tool, those of sinks, and inline tasks."""
    found: list[Value] = []
    if not block.has("step") and not block.has("tool") and block.has("kind"):
        return [block]
    for owner in _maps(block):
        tool = owner.get("tool")
        if isinstance(tool, (Map, List)):
            found.append(tool)
        inner = owner.get("task")
        if isinstance(inner, Map) or (isinstance(inner, List) and owner.has("kind")):
            found.append(inner)
        then = owner.get("then")
        if isinstance(then, List):
            found.append(then)
    compensate = map_of(block.get("spec")).get("compensate")
    return [*found, *([compensate] if isinstance(compensate, (Map, List)) else [])]


def _words(owner: Map) -> None:
    for entry in owner.entries:
        text = text_of(entry.value)
        new = _WORDS.get((str(entry.key), text or ""))
        if new is not None and (entry.key != "mode" or not owner.has("kind")):
            entry.value = Text(new)


def _sets(owner: Map, *, step: bool) -> None:
    """Merge ``set_ctx``, ``set_iter`` and ``set: {ctx: {…}}`` into ``set: {ctx.x: …}``."""
    blocks = [entry for entry in owner.entries if entry.key in ("set", "set_ctx", "set_iter")]
    if not blocks or not all(isinstance(entry.value, Map) for entry in blocks):
        return
    if owner.has("kind") and not {"set", "set_ctx", "set_iter"} & set(owner.keys()):
        return
    made = [line for block in blocks for line in _lines(block)]
    keys = [line.key for line in made]
    if len(set(keys)) != len(keys) or any(line.key == line.raw_key and not line.key for line in made):
        return
    first, *others = blocks
    merged = map_of(first.value)
    first.key = first.raw_key = "set"
    first.value = Map(made, merged.flow, merged.anchor)
    for other in others:
        first.lead += other.lead
        first.after += [*([other.trail] if other.trail else []), *other.after]
        owner.entries.remove(other)


def _lines(block: Entry) -> list[Entry]:
    found: list[Entry] = []
    for line in map_of(block.value).entries:
        scope, dot, _ = str(line.key).partition(".")
        if block.key != "set":
            found.append(_named(line, f"{str(block.key).removeprefix('set_')}.{line.key}"))
        elif dot and scope in SCOPES:
            found.append(line)
        elif scope in SCOPES and isinstance(line.value, Map):
            inner = [_named(entry, f"{scope}.{entry.key}") for entry in line.value.entries]
            if inner:
                inner[0].lead = [*line.lead, *inner[0].lead]
                inner[-1].after += [*([line.trail] if line.trail else []), *line.after]
            found += inner
        else:
            found.append(_named(line, f"ctx.{line.key}"))
    return found


def _named(line: Entry, name: str) -> Entry:
    return Entry(name, line.value, name, line.lead, line.trail, line.after, line.gap, line.line, line.column)


def _tool(tool: Value, kinds: KindLookup) -> None:
    if isinstance(tool, List):
        for item in tool.entries:
            _unlabel(item)
    for task in tasks_of(tool):
        if task.has("kind"):
            _rename_input(task)
            _retry(map_of(task.get("retry")))
            _aliases(task, kind_of(kinds, text_of(task.get("kind"))))


def _actions(step: Map) -> Iterable[Map]:
    """Mappings of actions in the entries of ``case``."""
    for case in items_of(step.get("case")):
        then = map_of(case).get("then")
        yield from map(map_of, items_of(then) if isinstance(then, List) else [then] if then else [])


def _retry(block: Map) -> None:
    """Rename ``max_attempts`` to ``attempts``, and so on."""
    for old, new in RETRY_WORDS.items():
        if not block.has(new):
            block.rename(old, new)


def _unlabel(item: Entry) -> None:
    """Rewrite ``- fetch: {kind: …}`` as ``- name: fetch`` and the task's keys."""
    block = map_of(item.value)
    if len(block.entries) != 1:
        return
    label = block.entries[0]
    task = label.value
    if not isinstance(task, Map) or not task.has("kind") or task.has("name") or task.anchor:
        return
    name = Entry("name", Text(label.key), "name", lead=label.lead, trail=label.trail)
    if task.entries:
        task.entries[-1].after += label.after
    item.value = Map([name, *task.entries], flow=task.flow)


def _rename_input(owner: Map) -> None:
    given = [name for name in _INPUTS if owner.has(name)]
    if len(given) == 1 and given[0] != "input" and isinstance(owner.get(given[0]), Map):
        owner.rename(given[0], "input")


def kind_of(kinds: KindLookup, name: str | None) -> KindSpec | None:
    """Return the facts of a kind; None for an unknown one."""
    try:
        return kinds.spec(name or "")
    except (KeyError, PlaybookError):
        return None


_KEPT = {("wait", "for")}
"""Second names of parameters that read better than the first: ``for: 10m``."""


def _aliases(task: Map, spec: KindSpec | None) -> None:
    if spec is None or spec.name in ("workbook", "iterator", "playbook"):
        return
    for entry in task.entries:
        if (spec.name, entry.key) in _KEPT:
            continue
        name = spec.aliases.get(str(entry.key))
        if name is not None and entry.key not in _INPUTS and not task.has(name):
            entry.key = entry.raw_key = name


def _raw_fields(kinds: KindLookup) -> frozenset[str]:
    specs = [kind_of(kinds, name) for name in kinds.names()]
    return frozenset(name for spec in specs if spec is not None for name in spec.raw_fields)


def _templates(block: Map, raw: frozenset[str], old: set[str]) -> None:
    """Rename ``outcome`` to ``output``, its ``result`` to ``data``, and ``args`` to ``input``.

    Only names in ``old`` are changed.
    """

    def change(name: str, attribute: str | None) -> tuple[str, bool] | None:
        if name not in old:
            return None
        if name == "args":
            return "input", False
        return ("output.data", True) if attribute == "result" else ("output", False)

    for entry in inside(block):
        if entry.key not in raw:
            rename(entry.value, change)


def rename(value: Value, change: Replace) -> None:
    """Replace names in a text that is a template.

    One that binds such a name itself stays as it is.
    """
    if isinstance(value, Text) and isinstance(value.value, str):
        try:
            rewrite(value, substitute(value.value, change))
        except NoSpellingError:
            return


def rewrite(text: Text, new: str) -> None:
    """Give a text another value, in the style it has."""
    if new == text.value:
        return
    if text.raw is not None and text.style == ">":
        text.style = ""
    text.value, text.raw = new, None
