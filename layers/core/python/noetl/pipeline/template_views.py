"""Templates' views of outcomes.

``outcome``, ``response``, ``result``, ``this``, ``error``.

The shapes follow docs/dsl.md, "Rules that settle what the documents leave open", 1 to 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from noetl.domain.errors import TaskError
from noetl.domain.outcomes.outcomes import ErrorInfo
from noetl.domain.results.references import is_ref
from noetl.dsl.program import Task
from noetl.pipeline.state import LatestOutcome
from noetl.templating import StepView, View, wrap
from noetl.templating.contract import Hydrate
from noetl.templating.views import MISSING, MapView, content, raw, resolve

EVENT_ALIASES: dict[str, frozenset[str]] = {
    "call.done": frozenset({"call.done", "worker.done"}),
    "call.error": frozenset({"call.error", "step.failed"}),
    "loop.item": frozenset({"loop.item"}),
}
_HTTP_KEYS = frozenset({"status_code", "headers", "data"})


class EventName(str):
    """The name of a boundary: equal to every alias of it."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is str:
            return other in EVENT_ALIASES.get(str.__str__(self), (str.__str__(self),))
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; the name of an event is text."""
    return (
        value.plain() if isinstance(value, View) else str.__str__(value) if isinstance(value, str) else value
    )


def event_view(name: str, step: str, payload: Mapping[str, Callable[[], Any]]) -> LazyView:
    """``event``: its name equals every alias of it, and is text where the event is kept."""
    about = LazyView(payload)
    return LazyView({"name": lambda: name, "payload": lambda: about, "step": lambda: step})


class LayeredView(View):
    """Several mappings seen as one, the first that has a key wins; as a value it is ``whole``."""

    __slots__ = ("hydrate", "layers", "whole")

    def __init__(self, layers: tuple[Any, ...], whole: Any, hydrate: Hydrate | None) -> None:
        self.layers = layers
        self.whole = whole
        self.hydrate = hydrate

    def attribute(self, name: str) -> Any:
        for layer in self.layers:
            face = wrap(layer, self.hydrate)
            found = face.attribute(name) if isinstance(face, View) else MISSING
            if found is not MISSING:
                return found
        return MISSING

    def value(self) -> Any:
        return resolve(wrap(self.whole, self.hydrate))

    def content(self) -> Any:
        return content(wrap(self.whole, self.hydrate))

    def plain(self) -> Any:
        return self.whole

    def keys(self) -> Iterable[Any]:
        for layer in self.layers:
            face = wrap(layer, self.hydrate)
            if isinstance(face, View):
                yield from face.keys()


class ResponseView(LayeredView):
    """``response``: the body's keys, then what is around it.

    A body may have a key ``data`` of its own: it is ``response.data``, and names that it lacks are those of the body, for the body is
    ``response.data`` everywhere else.
    """

    __slots__ = ()

    def attribute(self, name: str) -> Any:
        found = super().attribute(name)
        if name != "data" or not self.layers:
            return found
        body = wrap(self.layers[0], self.hydrate)
        own = body.attribute("data") if isinstance(body, View) else MISSING
        return found if own is MISSING else LayeredView((own, body), raw(own), self.hydrate)


class LazyView(View):
    """A mapping whose entries are made when they are touched."""

    __slots__ = ("entries",)

    def __init__(self, entries: Mapping[str, Callable[[], Any]]) -> None:
        self.entries = entries

    def attribute(self, name: str) -> Any:
        make = self.entries.get(name)
        return MISSING if make is None else wrap(make())

    def value(self) -> Any:
        return MapView(self.plain())

    def plain(self) -> Any:
        return {name: _plain(make()) for name, make in self.entries.items()}

    def keys(self) -> Iterable[Any]:
        return self.entries.keys()


def is_http(value: Any) -> bool:
    """Return whether a result is the envelope of an HTTP call."""
    return isinstance(value, Mapping) and value.keys() >= _HTTP_KEYS


def split_result(task: Task, value: Any) -> tuple[Any, dict[str, Any] | None]:
    """Split a tool's answer into (result, envelope around it).

    The inside of an envelope of ``status`` and ``data``; in the event form the body of an HTTP call; what ``output.path`` leads to.
    Raises TaskError(code="output_path").
    """
    result, around = _unpacked(value, task)
    if not task.part:
        return result, around
    part = _part(result, task.part)
    if around is None and isinstance(result, Mapping):
        around = {key: entry for key, entry in result.items() if key != task.part[0]}
    return part, around


def _part(value: Any, path: tuple[str, ...]) -> Any:
    for place, key in enumerate(path):
        if not isinstance(value, Mapping) or key not in value:
            where = ".".join(("$", *path[:place]))
            raise TaskError(
                f"output.path: there is no {key!r} in {where}",
                kind="schema",
                code="output_path",
                hint=f"it has {', '.join(map(str, value))}"[:300]
                if isinstance(value, Mapping)
                else "it is not a mapping",
            )
        value = value[key]
    return value


_ENVELOPE = frozenset({"status", "data", "error", "meta"})


def _unpacked(value: Any, task: Task) -> tuple[Any, dict[str, Any] | None]:
    if not isinstance(value, Mapping):
        return value, None
    http = task.kind == "http" and is_http(value)
    wrapped = not http and "status" in value and "data" in value
    if wrapped and task.meaning > 2:
        wrapped = _ENVELOPE.issuperset(value)
    if (http and task.form == "event") or wrapped:
        return value["data"], {key: entry for key, entry in value.items() if key != "data"}
    return value, None


def result_view(value: Any, hydrate: Hydrate | None) -> Any:
    """Return ``outcome.result`` or ``_prev``: an HTTP envelope's keys first, then its body's."""
    if _is_http_result(value):
        body = _Body(value, hydrate)
        return LayeredView((value, body, {"body": body}), value, hydrate)
    return wrap(value, hydrate)


def previous_view(value: Any, hydrate: Hydrate | None) -> Any:
    """Return ``_prev``: the result.

    ``_prev.data`` is the result, too, where it has no such key.
    """
    seen = result_view(value, hydrate)
    if value is None or isinstance(seen, LayeredView) or not isinstance(seen, View):
        return seen
    return LayeredView((seen, {"data": value}), value, hydrate)


def label_view(value: Any, hydrate: Hydrate | None, promoted: Mapping[str, Any] | None = None) -> Any:
    """Return a task by its label: its result, ``.data``, ``.status``, and its selections."""
    if _is_http_result(value):
        body = _Body(value, hydrate)
        about = {"status": "success", "result": value, "body": body, **(promoted or {})}
        return LayeredView((value, body, about), value, hydrate)
    return StepView({"status": "success", "data": value, "labels": promoted or {}}, hydrate)


def _is_http_result(value: Any) -> bool:
    """Return whether a value is an HTTP envelope, or the reference of a large one."""
    return is_http(value) or (is_ref(value) and "status_code" in (value.get("extracted") or ()))


class _Body(View):
    """The body inside an HTTP envelope, looked into only when a name is not found around it."""

    __slots__ = ("envelope", "hydrate")

    def __init__(self, envelope: Any, hydrate: Hydrate | None) -> None:
        self.envelope = envelope
        self.hydrate = hydrate

    def attribute(self, name: str) -> Any:
        body = wrap(self.envelope, self.hydrate).attribute("data")
        return body.attribute(name) if isinstance(body, View) else MISSING

    def plain(self) -> Any:
        body = wrap(self.envelope, self.hydrate).attribute("data")
        return body.plain() if isinstance(body, View) else body

    def keys(self) -> Iterable[Any]:
        body = wrap(self.envelope, self.hydrate).attribute("data")
        return body.keys() if isinstance(body, View) else ()


def error_map(error: ErrorInfo | None) -> dict[str, Any] | None:
    """Return the value of ``error``: its fields, and the tool's details (``body``, …)."""
    if error is None:
        return None
    return {**error.details, **msgspec.structs.asdict(error)}


