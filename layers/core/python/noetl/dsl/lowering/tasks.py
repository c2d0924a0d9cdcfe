"""One call of a tool: its kind, parameters, input, rules and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from noetl.domain.errors import PlaybookError
from noetl.domain.kinds import KindSpec, ParamProblem
from noetl.dsl.diagnostics import Diagnostic
from noetl.dsl.lowering.caches import lower_cache, refuse_cache, with_names
from noetl.dsl.lowering.context import Frame, Lowering, merge_trees, with_holes
from noetl.dsl.lowering.retries import lower_retry, retries
from noetl.dsl.lowering.rules import LowerSink, lower_rules
from noetl.dsl.lowering.values import lower_sets, result_spec, spelled
from noetl.dsl.program import Gather, LiteralNode, Map, Node, Pos, SinkAction, StepRetry, Task
from noetl.dsl.refusals import LATER
from noetl.dsl.yaml_text.tree import (
    CUT_HINT,
    Key,
    Mapping,
    Scalar,
    Sequence,
    Tree,
    cut_by_comma,
    mapping_of,
    text_of,
)

TASK_KEYS = frozenset(
    {
        "name",
        "kind",
        "args",
        "input",
        "with",
        "desc",
        "spec",
        "set",
        "set_ctx",
        "set_iter",
        "output",
        "retry",
        "cache",
        "vars",
    }
)
"""Keys of a task that are not parameters of its kind."""
CALLBACK = "callback"
"""What templates call the address of the callback that their pipeline waits for."""
EMPTY_KEYS = ("auth", "libs")
"""Keys that every kind accepts as an empty mapping, which means nothing: published playbooks write them everywhere."""
INPUT_KEYS = ("input", "args", "with")
"""Spellings of a task's input."""
ANNOUNCED = frozenset(
    {
        *("container", "artifact", "result", "resolve", "transfer"),
        *("nats", "mcp", "ducklake", "rhai", "subscription"),
    }
)
"""Kinds the published language has; refused as not supported while the registry lacks them."""


@dataclass(frozen=True, slots=True)
class Layers:
    """What executor, step and loop leave to their tasks.

    ``failure``: what a failed iteration does to the others.
    """

    result: Tree | None = None
    on_unmatched: str = "fail"
    failure: Tree | None = None
    retry: Tree | None = None
    """``executor.spec.defaults``: of calls that neither they nor their step say how to repeat."""
    timeout: Tree | None = None
    cache: Tree | None = None
    """The step's own: of its calls that say nothing else."""


def without_empty(tool: Mapping) -> Mapping:
    """Leave out ``EMPTY_KEYS`` that hold empty mappings."""
    return tool.without(*(key for key in EMPTY_KEYS if _is_empty(tool.get(key))))


def _is_empty(tree: Tree | None) -> bool:
    return isinstance(tree, Mapping) and not tree.entries


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
    lower_sink: LowerSink,
    calls: bool = True,
) -> Task:
    """Lower a task mapping (label taken off). ``labels``: of its pipeline, for jumps.

    ``calls``: it has parameters of its kind; nested loops and computed workbook calls have none.
    """
    kind = text_of(body.get("kind")) or ""
    spec = kind_spec(lowering, body, kind)
    if kind == "wait" and (body.has("callback") or body.has("approve")):
        _calls_back(lowering, body, label, frame)
    if body.has("vars"):
        lowering.diagnostics.error(
            "misplaced-key",
            "`vars` of a task is written for each item of its step's loop, and this task is not the tool of one",
            body.key_pos("vars"),
            hint="give `vars` to the step, or write `set`",
        )
    inputs, params = _split(lowering, body, spec)
    given = spelled(lowering, inputs, *INPUT_KEYS)
    names = list(given.entries) if isinstance(given, Mapping) else []
    inside = frame.knowing(names, open_=given is not None and not isinstance(given, Mapping))
    own_spec = mapping_of(body.get("spec"))
    policy = mapping_of(own_spec.get("policy"))
    unmatched = text_of(policy.get("on_unmatched")) or layers.on_unmatched
    result_trees = merge_trees(layers.result, merge_trees(own_spec.get("result"), body.get("output")))
    rules = lower_rules(lowering, policy, inside.guard(), labels, label, lower_sink)
    by_default = calls and spec is not None and spec.pool != "control"
    if body.has("retry"):
        retry = lower_retry(lowering, body.get("retry"), body.key_pos("retry"), inside)
    elif retry is None and by_default and not retries(rules):
        retry = lower_retry(lowering, layers.retry, layers.retry.pos if layers.retry else Pos(), inside)
    if not by_default:
        refuse_cache(lowering, body, kind)
    cache = body.get("cache") if body.has("cache") else layers.cache
    timeout = own_spec.get("timeout") or (layers.timeout if by_default else None)
    raw = params.get(*spec.raw_fields) if spec is not None else None
    code_pos, code_lines = raw.lines_pos() if isinstance(raw, Scalar) else (Pos(), False)
    task = Task(
        label=label,
        kind=spec.name if spec is not None else kind,
        params=lower_params(lowering, body, params, spec, inside) if calls else LiteralNode(None),
        input=lowering.optional(given, frame),
        rules=rules,
        form=frame.form,
        retry=retry,
        cache=lower_cache(lowering, cache, inside) if by_default else None,
        on_unmatched="continue" if unmatched == "continue" else "fail",
        sets=lower_sets(lowering, body, inside.value()),
        timeout=_timeout(lowering, timeout, frame),
        long=_is_long(own_spec),
        result=result_spec(lowering, result_trees),
        sinks=sinks,
        meaning=lowering.semantics,
        part=_part(body),
        gather=_gather(mapping_of(body.get("output")).get("accumulate")),
        alias=_alias(lowering, body, label, labels, frame),
        pos=body.key_pos("kind"),
        code_pos=code_pos,
        code_lines=code_lines,
    )
    return with_names(lowering, task)


