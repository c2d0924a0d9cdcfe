"""Saved views in Postgres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

from noetl.adapters.postgres.connection import Database, Row
from noetl.adapters.postgres.executions.unreadable_rows import moment
from noetl.adapters.postgres.literals import number, text
from noetl.domain import codec
from noetl.domain.unreadable import Unreadable, attempt
from noetl.ports.saved_views import SavedPage, SavedView

_SEARCH: msgspec.json.Decoder[dict[str, str]] = codec.decoder(dict[str, str])


class PostgresSavedViews:
    """``database``: shared with other adapters."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(
        self, page: SavedPage, name: str, search: Mapping[str, str], principal: str, most: int
    ) -> SavedView | None:
        values = {
            "page": text(page),
            "name": text(name),
            "search": codec.encode(search),
            "principal": text(principal),
            "most": number(most),
        }
        rows = self._database.run("put_saved_view", values)
        return _view(rows[0]) if rows else None

    def entries(self, page: SavedPage) -> Sequence[SavedView]:
        return [_view(row) for row in self._database.run("saved_views", {"page": text(page)})]

    def delete(self, page: SavedPage, name: str) -> bool:
        return bool(self._database.run("delete_saved_view", {"page": text(page), "name": text(name)}))


def _view(row: Row) -> SavedView:
    page, name, search, principal, saved_at = ((value or b"") for value in row)
    what = f"saved view {name.decode()}"
    found = attempt(lambda: codec.decode_as(_SEARCH, search), what)
    unreadable = isinstance(found, Unreadable)
    return SavedView(
        cast(SavedPage, page.decode()),
        name.decode(),
        {} if isinstance(found, Unreadable) else found,
        principal.decode(),
        moment(saved_at, f"the time of {what}") or 0.0,
        str(found) if unreadable else "",
    )
