"""Saved views in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from noetl.ports.saved_views import SavedPage, SavedView


class MemorySavedViews:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._rows: dict[tuple[str, str], SavedView] = {}

    def put(
        self, page: SavedPage, name: str, search: Mapping[str, str], principal: str, most: int
    ) -> SavedView | None:
        if sum(key[0] == page and key[1] != name for key in self._rows) >= most:
            return None
        found = SavedView(page, name, dict(search), principal, self._clock())
        self._rows[page, name] = found
        return found

    def entries(self, page: SavedPage) -> Sequence[SavedView]:
        return [row for key, row in sorted(self._rows.items()) if key[0] == page]

    def delete(self, page: SavedPage, name: str) -> bool:
        return self._rows.pop((page, name), None) is not None
