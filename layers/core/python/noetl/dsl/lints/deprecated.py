"""Spellings that the newest standard refuses, of older forms of the language.

They are the event form and the first spelling of the canonical form.

All of them run; ``noetl validate --strict`` reports each with its modern spelling, and ``noetl fmt --canonical`` rewrites them.
"""

from __future__ import annotations

from noetl.dsl.diagnostics import Diagnostics
from noetl.dsl.expressions import name_offset
from noetl.dsl.lowering.context import Lowering
from noetl.dsl.nodes import Pos
from noetl.dsl.yaml_text.tree import Mapping, Sequence, Tree, items_of, mapping_of, text_of

REWRITE = "`noetl fmt --canonical` rewrites it"
_STEP = {
    "args": "input: { … }",
    "case": "routes as `next.arcs[].when`, reactions as `tool[].spec.policy.rules`",
    "sink": "one more task at the end of `tool`",
    "vars": "set: { ctx.x: … }",
    "set_ctx": "set: { ctx.x: … }",
}
_TASK = {
    "args": "input: { … }",
    "with": "input: { … }",
    "set_ctx": "set: { ctx.x: … }",
    "set_iter": "set: { iter.x: … }",
    "sink": "one more task after this one",
}
_LOOP = {
    "mode": "spec: { mode: … } inside `loop`",
    "max_in_flight": "spec: { max_in_flight: … } inside `loop`",
}
_ARC = {"args": "input: { … }", "set_ctx": "set: { ctx.x: … }"}
_RETRY = {
    "max_attempts": "attempts: …",
    "initial_delay": "delay: …",
    "backoff_multiplier": "multiplier: …",
    "retry_when": "when: …",
    "stop_when": "until: …",
}
_THEN = {"set_ctx": "set: { ctx.x: … }", "set_iter": "set: { iter.x: … }"}
_NAMES = {
    "outcome": "`output` (outcome.result is output.data)",
    "args": "`input`",
}


def check_deprecated(lowering: Lowering, root: Mapping) -> None:
    """Report every construct of an older generation, at its key."""
    diagnostics = lowering.diagnostics
    for item in items_of(root.get("workflow")):
        _step(mapping_of(item), diagnostics)
    executor = mapping_of(mapping_of(root.get("executor")).get("spec"))
    _keys(mapping_of(executor.get("on_error")), {"args": _STEP["args"]}, diagnostics)
    for key in ("on_success", "on_failure", "finally"):
        last = root.get(key)
        tool = mapping_of(last).get("tool") or last
        tasks: list[Tree | None] = [*tool.items] if isinstance(tool, Sequence) else [tool]
        for task in tasks:
            _task(_body(task), diagnostics)
    workbook = root.get("workbook")
    entries = items_of(workbook) or [value for _, value in mapping_of(workbook).items()]
    for entry in map(mapping_of, entries):
        _keys(entry, {"sink": _TASK["sink"]}, diagnostics)
        _task(mapping_of(entry.get("tool")) if entry.has("tool") else entry, diagnostics)
    own = lowering.names.workload | lowering.names.ctx | lowering.names.vars
    for use in lowering.uses:
        if not use.scalar.source.text:
            continue  # the compiler wrote it
        for name in sorted(use.analysis.names & _NAMES.keys() - own):
            if name not in use.frame.names:
                at = use.scalar.locate(name_offset(use.scalar.value, name))
                _report_spelling(
                    diagnostics,
                    f"the name `{name}` in a template",
                    _NAMES[name],
                    at,
                )


def _report_spelling(
    diagnostics: Diagnostics, what: str, modern: str, pos: Pos, remedy: str = REWRITE
) -> None:
    diagnostics.error(
        "deprecated-spelling", f"{what} is an older spelling", pos, hint=f"write {modern}; {remedy}"
    )


def _keys(mapping: Mapping, modern: dict[str, str], diagnostics: Diagnostics) -> None:
    for key, _ in mapping.items():
        if key.text in modern:
            _report_spelling(diagnostics, f"`{key.text}`", modern[key.text], key.pos)


def _step(step: Mapping, diagnostics: Diagnostics) -> None:
    _keys(step, _STEP, diagnostics)
    _keys(mapping_of(step.get("retry")), _RETRY, diagnostics)
    _keys(mapping_of(mapping_of(step.get("spec")).get("on_error")), {"args": _STEP["args"]}, diagnostics)
    loop = mapping_of(step.get("loop"))
    _keys(loop, _LOOP, diagnostics)
    spec = mapping_of(loop.get("spec"))
    for owner in (loop, spec):
        if text_of(owner.get("mode")) == "async":
            _report_spelling(diagnostics, "`mode: async`", "`mode: parallel`", owner.key_pos("mode"))
    tool = step.get("tool")
    if text_of(mapping_of(tool).get("kind")) == "iterator":
        modern = "the step's `loop: { in: …, iterator: … }` around its task"
        _report_spelling(diagnostics, "a tool of the kind `iterator`", modern, step.key_pos("tool"))
    for entry in tool.items if isinstance(tool, Sequence) else [tool]:
        _task(_body(entry), diagnostics)
    _next(step, diagnostics)


def _body(entry: Tree | None) -> Mapping:
    """Return the task of a list's item, its label taken off."""
    block = mapping_of(entry)
    bodies = [value for _, value in block.items()]
    if len(bodies) == 1 and isinstance(bodies[0], Mapping) and not block.has("kind"):
        return bodies[0]
    return block


def _task(task: Mapping, diagnostics: Diagnostics) -> None:
    for key, value in task.items():
        applies = key.text != "args" or isinstance(value, Mapping)
        if key.text in _TASK and applies:
            _report_spelling(diagnostics, f"`{key.text}`", _TASK[key.text], key.pos)
    _keys(mapping_of(task.get("retry")), _RETRY, diagnostics)
    policy = mapping_of(mapping_of(task.get("spec")).get("policy"))
    for item in items_of(policy.get("rules")):
        rule = mapping_of(item)
        for then in (rule.get("then"), mapping_of(rule.get("else")).get("then")):
            _keys(mapping_of(then), _THEN, diagnostics)
    inner = task.get("task")
    for entry in inner.items if isinstance(inner, Sequence) else [inner] if inner is not None else []:
        _task(_body(entry), diagnostics)


def _next(step: Mapping, diagnostics: Diagnostics) -> None:
    following = step.get("next")
    if following is None:
        return
    if not isinstance(following, Mapping) or following.has("step"):
        modern = "next: { spec: { mode: inclusive }, arcs: [ { step: … } ] }"
        _report_spelling(diagnostics, "a plain list of steps under `next`", modern, step.key_pos("next"))
        return
    spec = mapping_of(following.get("spec"))
    if text_of(spec.get("mode")) == "all":
        _report_spelling(diagnostics, "`mode: all`", "`mode: inclusive`", spec.key_pos("mode"))
    for arc in map(mapping_of, items_of(following.get("arcs"))):
        _keys(arc, _ARC, diagnostics)
