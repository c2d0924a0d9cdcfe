"""The actions of rules: what each one does to a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from noetl.domain import codec
from noetl.domain.errors import InvalidInputError, NoetlError, TaskError
from noetl.domain.outcomes.outcomes import ErrorInfo, Patch, Target
from noetl.domain.patches.scope_patches import deep_merge
from noetl.dsl import program as p
from noetl.pipeline import result_binding
from noetl.pipeline.errors import located
from noetl.pipeline.retry import allowed_attempts, exhausted, schedule_retry
from noetl.pipeline.sql_overrides import pack_sql
from noetl.pipeline.state import Frame, latest

if TYPE_CHECKING:
    from noetl.pipeline.run import Run

Verdict = Literal["continue", "wait", "no match"]
"""``wait``: inline tasks were started; the list of actions continues after them. ``no match``: the rule did not apply after all."""

Default = Literal["continue", "fail"]


def perform(run: Run, frame: Frame, action: p.Action) -> Verdict:
    """Carry out one action.

    Raises TemplateError, InvalidInputError (a write that does not fit) or TaskError.
    """
    return _ACTIONS[type(action)](run, frame, action)


def _set(run: Run, frame: Frame, action: p.SetAction) -> Verdict:
    result_binding.set_value(run, action)
    return "continue"


def _collect(run: Run, frame: Frame, action: p.CollectAction) -> Verdict:
    value = run.render(action.source)
    try:
        run.write(Patch("ctx", action.into, value, action.mode))
    except NoetlError as error:
        raise located(error, action.pos) from error.__cause__
    return "continue"


def _result(run: Run, frame: Frame, action: p.ResultAction) -> Verdict:
    run.state.result, run.state.pinned = run.render(action.value), True
    if frame.answer in ("", "fail", "continue"):
        frame.answer = "result"
    return "continue"


def _sink(run: Run, frame: Frame, action: p.SinkAction) -> Verdict:
    frame.sinks.append(["rule-sink", frame.rule, frame.action - 1])
    return "continue"


def _run(run: Run, frame: Frame, action: p.RunAction) -> Verdict:
    run.push(["rule-run", frame.rule, frame.action - 1])
    return "wait"


def _retry(run: Run, frame: Frame, action: p.RetryAction) -> Verdict:
    task = _repeatable(run, frame, "retry")
    allowed = allowed_attempts(run, action)
    if frame.attempt < allowed:
        schedule_retry(run, frame, action, allowed)
        return "continue"
    if action.exhausted == "next_rule":
        return "no match"
    last = latest(frame)
    if last.error is not None:
        frame.error = exhausted(None, frame.attempt, last)
    else:
        frame.error = ErrorInfo(
            f"{task.label} was tried {frame.attempt} times and its rule still asks for a retry",
            "timeout",
            "retry_exhausted",
        )
    frame.answer = "fail"
    return "continue"


def _call(run: Run, frame: Frame, action: p.CallAction) -> Verdict:
    _repeatable(run, frame, "call")
    overrides = run.render(action.overrides)
    if overrides is not None and not isinstance(overrides, dict):
        raise TaskError("call: the overrides must be a mapping", kind="schema", code="call_params")
    frame.overrides = deep_merge(frame.overrides or {}, pack_sql(overrides or {}))
    frame.answer = "call"
    return "continue"


def _repeatable(run: Run, frame: Frame, what: str) -> p.Task:
    if frame.event == "loop.item":
        raise InvalidInputError(
            f"{what} cannot answer loop.item: the iteration is over",
            code="action_not_here",
            hint=f"put the {what} under call.done or call.error",
        )
    return run.sequences[-1][frame.pc]


def _next(run: Run, frame: Frame, action: p.NextAction) -> Verdict:
    targets = []
    for target in action.targets:
        args = None if target.args is None else run.render(target.args)
        if args is not None and not isinstance(args, dict):
            raise InvalidInputError(f"next: the args of {target.step} must be a mapping", code="next_args")
        targets.append(Target(target.step, args or {}))
    run.state.route = targets
    frame.answer = "next"
    return "continue"


def _jump(run: Run, frame: Frame, action: p.JumpAction) -> Verdict:
    labels = [task.label for task in run.sequences[-1]]
    if action.to == "previous" and "previous" not in labels:
        if frame.pc == 0:
            raise InvalidInputError(
                "jump to previous: this is the first task",
                code="jump_target",
                hint="name the task to jump to",
            )
        frame.to = frame.pc - 1
    elif action.to in labels:
        frame.to = labels.index(action.to)
    else:
        raise InvalidInputError(
            f"jump: there is no task {action.to!r} here",
            code="jump_target",
            hint=f"tasks: {', '.join(labels)}"[:500],
        )
    frame.answer = "jump"
    return "continue"


def _continue(run: Run, frame: Frame, action: p.ContinueAction) -> Verdict:
    frame.answer = "continue"
    return "continue"


def _break(run: Run, frame: Frame, action: p.BreakAction) -> Verdict:
    frame.answer = "break"
    return "continue"


def _fail(run: Run, frame: Frame, action: p.FailAction) -> Verdict:
    message = None if action.message is None else _text(run.loaded(run.render(action.message)))
    known = latest(frame).error
    if known is not None:
        frame.error = known if message is None else msgspec.structs.replace(known, message=message)
    else:
        label = run.sequences[-1][frame.pc].label
        position = f"{run.around.source_name or 'playbook'}:{action.pos.line}:{action.pos.column}"
        frame.error = ErrorInfo(
            message or f"a rule failed the task {label}",
            code="failed_by_rule",
            hint="a rule with `do: fail` (or a case with `fail`) ended it: read its guard"
            + ("" if message else ", and write a `message` beside `do: fail`"),
            position=position if action.pos.line else None,
        )
    frame.answer = "fail"
    return "continue"


def _skip(run: Run, frame: Frame, action: p.SkipAction) -> Verdict:
    run.state.message = None if action.message is None else _text(run.loaded(run.render(action.message)))
    frame.answer = "skip"
    return "continue"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else codec.encode(value).decode()


_ACTIONS: dict[type, Callable[[Run, Frame, Any], Verdict]] = {
    p.SetAction: _set,
    p.CollectAction: _collect,
    p.ResultAction: _result,
    p.SinkAction: _sink,
    p.RunAction: _run,
    p.RetryAction: _retry,
    p.CallAction: _call,
    p.NextAction: _next,
    p.JumpAction: _jump,
    p.ContinueAction: _continue,
    p.BreakAction: _break,
    p.FailAction: _fail,
    p.SkipAction: _skip,
}
