"""One call of a tool: its kind, parameters, input, rules and limits."""

from __future__ import annotations

from dataclasses import dataclass

from noetl.domain.kinds import KindSpec, ParamProblem
from noetl.dsl.diagnostics import did_you_mean
from noetl.dsl.forms import Form
from noetl.dsl.lowering.context import RULE, VALUE, Frame, Lowering, merge_trees, with_holes
from noetl.dsl.lowering.rules import lower_rules
from noetl.dsl.lowering.values import lower_sets, result_spec, spelled
from noetl.dsl.program import Lit, Map, Node, Pos, SinkAction, StepRetry, Task
from noetl.dsl.refusals import LATER
from noetl.dsl.tree import Key, Mapping, Scalar, Sequence, Tree, mapping_of, text_of

TASK_KEYS = frozenset(
    {"name", "kind", "args", "input", "with", "desc", "spec", "set", "set_ctx", "set_iter", "output"}
)
"""Keys of a task that are not parameters of its kind."""
ANNOUNCED = frozenset(
    {
        "snowflake",
        "gcs",
        "container",
        "lambda",
        "eventbridge",
        "s3",
        "secrets",
        "transfer",
        "nats",
        "agent",
        "mcp",
        "ducklake",
    }
)
"""Kinds the published language has; refused as not supported while the registry lacks them."""


@dataclass(frozen=True, slots=True)
class Layers:
    """What executor, step and loop leave to their tasks."""

    result: Tree | None = None
    on_unmatched: str = "fail"


def lower_task(
    lowering: Lowering,
    body: Mapping,
    label: str,
    frame: Frame,
    layers: Layers,
    *,
    labels: tuple[str, ...] = (),
    retry: StepRetry | None = None,
    sinks: tuple[SinkAction, ...] = (),
) -> Task:
    """A task mapping (label taken off) as a Task. ``labels`` are those of its pipeline, for jumps."""
    form: Form = frame.form
    kind = text_of(body.get("kind")) or ""
    spec = kind_spec(lowering, body, kind)
    given = spelled(lowering, body, "input", "args", "with")
    node_input = lowering.optional(given, frame)
    names = list(given.entries) if isinstance(given, Mapping) else []
    inside = frame.knowing(names, open_=given is not None and not isinstance(given, Mapping))
    params = lower_params(lowering, body, kind, spec, inside)
    own_spec = mapping_of(body.get("spec"))
    policy = mapping_of(own_spec.get("policy"))
    value_frame = frame if not frame.place.secrets else frame.at(VALUE)
    unmatched = text_of(policy.get("on_unmatched")) or layers.on_unmatched
    wishes = merge_trees(layers.result, merge_trees(own_spec.get("result"), body.get("output")))
    return Task(
        label=label,
        kind=kind,
        params=params,
        input=node_input,
        rules=lower_rules(lowering, policy, frame.at(RULE), labels, label),
        form=form,
        retry=retry,
        on_unmatched="continue" if unmatched == "continue" else "fail",
        sets=lower_sets(lowering, body, value_frame),
        timeout=_timeout(lowering, own_spec.get("timeout"), frame),
        result=result_spec(wishes),
        sinks=sinks,
        pos=body.key_pos("kind"),
    )


def kind_spec(lowering: Lowering, body: Mapping, kind: str) -> KindSpec | None:
    """The kind's facts; None (reported) when this release does not have it."""
    try:
        return lowering.kinds.spec(kind)
    except KeyError:
        pass
    kind_tree = body.get("kind")
    pos = kind_tree.pos if kind_tree is not None else body.pos
    known = lowering.kinds.names()
    listing = f"kinds: {', '.join(known)}"
    if kind in ANNOUNCED:
        lowering.diagnostics.error(LATER, f"the kind {kind!r} is not run by this release", pos, hint=listing)
    else:
        hint = did_you_mean(kind, known, listing)
        lowering.diagnostics.error("unknown-kind", f"there is no tool kind {kind!r}", pos, hint=hint)
    return None


def lower_params(lowering: Lowering, body: Mapping, kind: str, spec: KindSpec | None, frame: Frame) -> Node:
    """The kind's parameters under their first names, checked by the kind."""
    params = canonical_params(lowering, body.without(*TASK_KEYS), spec)
    lowering.check_keys(params)
    entries: list[tuple[str, Node]] = []
    for key, value in params.items():
        name = key.text
        if spec is not None and name in spec.raw_fields:
            node: Node = Lit(value.plain())
        elif spec is not None and name in spec.sql_fields:
            node = lowering.sql(value, frame)
        else:
            node = lowering.node(value, frame)
        entries.append((name, node))
    if spec is not None:
        check_params(lowering, body, params, kind, spec)
    if all(isinstance(node, Lit) for _, node in entries):
        return Lit({name: node.value for name, node in entries if isinstance(node, Lit)})
    return Map(tuple(entries))


def canonical_params(lowering: Lowering, params: Mapping, spec: KindSpec | None) -> Mapping:
    """Published other spellings renamed; the same parameter given twice is reported."""
    if spec is None:
        return params
    entries: dict[str, tuple[Key, Tree]] = {}
    for key, value in params.items():
        name = spec.aliases.get(key.text, key.text)
        if name in entries:
            first = entries[name][0]
            lowering.diagnostics.error(
                "duplicate-spelling",
                f"`{key.text}` and `{first.text}` are the same parameter of {spec.name}",
                key.pos,
                hint=f"keep one; its name is `{name}`",
            )
            continue
        entries[name] = (key, value)
    renamed = {name: (Key(name, key.pos), value) for name, (key, value) in entries.items()}
    return Mapping(renamed, params.pos)


def check_params(lowering: Lowering, body: Mapping, params: Mapping, kind: str, spec: KindSpec) -> None:
    holes = {
        key.text: value.plain() if key.text in spec.raw_fields else with_holes(value)
        for key, value in params.items()
    }
    for problem in lowering.kinds.check(kind, holes):
        lowering.diagnostics.error(
            problem.code,
            problem.message,
            _problem_pos(problem, body, params),
            hint=problem.hint or f"see the kind {kind}",
        )


def _problem_pos(problem: ParamProblem, body: Mapping, params: Mapping) -> Pos:
    """The key the problem is about; the tool's ``kind`` when something is missing altogether."""
    tree: Tree = params
    pos = body.key_pos("kind")
    for part in problem.path:
        if isinstance(tree, Mapping) and isinstance(part, str) and tree.has(part):
            key, tree = tree.entries[part]
            pos = key.pos
        elif isinstance(tree, Sequence) and isinstance(part, int) and part < len(tree.items):
            tree = tree.items[part]
            pos = tree.pos
        else:
            break
    return pos


def _timeout(lowering: Lowering, tree: Tree | None, frame: Frame) -> Node | None:
    """Seconds for one call; ``{connect, read}`` together are the longest it can take."""
    if not isinstance(tree, Mapping):
        return lowering.optional(tree, frame)
    parts = [value.value for _, value in tree.items() if isinstance(value, Scalar)]
    numbers = [part for part in parts if isinstance(part, (int, float))]
    if len(numbers) == len(tree.entries):
        return Lit(sum(numbers))
    lowering.diagnostics.error(
        LATER,
        "a template inside `timeout: { connect, read }` is not run by this release",
        tree.pos,
        hint='write `timeout: "{{ … }}"`',
    )
    return None
