"""Meaning: references between steps, and steps that nothing leads to.

Names inside templates: ``name_checks``.
"""

from __future__ import annotations

from noetl.dsl.diagnostics import MAX_REPORTED, Diagnostics, did_you_mean, listing, nearest
from noetl.dsl.lints import check_lints
from noetl.dsl.lowering.context import Lowering
from noetl.dsl.name_checks import check_names
from noetl.dsl.program import Program, Step
from noetl.dsl.reachability import closure, edges
from noetl.dsl.yaml_text.tree import Mapping, items_of, mapping_of, text_of


def check_program(lowering: Lowering, program: Program, root: Mapping) -> None:
    """Add every problem of meaning to ``lowering.diagnostics``."""
    diagnostics = lowering.diagnostics
    executor = mapping_of(mapping_of(root.get("executor")).get("spec"))
    names = [step.name for step in program.steps if step.name not in program.last_steps]
    for key in ("entry_step", "final_step"):
        tree = executor.get(key)
        target = text_of(tree)
        if tree is not None and target is not None and target not in names:
            hint = did_you_mean(target, names, listing("steps", names))
            diagnostics.error(
                "unknown-step", f"`{key}` names {target!r}, which is not a step", tree.pos, hint=hint
            )
    _check_targets(program, names, diagnostics)
    _check_cancels(root, names, diagnostics)
    handler = executor.get("on_error")
    handles = text_of(handler.get("step") if isinstance(handler, Mapping) else handler) or ""
    _check_reachable(program, names, handles, diagnostics)
    if executor.get("entry_step") is None and "start" not in names and names:
        _check_first(program, names, handles, lowering)
    for step in program.steps:
        _check_join(step, diagnostics)
    known = frozenset(step.name for step in program.steps)
    for name, (_, pos) in lowering.names.aliases.items():
        if name in known:
            diagnostics.error(
                "duplicate-name", f"`as: {name}` is the name of a step", pos, hint="choose another name"
            )
    check_names(lowering)
    check_lints(lowering, program, root)


def _check_targets(program: Program, names: list[str], diagnostics: Diagnostics) -> None:
    known, steps = frozenset(names), listing("steps", names)
    for edge in edges(program):
        if edge.target not in known and edge.source not in program.last_steps:
            hint = diagnostics.suggest(edge.target, names, steps)
            diagnostics.error("unknown-step", f"there is no step {edge.target!r}", edge.pos, hint=hint)


def _check_cancels(root: Mapping, names: list[str], diagnostics: Diagnostics) -> None:
    known, steps = frozenset(names), listing("steps", names)
    for step in items_of(root.get("workflow")):
        for tree in items_of(mapping_of(mapping_of(step).get("spec")).get("cancels")):
            name = text_of(tree)
            if name is not None and name not in known:
                hint = diagnostics.suggest(name, names, f"{steps}; for every step write cancels: all")
                diagnostics.error(
                    "unknown-step", f"`cancels` names {name!r}, which is not a step", tree.pos, hint=hint
                )


def _check_reachable(program: Program, names: list[str], handler: str, diagnostics: Diagnostics) -> None:
    """Report steps that nothing leads to.

    A misspelled target counts as the step it was meant to be, so that one slip is reported once.

    ``handler``: the step that ``executor.spec.on_error`` names, whether or not a step makes use of it.
    """
    following: dict[str, list[str]] = {}
    suggestions: dict[str, str | None] = {name: name for name in names}
    for edge in edges(program):
        if edge.target not in suggestions and len(suggestions) <= len(names) + MAX_REPORTED:
            suggestions[edge.target] = nearest(edge.target, names)
        target = suggestions.get(edge.target)
        if target is not None:
            following.setdefault(edge.source, []).append(target)
    starts = [_suggestion(name, names) for name in (program.entry, program.final_step or program.entry)]
    starts += [handler] if handler in names else []
    reached = closure(starts, following) | set(starts)
    for step in program.steps:
        if step.name not in reached and step.name not in program.last_steps:
            diagnostics.warning(
                "unreachable-step",
                f"nothing leads to step {step.name!r}: it never runs",
                step.pos,
                hint=f"add an arc to it, or remove it; the execution begins at {program.entry!r}",
            )


def _check_first(program: Program, names: list[str], handler: str, lowering: Lowering) -> None:
    """Warn of an entry that only the order of the steps names, while something leads to it.

    A step that may be meant instead is one that nothing leads to, which has a warning of its own.
    """
    first = next(step for step in program.steps if step.name == program.entry)
    leads = next(
        (
            edge.source
            for edge in edges(program)
            if edge.target == first.name and lowering.agents.get(edge.source) != first.name
        ),
        None,
    )
    if leads is not None:
        doubt = f"although {leads!r} leads to it" if leads != first.name else "although it leads to itself"
    elif first.name in (handler, program.final_step):
        doubt = "although it is also where the execution goes in the end"
    else:
        return
    lowering.diagnostics.warning(
        "entry-first-step",
        f"no step is called start: the execution begins at {first.name!r}, the first one, {doubt}",
        first.pos,
        hint=f"write executor: {{ spec: {{ entry_step: {first.name} }} }}, or call the entry `start`",
    )


def _suggestion(name: str, names: list[str]) -> str:
    return name if name in names else nearest(name, names) or names[0]


def _check_join(step: Step, diagnostics: Diagnostics) -> None:
    counts_arcs = step.join.isdigit() and step.join_of == "arcs"
    if counts_arcs and int(step.join) == step.ways and step.join_rest != "absorb":
        diagnostics.warning(
            "no-effect",
            f"step {step.name!r} waits for all of its {step.ways} arcs: nothing is left for `rest: {step.join_rest}`",
            step.pos,
            hint="lower `wait`, or remove `rest`",
        )
    if step.join_rest == "cancel" and not step.feeders:
        diagnostics.warning(
            "no-effect",
            f"no step leads to {step.name!r} alone: `rest: cancel` withdraws nothing",
            step.pos,
            hint="remove `rest`, or name what to withdraw in spec.cancels",
        )
    if counts_arcs and int(step.join) > step.ways:
        diagnostics.warning(
            "join-count",
            f"step {step.name!r} waits for {step.join} arrivals, and {step.ways} arcs lead to it",
            step.pos,
            hint="unless a cycle arrives several times, lower `join`",
        )
