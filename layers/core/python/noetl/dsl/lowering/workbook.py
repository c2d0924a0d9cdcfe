"""``kind: workbook``: the named task takes the place of the call."""

from __future__ import annotations

from noetl.dsl.diagnostics import listing
from noetl.dsl.expressions import has_template
from noetl.dsl.lowering.context import Lowering, merge_trees
from noetl.dsl.lowering.tasks import TASK_KEYS, without_empty
from noetl.dsl.lowering.values import overlay_input, spelled
from noetl.dsl.yaml_text.tree import (
    Key,
    Mapping,
    Sequence,
    Tree,
    items_of,
    made_text,
    made_tree,
    mapping_of,
    scalars_in,
    text_of,
)

_CALL_KEYS = TASK_KEYS | {"task"}


def read_workbook(lowering: Lowering, tree: Tree | None) -> None:
    """Remember the workbook's tasks by name, as ``{tool, sink?}`` mappings."""
    for key, entry in _entries(tree):
        if key.text in lowering.workbook:
            lowering.diagnostics.error(
                "duplicate-task",
                f"the workbook already has a task {key.text!r}",
                key.pos,
                hint="rename one of them",
            )
            continue
        lowering.workbook[key.text] = entry


def workbook_entries(tree: Tree | None) -> dict[str, Mapping]:
    """Return the workbook's tasks by name, as ``{tool, sink?}`` mappings."""
    return {key.text: entry for key, entry in reversed(_entries(tree))}


def _entries(tree: Tree | None) -> list[tuple[Key, Mapping]]:
    if isinstance(tree, Sequence):
        found = [(_name(mapping_of(item)), mapping_of(item)) for item in items_of(tree)]
    else:
        found = [(key, mapping_of(value)) for key, value in mapping_of(tree).items()]
    return [
        (key, entry if entry.has("tool") else mapping_of(made_tree({"tool": entry}, entry.pos)))
        for key, entry in found
    ]


def _name(entry: Mapping) -> Key:
    tree = entry.get("name")
    return Key(text_of(tree) or "", tree.pos if tree is not None else entry.pos)


def expand(lowering: Lowering, body: Mapping, seen: tuple[str, ...] = ()) -> tuple[Mapping, list[Mapping]]:
    """Replace the workbook calls of a task mapping; return also the sinks on the way.

    The caller's input wins over the task's, its ``spec`` is laid over the task's; parameters are the task's own.
    """
    if text_of(body.get("kind")) != "workbook":
        return body, []
    found = _find(lowering, body, seen)
    if found is None:
        return _noop_call(body), []
    name, entry = found
    lowering.workbook_used.add(name)
    for key, _ in body.items():
        if key.text not in _CALL_KEYS:
            hint = f"give it to the task {name!r}, or as an input: input: {{ {key.text}: … }}"
            lowering.diagnostics.error(
                "unknown-key", f"`{key.text}` is not a key of a workbook call", key.pos, hint=hint
            )
    tool, sinks = expand(lowering, without_empty(mapping_of(entry.get("tool"))), (*seen, name))
    merged = _merge(lowering, tool, body)
    sink = entry.get("sink")
    return merged, [*sinks, *([sink] if isinstance(sink, Mapping) else [])]


def computed_name(body: Mapping) -> Tree | None:
    """Return the template that names the task of a workbook call; None for a literal name."""
    tree = body.get("task") if body.has("task") else body.get("name")
    text = text_of(tree)
    wanted = text_of(body.get("kind")) == "workbook" and text is not None and has_template(text)
    return tree if wanted else None


def naming(body: Mapping, name: str) -> Mapping:
    """Return the call with a literal name."""
    tree = computed_name(body)
    pos = tree.pos if tree is not None else body.pos
    entries = {key: entry for key, entry in body.entries.items() if key not in ("task", "name")}
    return Mapping({**entries, "task": (Key("task", pos), made_text(name, pos))}, body.pos)


def _find(lowering: Lowering, body: Mapping, seen: tuple[str, ...]) -> tuple[str, Mapping] | None:
    spelling = "task" if body.has("task") else "name"
    tree = body.get(spelling)
    name = text_of(tree)
    pos = tree.pos if tree is not None else body.key_pos("kind")
    if name is None:
        lowering.diagnostics.error(
            "missing-key", "the workbook call names no task", pos, hint="add `name: <task>`"
        )
        return None
    if has_template(name):
        hint = "compute the name in the step's own call"
        lowering.diagnostics.error(
            "misplaced-template", "a task of the workbook cannot compute the name of another", pos, hint=hint
        )
        return None
    if name in seen:
        lowering.diagnostics.error(
            "workbook-cycle",
            f"the workbook task {name!r} calls itself",
            pos,
            hint="break the circle of calls",
        )
        return None
    if name not in lowering.workbook:
        known = listing("tasks", lowering.workbook, "none, there is no workbook")
        guess = lowering.diagnostics.suggest(name, lowering.workbook, known)
        lowering.diagnostics.error("unknown-task", f"the workbook has no task {name!r}", pos, hint=guess)
        return None
    return name, lowering.workbook[name]


def _noop_call(body: Mapping) -> Mapping:
    """Replace a refused call by a ``noop``, so that the rest can still be checked."""
    pos = body.key_pos("kind")
    kept = {
        name: entry for name, entry in body.entries.items() if name in ("spec", "set", "set_ctx", "set_iter")
    }
    return Mapping({**kept, "kind": (Key("kind", pos), made_text("noop", pos))}, body.pos)


def _merge(lowering: Lowering, tool: Mapping, call: Mapping) -> Mapping:
    below = spelled(lowering, tool, "input", "args", "with")
    lowering.workbook_inputs.update(scalar.pos for scalar in scalars_in(below))
    above = spelled(lowering, call, "input", "args", "with")
    entries = {name: entry for name, entry in tool.entries.items() if name not in ("input", "args", "with")}
    combined = overlay_input(below, above)
    if combined is not None:
        entries["input"] = (Key("input", combined.pos), combined)
    for name in ("spec", "output", "set", "set_ctx", "set_iter", "retry", "cache"):
        merged = merge_trees(tool.get(name), call.get(name))
        if merged is not None:
            entries[name] = (Key(name, merged.pos), merged)
    return Mapping(entries, call.pos)
