"""Failures of a step: ``spec.on_error``, its default in the executor, ``spec.compensate``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import msgspec

from noetl.dsl.lowering.context import BOUNDARY_TOOL, ON_ERROR_ARGS, TOOL, Frame, Lowering
from noetl.dsl.lowering.pipelines import label_tasks, lower_body
from noetl.dsl.lowering.tasks import Layers
from noetl.dsl.lowering.values import spelled
from noetl.dsl.program import Arc, Node, Pipeline, Pos, Step
from noetl.dsl.reachability import closure, step_edges
from noetl.dsl.yaml_text.tree import Mapping, Tree, items_of, mapping_of, text_of


@dataclass(frozen=True, slots=True)
class OnError:
    """What follows a failure of a step.

    ``tolerant``: the execution continues as if the step were done. ``target``: the step to go to.
    """

    tolerant: bool = False
    target: str = ""
    args: Node | None = None
    pos: Pos = field(default_factory=Pos)

    def arc(self, lowering: Lowering) -> tuple[Arc, ...]:
        """Return the arc it adds to a step."""
        if not self.target:
            return ()
        lowering.arcs += 1
        number = lowering.arcs - 1
        return (
            Arc(self.target, number, args=self.args, on=("failed",), sync=False, fallback=True, pos=self.pos),
        )


def lower_on_error(lowering: Lowering, tree: Tree | None, frame: Frame) -> OnError:
    """Lower ``on_error``: ``fail``, ``continue``, a step, or ``{step, args}``.

    The mapping can also name a step that is called like one of the two words.
    """
    block = mapping_of(tree)
    name = block.get("step") if isinstance(tree, Mapping) else tree
    target = text_of(name) or ""
    if not isinstance(tree, Mapping) and target in ("fail", "continue"):
        return OnError(tolerant=target == "continue")
    args = spelled(lowering, block, "args", "input")
    lowering.names.give_args(target, args)
    return OnError(
        target=target,
        args=lowering.optional(args, frame.at(ON_ERROR_ARGS)),
        pos=name.pos if name is not None else Pos(),
    )


def with_default_on_error(lowering: Lowering, root: Mapping, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Apply ``executor.spec.on_error`` to every step without an answer of its own.

    Left out are the step it names, the steps that nothing else leads to (they would handle their own failures, for ever), and
    ``final_step``.
    """
    executor = mapping_of(mapping_of(root.get("executor")).get("spec"))
    tree = executor.get("on_error")
    if tree is None:
        return steps
    default = lower_on_error(lowering, tree, Frame("", ON_ERROR_ARGS))
    spared = _with_own(root) | {text_of(executor.get("final_step")) or ""}
    if default.target:
        spared |= {default.target} | _behind(steps, text_of(executor.get("entry_step")), default.target)
    given: list[Step] = []
    for step in steps:
        if step.name not in spared:
            arcs = (*step.arcs, *default.arc(lowering))
            step = msgspec.structs.replace(step, tolerant=default.tolerant, arcs=arcs)
        given.append(step)
    return tuple(given)


def _with_own(root: Mapping) -> set[str]:
    blocks = (mapping_of(item) for item in items_of(root.get("workflow")))
    return {
        text_of(block.get("step")) or "" for block in blocks if mapping_of(block.get("spec")).has("on_error")
    }


def _behind(steps: tuple[Step, ...], entry: str | None, handler: str) -> set[str]:
    """Steps that only the handler leads to."""
    following = {step.name: [edge.target for edge in step_edges(step)] for step in steps}
    first = entry or ("start" if "start" in following else steps[0].name)
    ordinary = closure([first], following) | {first}
    return closure([handler], following) - ordinary


def lower_compensation(
    lowering: Lowering, spec: Mapping, frame: Frame, *, loops: bool, layers: Layers
) -> Pipeline | None:
    """Lower ``spec.compensate``: a task or a list of labelled tasks.

    It knows the names of its own tasks, and no iteration.
    """
    tree = spec.get("compensate")
    if tree is None:
        return None
    inside = replace(frame, form="canonical", undoing=True).at(BOUNDARY_TOOL if loops else TOOL)
    if isinstance(tree, Mapping):
        pairs = [(f"{frame.step}_compensate", tree)]
    else:
        pairs = label_tasks(lowering, tree, frame.step)
    labels = tuple(label for label, _ in pairs)
    layers = Layers(on_unmatched=layers.on_unmatched, retry=layers.retry, timeout=layers.timeout)
    known = inside.knowing(labels)
    return Pipeline(
        tuple(lower_body(lowering, label, body, known, layers, labels=labels) for label, body in pairs),
        meaning=lowering.semantics,
    )
