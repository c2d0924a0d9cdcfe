"""Shapes refused by name: first-generation spellings, and features not in this release.

They are looked for before the models are, so that the author reads the modern spelling instead of "unknown key".
"""

from __future__ import annotations

from noetl.domain.collection_sources import is_source
from noetl.dsl.diagnostics import Diagnostics
from noetl.dsl.yaml_text.tree import Mapping, Sequence, Tree, items_of, mapping_of, text_of

V1 = "v1-syntax"
LATER = "not-supported-yet"

TOOL_FIELDS = frozenset(
    {
        *(
            "url",
            "endpoint",
            "method",
            "headers",
            "params",
            "payload",
            "body",
            "json",
            "data",
            "query",
            "command",
            "commands",
        ),
        *(
            "code",
            "auth",
            "path",
            "table",
            "script",
            "libs",
            "image",
            "collection",
            "element",
            "task",
            "kind",
            "credential",
        ),
    }
)
_STEP_V1 = {
    "type": "write `tool: { kind: … }`",
    "when": "put the guard on the arc that leads here (next.arcs[].when), or in spec.policy.admit",
    "with": "write the tool's input inside it (tool.input), or the step's own as `args`",
    "save": "write a `sink: { tool: { kind: …, args: … } }`",
    "call": "write `tool: { kind: workbook, name: … }`",
    "eval": "write `next: { arcs: [ { step: …, when: … } ] }`",
    "expr": "write `next: { arcs: [ { step: …, when: … } ] }`",
    "iterator": "write `loop: { in: …, iterator: … }`",
    "timeout": "write `spec: { timeout: … }`",
}
_ROOT_V1 = {
    "vars": "put defaults in `workload`, and values found on the way in a step's `vars`",
    "steps": "the list of steps is called `workflow`",
    "name": "write `metadata: { name: … }`",
    "path": "write `metadata: { path: … }`",
}


def refuse_other_documents(root: Mapping, diagnostics: Diagnostics) -> None:
    """Report a document that is known, and is no playbook."""
    if root.has("workflow"):
        return
    if root.has("StartAt") and root.has("States"):
        diagnostics.error(
            "other-document",
            "this is a state machine of AWS Step Functions, not a playbook",
            root.key_pos("StartAt"),
            hint="write its states as steps: docs/other-systems.md compares the two languages",
        )
    elif root.has("cases") and not root.has("kind"):
        diagnostics.error(
            "other-document",
            "this is a file of tests for a playbook, not a playbook",
            root.key_pos("cases"),
            hint="`noetl test FILE` runs it; its name ends in .test.yaml, as `noetl validate` expects it",
        )


def refuse_known_shapes(root: Mapping, diagnostics: Diagnostics) -> None:
    """Report every v1 shape and every feature of a later release, at its key."""
    _keys(root, _ROOT_V1, V1, "at the root of a playbook", diagnostics)
    _executor(mapping_of(root.get("executor")), diagnostics)
    for step in items_of(root.get("workflow")):
        if isinstance(step, Mapping):
            _step(step, diagnostics)
    workbook = root.get("workbook")
    tasks = (
        items_of(workbook)
        if isinstance(workbook, Sequence)
        else [value for _, value in mapping_of(workbook).items()]
    )
    for task in tasks:
        _string_tool(mapping_of(task), diagnostics)


def _keys(mapping: Mapping, hints: dict[str, str], code: str, where: str, diagnostics: Diagnostics) -> None:
    for key, _ in mapping.items():
        hint = hints.get(key.text)
        if hint is not None:
            verb = "is not run by this release" if code == LATER else f"is not a key {where} any more"
            diagnostics.error(code, f"`{key.text}` {verb}", key.pos, hint=hint)


def _later(mapping: Mapping, key: str, hint: str, diagnostics: Diagnostics) -> None:
    if mapping.has(key):
        diagnostics.error(LATER, f"`{key}` is not run by this release", mapping.key_pos(key), hint=hint)


def _executor(executor: Mapping, diagnostics: Diagnostics) -> None:
    _later(executor, "requires", "remove it; what is missing is reported when a step needs it", diagnostics)
    spec = mapping_of(executor.get("spec"))
    _later(spec, "pool", "remove it; the kind of a tool decides where it runs", diagnostics)
    policy = mapping_of(spec.get("policy"))
    for key, _ in policy.items():
        if key.text not in ("lifecycle", "failure", "on_unmatched"):
            hint = "give it to the steps or tasks themselves"
            diagnostics.error(
                LATER, f"`executor.spec.policy.{key.text}` is not run by this release", key.pos, hint=hint
            )


def _step(step: Mapping, diagnostics: Diagnostics) -> None:
    _keys(step, _STEP_V1, V1, "of a step", diagnostics)
    for name in ("compensate", "on_error"):
        if step.has(name):
            diagnostics.error(
                "misplaced-key",
                f"`{name}` belongs to the step's `spec`",
                step.key_pos(name),
                hint=f"write `spec: {{ {name}: … }}`",
            )
    _string_tool(step, diagnostics)
    for key, _ in step.items():
        if key.text in TOOL_FIELDS:
            hint = f"indent it under `tool`, next to `kind`: tool: {{ kind: …, {key.text}: … }}"
            diagnostics.error(
                V1, f"`{key.text}` is beside the tool; it belongs to the tool", key.pos, hint=hint
            )
    _step_spec(mapping_of(step.get("spec")), diagnostics)
    loop = mapping_of(step.get("loop"))
    _loop(loop, diagnostics)
    _next(step.get("next"), diagnostics)
    for entry in items_of(step.get("case")):
        then = mapping_of(entry).get("then")
        for action in items_of(then) if isinstance(then, Sequence) else [then]:
            _targets(mapping_of(action).get("next"), diagnostics)
    for task in _task_bodies(step.get("tool")):
        _task(task, diagnostics)


