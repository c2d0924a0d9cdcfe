"""Names in scope at a step's boundaries, for arcs and cases.

What ``event``, ``result``, ``this``, ``output`` and ``error`` are when arcs and cases are evaluated.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from noetl.domain.outcomes.outcomes import AROUND
from noetl.domain.results.references import canonical, is_ref
from noetl.domain.state import Token
from noetl.engine.decision import Decider
from noetl.engine.folds.run_results import result_of
from noetl.engine.scopes.scope import BoundaryName
from noetl.pipeline.state import LatestOutcome
from noetl.pipeline.template_views import LayeredView, LazyView, event_view, label_view, response_view
from noetl.templating import StepView, wrap
from noetl.templating.contract import Hydrate
from noetl.templating.error_view import ErrorView


def boundary_scope(
    d: Decider, token: Token, event: str, labels: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Make the extra names of a run's boundary.

    ``event``: ``step.enter``, ``loop.done``, ``step.exit``, ``step.done`` or ``step.failed``. The names show the run's own result; a
    run that was never called has none (status ok, data null), even if an earlier run of its step had one.
    """
    extra: dict[str, Any] = {name: wrap(value, d.view.load) for name, value in (labels or {}).items()}
    boundary = "failed" if event == "step.failed" else "done"
    name = BoundaryName(event, boundary) if event in ("step.done", "loop.done", "step.failed") else event
    payload: dict[str, Any] = {}
    about = {key: partial(payload.get, key) for key in ("response", "error", "meta")}
    extra["event"] = event_view(name, token.step, about)
    if event == "step.enter":
        return extra
    slot = result_of(d.slots, token) or {"status": "success", "data": None}
    extra |= _loop_names(d, token.step, slot)
    error = slot.get("error")
    view = StepView(slot, d.view.load)
    data = wrap(slot.get("data"), d.view.load)
    ok = slot["status"] != "error"
    envelope = {
        "status": "ok" if ok else "error",
        "data": data,
        "result": data,
        "error": error,
        "ref": _ref(slot),
    }
    if slot.get("labels"):
        tasks = {name: partial(label_view, value, d.view.load) for name, value in slot["labels"].items()}
        extra["_results"] = extra["results"] = LazyView(tasks)
    payload |= {"response": data if ok else None, "error": error, "meta": slot.get("meta", {})}
    extra |= {"this": view, "result": data, "response": data, "output": envelope, "outcome": envelope}
    if d.program.semantics > 1:
        extra |= _whole(slot, view, d.view.load)
    if d.program.semantics > 2:
        body = slot.get("data")
        extra["output"] = LayeredView((envelope, body, {"response": body}), body, d.view.load)
    if error is not None:
        extra["error"] = ErrorView(error, d.view.load)
    return extra


def _whole(slot: dict[str, Any], view: StepView, hydrate: Hydrate) -> dict[str, Any]:
    """Make ``response``, ``this`` and ``output.meta`` as they are after a call.

    They are the body with what came around it.
    """
    meta = {name: value for name, value in slot.get("meta", {}).items() if name != AROUND}
    around, ok = slot.get("meta", {}).get(AROUND) or {}, slot["status"] != "error"
    body = slot.get("data")
    about = {"status": "success" if ok else "error", "data": body, "result": body}
    about |= {"error": slot.get("error"), "meta": meta}
    this = LayeredView((about, view), about, hydrate)
    response = (
        response_view(LatestOutcome(body, around), hydrate)
        if around
        else LayeredView((body, {"data": body}), body, hydrate)
    )
    return {"this": this, "response": response}


def _loop_names(d: Decider, step: str, slot: dict[str, Any]) -> dict[str, Any]:
    """Make ``loop`` for the time after all iterations: the place of the last one.

    It has only ``done`` when a ``result`` took the list's place.
    """
    if d.steps[step].loop is None:
        return {}
    found = slot.get("data")
    if not isinstance(found, dict) or found.get("kind") != "loop_result":
        return {"loop": {"done": True}}
    count = found["count"]
    names = {"index": count - 1, "first": count == 1, "last": count > 0, "length": count, "done": True}
    return {"loop": names}


def _ref(slot: dict[str, Any]) -> Any:
    data = slot.get("data")
    return canonical(data)["ref"] if is_ref(data) else None
