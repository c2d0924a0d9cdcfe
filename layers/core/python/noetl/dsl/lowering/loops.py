"""``loop``, and the kind ``iterator`` that means the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from noetl.dsl.kind_facts import find_spec
from noetl.dsl.lowering.context import LOOP, Frame, Lowering
from noetl.dsl.lowering.tasks import canonical_params, without_empty
from noetl.dsl.model.types import RESERVED
from noetl.dsl.program import Loop
from noetl.dsl.yaml_text.tree import Key, Mapping, Scalar, Tree, mapping_of, text_of

FailureMode = Literal["fail_fast", "best_effort"]


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """The loop, and the tool that is its body."""

    loop: Loop | None
    tool: Tree | None


def lower_loop(lowering: Lowering, step: Mapping, frame: Frame, failure: Tree | None) -> LoopPlan:
    """Lower a step's ``loop``, or the loop inside ``tool: {kind: iterator}``.

    ``failure`` is the layered ``policy.failure``.
    """
    tool = step.get("tool")
    if isinstance(tool, Mapping) and text_of(tool.get("kind")) == "iterator":
        return _from_iterator(lowering, step, tool, frame, failure)
    block = step.get("loop")
    if not isinstance(block, Mapping):
        return LoopPlan(None, tool)
    spec = mapping_of(block.get("spec"))
    own_failure = mapping_of(spec.get("policy")).get("failure")
    mode = text_of(spec.get("mode")) or text_of(block.get("mode"))
    limit = spec.get("max_in_flight") or block.get("max_in_flight")
    iterator = text_of(block.get("iterator")) or "item"
    return LoopPlan(
        _loop(lowering, block.get("in"), iterator, mode, limit, own_failure or failure, frame, block), tool
    )


def _loop(
    lowering: Lowering,
    collection: Tree | None,
    iterator: str,
    mode: str | None,
    limit: Tree | None,
    failure: Tree | None,
    frame: Frame,
    block: Mapping,
    *,
    iterator_vars: bool = False,
) -> Loop:
    lowering.names.iterators[frame.step] = iterator
    how: FailureMode = (
        "best_effort" if text_of(mapping_of(failure).get("mode")) == "best_effort" else "fail_fast"
    )
    return Loop(
        collection=lowering.node(collection, frame.at(LOOP)),
        iterator=iterator,
        mode="parallel" if mode in ("parallel", "async") else "sequential",
        max_in_flight=lowering.optional(limit, frame.at(LOOP)),
        failure=how,
        iterator_vars=iterator_vars,
        pos=block.pos,
    )


_ITERATOR_KEYS = ("kind", "collection", "element", "mode", "task", "max_in_flight")


def _from_iterator(
    lowering: Lowering, step: Mapping, tool: Mapping, frame: Frame, failure: Tree | None
) -> LoopPlan:
    if step.has("loop"):
        hint = "keep one: loop: { in: …, iterator: … } with the inner task as the tool"
        lowering.diagnostics.error(
            "duplicate-loop",
            "the step has a `loop`, and its tool is an iterator",
            step.key_pos("loop"),
            hint=hint,
        )
    parts = iterator_parts(lowering, tool)
    loop = _loop(
        lowering,
        parts.collection,
        parts.element,
        parts.mode,
        parts.limit,
        failure,
        frame,
        tool,
        iterator_vars=True,
    )
    lowering.names.vars |= {f"{frame.step}_{suffix}" for suffix in ("index", "item", "count", "total")}
    return LoopPlan(loop, parts.task)


@dataclass(frozen=True, slots=True)
class IteratorParts:
    """The parts of an iterator.

    ``task``: its task mapping or list, a ``sink`` of its own inside the mapping.
    """

    collection: Tree | None
    element: str
    mode: str | None
    limit: Tree | None
    task: Tree | None

    @property
    def parallel(self) -> bool:
        return self.mode in ("parallel", "async")


def iterator_parts(lowering: Lowering, tool: Mapping, beside: frozenset[str] = frozenset()) -> IteratorParts:
    """Check ``kind: iterator`` and return its parts.

    ``beside``: keys it may have because it is a task like others.
    """
    tool = canonical_params(lowering, without_empty(tool), find_spec(lowering.kinds, "iterator"))
    for key, _ in tool.items():
        if key.text not in _ITERATOR_KEYS and key.text not in beside:
            hint = f"an iterator has {', '.join(_ITERATOR_KEYS[1:])}; give `{key.text}` to its task"
            lowering.diagnostics.error(
                "unknown-key", f"`{key.text}` is not a key of an iterator", key.pos, hint=hint
            )
    collection, task = tool.get("collection"), tool.get("task")
    for name, value in (("collection", collection), ("element", tool.get("element")), ("task", task)):
        if value is None:
            lowering.diagnostics.error(
                "missing-key", f"the iterator has no `{name}`", tool.key_pos("kind"), hint=f"add `{name}: …`"
            )
    _check_literals(lowering, tool)
    return IteratorParts(
        collection,
        text_of(tool.get("element")) or "item",
        text_of(tool.get("mode")),
        tool.get("max_in_flight"),
        _nested(task),
    )


def _check_literals(lowering: Lowering, tool: Mapping) -> None:
    mode = tool.get("mode")
    if mode is not None and text_of(mode) not in ("sequential", "parallel", "async"):
        hint = "write sequential, parallel or async"
        lowering.diagnostics.error("wrong-value", f"`mode` cannot be {mode.plain()!r}", mode.pos, hint=hint)
    element = tool.get("element")
    if element is not None and (not (text_of(element) or "").isidentifier() or text_of(element) in RESERVED):
        hint = "write a name of letters, digits and _"
        lowering.diagnostics.error(
            "bad-name", f"`element` cannot be {element.plain()!r}", element.pos, hint=hint
        )
    task = tool.get("task")
    if isinstance(task, Scalar) or (isinstance(task, Mapping) and not (task.has("kind") or task.has("tool"))):
        hint = "write task: { kind: …, … }"
        lowering.diagnostics.error(
            "wrong-type", "an iterator's `task` is a mapping or a list of tasks", task.pos, hint=hint
        )


def _nested(task: Tree | None) -> Tree | None:
    """Unwrap ``task: {tool: {kind: …}}``: it is the same as ``task: {kind: …}``."""
    if isinstance(task, Mapping) and isinstance(task.get("tool"), Mapping):
        inner = mapping_of(task.get("tool"))
        return Mapping({**inner.entries, **_only(task, "sink"), **_only(task, "vars")}, task.pos)
    return task


def _only(mapping: Mapping, name: str) -> dict[str, tuple[Key, Tree]]:
    return {name: mapping.entries[name]} if name in mapping.entries else {}
