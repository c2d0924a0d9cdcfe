"""Rules: which one answers an outcome, and where the run continues from there.

Canonical tasks: the first rule that matches; nothing matches: a success continues, an error fails (or continues, ``on_unmatched``).
Event form: a failure is offered as ``call.error``, and, when no entry answers it, as ``call.done``; in a loop, entries for
``loop.item`` follow once the item's result is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.domain.branch_coverage import taken
from noetl.domain.errors import TemplateError
from noetl.domain.outcomes.outcomes import ErrorInfo
from noetl.dsl.program import Rule, SetAction, Task
from noetl.pipeline import actions, nested, result_binding, task_call, tracing
from noetl.pipeline.requests import Op
from noetl.pipeline.retry import holds
from noetl.pipeline.state import EACH, Frame, latest

if TYPE_CHECKING:
    from noetl.pipeline.run import Run

_ITEM = "loop.item"


def find(run: Run) -> Op | None:
    """Find the next rule that matches the current event, and begin its actions."""
    frame = run.state.frames[-1]
    task = run.sequences[-1][frame.pc]
    for place in range(frame.rule, len(task.rules)):
        if place in frame.used or not _applies(task, task.rules[place], frame.event):
            continue
        if _matches(run, frame, task, task.rules[place]):
            frame.rule, frame.action, frame.phase = place, 0, "actions"
            taken(task.rules[place])
            tracing.rule_taken(run, frame, task)
            return None
    frame.rule = len(task.rules)
    frame.phase = "settle"
    return None


def _applies(task: Task, rule: Rule, event: str) -> bool:
    """Return whether a rule applies to this event.

    ``loop.item`` is only for rules that name it and no end of a call.
    """
    if task.form == "canonical":
        return True
    if event == _ITEM:
        return _ITEM in rule.events and "call.done" not in rule.events and "call.error" not in rule.events
    return not rule.events or event in rule.events


def _matches(run: Run, frame: Frame, task: Task, rule: Rule) -> bool:
    if rule.when is None:
        return True
    last = latest(frame)
    late = task.form == "event" and frame.event == "call.done" and not last.ok
    return holds(run.is_true, rule.when, ok=last.ok) if late or rule.unnamed else run.is_true(rule.when)


def act(run: Run) -> Op | None:
    """Carry out the rule's actions in order; sinks wait until the others are done."""
    frame = run.state.frames[-1]
    rule = run.sequences[-1][frame.pc].rules[frame.rule]
    while frame.action < len(rule.actions):
        action = rule.actions[frame.action]
        frame.action += 1
        verdict = actions.perform(run, frame, action)
        if verdict == "wait":
            return None
        if verdict == "no match":
            frame.sinks, frame.answer = [], ""
            frame.rule, frame.phase = frame.rule + 1, "rules"
            return None
    frame.phase, frame.then = "sinks", "settle"
    return None


def run_sinks(run: Run) -> Op | None:
    """Run the sinks that wait, one after the other."""
    frame = run.state.frames[-1]
    while frame.sinks:
        if start_sink(run, frame.sinks.pop(0)):
            return None
    frame.phase = frame.then
    return None


def start_sink(run: Run, address: list[object]) -> bool:
    """Begin a sink; False when its ``when`` says no."""
    sink = run.sink_at(address)
    if sink.when is not None and not run.is_true(sink.when):
        tracing.sink_processed(run, sink.task, "skipped")
        return False
    tracing.sink_started(run, sink.task)
    run.push(address)
    return True


def settle(run: Run) -> Op | None:
    """The rules have spoken, or none did: what is the answer?"""
    frame = run.state.frames[-1]
    task = run.sequences[-1][frame.pc]
    if frame.event == _ITEM:
        frame.phase = "leave"
        return None
    matched = frame.rule < len(task.rules)
    if not frame.answer:
        if task.form == "event" and frame.event == "call.error":
            _offer_again(frame, matched=matched)
            return None
        frame.answer = _default(frame, task, matched=matched)
    if frame.answer not in ("retry", "call") and _has_item_rules(run, task):
        frame.event, frame.rule, frame.used, frame.phase = _ITEM, 0, [], "rules"
    else:
        frame.phase = "leave"
    return None


def _offer_again(frame: Frame, *, matched: bool) -> None:
    """Offer a failure that no entry answered as ``call.error`` again, as ``call.done``.

    An entry that has run does not run again.
    """
    if matched:
        frame.used = [*frame.used, frame.rule]
    frame.event, frame.rule, frame.phase = "call.done", 0, "rules"


def _default(frame: Frame, task: Task, *, matched: bool) -> actions.Default:
    if latest(frame).ok:
        return "continue"
    if task.form == "canonical" and matched:
        return "continue"
    return "continue" if task.rules and task.on_unmatched == "continue" else "fail"


def _has_item_rules(run: Run, task: Task) -> bool:
    return (
        run.item is not None
        and task.form == "event"
        and not run.state.frames[-1].address
        and any(_applies(task, rule, _ITEM) for rule in task.rules)
    )


_NO_RESULT = ("retry", "call", "fail", "skip", "jump")
"""Answers that leave a task without a result which is good for others: it was wrong, a part, or not there yet."""


def leave(run: Run) -> Op | None:
    """Carry out the answer."""
    frame = run.state.frames[-1]
    answer, task = frame.answer, run.sequences[-1][frame.pc]
    last = latest(frame)
    fresh = run.fresh.pop(len(run.state.frames), None)
    if fresh is not None and frame.overrides is None and answer not in _NO_RESULT:
        run.to_cache.append(fresh)
    if task.gather is not None and answer not in ("retry", "fail"):
        last = result_binding.gather(run, frame, task, last)
    if answer in ("retry", "call"):
        return _repeat(run, frame, task)
    if answer == "fail":
        run.fail(frame.error or last.error or ErrorInfo(f"{task.label} failed"))
        return None
    if not last.ok and answer != "skip" and task.meaning > 2:
        _set_after_failure(run, frame, task)
    frame.prev = last.result
    if not frame.address or frame.address == EACH:
        run.state.last = last
        if not run.state.pinned:
            run.state.result = last.result
        if not frame.address:
            run.state.chosen = result_binding.selections(run, task.result, run.state.result)
    if answer == "skip" and nested.skip(run):
        return None
    if answer in ("next", "skip"):
        run.state.skipped = answer == "skip"
        run.finish_tasks()
    elif answer == "break":
        task_call.end_sequence(run)
    else:
        frame.pc = frame.to if answer == "jump" else frame.pc + 1
        frame.phase = "enter"
    return None


def _set_after_failure(run: Run, frame: Frame, task: Task) -> None:
    """Write the ``set`` of a task whose failure a rule answered.

    The rule's own writes win. Entries that read a result are left out.
    """
    rule = task.rules[frame.rule] if frame.rule < len(task.rules) else None
    written = {
        (action.scope, action.name)
        for action in (rule.actions if rule else ())
        if isinstance(action, SetAction)
    }
    for write in task.sets:
        if (write.scope, write.name) in written:
            continue
        try:
            result_binding.set_value(run, write)
        except TemplateError as error:
            if error.code != "undefined":
                raise


def _repeat(run: Run, frame: Frame, task: Task) -> Op | None:
    frame.phase = "call"
    if frame.answer == "call":
        run.state.visits[task.label] += 1
        frame.attempt = 0
        return None
    tracing.retry_scheduled(run, frame, task)
    return run.suspend(frame.delay) if frame.delay > 0 else None
