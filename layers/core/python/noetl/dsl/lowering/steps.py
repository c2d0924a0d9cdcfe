"""A step of the document as a ``Step``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from noetl.dsl.forms import Form, form_of
from noetl.dsl.lowering.caches import refuse_cache, wants_no_cache
from noetl.dsl.lowering.cases import Cases, lower_cases
from noetl.dsl.lowering.context import (
    ADMIT,
    BOUNDARY_VALUE,
    STEP_ARGS,
    TOOL,
    Frame,
    Lowering,
    merge_trees,
)
from noetl.dsl.lowering.ends import Ending
from noetl.dsl.lowering.failures import lower_compensation, lower_on_error
from noetl.dsl.lowering.joins import lower_meeting
from noetl.dsl.lowering.limits import lower_limits
from noetl.dsl.lowering.loops import lower_loop
from noetl.dsl.lowering.pipelines import item_task, label_tasks, lower_sink, lower_tasks, noop_task
from noetl.dsl.lowering.retries import lower_retry, retries, wants_none
from noetl.dsl.lowering.routing import lower_next
from noetl.dsl.lowering.rules import always, never_fires
from noetl.dsl.lowering.step_args import StepArgs, split_args, with_args
from noetl.dsl.lowering.tasks import Layers
from noetl.dsl.lowering.values import lower_sets, result_spec, spelled
from noetl.dsl.program import (
    Admission,
    AdmitRule,
    Loop,
    Node,
    Pipeline,
    Rule,
    SetAction,
    SinkAction,
    Step,
    StepRetry,
    Task,
    tasks_in,
)
from noetl.dsl.yaml_text.tree import Mapping, Sequence, Tree, items_of, made_text, mapping_of, text_of


@dataclass(frozen=True, slots=True)
class Defaults:
    """What ``executor.spec`` sets for every step."""

    result: Tree | None = None
    policy: Mapping | None = None
    retry: Tree | None = None
    timeout: Tree | None = None


def lower_step(lowering: Lowering, block: Mapping, index: int, defaults: Defaults) -> Step:
    """Lower one step; its reads and reachability are filled in later.

    They are known when all steps are.
    """
    name = text_of(block.get("step")) or ""
    form = form_of(block, lowering.diagnostics)
    frame = Frame(name, STEP_ARGS, form)
    spec = mapping_of(block.get("spec"))
    policy = mapping_of(merge_trees(defaults.policy, spec.get("policy")))
    plan = lower_loop(lowering, block, frame, policy.get("failure"))
    loop_spec = mapping_of(mapping_of(block.get("loop")).get("spec"))
    result_trees = merge_trees(defaults.result, merge_trees(spec.get("result"), block.get("output")))
    layers = Layers(
        merge_trees(result_trees, loop_spec.get("result")),
        text_of(policy.get("on_unmatched")) or "fail",
        policy.get("failure"),
        None if wants_none(block.get("retry")) else defaults.retry,
        defaults.timeout,
        None if wants_no_cache(block.get("cache")) else block.get("cache"),
    )
    body_frame = Frame(name, TOOL, form, parallel=plan.loop is not None and plan.loop.mode == "parallel")
    cases = lower_cases(
        lowering, block, body_frame.guard(), runs_tool=plan.tool is not None, loops=plan.loop is not None
    )
    tool = plan.tool
    if tool is None and plan.loop is not None:
        tool = item_task(block, plan.loop.iterator)
    args = split_args(
        lowering, spelled(lowering, block, "args", "input"), tool, plan.loop.iterator if plan.loop else None
    )
    lowering.names.own_args[name] = args.once
    once = plan.loop is not None and lowering.semantics > 2
    body = _body(lowering, block, tool, cases, body_frame, layers, args, once=once)
    loop = plan.loop
    if loop is not None and once:
        written = _vars_once(lowering, block, frame.at(BOUNDARY_VALUE))
        loop = msgspec.structs.replace(loop, vars=written)
    _check_failure_mode(lowering, spec, plan.loop, body)
    calls = tuple(dict.fromkeys(task.kind for task in tasks_in((body, cases.engine))))
    routes = lower_next(lowering, block.get("next"), frame, Ending(loop is not None, calls))
    on_error = lower_on_error(lowering, spec.get("on_error") or made_text("fail", block.pos), frame)
    loops = plan.loop is not None
    return Step(
        name=name,
        index=index,
        form=form,
        desc=text_of(block.get("desc")) or "",
        alias=_alias(lowering, block, name),
        admit=_admission(lowering, mapping_of(policy.get("admit")), frame.at(ADMIT)),
        args=lowering.optional(args.once, frame),
        loop=loop,
        body=body,
        cases=cases.engine,
        sets=lower_sets(lowering, block, frame.at(BOUNDARY_VALUE)),
        mode=routes.mode,
        arcs=(*routes.arcs, *on_error.arc(lowering)),
        **lower_meeting(lowering, spec, frame),
        timeout=_timeout(lowering, spec, policy, frame),
        deadline=lowering.seconds(mapping_of(policy.get("lifecycle")).get("deadline_s"), frame),
        tolerant=on_error.tolerant,
        compensate=lower_compensation(lowering, spec, frame, loops=loops, layers=layers),
        limits=lower_limits(lowering, spec, frame, plan.loop, works=body is not None),
        result=result_spec(lowering, result_trees),
        pos=block.key_pos("step"),
    )


def _timeout(lowering: Lowering, spec: Mapping, policy: Mapping, frame: Frame) -> Node | None:
    found = spec.get("timeout")
    if found is None:
        found = mapping_of(policy.get("lifecycle")).get("timeout_s")
    return lowering.seconds(found, frame)


def _check_failure_mode(lowering: Lowering, spec: Mapping, loop: Loop | None, body: Pipeline | None) -> None:
    own = mapping_of(spec.get("policy"))
    nested = body is not None and any(task.nested is not None for task in body.tasks)
    if own.has("failure") and loop is None and not nested:
        lowering.diagnostics.warning(
            "no-effect",
            "`failure.mode` decides about iterations, and this step has no loop",
            own.key_pos("failure"),
            hint="remove it",
        )


def _admission(lowering: Lowering, block: Mapping, frame: Frame) -> Admission | None:
    if not block.entries:
        return None
    rules: list[AdmitRule] = []
    certain = False
    for item in items_of(block.get("rules")):
        rule = mapping_of(item)
        if certain:
            never_fires(lowering, rule.pos, "an earlier rule always matches")
        otherwise = rule.get("else")
        then = mapping_of(mapping_of(otherwise).get("then") if otherwise is not None else rule.get("then"))
        guard = None if otherwise is not None else rule.get("when")
        certain = certain or always(lowering, guard)
        rules.append(AdmitRule(_allow(then.get("allow")), lowering.guard(guard, frame), rule.pos))
    return Admission(tuple(rules), lowering.seconds(block.get("timeout"), frame))


def _allow(tree: Tree | None) -> Literal["yes", "park", "skip"]:
    value = tree.plain() if tree is not None else True
    return "skip" if value == "skip" else "yes" if value is True else "park"


def _alias(lowering: Lowering, block: Mapping, step: str) -> str:
    """Lower ``as``: a second name for the step's result."""
    tree = block.get("as")
    name = text_of(tree) or ""
    if tree is not None and name in lowering.names.aliases:
        lowering.diagnostics.error(
            "duplicate-name",
            f"step {lowering.names.aliases[name][0]!r} is already called {name!r}",
            tree.pos,
            hint="choose another name",
        )
    elif tree is not None and name:
        lowering.names.aliases[name] = (step, tree.pos)
    return name


