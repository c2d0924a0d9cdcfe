"""``on_success``, ``on_failure`` and ``finally`` as steps at the end of an execution.

Only the end of an execution leads to them.

``finally`` is one step. Entries of the other two are a step each, one after the other, so that none depends on another. All of them
tolerate failures, and hand the outcome on under the name ``execution``.
"""

from __future__ import annotations

import itertools

import msgspec

from noetl.dsl.lowering.context import NEXT_ARGS, Frame, Lowering
from noetl.dsl.lowering.steps import Defaults, lower_step
from noetl.dsl.model.endings import WAYS, notifies
from noetl.dsl.program import Arc, Pos, Step
from noetl.dsl.yaml_text.tree import Key, Mapping, Sequence, Tree, made_text

FINALLY = "finally"
OUTCOME = "execution"
_BEFORE = {"completed": "on_success", "failed": "on_failure"}
"""Outcome → the key whose steps come before ``finally``."""
_RETRY = {"attempts": "3", "delay": "2s"}
"""Of a notification that says nothing else."""


def lower_endings(
    lowering: Lowering, root: Mapping, defaults: Defaults, first: int
) -> tuple[tuple[Step, ...], dict[str, str]]:
    """Return the last steps, numbered from ``first``, and the first step of each outcome."""
    steps: list[Step] = []
    chains: dict[str, list[Step]] = {}
    for key in (*_BEFORE.values(), FINALLY):
        chains[key] = []
        for name, block in _blocks(root, key):
            if _taken(lowering, name, block.key_pos("step")):
                continue
            lowering.names.steps[name] = block.key_pos("step")
            lowering.names.give_args(name, _mapping(block.pos, {OUTCOME: None}))
            chains[key].append(lower_step(lowering, block, first + len(steps) + len(chains[key]), defaults))
        steps += chains[key]
    last: dict[str, str] = {}
    following: dict[str, str] = {}
    for outcome in ("completed", "failed", "cancelled"):
        names = [step.name for step in (*chains.get(_BEFORE.get(outcome, ""), []), *chains[FINALLY])]
        if names:
            last[outcome] = names[0]
        following |= dict(itertools.pairwise(names))
    return tuple(_leading(lowering, step, following.get(step.name)) for step in steps), last


def _taken(lowering: Lowering, name: str, pos: Pos) -> bool:
    found = lowering.names.steps.get(name)
    if found is None:
        return False
    lowering.diagnostics.error(
        "duplicate-step",
        f"step {name!r} on line {found.line} has the name of what runs at the end",
        pos,
        hint="rename the step",
    )
    return True


def _leading(lowering: Lowering, step: Step, target: str | None) -> Step:
    """Let ``step`` lead to the next of the last steps, in every outcome."""
    if target is None:
        return step
    frame = Frame(step.name, NEXT_ARGS)
    args = lowering.node(_mapping(step.pos, {OUTCOME: made_text("{{ execution }}", step.pos)}), frame)
    lowering.arcs += 1
    arc = Arc(target, lowering.arcs - 1, args=args, sync=False, pos=step.pos)
    return msgspec.structs.replace(step, arcs=(arc,))


def _blocks(root: Mapping, key: str) -> list[tuple[str, Mapping]]:
    """Return names and blocks of the steps that the root's ``key`` describes."""
    tree = root.get(key)
    if tree is None:
        return []
    pos = root.key_pos(key)
    entries = [tree]
    if isinstance(tree, Sequence):
        entries = [tree] if key == FINALLY else list(tree.items)
    return [
        (name, _block(name, entry, pos if number == 0 else entry.pos))
        for number, entry in enumerate(entries)
        for name in [key if number == 0 else f"{key}_{number + 1}"]
    ]


def _block(name: str, entry: Tree, pos: Pos) -> Mapping:
    """Make one step of the canonical form."""
    inside: dict[str, Tree | None] = {}
    tool: Tree | None = entry
    if isinstance(entry, Mapping) and entry.has("tool") and not entry.has("kind"):
        inside = {key.text: value for key, value in entry.items() if key.text != "tool"}
        tool = entry.get("tool")
    spec = inside.get("spec")
    kept = spec.entries if isinstance(spec, Mapping) else {}
    inside["spec"] = Mapping({**kept, **_mapping(pos, {"on_error": made_text("continue", pos)}).entries}, pos)
    tasks = tool.items if isinstance(tool, Sequence) else [_named(tool, f"{name}_task")]
    inside["tool"] = Sequence([_task(task) for task in tasks], pos)
    return _mapping(pos, {"step": made_text(name, pos), **inside})


def _named(task: Tree | None, name: str) -> Tree:
    block = task if isinstance(task, Mapping) else Mapping({}, Pos())
    if block.has("name") or not (block.has("kind") or notifies(block.plain())):
        return block
    return Mapping({"name": (Key("name", block.pos), made_text(name, block.pos)), **block.entries}, block.pos)


def _task(tree: Tree) -> Tree:
    """Return a task as it is written, or a notification as the task that sends it."""
    if not isinstance(tree, Mapping) or not notifies(tree.plain()):
        return tree
    way = next(key for key, _ in tree.items() if key.text in WAYS)
    pos, target = way.pos, tree.get(way.text)
    text = tree.get("text") or made_text("{{ execution.message }}", pos)
    outcome = made_text("{{ execution }}", pos)
    sent: dict[str, Tree | None]
    match way.text:
        case "webhook":
            body = _mapping(pos, {"text": text, OUTCOME: outcome})
            sent = {
                "kind": made_text("http", pos),
                "method": made_text("POST", pos),
                "url": target,
                "body": body,
            }
        case "slack":
            body = _mapping(pos, {"text": text})
            sent = {
                "kind": made_text("http", pos),
                "method": made_text("POST", pos),
                "url": target,
                "body": body,
            }
        case "event":
            sent = {
                "kind": made_text("eventbridge", pos),
                "bus": target,
                "source": made_text("noetl", pos),
                "detail_type": made_text("execution {{ execution.status }}", pos),
                "detail": _mapping(pos, {"text": text, OUTCOME: outcome}),
            }
        case _:
            payload = _mapping(pos, {"text": text, OUTCOME: outcome})
            sent = {"kind": made_text("playbook", pos), "path": target, "payload": payload}
    retry = tree.get("retry") or _mapping(
        pos, {name: made_text(value, pos) for name, value in _RETRY.items()}
    )
    label = {"name": tree.get("name")} if tree.has("name") else {}
    return _mapping(pos, {**label, **sent, "retry": retry})


def _mapping(pos: Pos, values: dict[str, Tree | None]) -> Mapping:
    return Mapping(
        {
            name: (Key(name, pos), made_text("", pos) if value is None else value)
            for name, value in values.items()
        },
        pos,
    )
