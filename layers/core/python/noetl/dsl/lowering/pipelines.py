"""A step's tool — mapping or list — and everything else that becomes tasks: sinks and inline tasks."""

from __future__ import annotations

from noetl.dsl.lowering.context import Frame, Lowering
from noetl.dsl.lowering.tasks import Layers, lower_task
from noetl.dsl.lowering.workbook import expand
from noetl.dsl.program import SinkAction, StepRetry, Task
from noetl.dsl.tree import Key, Mapping, Tree, items_of, made_text, mapping_of, text_of

Labelled = tuple[str, Mapping]


def label_tasks(lowering: Lowering, tool: Tree | None, step: str) -> list[Labelled]:
    """(label, task) pairs: ``<step>_task`` for a mapping, ``task_<index>`` for unlabelled items. Labels are unique."""
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
    """``{name: t, kind: …}`` and ``{t: {kind: …}}`` are the same task."""
    if entry.has("kind"):
        return text_of(entry.get("name")) or f"task_{index}", entry
    for key, value in entry.items():
        body = mapping_of(value)
        return key.text, Mapping(body.entries, key.pos)
    return f"task_{index}", entry


def lower_tasks(
    lowering: Lowering, pairs: list[Labelled], frame: Frame, layers: Layers, *, retry: StepRetry | None = None
) -> tuple[Task, ...]:
    """The tasks of one pipeline."""
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
    """One task, workbook calls replaced by the tasks they name."""
    tool, sinks = expand(lowering, body)
    if text_of(tool.get("kind")) == "iterator":
        lowering.diagnostics.error(
            "misplaced-kind",
            "the kind `iterator` is a loop around a step, not a task",
            body.key_pos("kind"),
            hint="write the step's `loop: { in: …, iterator: … }`",
        )
        tool = tool.without("collection", "element", "mode", "task")
    lowered = tuple(
        lower_sink(lowering, sink, frame, label=f"{label}_sink{index or ''}")
        for index, sink in enumerate(sinks)
    )
    return lower_task(
        lowering,
        tool,
        label,
        frame,
        layers,
        labels=labels,
        retry=retry,
        sinks=(*lowered, *own_sinks),
        lower_sink=lower_sink,
    )


def lower_sink(lowering: Lowering, block: Mapping, frame: Frame, *, label: str) -> SinkAction:
    """A ``sink`` block: ``table`` and ``args`` may stand beside the tool or inside it."""
    tool = mapping_of(block.get("tool"))
    entries = dict(tool.entries)
    for name in ("table", "args"):
        beside = block.entries.get(name)
        if beside is None:
            continue
        if name in entries or (name == "args" and (tool.has("input") or tool.has("with"))):
            lowering.diagnostics.error(
                "duplicate-spelling",
                f"`{name}` stands beside the sink's tool and inside it",
                beside[0].pos,
                hint="keep one",
            )
        entries[name] = beside
    where = frame.tool()
    when = lowering.optional(block.get("when"), frame.guard())
    return SinkAction(lower_body(lowering, label, Mapping(entries, tool.pos), where, Layers()), when)


def noop_task(owner: Mapping) -> Mapping:
    """What a step without a tool runs when its ``vars`` need a place to be evaluated."""
    return Mapping({"kind": (Key("kind", owner.pos), made_text("noop", owner.pos))}, owner.pos)
