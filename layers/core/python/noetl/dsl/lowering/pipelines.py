"""A step's tool (mapping or list), and everything else that becomes tasks.

These are sinks and inline tasks.
"""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec

from noetl.dsl.lowering.context import TOOL, Frame, Lowering
from noetl.dsl.lowering.loops import iterator_parts
from noetl.dsl.lowering.tasks import INPUT_KEYS, TASK_KEYS, Layers, lower_task, without_empty
from noetl.dsl.lowering.values import spelled
from noetl.dsl.lowering.workbook import computed_name, expand, naming
from noetl.dsl.program import Nested, SinkAction, StepRetry, Task
from noetl.dsl.yaml_text.tree import Key, Mapping, Tree, items_of, made_text, mapping_of, text_of

Labelled = tuple[str, Mapping]
Entries = dict[str, tuple[Key, Tree]]


def label_tasks(lowering: Lowering, tool: Tree | None, step: str) -> list[Labelled]:
    """Label tasks uniquely: ``<step>_task`` for a mapping, ``task_<index>`` without a label."""
    if isinstance(tool, Mapping):
        return [(f"{step}_task", tool)]
    pairs = [unlabel(mapping_of(item), index) for index, item in enumerate(items_of(tool))]
    seen: set[str] = set()
    for label, task in pairs:
        if label in seen:
            tree = task.get("name")
            pos = tree.pos if tree is not None else task.pos
            lowering.diagnostics.error(
                "duplicate-task",
                f"step {step!r} has two tasks labelled {label!r}",
                pos,
                hint="rename one of them",
            )
        seen.add(label)
    return pairs


def unlabel(entry: Mapping, index: int) -> Labelled:
    """Take the label off a task: ``{name: t, kind: …}`` and ``{t: {kind: …}}`` are the same."""
    if entry.has("kind"):
        return text_of(entry.get("name")) or f"task_{index}", entry
    for key, value in entry.items():
        body = mapping_of(value)
        return key.text, Mapping(body.entries, key.pos)
    return f"task_{index}", entry


def lower_tasks(
    lowering: Lowering, pairs: list[Labelled], frame: Frame, layers: Layers, *, retry: StepRetry | None = None
) -> tuple[Task, ...]:
    """Lower the tasks of one pipeline."""
    labels = tuple(label for label, _ in pairs)
    known = lowering.names.labels.setdefault(frame.step, set())
    known.update(labels)
    inside = frame.knowing(labels)
    return tuple(
        lower_body(lowering, label, body, inside, layers, labels=labels, retry=retry) for label, body in pairs
    )


def lower_body(
    lowering: Lowering,
    label: str,
    body: Mapping,
    frame: Frame,
    layers: Layers,
    *,
    labels: tuple[str, ...] = (),
    retry: StepRetry | None = None,
    own_sinks: tuple[SinkAction, ...] = (),
) -> Task:
    """Lower one task, with workbook calls replaced by the tasks they name."""
    body = without_empty(body)
    computed = computed_name(body)
    if computed is not None:
        return _chosen(lowering, label, body, computed, frame, layers, labels=labels, retry=retry)
    tool, sinks = expand(lowering, body)
    if text_of(tool.get("kind")) == "agent":
        lowering.diagnostics.error(
            "misplaced-kind",
            "an agent is the whole tool of a step of the workflow",
            tool.key_pos("kind"),
            hint="give it a step of its own, or call a playbook that has it",
        )
        tool = noop_task(tool)
    loops = text_of(tool.get("kind")) == "iterator"
    nested = _nested(lowering, label, tool, frame, layers) if loops else None
    lowered = tuple(
        lower_sink(lowering, sink, frame, label=f"{label}_sink{index or ''}")
        for index, sink in enumerate(sinks)
    )
    task = lower_task(
        lowering,
        tool,
        label,
        frame,
        layers,
        labels=labels,
        retry=retry,
        sinks=(*lowered, *own_sinks),
        lower_sink=lower_sink,
        calls=not loops,
    )
    return msgspec.structs.replace(task, nested=nested) if loops else _without_failure(lowering, tool, task)


def _without_failure(lowering: Lowering, tool: Mapping, task: Task) -> Task:
    policy = mapping_of(mapping_of(tool.get("spec")).get("policy"))
    if policy.has("failure"):
        lowering.diagnostics.error(
            "misplaced-key",
            "`failure` decides about iterations, and this task has none",
            policy.key_pos("failure"),
            hint="remove it; `rules` answer a failed call",
        )
    return task


def _nested(lowering: Lowering, label: str, tool: Mapping, frame: Frame, layers: Layers) -> Nested:
    """Lower ``kind: iterator`` as a task.

    Its tasks know the element, and the names around it.
    """
    parts = iterator_parts(lowering, tool, TASK_KEYS)
    spec = mapping_of(tool.get("spec"))
    element = parts.element
    _check_element(lowering, tool, element, frame)
    lowering.names.iter.setdefault(frame.step, set()).add(element)
    if spec.has("timeout"):
        lowering.diagnostics.error(
            "misplaced-key",
            "an iterator is many calls: it has no `timeout` of its own",
            spec.key_pos("timeout"),
            hint="give it to the iterator's task, or limit the step: spec: { timeout: … }",
        )
    failure = mapping_of(spec.get("policy")).get("failure") or layers.failure
    mode = text_of(mapping_of(failure).get("mode"))
    given = spelled(lowering, tool, "input", "args", "with")
    names = given.entries if isinstance(given, Mapping) else {}
    known = frame.knowing(names, open_=given is not None and not isinstance(given, Mapping))
    inside = replace(known.at(TOOL).knowing([element]), parallel=frame.parallel or parts.parallel)
    return Nested(
        collection=lowering.node(parts.collection, known.value()),
        iterator=element,
        tasks=_inner_tasks(lowering, label, parts.task, inside, layers),
        max_in_flight=lowering.optional(parts.limit, known.value()),
        failure="best_effort" if mode == "best_effort" else "fail_fast",
        pos=tool.key_pos("kind"),
    )


