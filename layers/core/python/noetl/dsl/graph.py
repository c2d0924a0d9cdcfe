"""A program as a picture: Mermaid flowchart text."""

from __future__ import annotations

from noetl.dsl.program import EVERY_STEP, Expr, GoTo, Lit, NextAction, Node, Program, Step, Text
from noetl.dsl.reachability import rules_of

_MAX_LABEL = 60


def to_mermaid(program: Program) -> str:
    """``flowchart TD`` with one node per step: loops as subroutines, waiting admissions as hexagons, failure arcs dashed.

    Who cancels others points at them with a cross; who cancels all is a double circle.
    """
    ids = {step.name: f"s{index}" for index, step in enumerate(program.steps)}
    lines = ["flowchart TD"]
    lines += [f"    {ids[step.name]}{_shape(step)}" for step in program.steps]
    if program.entry in ids:
        lines.append(f"    begin(( )) --> {ids[program.entry]}")
    for step in program.steps:
        lines += _arcs(step, ids)
        lines += _case_arcs(step, ids)
        lines += [f'    {ids[step.name]} -.-x|"cancels"| {ids[name]}' for name in step.cancels if name in ids]
    if program.final_step in ids:
        lines.append(f"    finish([when all is done]) -.-> {ids[program.final_step]}")
    return "\n".join(lines) + "\n"


def _shape(step: Step) -> str:
    kinds = ", ".join(dict.fromkeys(task.kind for task in step.body.tasks)) if step.body is not None else ""
    text = _escape(step.name) + (f"<br/>{_escape(kinds)}" if kinds else "") + _lock(step)
    if EVERY_STEP in step.cancels:
        return f'((("{text}")))'
    if step.loop is not None:
        return f'[["{text}<br/>for each {_escape(step.loop.iterator)}"]]'
    if step.admit is not None:
        return f'{{{{"{text}"}}}}'
    return f'["{text}"]' if step.body is not None else f'("{text}")'


def _lock(step: Step) -> str:
    if step.mutex is None:
        return ""
    name = step.mutex.value if isinstance(step.mutex, Lit) else getattr(step.mutex, "source", "")
    return f"<br/>lock {_escape(_shortened(str(name)))}"


def _arcs(step: Step, ids: dict[str, str]) -> list[str]:
    lines = []
    for arc in step.arcs:
        if arc.target in ids:
            line = "-->" if "done" in arc.on else "-.->"
            lines.append(f"    {ids[step.name]} {line}{_label(arc.when)} {ids[arc.target]}")
    return lines


def _case_arcs(step: Step, ids: dict[str, str]) -> list[str]:
    lines: list[str] = []
    seen: set[GoTo] = set()
    for rule in rules_of(step):
        for action in rule.actions:
            targets = action.targets if isinstance(action, NextAction) else ()
            for target in targets:
                if target not in seen and target.step in ids:
                    seen.add(target)
                    lines.append(f"    {ids[step.name]} -->{_label(rule.when)} {ids[target.step]}")
    return lines


def _label(guard: Node | None) -> str:
    if not isinstance(guard, (Expr, Text)):
        return ""
    return f'|"{_escape(_shortened(guard.source))}"|'


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_LABEL else text[: _MAX_LABEL - 1] + "…"


def _escape(text: str) -> str:
    """Mermaid reads quotes, brackets and HTML in labels: they travel as character codes."""
    return "".join(char if char.isalnum() or char in " _-.,=/()+*…" else f"#{ord(char)};" for char in text)