def _step_spec(spec: Mapping, diagnostics: Diagnostics) -> None:
    if spec.has("next_mode"):
        hint = "write `next: { spec: { mode: … }, arcs: [ … ] }`"
        diagnostics.error(
            V1, "`spec.next_mode` is not a key of a step any more", spec.key_pos("next_mode"), hint=hint
        )
    policy = mapping_of(spec.get("policy"))
    if policy.has("rules"):
        diagnostics.error(
            "misplaced-key",
            "`rules` of a step's policy would control tasks; only a task's policy may",
            policy.key_pos("rules"),
            hint="move `spec.policy.rules` into the task",
        )
    _mode(mapping_of(policy.get("admit")), diagnostics)


def _mode(policy: Mapping, diagnostics: Diagnostics) -> None:
    if text_of(policy.get("mode")) == "inclusive":
        hint = "the first rule that matches wins: write mode: exclusive, or remove it"
        diagnostics.error(
            LATER,
            "`mode: inclusive` of a policy is not run by this release",
            policy.key_pos("mode"),
            hint=hint,
        )


def _loop(loop: Mapping, diagnostics: Diagnostics) -> None:
    _later(loop, "cursor", "collect the rows in a step before, and loop over its result", diagnostics)
    for old, new in (("collection", "in"), ("element", "iterator")):
        if loop.has(old):
            diagnostics.error(
                V1, f"`{old}` is not a key of `loop`", loop.key_pos(old), hint=f"write `{new}: …`"
            )
    source = loop.get("in")
    text = text_of(source)
    if text is not None and source is not None and "://" in text.split("{{")[0] and not is_source(text):
        hint = "s3:// and file: are read as they are; read other sources in a step before, and loop over its result"
        diagnostics.error(
            LATER, f"a loop over the address {text[:80]!r} is not run by this release", source.pos, hint=hint
        )
    if text_of(mapping_of(loop.get("spec")).get("mode")) == "cursor":
        spec = mapping_of(loop.get("spec"))
        diagnostics.error(
            LATER, "`mode: cursor` is not run by this release", spec.key_pos("mode"), hint="use parallel"
        )


def _next(tree: Tree | None, diagnostics: Diagnostics) -> None:
    candidates = items_of(tree) if isinstance(tree, Sequence) else [tree]
    for item in candidates:
        if not isinstance(item, Mapping):
            continue
        for key, _ in item.items():
            if key.text in ("when", "then", "else"):
                diagnostics.error(
                    V1,
                    f"`{key.text}` under `next` is not run any more",
                    key.pos,
                    hint="write `next: { arcs: [ { step: …, when: … } ] }`, or decide in `case`",
                )
    _targets(tree, diagnostics)
    for arc in items_of(mapping_of(tree).get("arcs")):
        if isinstance(arc, Mapping):
            _later(arc, "spec", "remove it; arcs have `step`, `on`, `when`, `args` and `set`", diagnostics)
            _arc_iter(arc, diagnostics)


def _targets(tree: Tree | None, diagnostics: Diagnostics) -> None:
    """Refuse `on` of a target in the event form."""
    for target in items_of(tree) if isinstance(tree, Sequence) else [tree]:
        if isinstance(target, Mapping) and target.has("step") and target.has("on"):
            diagnostics.error(
                "misplaced-key",
                "`on` belongs to an arc of the canonical form; the event form says it in `case`",
                target.key_pos("on"),
                hint="write `next: { arcs: [ { step: …, on: … } ] }`, or `when` of a `case` over event.name and error",
            )


def _arc_iter(arc: Mapping, diagnostics: Diagnostics) -> None:
    if arc.has("set_iter"):
        hint = "use set: { ctx.x: … }"
        diagnostics.error(
            "misplaced-key", "no iteration is left when an arc is taken", arc.key_pos("set_iter"), hint=hint
        )


def _string_tool(owner: Mapping, diagnostics: Diagnostics) -> None:
    tool = owner.get("tool")
    text = text_of(tool)
    if text is not None:
        diagnostics.error(
            V1,
            f"`tool: {text}` does not say what to run",
            owner.key_pos("tool"),
            hint=f"write `tool: {{ kind: {text}, … }}`",
        )


def _task_bodies(tool: Tree | None) -> list[Mapping]:
    """Return every task mapping of a step's tool, labels taken off."""
    found: list[Mapping] = []
    for entry in tool.items if isinstance(tool, Sequence) else [tool]:
        if not isinstance(entry, Mapping):
            continue
        bodies = [value for _, value in entry.items()]
        if len(bodies) == 1 and isinstance(bodies[0], Mapping) and not entry.has("kind"):
            found.append(bodies[0])
        else:
            found.append(entry)
    return found


def _task(task: Mapping, diagnostics: Diagnostics) -> None:
    if task.has("type") and not task.has("kind"):
        hint = "write `kind: …`"
        diagnostics.error(
            V1, "the kind of a tool is not called `type` any more", task.key_pos("type"), hint=hint
        )
    policy = mapping_of(mapping_of(task.get("spec")).get("policy"))
    _mode(policy, diagnostics)
    nested = task.get("task")
    if isinstance(nested, Mapping):
        _string_tool(nested, diagnostics)
        _task(nested, diagnostics)