# --- what the step runs ---


def _body(
    lowering: Lowering,
    block: Mapping,
    tool: Tree | None,
    cases: Cases,
    frame: Frame,
    layers: Layers,
    args: StepArgs,
    *,
    once: bool,
) -> Pipeline | None:
    name, form = frame.step, frame.form
    retry = _step_retry(lowering, block, tool, frame)
    if tool is None:
        if layers.cache is not None:
            lowering.diagnostics.error(
                "missing-key",
                "`cache` has no tool whose result it could keep",
                block.key_pos("cache"),
                hint="add a `tool`, or remove `cache`",
            )
            layers = replace(layers, cache=None)
        if block.get("vars") is None and block.get("sink") is None:
            return None
        tool = noop_task(block)
    tool, nested_sink = _take_sink(tool)
    each: Tree | None = None
    if once and isinstance(tool, Mapping):
        tool, each = tool.without("vars"), tool.get("vars")
    sinks: tuple[SinkAction, ...] = ()
    for index, sink in enumerate(
        found for found in (nested_sink, block.get("sink")) if isinstance(found, Mapping)
    ):
        sinks = (*sinks, lower_sink(lowering, sink, frame, label=f"{name}_sink{index or ''}"))
    inner_form: Form = "canonical" if isinstance(tool, Sequence) else form
    pairs = [(label, with_args(task, args)) for label, task in label_tasks(lowering, tool, name)]
    if retries(cases.worker):
        layers = replace(layers, retry=None)
    tasks = lower_tasks(lowering, pairs, replace(frame, form=inner_form), layers, retry=retry)
    if layers.cache is not None and not any(task.cache for task in tasks_in(tasks)):
        refuse_cache(lowering, block, text_of(mapping_of(tool).get("kind")) or "noop")
    before, values, after = _vars(lowering, block, frame.value(), once=once)
    values += _pairs(lowering, mapping_of(each), frame.value())
    return Pipeline(
        meaning=lowering.semantics,
        names_itself=lowering.semantics > 2,
        tasks=_with_rules(tasks, cases.worker),
        vars=values,
        vars_before=before,
        vars_after=after,
        sinks=sinks,
    )


