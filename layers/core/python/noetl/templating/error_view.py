"""The error of a failed call, as guards see it."""

from __future__ import annotations

from noetl.templating.views import MapView


class ErrorView(MapView):
    """``error``: a mapping that compares as its message where a text is looked for in it."""

    __slots__ = ()

    def message(self) -> str:
        return str(self.raw.get("message", ""))

    def __contains__(self, item: object) -> bool:
        return item in self.raw or (isinstance(item, str) and item in self.message())

    def __eq__(self, other: object) -> bool:
        return other == self.message() if isinstance(other, str) else MapView.__eq__(self, other)

    __hash__ = None  # type: ignore[assignment]