def _inner_tasks(
    lowering: Lowering, label: str, task: Tree | None, frame: Frame, layers: Layers
) -> tuple[Task, ...]:
    if not isinstance(task, Mapping):
        pairs = label_tasks(lowering, task, frame.step)
        return lower_tasks(lowering, pairs, replace(frame, form="canonical"), layers)
    sink = task.get("sink")
    name = f"{label}_item"
    sinks = (lower_sink(lowering, sink, frame, label=f"{name}_sink"),) if isinstance(sink, Mapping) else ()
    return (lower_body(lowering, name, task.without("sink"), frame, layers, labels=(name,), own_sinks=sinks),)


def _check_element(lowering: Lowering, tool: Mapping, element: str, frame: Frame) -> None:
    taken = frame.names | {lowering.names.iterators.get(frame.step, "")}
    tree = tool.get("element", "iterator")
    if element in taken and tree is not None:
        lowering.diagnostics.error(
            "duplicate-name",
            f"the element {element!r} would hide what is called {element!r} around this loop",
            tree.pos,
            hint="choose another name",
        )


def _chosen(
    lowering: Lowering,
    label: str,
    body: Mapping,
    name: Tree,
    frame: Frame,
    layers: Layers,
    *,
    labels: tuple[str, ...],
    retry: StepRetry | None,
) -> Task:
    """Lower a workbook call whose name is computed: every task as it would be called here.

    The inputs that a task needs are checked when it is called, because this call's inputs may be meant for another task.
    """
    if not lowering.workbook:
        lowering.diagnostics.error(
            "unknown-task", "there is no workbook to choose from", name.pos, hint="add a `workbook`"
        )
    anyhow = frame.choosing()
    choices = tuple(
        (known, lower_body(lowering, label, naming(body, known), anyhow, layers, labels=labels, retry=retry))
        for known in lowering.workbook
    )
    bare = body.without("name", "task", "input", "args", "with")
    task = lower_task(
        lowering, bare, label, frame, layers, labels=labels, retry=retry, lower_sink=lower_sink, calls=False
    )
    return msgspec.structs.replace(task, choose=lowering.node(name, frame.value()), choices=choices)


def lower_sink(lowering: Lowering, block: Mapping, frame: Frame, *, label: str) -> SinkAction:
    """Lower a ``sink`` block.

    ``table`` and ``args`` may be beside the tool or inside it.
    """
    tool = mapping_of(block.get("tool"))
    entries = dict(tool.entries)
    for name in ("table", "args"):
        beside = block.entries.get(name)
        if beside is None:
            continue
        if name in entries or (name == "args" and (tool.has("input") or tool.has("with"))):
            lowering.diagnostics.error(
                "duplicate-spelling",
                f"`{name}` is written beside the sink's tool and inside it",
                beside[0].pos,
                hint="keep one",
            )
        entries[name] = beside
    if lowering.semantics > 1:
        entries = _written_by_http(entries)
    where = frame.tool()
    when = lowering.guard(block.get("when"), frame.guard())
    task = lower_body(lowering, label, Mapping(entries, tool.pos), where, Layers())
    if task.nested is not None or task.choices:
        lowering.diagnostics.error(
            "misplaced-kind",
            "a sink writes with one call",
            tool.key_pos("kind"),
            hint="name one task, and give it a list of rows, or put the loop into the step's `tool`",
        )
    return SinkAction(task, when)


_HTTP_BODIES = frozenset({"body", "payload", "json", "data", "form", "multipart", "body_from"})


def _written_by_http(entries: Entries) -> Entries:
    """Let an ``http`` sink without a body send its ``args``: they are what a sink writes."""
    given = next((entries[name] for name in INPUT_KEYS if name in entries), None)
    kind = text_of(entries["kind"][1]) if "kind" in entries else None
    if kind != "http" or given is None or not _HTTP_BODIES.isdisjoint(entries):
        return entries
    key, value = given
    pos = key.pos
    if isinstance(value, Mapping):  # rendered once, as the task's input
        sent: Tree = Mapping(
            {
                name.text: (name, made_text("{{ args[" + json.dumps(name.text) + "] }}", pos))
                for name, _ in value.items()
            },
            value.pos,
        )
    else:
        sent = value
        entries = {name: entry for name, entry in entries.items() if name not in INPUT_KEYS}
    posted = {"method": (Key("method", pos), made_text("POST", pos))}
    return {**posted, **entries, "body": (Key("body", pos), sent)}


def noop_task(owner: Mapping) -> Mapping:
    """Make the task of a step without a tool whose ``vars`` need a place to be evaluated."""
    return Mapping({"kind": (Key("kind", owner.pos), made_text("noop", owner.pos))}, owner.pos)


def item_task(owner: Mapping, iterator: str) -> Mapping:
    """Make the task of a loop without a tool: each iteration returns its element."""
    pos = owner.key_pos("loop")

    def block(**values: Tree) -> Mapping:
        return Mapping({name: (Key(name, pos), value) for name, value in values.items()}, pos)

    element = block(item=made_text(f"{{{{ {iterator} }}}}", pos))
    return block(kind=made_text("noop", pos), args=element, output=block(path=made_text("$.item", pos)))