def _take_sink(tool: Tree) -> tuple[Tree, Tree | None]:
    """Take the ``sink`` out of an iterator's task: once per iteration, like the step's."""
    if isinstance(tool, Mapping) and tool.has("sink"):
        return tool.without("sink"), tool.get("sink")
    return tool, None


def _with_rules(tasks: tuple[Task, ...], rules: tuple[Rule, ...]) -> tuple[Task, ...]:
    """Add rules to the tasks: ``case`` entries answer the step's one call."""
    if not rules or not tasks:
        return tasks
    return (*tasks[:-1], msgspec.structs.replace(tasks[-1], rules=(*tasks[-1].rules, *rules)))


def _step_retry(lowering: Lowering, block: Mapping, tool: Tree | None, frame: Frame) -> StepRetry | None:
    retry = lower_retry(lowering, block.get("retry"), block.key_pos("retry"), frame)
    if retry is not None and tool is None:
        lowering.diagnostics.error(
            "missing-key",
            "`retry` has no tool to run again",
            block.key_pos("retry"),
            hint="add a `tool`, or remove `retry`",
        )
    return retry


Pairs = tuple[tuple[str, Node], ...]


def _vars_once(lowering: Lowering, block: Mapping, frame: Frame) -> tuple[SetAction, ...]:
    """Lower ``vars`` of a loop step: written once, when the loop is done."""
    values = mapping_of(block.get("vars"))
    if _has_moments(values):
        return ()
    poses = {key.text: key.pos for key, _ in values.items()}
    return tuple(
        SetAction("vars", name, node, "set", poses[name]) for name, node in _pairs(lowering, values, frame)
    )


def _has_moments(values: Mapping) -> bool:
    """Report whether ``vars`` says ``before`` and ``after``."""
    return set(values.entries) <= {"before", "after"} and all(
        isinstance(v, Mapping) for _, v in values.items()
    )


def _vars(lowering: Lowering, block: Mapping, frame: Frame, *, once: bool) -> tuple[Pairs, Pairs, Pairs]:
    """Divide a step's ``vars`` into (before, on success, after).

    ``once``: those on success belong to the loop.
    """
    values = mapping_of(block.get("vars"))
    if not values.entries:
        return (), (), ()
    if _has_moments(values):
        before, after = mapping_of(values.get("before")), mapping_of(values.get("after"))
        return _pairs(lowering, before, frame), (), _pairs(lowering, after, frame)
    return (), () if once else _pairs(lowering, values, frame), ()


def _pairs(lowering: Lowering, values: Mapping, frame: Frame) -> Pairs:
    pairs: list[tuple[str, Node]] = []
    lowering.check_keys(values)
    for key, value in values.items():
        if frame.parallel:
            lowering.diagnostics.error(
                "parallel-write",
                f"iterations of a parallel loop would overwrite each other's `vars.{key.text}`",
                key.pos,
                hint=f"gather them: case: [ {{ when: …, then: {{ set: {{ ctx.{key.text}: {{ append: … }} }} }} }} ]",
            )
        lowering.names.vars.add(key.text)
        pairs.append((key.text, lowering.node(value, frame)))
    return tuple(pairs)