def _is_long(spec: Mapping) -> bool:
    found = spec.get("long")
    return isinstance(found, Scalar) and found.plain() is True


def _calls_back(lowering: Lowering, body: Mapping, label: str, frame: Frame) -> None:
    """From here on ``callback`` is an address to this step's tasks."""
    lowering.names.calls_back.add(frame.step)
    if label == CALLBACK:
        lowering.diagnostics.error(
            "reserved-name",
            f"a task of step {frame.step!r} is called `callback`, which is the address of the callback here",
            body.key_pos("kind"),
            hint="choose another label, such as `answer`",
        )


def _gather(tree: Tree | None) -> Gather | None:
    """Lower ``output.accumulate``.

    ``merge_path`` alone says which part is gathered, too.
    """
    if not isinstance(tree, Mapping):
        return None
    merge = text_of(tree.get("merge_path")) or ""
    path = (text_of(tree.get("path")) or merge).removeprefix("$")
    strategy = _STRATEGIES.get(text_of(tree.get("strategy")) or "", "append")
    return Gather(strategy, f"${path}" if path else "", merge, tree.pos)


_STRATEGIES: dict[str, Literal["append", "replace", "merge", "concat"]] = {
    "append": "append",
    "replace": "replace",
    "merge": "merge",
    "concat": "concat",
}


def _alias(lowering: Lowering, body: Mapping, label: str, labels: tuple[str, ...], frame: Frame) -> str:
    """Lower ``output.as``: a name that this step's templates know from here on."""
    tree = mapping_of(body.get("output")).get("as")
    name = text_of(tree) or ""
    if tree is not None and name in labels and name != label:
        lowering.diagnostics.error(
            "duplicate-task",
            f"`as: {name}` is the label of another task of step {frame.step!r}",
            tree.pos,
            hint="choose another name",
        )
    if name:
        lowering.names.labels.setdefault(frame.step, set()).add(name)
    return name


def _part(body: Mapping) -> tuple[str, ...]:
    """Keys of ``output.path``: ``$.data.items`` → data, items."""
    path = text_of(mapping_of(body.get("output")).get("path")) or ""
    return tuple(path.removeprefix("$.").split(".")) if path else ()


def kind_spec(lowering: Lowering, body: Mapping, kind: str) -> KindSpec | None:
    """Return the kind's facts; None (reported) when this release does not have it."""
    kind_tree = body.get("kind")
    pos = kind_tree.pos if kind_tree is not None else body.pos
    try:
        return lowering.kinds.spec(kind)
    except KeyError:
        pass
    except PlaybookError as problem:
        lowering.diagnostics.error(
            problem.code, problem.message, pos, hint=problem.hint or "install what it needs"
        )
        return None
    if not kind:
        return None
    known = lowering.kinds.names()
    listing = f"kinds: {', '.join(known)}"
    if kind in ANNOUNCED:
        lowering.diagnostics.error(LATER, f"the kind {kind!r} is not run by this release", pos, hint=listing)
    else:
        hint = lowering.diagnostics.suggest(_SHORT.get(kind, kind), known, listing)
        lowering.diagnostics.error("unknown-kind", f"there is no tool kind {kind!r}", pos, hint=hint)
    return None


_SHORT = {"py": "python", "pg": "postgres", "duck": "duckdb"}
"""Short names of kinds, which nothing but their first letters makes like the kind."""


def _split(lowering: Lowering, body: Mapping, spec: KindSpec | None) -> tuple[Mapping, Mapping]:
    """(the task's input, the kind's parameters).

    A mapping under ``args`` is always the input. Anything else (a list of rows, command line arguments, a template)
    belongs to the kind when the kind has a parameter of that name.
    """
    own: set[str] = set()
    if spec is not None:
        own = set(lowering.kinds.schema(spec.name).get("properties", {})) - set(spec.aliases)
    inputs = {
        name: entry
        for name, entry in body.entries.items()
        if name in INPUT_KEYS and (name not in own or isinstance(entry[1], Mapping))
    }
    return Mapping(inputs, body.pos), body.without(*inputs, *(TASK_KEYS - set(INPUT_KEYS)))


