"""Which form of the language a step is written in, and what says so."""

from __future__ import annotations

from typing import Literal

from noetl.dsl.diagnostics import Diagnostics
from noetl.dsl.program import Pos
from noetl.dsl.yaml_text.tree import Mapping, Sequence, Tree, mapping_of

Form = Literal["event", "canonical"]


def form_of(step: Mapping, diagnostics: Diagnostics | None = None) -> Form:
    """Return the form of a step; report keys of both forms to ``diagnostics``."""
    marks = sorted(_marks(step), key=lambda mark: (mark[2].line, mark[2].column))
    if not marks:
        return "event"
    form, first, _ = marks[0]
    for other, name, pos in marks:
        if other != form:
            if diagnostics is not None:
                diagnostics.error(
                    "mixed-forms",
                    f"`{name}` belongs to the {other} form, but `{first}` above belongs to the {form} form",
                    pos,
                    hint=f"write the whole step in one form: {_REPLACE.get(name, f'say `{name}` the way the {form} form does')}",
                )
            break
    return form


_REPLACE = {
    "case": "routes are `next.arcs[].when`, reactions are `tool[].spec.policy.rules`",
    "vars": "values are kept by `set: { ctx.x: … }`",
    "sink": "a sink is one more task at the end of `tool`",
    "next": "routes are `next: { arcs: [ { step: … } ] }`",
    "next.arcs": "routes are `next: [ … ]`, with guards in `case`",
    "set": "values are kept by `vars`, or by `set` in a `case`",
    "loop.spec": "write `mode` directly under `loop`",
    "tool (a list)": "the event form has one `tool` mapping",
    "tool.spec.policy": "reactions are `case` entries",
    "spec.policy.admit": "guard the `case` entry that leads here",
}


def _marks(step: Mapping) -> list[tuple[Form, str, Pos]]:
    """(form, key, place) of everything that only one form has."""
    marks: list[tuple[Form, str, Pos]] = [
        ("event", name, step.key_pos(name)) for name in ("case", "vars", "sink") if step.get(name) is not None
    ]
    following = step.get("next")
    if isinstance(following, Mapping) and not following.has("step"):
        marks.append(("canonical", "next.arcs", step.key_pos("next")))
    elif following is not None:
        marks.append(("event", "next", step.key_pos("next")))
    for name in ("set", "set_ctx"):
        if step.has(name):
            marks.append(("canonical", name, step.key_pos(name)))
    marks += _tool_marks(step, step.get("tool"))
    loop = mapping_of(step.get("loop"))
    if loop.has("spec"):
        marks.append(("canonical", "loop.spec", loop.key_pos("spec")))
    policy = mapping_of(mapping_of(step.get("spec")).get("policy"))
    if policy.has("admit"):
        marks.append(("canonical", "spec.policy.admit", policy.key_pos("admit")))
    return marks


def _tool_marks(step: Mapping, tool: Tree | None) -> list[tuple[Form, str, Pos]]:
    if isinstance(tool, Sequence):
        return [("canonical", "tool (a list)", step.key_pos("tool"))]
    body = mapping_of(tool)
    marks: list[tuple[Form, str, Pos]] = [
        ("canonical", f"tool.{name}", body.key_pos(name))
        for name in ("set", "set_ctx", "set_iter", "output")
        if body.has(name)
    ]
    if isinstance(body.get("task"), Sequence):
        marks.append(("canonical", "tool.task (a list)", body.key_pos("task")))
    spec = mapping_of(body.get("spec"))
    if spec.has("policy"):
        marks.append(("canonical", "tool.spec.policy", spec.key_pos("policy")))
    return marks