def response_view(last: LatestOutcome, hydrate: Hydrate | None) -> Any:
    """Return ``response``: the body's keys, then ``status_code``, ``headers``, ``data``.

    ``status`` is the code, too.
    """
    body = last.result
    around = {**(last.envelope or {}), "data": body}
    whole = {**around, **body} if isinstance(body, Mapping) and not is_ref(body) else around
    more = {"body": body}
    if "status_code" in around:
        more["status"] = around["status_code"]
    return ResponseView((body, around, more), whole, hydrate)


def this_view(last: LatestOutcome, hydrate: Hydrate | None) -> Any:
    """Return ``this``: the whole envelope."""
    return MapView(
        {
            "status": "success" if last.ok else "error",
            "data": last.result,
            "result": last.result,
            "error": error_map(last.error),
            "meta": last.meta,
        },
        hydrate,
    )


class OutcomeView(View):
    """``outcome`` and ``output``: one view under both names.

    ``refer`` returns the reference of a result (``output.ref``), storing it when it was not stored yet. ``raw``: as a value it is the
    result, and after its own names it has those of the result.
    """

    __slots__ = ("hydrate", "last", "raw", "refer")

    def __init__(
        self, last: LatestOutcome, refer: Callable[[Any], Any], hydrate: Hydrate | None, *, raw: bool = False
    ) -> None:
        self.last = last
        self.raw = raw
        self.refer = refer
        self.hydrate = hydrate

    def attribute(self, name: str) -> Any:
        make = _OUTCOME.get(name)
        if make is not None:
            return wrap(make(self), self.hydrate)
        result = self.result() if self.raw else None
        found = result.attribute(name) if isinstance(result, View) else MISSING
        return self.result() if found is MISSING and name == "response" and self.last.ok else found

    def value(self) -> Any:
        return resolve(self.result()) if self.raw else MapView(self.plain())

    def content(self) -> Any:
        return content(self.result()) if self.raw else self.value()

    def plain(self) -> Any:
        if self.raw:
            return self.last.result
        found = {name: make(self) for name, make in _OUTCOME.items()}
        return {name: value.plain() if isinstance(value, View) else value for name, value in found.items()}

    def keys(self) -> Iterable[Any]:
        return _OUTCOME.keys()

    def result(self) -> Any:
        return result_view(self.last.result, self.hydrate)


