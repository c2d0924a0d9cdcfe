"""Lints of guards that never decide: constants, text beside braces, shadowed rules.

A rule is shadowed when the rules before it take everything that it would.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from jinja2 import nodes

from noetl.dsl.boundaries import ARC_BOUNDARIES, CASE_EVENTS, EVENT_NAMES, truth
from noetl.dsl.diagnostics import Diagnostics, did_you_mean
from noetl.dsl.expressions import analyse
from noetl.dsl.lints import logic
from noetl.dsl.lowering.context import Lowering
from noetl.dsl.model.types import FALSE_WORDS, TRUE_WORDS
from noetl.dsl.nodes import Expr, Node, Pos, Text
from noetl.dsl.program import (
    CallAction,
    FailAction,
    NextAction,
    Program,
    ResultAction,
    RetryAction,
    Rule,
    SinkAction,
    SkipAction,
    Step,
    Task,
)
from noetl.dsl.template_rules import TemplateProblem
from noetl.dsl.work import tasks_in

_ANSWERS = (CallAction, NextAction, ResultAction, SkipAction, FailAction)
_MANY = 60
"""Guards of one list that are compared with each other."""
STATUS_WORDS: dict[str, tuple[str, ...]] = {
    "outcome": ("ok", "error"),
    "output": ("ok", "error"),
    "this": ("success", "error", "skipped"),
}


@dataclass(frozen=True, slots=True)
class Guarded:
    """One entry of a list that is read from the top. ``on``: boundaries that look at it."""

    when: Node | None
    pos: Pos
    on: frozenset[str] = frozenset()
    closes: bool = True
    """Whether entries behind it are not tried once it matched."""

    @property
    def place(self) -> Pos:
        found = getattr(self.when, "pos", None)
        return found if isinstance(found, Pos) and found.line else self.pos


def check_guards(lowering: Lowering, program: Program) -> None:
    """Check every guard of the program."""
    diagnostics = lowering.diagnostics
    for step in program.steps:
        for ordered in _lists(step):
            _check_order(ordered, diagnostics)
        for guarded in _all(step):
            _check_constant(guarded, diagnostics)
        _check_events(step, lowering)
    _check_status_words(lowering)


def _lists(step: Step) -> Iterator[list[Guarded]]:
    """Lists of which the first entry that matches wins."""
    if step.mode == "exclusive":
        yield [Guarded(arc.when, arc.pos, frozenset(arc.on)) for arc in step.arcs]
    if step.admit is not None:
        yield [Guarded(rule.when, rule.pos) for rule in step.admit.rules]
    yield [_case(rule) for rule in step.cases]
    for task in _tasks(step):
        if task.form == "event":
            yield [_case(rule) for rule in task.rules]
        else:
            yield [Guarded(rule.when, rule.pos) for rule in task.rules]


def _case(rule: Rule) -> Guarded:
    events = frozenset(rule.events or CASE_EVENTS)
    answers = any(isinstance(action, _ANSWERS) for action in rule.actions)
    retries = any(isinstance(action, RetryAction) for action in rule.actions)
    return Guarded(rule.when, rule.pos, events, not retries and (answers or "call.error" not in events))


def _all(step: Step) -> Iterable[Guarded]:
    yield from (Guarded(logic.own_when(arc.when), arc.pos) for arc in step.arcs)
    if step.admit is not None:
        yield from (Guarded(rule.when, rule.pos) for rule in step.admit.rules)
    yield from (Guarded(rule.when, rule.pos) for rule in step.cases)
    for task in _tasks(step):
        yield from (Guarded(rule.when, rule.pos) for rule in task.rules)
        if task.retry is not None:
            yield Guarded(task.retry.retry_when, task.pos)
            yield Guarded(task.retry.stop_when, task.pos)
    for sink in _sinks(step):
        yield Guarded(sink.when, sink.task.pos)


def _tasks(step: Step) -> list[Task]:
    return tasks_in((step.body, step.cases, step.compensate))


def _sinks(step: Step) -> list[SinkAction]:
    found = list(step.body.sinks) if step.body is not None else []
    for task in _tasks(step):
        found += task.sinks
        found += [action for rule in task.rules for action in rule.actions if isinstance(action, SinkAction)]
    return found


# --- order --------------------------------------------------------------------------------------


def _check_order(ordered: Sequence[Guarded], diagnostics: Diagnostics) -> None:
    earlier: list[tuple[Guarded, nodes.Expr]] = []
    for guarded in ordered[:_MANY]:
        tree = logic.syntax(guarded.when)
        if tree is None:
            continue
        for before, other in earlier:
            if diagnostics.has_reported("never-fires", guarded.pos.line):
                break
            if before.closes and guarded.on <= before.on and logic.follows(tree, other):
                same = logic.same(tree, other)
                why = "has the same guard" if same else "matches whenever this one would"
                diagnostics.warning(
                    "never-fires",
                    f"this can never be reached: the entry on line {before.place.line} {why}",
                    guarded.place,
                    hint="remove one of them" if same else "move this one up: the narrower guard comes first",
                )
                break
        earlier.append((guarded, tree))


# --- constants ----------------------------------------------------------------------------------


def _check_constant(guarded: Guarded, diagnostics: Diagnostics) -> None:
    if isinstance(guarded.when, Text):
        _check_text(guarded.when, guarded.place, diagnostics)
        return
    if guarded.when is None:
        return
    value = logic.constant(guarded.when)
    decided = None if value is logic.UNKNOWN else logic.verdict(value)
    if value is logic.UNKNOWN:
        return
    if decided is True:
        if isinstance(guarded.when, Expr) and guarded.when.source.lower() not in TRUE_WORDS:
            diagnostics.warning(
                "no-effect",
                "the guard is always true",
                guarded.place,
                hint="leave `when` out, or write `else`",
            )
        return
    if decided is False:
        if diagnostics.has_reported("never-fires", guarded.pos.line):
            return
        diagnostics.warning(
            "never-fires",
            "this can never be reached: its guard is always false",
            guarded.place,
            hint="remove it, or write the condition it waits for",
        )
        return
    hint = f"write {{{{ {value} }}}}" if isinstance(value, str) else "compare it, with == or >"
    diagnostics.error(
        "guard-type",
        f"the guard is always {str(value)[:60]!r}, which is neither true nor false",
        guarded.place,
        hint=hint,
    )


def _check_text(guard: Text, place: Pos, diagnostics: Diagnostics) -> None:
    """Warn about a guard like ``{{ a }} == 1``: a text that is never true or false."""
    beside = _text_outside(guard.source)
    words = "".join(TRUE_WORDS | FALSE_WORDS)
    odd = [char for char in beside if not char.isspace() and char.lower() not in words]
    if not odd:
        return
    inside = guard.source.replace("{{", " ").replace("}}", " ")
    diagnostics.error(
        "guard-not-expression",
        f"the guard is text around a template, and {beside.strip()[:40]!r} makes it neither true nor false",
        place,
        hint=f"put the whole condition inside the braces: {{{{ {' '.join(inside.split())[:120]} }}}}",
    )


def _text_outside(source: str) -> str:
    """Return the text outside every brace of a guard without blocks."""
    found: list[str] = []
    try:
        tree = analyse(source)
    except TemplateProblem:
        return ""
    if "{%" in source or tree.expression is not None:
        return ""
    at = 0
    while (start := source.find("{{", at)) >= 0:
        end = source.find("}}", start)
        if end < 0:
            break
        found.append(source[at:start])
        at = end + 2
    return "".join((*found, source[at:]))


# --- words that do not exist --------------------------------------------------------------------


def _check_events(step: Step, lowering: Lowering) -> None:
    """Names of events that do not happen where they are asked for."""
    lack: dict[str, str] = {}
    if step.loop is None:
        lack |= dict.fromkeys(("loop.done", "loop.item"), f"step {step.name!r} has no loop")
    arc_names = frozenset().union(*ARC_BOUNDARIES.values())
    for arc in step.arcs:
        elsewhere = dict.fromkeys(EVENT_NAMES - arc_names, "it happens inside the step, before its arcs")
        if arc.on:
            _odd_events(arc.when, {**elsewhere, **lack}, lowering)
    if step.body is None:
        lack |= dict.fromkeys(("call.done", "call.error", "worker.done"), f"step {step.name!r} calls nothing")
    offered = [rule for task in _tasks(step) if task.form == "event" for rule in task.rules]
    for rule in (*step.cases, *offered):
        if set(rule.events) - lack.keys():
            _odd_events(rule.when, lack, lowering)
    _check_no_event(step, lowering)
    _check_early_end(step, lowering)


def _odd_events(guard: Node | None, lack: dict[str, str], lowering: Lowering) -> None:
    root = logic.syntax(guard)
    if root is None or not isinstance(guard, Expr):
        return
    for name in dict.fromkeys(text for text, _ in logic.compared(root, "event", "name")):
        if name in lack:
            lowering.diagnostics.warning(
                "event-not-here",
                f"{name!r} does not happen here: {lack[name]}",
                within(guard, name),
                hint="name the event this place has, or remove the comparison",
            )


def _check_early_end(step: Step, lowering: Lowering) -> None:
    """Warn about a ``next`` after a call that ends its loop after the first item."""
    if step.loop is None or step.body is None or not step.body.tasks:
        return
    for rule in step.body.tasks[-1].rules:
        if "call.done" not in (rule.events or CASE_EVENTS) or not isinstance(rule.when, Expr):
            continue
        after_call = truth(analyse(f"{{{{ {rule.when.source} }}}}"), CASE_EVENTS["call.done"])
        if after_call and any(isinstance(action, NextAction) for action in rule.actions):
            lowering.diagnostics.warning(
                "loop-ends-early",
                f"this `next` ends the loop of step {step.name!r} after its first item",
                rule.when.pos,
                hint="ask for event.name == 'step.exit' to continue after all items, or say when to stop",
            )


def _check_no_event(step: Step, lowering: Lowering) -> None:
    """Rules of the canonical form, and admission, are not offered events."""
    names = lowering.names
    if "event" in names.ctx | names.vars | names.workload | names.arguments(step.name):
        return
    canonical = [task for task in (step.body.tasks if step.body else ()) if task.form == "canonical"]
    guards = [rule.when for task in canonical for rule in task.rules]
    guards += [rule.when for rule in step.admit.rules] if step.admit else []
    for guard in guards:
        root = logic.syntax(guard)
        if root is None or not isinstance(guard, Expr) or "event.name" not in guard.source.replace(" ", ""):
            continue
        lowering.diagnostics.error(
            "event-not-here",
            "there is no `event` here: a task's rules see `outcome`, admission sees the context",
            within(guard, "event"),
            hint="ask for outcome.status, or move the guard to next.arcs[].when",
        )


def _check_status_words(lowering: Lowering) -> None:
    for use in lowering.uses:
        root = use.analysis.root
        if root is None or use.analysis.names.isdisjoint(STATUS_WORDS):
            continue
        for base, words in STATUS_WORDS.items():
            for word, _ in logic.compared(root, base, "status"):
                if word in words:
                    continue
                at = max(use.scalar.value.find(word), 0)
                known = ", ".join(words)
                lowering.diagnostics.error(
                    "unknown-status",
                    f"{base}.status is never {word!r}; it is one of {known}",
                    use.scalar.locate(at),
                    hint=_word_hint(base, word, words),
                )


def _word_hint(base: str, word: str, words: tuple[str, ...]) -> str:
    good, bad = {"ok", "success", "done", "completed", "succeeded"}, {"failed", "failure", "fail", "err"}
    if word.lower() in good:
        return f"write {base}.status == {words[0]!r}"
    if word.lower() in bad:
        return f"write {base}.status == 'error'"
    return did_you_mean(word, words) or f"compare it with one of {', '.join(words)}"


def within(node: Expr, word: str) -> Pos:
    """Return the position of ``word`` in an expression.

    It is exact on the first line; further down it is the expression's own position.
    """
    at = node.source.find(word)
    if at < 0 or "\n" in node.source[:at] or not node.pos.line:
        return node.pos
    return Pos(node.pos.line, node.pos.column + at)
