"""A step as templates of later steps see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from noetl.domain.results.references import is_ref
from noetl.templating.contract import Hydrate
from noetl.templating.plain import unwrap
from noetl.templating.views import BLANK, MISSING, MapView, Stored, View, content, own_key, resolve, wrap


class StepView(Stored):
    """A step as later templates see it; as a bare value it is its result.

    Built from ``{"status": "success|error|skipped", "data": result, "error": …, "labels": {label: result}}``. Order of ``.name``: the
    result's own keys, those of its ``data`` when it has ``status`` as well, then ``data``, ``result``, ``status``, ``error``, ``_ref``,
    ``labels``, then each label, then ``results``: the labels as a mapping.
    """

    __slots__ = ("_data",)

    def __init__(self, state: Mapping[str, Any], hydrate: Hydrate | None = None) -> None:
        super().__init__(state, hydrate)
        self._data: Any = MISSING

    def attribute(self, name: str) -> Any:
        state = self.raw
        data = self.data()
        if name in ("data", "result"):
            return data.attribute(name) if own_key(data, name) else data
        if name == "_ref":
            return MapView(state["data"]) if is_ref(state.get("data")) else BLANK
        if name in ("status", "error", "labels"):
            return data.attribute(name) if own_key(data, name) else wrap(state.get(name), self.hydrate)
        found = data.attribute(name) if isinstance(data, View) else MISSING
        if found is MISSING and type(data) is MapView and "status" in data.raw and "data" in data.raw:
            inner = data.attribute("data")
            found = inner.attribute(name) if isinstance(inner, View) else MISSING
        if found is MISSING:
            labels = state.get("labels") or {}
            found = wrap(labels.get(name, MISSING), self.hydrate)
        if found is MISSING and name == "results" and state.get("labels"):
            return MapView(state["labels"], self.hydrate)
        return found

    def data(self) -> Any:
        """The step's result, wrapped."""
        if self._data is MISSING:
            self._data = wrap(self.raw.get("data"), self.hydrate)
        return self._data

    def content(self) -> Any:
        return content(self.data())

    def value(self) -> Any:
        return resolve(self.data())

    def plain(self) -> Any:
        return unwrap(self.data())

    def keys(self) -> Iterable[Any]:
        data = self.data()
        if isinstance(data, View):
            yield from data.keys()
        yield from ("data", "status", "error", "result")
        yield from self.raw.get("labels") or ()
