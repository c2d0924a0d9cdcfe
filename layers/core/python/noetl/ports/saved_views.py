"""Port of saved views: filters of the web UI's pages that people keep by name.

All who use the server see them.

Adapters: ``adapters/postgres`` and a double of the tests; one contract suite holds both to this text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import msgspec

SavedPage = Literal["executions", "sql"]
"""The pages that have views."""


class SavedView(msgspec.Struct, frozen=True):
    """A view of a page.

    ``search``: the parameters of the page's address, as text. ``principal``: who saved it. ``saved_at``: epoch seconds. ``unreadable``:
    why its row cannot be read; the row is shown without a search, and can be deleted.
    """

    page: SavedPage
    name: str
    search: Mapping[str, str]
    principal: str
    saved_at: float
    unreadable: str = ""


class SavedViews(Protocol):
    """Raises InfrastructureError when the store cannot be reached (the caller may try again)."""

    def put(
        self, page: SavedPage, name: str, search: Mapping[str, str], principal: str, most: int
    ) -> SavedView | None:
        """Save a view, or replace the one of this name.

        None, and nothing is changed, when the page has ``most`` others already.
        """

    def entries(self, page: SavedPage) -> Sequence[SavedView]:
        """Return the views of a page, by name."""

    def delete(self, page: SavedPage, name: str) -> bool:
        """False when there was none."""
