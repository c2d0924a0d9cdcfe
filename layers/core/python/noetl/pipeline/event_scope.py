"""Values of names that depend on the current event, such as ``outcome`` and ``_prev``.

Each function returns ``MISSING`` when its name has no value now; the scope then looks for an ordinary name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from noetl.domain import codec
from noetl.domain.outcomes.outcomes import AROUND, ErrorInfo
from noetl.domain.patches.scope_patches import MISSING
from noetl.pipeline.state import LatestOutcome
from noetl.pipeline.template_views import (
    EventName,
    LazyView,
    OutcomeView,
    error_map,
    event_view,
    label_view,
    previous_view,
    response_view,
    this_view,
)
from noetl.templating import StepView, wrap
from noetl.templating.error_view import ErrorView

if TYPE_CHECKING:
    from noetl.pipeline.run import Run

_CALLING = frozenset({"enter", "call", "wait"})


def _nearest(run: Run, *, event_form: bool) -> tuple[LatestOutcome, str] | None:
    """Find the outcome that rules, sinks and inline tasks see, and its event.

    ``event_form``: prefer the outcome of an event-form call around it, so that the rules of an inline task still see the event that the
    task reacts to.
    """
    levels = list(zip(reversed(run.state.frames), reversed(run.sequences), strict=True))
    boundary = _of_boundary(run)
    reacts = boundary is not None or any(tasks[frame.pc].form == "event" for frame, tasks in levels)
    event_form = event_form and reacts
    for frame, tasks in levels:
        if frame.last is None or frame.phase in _CALLING:
            continue
        if not event_form or tasks[frame.pc].form == "event":
            return frame.last, frame.event
    if boundary is not None and (event_form or run.state.last is None):
        return boundary
    last = run.state.last
    return None if last is None else (last, "call.done" if last.ok else "call.error")


def _of_boundary(run: Run) -> tuple[LatestOutcome, str] | None:
    """Return the outcome of the step, for tasks that a ``case`` runs once it is known."""
    extra = run.around.frozen.extra
    if "event" not in extra or "result" not in extra:
        return None
    error = codec.convert(extra["error"], ErrorInfo) if extra.get("error") else None
    event = extra["event"]
    meta = dict(event.get("payload", {}).get("meta", {}))
    return LatestOutcome(extra["result"], meta.pop(AROUND, None), error, meta), event["name"]


def _outcome(run: Run) -> Any:
    found = _nearest(run, event_form=False)
    return MISSING if found is None else OutcomeView(found[0], run.around.refer, run.around.hydrate)


def _output(run: Run) -> Any:
    found = _nearest(run, event_form=False)
    if found is None:
        return MISSING
    return OutcomeView(found[0], run.around.refer, run.around.hydrate, raw=run.pipeline.meaning > 2)


def own_result(run: Run) -> StepView | None:
    """Return the last result of the running step, by its name; None before the first call."""
    found = _nearest(run, event_form=False)
    if found is None:
        return None
    last = found[0]
    status, labels = "success" if last.ok else "error", run.state.labels
    slot = {"status": status, "data": last.result, "error": error_map(last.error), "labels": labels}
    return StepView(slot, run.around.hydrate)


def _result(run: Run) -> Any:
    found = _nearest(run, event_form=True)
    if found is None:
        return MISSING
    if run.retrying:
        return wrap(_body(found[0]), run.around.hydrate)
    return wrap(run.state.result if run.state.pinned else found[0].result, run.around.hydrate)


def _body(last: LatestOutcome) -> Any:
    """Return the result of an attempt, or the body that came with its failure."""
    return last.result if last.error is None else last.error.details.get("body")


def _this(run: Run) -> Any:
    found = _nearest(run, event_form=True)
    return MISSING if found is None else this_view(found[0], run.around.hydrate)


def _response(run: Run) -> Any:
    found = _nearest(run, event_form=True)
    if found is None:
        return MISSING
    last = found[0]
    if run.retrying and last.error is not None and "body" in last.error.details:
        about = {"status_code": last.error.status, "headers": last.error.details.get("headers", {})}
        return response_view(LatestOutcome(_body(last), about), run.around.hydrate)
    return response_view(last, run.around.hydrate) if last.ok else MISSING


def _error(run: Run) -> Any:
    found = _nearest(run, event_form=True)
    if found is None or (found[0].ok and not run.retrying):
        return MISSING
    about = error_map(found[0].error)
    return None if about is None else ErrorView(about, run.around.hydrate)


def _event(run: Run) -> Any:
    found = _nearest(run, event_form=True)
    if found is None:
        return MISSING
    last, name = found
    payload: dict[str, Callable[[], Any]] = {
        "response": lambda: response_view(last, run.around.hydrate) if last.ok else None,
        "error": lambda: error_map(last.error),
        "meta": lambda: last.meta,
    }
    return event_view(EventName(name), run.around.step, payload)


def _previous(run: Run) -> Any:
    frames = run.state.frames
    return MISSING if not frames else previous_view(frames[-1].prev, run.around.hydrate)


def _task(run: Run) -> Any:
    task = run.current_task()
    return MISSING if task is None else task.label


def _attempt(run: Run) -> Any:
    frames = run.state.frames
    return max(1, frames[-1].attempt) if frames else 1


def _results(run: Run) -> Any:
    labels, promoted = run.state.labels, run.state.promoted
    if not labels:
        return MISSING
    hydrate = run.around.hydrate
    return LazyView(
        {label: partial(label_view, value, hydrate, promoted.get(label)) for label, value in labels.items()}
    )


def _unless_given(name: str, make: Callable[[Run], Any]) -> Callable[[Run], Any]:
    """Return the lookup of ``name`` that prefers a value which the command brought.

    Tasks at a step's end (of a ``case``, of a compensation) see that value, regardless of the tasks that ran before.
    """

    def find(run: Run) -> Any:
        return MISSING if name in run.around.frozen.extra else make(run)

    return find


def _retry_name(make: Callable[[Run, LatestOutcome], Any]) -> Callable[[Run], Any]:
    """Return the lookup of a name that exists only for ``retry_when`` and ``stop_when``."""

    def find(run: Run) -> Any:
        found = _nearest(run, event_form=False) if run.retrying else None
        return MISSING if found is None else make(run, found[0])

    return find


def _status_code(run: Run, last: LatestOutcome) -> Any:
    if last.error is not None:
        return last.error.status
    around = last.envelope or last.result
    return around.get("status_code") if isinstance(around, dict) else None


MOMENT: dict[str, Callable[[Run], Any]] = {
    "outcome": _outcome,
    "output": _output,
    "result": _unless_given("result", _result),
    "this": _unless_given("this", _this),
    "response": _unless_given("response", _response),
    "error": _unless_given("error", _error),
    "event": _unless_given("event", _event),
    "_prev": _previous,
    "_task": _task,
    "_attempt": _attempt,
    "attempt": _attempt,
    "results": _results,
    "_results": _results,
    "data": _retry_name(lambda run, last: wrap(_body(last), run.around.hydrate)),
    "success": _retry_name(lambda run, last: last.ok),
    "status_code": _retry_name(_status_code),
    "max_attempts": _retry_name(lambda run, last: run.max_attempts),
}