_OUTCOME: dict[str, Callable[[OutcomeView], Any]] = {
    "status": lambda view: "ok" if view.last.ok else "error",
    "result": OutcomeView.result,
    "data": OutcomeView.result,
    "ref": lambda view: view.refer(view.last.result) if view.last.ok else None,
    "error": lambda view: error_map(view.last.error),
    "meta": lambda view: view.last.meta,
    "http": lambda view: _http(view.last),
    "pg": lambda view: _pg(view.last),
    "py": lambda view: _py(view.last),
}


def _http(last: LatestOutcome) -> dict[str, Any]:
    envelope = last.envelope or (last.result if isinstance(last.result, Mapping) else {})
    details = last.error.details if last.error else {}
    found = {
        "status": last.error.status if last.error else envelope.get("status_code"),
        "headers": details.get("headers", envelope.get("headers", {})),
        "url": details.get("url", envelope.get("url")),
        "elapsed": envelope.get("elapsed"),
    }
    return {**found, **_helper(last, "http")}


def _pg(last: LatestOutcome) -> dict[str, Any]:
    error = last.error
    code = None
    if error is not None:
        code = error.details.get("sqlstate", error.code if error.kind.startswith("db_") else None)
    return {"code": code, "sqlstate": code, **_helper(last, "pg")}


def _py(last: LatestOutcome) -> dict[str, Any]:
    error = last.error
    raised = error.code if error is not None and error.kind == "transform" else None
    return {"exception_type": raised, "lines": 0 if last.ok else None, **_helper(last, "py")}


def _helper(last: LatestOutcome, name: str) -> dict[str, Any]:
    """Return the part of ``meta`` (or of the error's details) that the kind set for a helper."""
    given = last.meta.get(name) or (last.error.details.get(name) if last.error else None)
    return (
        {key: value for key, value in given.items() if value is not None} if isinstance(given, dict) else {}
    )
