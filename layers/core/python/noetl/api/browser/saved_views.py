"""Saved views of the web UI's pages over the API."""

from __future__ import annotations

from noetl.api.deleting import delete_named
from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.bodies import DeletedAnswer, SavedViewPage
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.route import Route
from noetl.services.queries import saved_views
from noetl.services.queries.saved_views import SavedViewAnswer, SavedViewRequest


def list_all(deps: ApiDeps, request: Request) -> Answer:
    return Answer(200, SavedViewPage(saved_views.list_views(deps.saved_views, request.params["page"])))


def put(deps: ApiDeps, request: Request) -> Answer:
    body = parse.body(request, deps, SavedViewRequest)
    page, name = request.params["page"], request.params["name"]
    return Answer(200, saved_views.save_view(deps.saved_views, page, name, body, request.principal.name))


def delete(deps: ApiDeps, request: Request) -> Answer:
    page, name = request.params["page"], request.params["name"]
    return delete_named(request, name, lambda: saved_views.delete_view(deps.saved_views, page, name))


_PAGE = "/api/views/{page}"
_ONE = f"{_PAGE}/{{name+}}"

ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        _PAGE,
        "listSavedViews",
        "Filters that people keep by name for a page of the web UI (executions, sql), by name.",
        "read",
        list_all,
        {200: SavedViewPage},
        "views",
    ),
    Route(
        "PUT",
        _ONE,
        "putSavedView",
        "Save a view for all who use this server, or replace the one of this name.",
        "execute",
        put,
        {200: SavedViewAnswer},
        "views",
        body=SavedViewRequest,
    ),
    Route(
        "DELETE",
        _ONE,
        "deleteSavedView",
        "Delete a saved view.",
        "execute",
        delete,
        {200: DeletedAnswer},
        "views",
        logged=True,
    ),
)
