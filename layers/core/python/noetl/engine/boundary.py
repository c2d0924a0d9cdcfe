"""Names in scope at a step's boundaries: what ``event``, ``result``, ``this``, ``output``, ``error`` are when arcs and cases are evaluated."""

from __future__ import annotations

from functools import partial
from typing import Any

from noetl.domain.patches import MISSING
from noetl.domain.results import canonical, is_ref
from noetl.engine.decision import Decider
from noetl.engine.scope import BoundaryName
from noetl.pipeline.views import LazyView, label_view
from noetl.templating import StepView, wrap


def boundary_scope(d: Decider, step: str, event: str, labels: dict[str, Any] | None = None) -> dict[str, Any]:
    """Extra names for ``event`` (``step.enter``, ``loop.done``, ``step.exit``, ``step.done``, ``step.failed``) of a step."""
    extra: dict[str, Any] = {name: wrap(value, d.view.load) for name, value in (labels or {}).items()}
    boundary = "failed" if event == "step.failed" else "done"
    name = BoundaryName(event, boundary) if event in ("step.done", "loop.done", "step.failed") else event
    extra["event"] = {"name": name, "step": step, "payload": {}}
    extra |= _loop_names(d, step, event)
    if event == "step.enter":
        return extra
    slot = d.slots.get(("step", step), MISSING)
    if slot is MISSING:
        slot = {"status": "success", "data": None}
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
    extra["event"]["payload"] = {"response": data if ok else None, "error": error}
    extra |= {"this": view, "result": data, "response": data, "output": envelope, "outcome": envelope}
    if error is not None:
        extra["error"] = error
    return extra


def _loop_names(d: Decider, step: str, event: str) -> dict[str, Any]:
    """``loop`` once all iterations are over: the last one's place (only ``done``, when a ``result`` took the list's place)."""
    if d.steps[step].loop is None or event == "step.enter":
        return {}
    slot = d.slots.get(("step", step), MISSING)
    found = slot.get("data") if isinstance(slot, dict) else None
    if not isinstance(found, dict) or found.get("kind") != "loop_result":
        return {"loop": {"done": True}}
    count = found["count"]
    names = {"index": count - 1, "first": count == 1, "last": count > 0, "length": count, "done": True}
    return {"loop": names}


def _ref(slot: dict[str, Any]) -> Any:
    data = slot.get("data")
    return canonical(data)["ref"] if is_ref(data) else None
