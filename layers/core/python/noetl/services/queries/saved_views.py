"""Saved views of the web UI's pages: list, save, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import msgspec

from noetl.domain import codec
from noetl.domain.automations.schedules import instant
from noetl.domain.errors import InvalidInputError, NotFoundError
from noetl.domain.sizes.gate import check_text, exceeded
from noetl.domain.sizes.table import SAVED_VIEW_BYTES, SAVED_VIEW_NAME, SAVED_VIEWS
from noetl.domain.text.timestamps import TimeText
from noetl.ports.saved_views import SavedPage, SavedView, SavedViews

_INVALID = "invalid_saved_view"


class SavedViewRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A view to save. ``search``: the parameters of the page's address, as text."""

    search: dict[str, str]


class SavedViewAnswer(msgspec.Struct, frozen=True):
    """A saved view. ``error``: why it cannot be read; null for a view that can."""

    page: SavedPage
    name: str
    search: Mapping[str, str]
    principal: str
    saved_at: TimeText
    error: str | None = None


def list_views(store: SavedViews, page: str) -> list[SavedViewAnswer]:
    """Return the views of a page, by name. Raises InvalidInputError for a page without views."""
    return [_answer(view) for view in store.entries(_page(page))]


def save_view(
    store: SavedViews, page: str, name: str, request: SavedViewRequest, principal: str
) -> SavedViewAnswer:
    """Save a view, or replace the one of this name.

    Raises InvalidInputError(code="invalid_saved_view", or "saved_views_full" when the page has as many as it may).
    """
    check_text(SAVED_VIEW_NAME, name, "the name of the view", code=_INVALID)
    if not name or name != name.strip() or not name.isprintable():
        hint = f"text of 1 to {SAVED_VIEW_NAME.value} characters, without spaces at its ends"
        raise InvalidInputError(f"{name[:40]!r} cannot be the name of a view", code=_INVALID, hint=hint)
    size = len(codec.encode(request.search))
    if size > SAVED_VIEW_BYTES.value:
        raise exceeded(SAVED_VIEW_BYTES, size, "the search of the view", code=_INVALID)
    saved = store.put(_page(page), name, request.search, principal, SAVED_VIEWS.value)
    if saved is None:
        most = SAVED_VIEWS.value
        remedy = "delete a view that is not used any more"
        raise exceeded(SAVED_VIEWS, most + 1, "the page", code="saved_views_full", remedy=remedy)
    return _answer(saved)


def delete_view(store: SavedViews, page: str, name: str) -> None:
    """Delete a view. Raises NotFoundError(code="saved_view_not_found")."""
    if "\0" in name or not store.delete(_page(page), name):
        raise NotFoundError(f"the page has no view {name[:80]!r}", code="saved_view_not_found")


def _page(page: str) -> SavedPage:
    for known in get_args(SavedPage):
        if page == known:
            return known  # type: ignore[no-any-return]
    pages = " and ".join(get_args(SavedPage))
    raise InvalidInputError(f"page {page[:40]!r} has no views", code=_INVALID, hint=f"{pages} have")


def _answer(view: SavedView) -> SavedViewAnswer:
    return SavedViewAnswer(
        view.page, view.name, view.search, view.principal, instant(view.saved_at), view.unreadable or None
    )