def lower_params(
    lowering: Lowering, body: Mapping, params: Mapping, spec: KindSpec | None, frame: Frame
) -> Node:
    """Lower the kind's parameters under their first names, checked by the kind."""
    lowering.check_keys(params)
    if spec is None:
        return lowering.node(params, frame)
    given = once_each(lowering, params, spec)
    entries: list[tuple[str, Node]] = []
    for key, value in given.items():
        name = spec.aliases.get(key.text, key.text)
        if name in spec.raw_fields:
            node: Node = LiteralNode(value.plain())
            if name == "code":
                lowering.check_code(value)
        elif name in spec.sql_fields:
            node = lowering.sql(value, frame)
        elif isinstance(value, Mapping) and (inside := _sql_inside(name, spec)):
            node = _with_sql(lowering, value, inside, frame)
        else:
            node = lowering.node(value, frame)
            if name in _BOUND and spec.sql_fields and isinstance(value, Mapping):
                _check_bound(lowering, value)
        entries.append((name, node))
    check_params(lowering, body, given, spec)
    if all(isinstance(node, LiteralNode) for _, node in entries):
        return LiteralNode({name: node.value for name, node in entries if isinstance(node, LiteralNode)})
    return Map(tuple(entries))


_BOUND = ("params", "args")
"""Parameters of SQL kinds whose entries are bound."""


def _check_bound(lowering: Lowering, values: Mapping) -> None:
    for _, value in values.items():
        if (
            isinstance(value, Scalar)
            and isinstance(value.value, str)
            and value.value.lstrip().startswith("{{")
        ):
            lowering.check_escapes(value)


def _sql_inside(name: str, spec: KindSpec) -> frozenset[str]:
    """Return the keys of the mapping ``name`` that hold SQL.

    An example is ``source.query`` of the kind's ``sql_fields``.
    """
    return frozenset(
        field.removeprefix(f"{name}.") for field in spec.sql_fields if field.startswith(f"{name}.")
    )


def _with_sql(lowering: Lowering, mapping: Mapping, sql: frozenset[str], frame: Frame) -> Node:
    lowering.check_keys(mapping)
    entries = [
        (key.text, lowering.sql(value, frame) if key.text in sql else lowering.node(value, frame))
        for key, value in mapping.items()
    ]
    if all(isinstance(node, LiteralNode) for _, node in entries):
        return LiteralNode({name: node.value for name, node in entries if isinstance(node, LiteralNode)})
    return Map(tuple(entries))


def once_each(lowering: Lowering, params: Mapping, spec: KindSpec) -> Mapping:
    """Return ``params`` without second spellings of the same parameter (reported)."""
    first: dict[str, Key] = {}
    entries: dict[str, tuple[Key, Tree]] = {}
    for key, value in params.items():
        name = spec.aliases.get(key.text, key.text)
        if name in first:
            lowering.diagnostics.error(
                "duplicate-spelling",
                f"`{key.text}` and `{first[name].text}` are the same parameter of {spec.name}",
                key.pos,
                hint=f"keep one; its name is `{name}`",
            )
            continue
        first[name] = key
        entries[key.text] = (key, value)
    return Mapping(entries, params.pos)


def canonical_params(lowering: Lowering, params: Mapping, spec: KindSpec | None) -> Mapping:
    """Return ``params`` under the first names of the kind's parameters."""
    if spec is None:
        return params
    entries = {}
    for key, value in once_each(lowering, params, spec).items():
        name = spec.aliases.get(key.text, key.text)
        entries[name] = (Key(name, key.pos), value)
    return Mapping(entries, params.pos)


def check_params(lowering: Lowering, body: Mapping, given: Mapping, spec: KindSpec) -> None:
    """Report what the kind finds wrong with the parameters ``given`` in the task ``body``."""
    holes = {
        key.text: value.plain()
        if spec.aliases.get(key.text, key.text) in spec.raw_fields
        else with_holes(value)
        for key, value in given.items()
    }
    for problem in lowering.kinds.check(spec.name, holes):
        hint = problem.hint or f"see the parameters of the kind {spec.name}"
        if len(problem.path) == 1 and cut_by_comma(given, str(problem.path[0])):
            hint = CUT_HINT
        pos = _problem_pos(problem, body, given)
        lowering.diagnostics.add(
            Diagnostic(problem.code, problem.message, pos.line, pos.column, problem.severity, hint)
        )


def _problem_pos(problem: ParamProblem, body: Mapping, params: Mapping) -> Pos:
    """Return the place of the key the problem is about.

    It is the tool's ``kind`` when something is missing altogether.
    """
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
    if problem.place is None or not isinstance(tree, Scalar):
        return pos
    (line, column), (start, lines) = problem.place, tree.lines_pos()
    return Pos(start.line + line - 1, start.column + column - 1) if lines else start


def _timeout(lowering: Lowering, tree: Tree | None, frame: Frame) -> Node | None:
    """Lower the seconds for one call.

    ``{connect, read}`` together are the longest it can take.
    """
    if not isinstance(tree, Mapping):
        return lowering.seconds(tree, frame)
    node = lowering.seconds(tree, frame)
    return (
        LiteralNode(sum(part or 0 for part in node.value.values())) if isinstance(node, LiteralNode) else node
    )
