"""The event form's ``case``: entries, their actions, and which side evaluates them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from noetl.domain.sizes.table import NAME
from noetl.dsl.boundaries import (
    CASE_EVENTS,
    ENGINE_EVENTS,
    WORKER_EVENTS,
    certain,
    possible,
    tests_event,
    unnamed_events,
)
from noetl.dsl.expressions import Analysis, has_template
from noetl.dsl.kind_facts import find_spec
from noetl.dsl.lowering.context import (
    BOUNDARY,
    NEXT_ARGS,
    RULE,
    Frame,
    Lowering,
)
from noetl.dsl.lowering.pipelines import label_tasks, lower_sink, lower_tasks
from noetl.dsl.lowering.retries import retry_action
from noetl.dsl.lowering.rules import always, check_event_names, never_fires
from noetl.dsl.lowering.tasks import TASK_KEYS, Layers, canonical_params
from noetl.dsl.lowering.values import lower_sets, remember_write
from noetl.dsl.model.event import ACTIONS
from noetl.dsl.program import (
    Action,
    CallAction,
    CollectAction,
    FailAction,
    GoTo,
    NextAction,
    Node,
    Pos,
    ResultAction,
    RetryAction,
    Rule,
    RunAction,
    SkipAction,
)
from noetl.dsl.yaml_text.tree import Key, Mapping, Scalar, Sequence, Tree, items_of, mapping_of, text_of

_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*|\[\d+\])*\Z")
_JSON_PATH = re.compile(r"\$((?:\.[A-Za-z_]\w*|\[\d+\])*)\Z")
CollectMode = Literal["append", "extend", "merge", "replace"]
_MODES: dict[str | None, CollectMode] = {
    None: "append",
    "append": "append",
    "extend": "extend",
    "merge": "merge",
    "replace": "replace",
}


@dataclass(frozen=True, slots=True)
class Cases:
    """The rules of a ``case``: ``worker`` for calls and iterations, ``engine`` for the step.

    An entry whose boundary is not proven is in both.
    """

    worker: tuple[Rule, ...] = ()
    engine: tuple[Rule, ...] = ()


def lower_cases(lowering: Lowering, step: Mapping, frame: Frame, *, runs_tool: bool, loops: bool) -> Cases:
    """Lower the ``case`` of a step. ``frame`` is that of the step's body.

    An entry that retries leaves the way to later entries open: they are tried when no try is left.
    """
    worker: list[Rule] = []
    engine: list[Rule] = []
    covered: set[str] = set() if runs_tool else set(WORKER_EVENTS)
    covered |= set() if loops else {"loop.item", "loop.done"}
    tool = mapping_of(step.get("tool"))
    for index, item in enumerate(items_of(step.get("case"))):
        entry = mapping_of(item)
        guard = entry.get("when")
        analysis = lowering.analysis(guard)
        check_event_names(lowering, guard, analysis)
        unnamed = lowering.semantics > 1 and not tests_event(analysis)
        events = _unnamed(analysis, entry.get("then")) if unnamed else possible(analysis, CASE_EVENTS)
        if not set(events) - covered:
            never_fires(lowering, entry.pos, "its events are answered above, or do not happen in this step")
        on_worker = tuple(
            event for event in events if event in WORKER_EVENTS and event not in _absent(runs_tool)
        )
        on_engine = tuple(event for event in events if event in ENGINE_EVENTS)
        where = _side_frame(frame, bool(on_worker))
        if not on_engine:
            where = where.knowing(mapping_of(tool.get("input", "args", "with")).entries)
        rule = _entry(lowering, entry, guard, where, tool, index)
        proven = len(events) < len(CASE_EVENTS)
        if on_worker:
            worker.append(_limited(rule, on_worker if proven else (), unnamed=unnamed))
        if on_engine:
            engine.append(_limited(rule, on_engine if proven else (), unnamed=unnamed))
        if not any(isinstance(action, RetryAction) for action in rule.actions):
            covered |= set(events if always(lowering, guard) else certain(analysis, CASE_EVENTS))
    return Cases(tuple(worker), tuple(engine))


def _absent(runs_tool: bool) -> tuple[str, ...]:
    return () if runs_tool else WORKER_EVENTS


def _limited(rule: Rule, events: tuple[str, ...], *, unnamed: bool) -> Rule:
    return Rule(rule.actions, rule.when, events, rule.pos, unnamed)


def _unnamed(analysis: Analysis | None, then: Tree | None) -> tuple[str, ...]:
    actions = [mapping_of(item) for item in (then.items if isinstance(then, Sequence) else [then])]
    again = any(
        action.has("retry") or (action.has("call") and not mapping_of(action.get("call")).has("step"))
        for action in actions
    )
    return unnamed_events(analysis, answers_calls=again)


def _side_frame(frame: Frame, on_worker: bool) -> Frame:
    if on_worker:
        return frame.at(RULE)
    return Frame(frame.step, BOUNDARY, frame.form)


def _entry(
    lowering: Lowering, entry: Mapping, guard: Tree | None, frame: Frame, tool: Mapping, index: int
) -> Rule:
    when = lowering.guard(guard, frame)
    then = entry.get("then")
    builder = _Then(lowering, frame, tool, f"{frame.step}_case_{index}")
    return Rule(builder.actions(then), when, pos=entry.pos)


@dataclass(slots=True)
class _Then:
    """Turns one ``then`` into actions."""

    lowering: Lowering
    frame: Frame
    tool: Mapping
    label: str

    def actions(self, then: Tree | None) -> tuple[Action, ...]:
        items = then.items if isinstance(then, Sequence) else [then] if then is not None else []
        found: list[Action] = []
        inline: list[Tree] = []
        for item in items:
            block = mapping_of(item)
            if _is_inline(block):
                inline.append(block)
                continue
            if inline:
                found.append(self.run(inline))
                inline = []
            for key, value in block.items():
                found += self.action(key, value)
        if inline:
            found.append(self.run(inline))
        return tuple(found)

    def run(self, inline: list[Tree]) -> RunAction:
        pairs = label_tasks(self.lowering, Sequence(inline, inline[0].pos), self.frame.step)
        frame = replace(self.frame.tool(), form="canonical")
        return RunAction(lower_tasks(self.lowering, pairs, frame, Layers()))

    def action(self, key: Key, value: Tree) -> list[Action]:
        lowering = self.lowering
        match key.text:
            case "call":
                return [self.call(mapping_of(value), key.pos)]
            case "retry":
                return [retry_action(lowering, value, key.pos, self.frame.value())]
            case "collect":
                return [self.collect(mapping_of(value), key.pos)]
            case "sink":
                return [lower_sink(lowering, mapping_of(value), self.frame, label=f"{self.label}_sink")]
            case "set":
                return list(lower_sets(lowering, Mapping({"set": (key, value)}, key.pos), self.frame.value()))
            case "result":
                return [ResultAction(self.source(value, "from"))]
            case "next":
                return [NextAction(lower_targets(lowering, value, self.frame))]
            case "fail":
                return [FailAction(self.message(value), key.pos)]
            case "skip":
                return [SkipAction(self.message(value))]
        return []

    def call(self, block: Mapping, pos: Pos) -> Action:
        if block.has("step"):
            return NextAction(lower_targets(self.lowering, block, self.frame))
        spec = find_spec(self.lowering.kinds, text_of(self.tool.get("kind")) or "")
        params = block.without(*TASK_KEYS)
        renamed = canonical_params(self.lowering, params, spec)
        for key, _ in block.items():
            if key.text in TASK_KEYS:
                hint = "override parameters of the tool, or name another `step`"
                self.lowering.diagnostics.error(
                    "misplaced-key", f"`{key.text}` cannot be overridden by `call`", key.pos, hint=hint
                )
        return CallAction(self.lowering.node(renamed, self.frame.tool()), pos)

    def collect(self, block: Mapping, pos: Pos) -> CollectAction:
        into_tree = block.get("into")
        into = (text_of(into_tree) or "").removeprefix("ctx.")
        if not into.isidentifier() and into_tree is not None:
            self.lowering.diagnostics.error(
                "bad-name",
                f"`into: {into}` is not the name of a ctx key",
                into_tree.pos,
                hint="write into: name",
            )
        mode = text_of(block.get("mode")) or text_of(block.get("strategy"))
        self.lowering.check_name(NAME, into, "a name in ctx", pos)
        remember_write(self.lowering, "ctx", into, self.frame)
        if block.get("from") is None and block.get("path") is None:
            hint = 'add `from: "{{ response.… }}"`'
            self.lowering.diagnostics.error(
                "missing-key", "`collect` does not say what to gather", pos, hint=hint
            )
        return CollectAction(self.source(block, "from", "path"), into, _MODES.get(mode, "append"), pos)

    def source(self, value: Tree, *names: str) -> Node:
        """Lower ``{from: …}`` or the value itself.

        A bare path is an expression; ``$`` means the response.
        """
        block = mapping_of(value)
        inner = block.get(*names)
        if inner is None or (names == ("from",) and set(block.entries) != {"from"}):
            return self.lowering.node(value, self.frame.value())
        text = text_of(inner)
        if text is None or has_template(text) or not isinstance(inner, Scalar):
            return self.lowering.node(inner, self.frame.value())
        rooted = _JSON_PATH.match(text)
        if rooted:
            return self.lowering.expression(inner, f"response{rooted.group(1)}", self.frame.value())
        if _PATH.match(text):
            return self.lowering.expression(inner, text, self.frame.value())
        self.lowering.diagnostics.error(
            "wrong-value",
            f"{text[:60]!r} is neither a template nor a path",
            inner.pos,
            hint='write "{{ response.… }}" or $.data.items',
        )
        return self.lowering.node(inner, self.frame.value())

    def message(self, value: Tree) -> Node | None:
        inner = value.get("message") if isinstance(value, Mapping) else value
        if inner is None or (isinstance(inner, Scalar) and not isinstance(inner.value, str)):
            return None
        return self.lowering.node(inner, self.frame.value())


def _is_inline(block: Mapping) -> bool:
    if block.has("kind"):
        return True
    labels = list(block.entries)
    return len(labels) == 1 and labels[0] not in ACTIONS


def lower_targets(lowering: Lowering, tree: Tree | None, frame: Frame) -> tuple[GoTo, ...]:
    """Lower the targets of ``next``: a name, a ``{step, args}``, or a list of them."""
    items = tree.items if isinstance(tree, Sequence) else [tree] if tree is not None else []
    return tuple(_target(lowering, item, frame) for item in items)


def _target(lowering: Lowering, item: Tree, frame: Frame) -> GoTo:
    if not isinstance(item, Mapping):
        return GoTo(text_of(item) or "", None, item.pos)
    name = item.get("step")
    step = text_of(name) or ""
    given = item.get("args", "input")
    lowering.names.give_args(step, given)
    args = lowering.optional(given, frame.at(NEXT_ARGS))
    return GoTo(step, args, name.pos if name is not None else item.pos)
