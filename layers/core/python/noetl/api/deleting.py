"""Answer the deletion of something that has a name."""

from __future__ import annotations

from collections.abc import Callable

from noetl.api.http.bodies import DeletedAnswer
from noetl.api.http.exchange import Answer, Request
from noetl.domain.errors import NotFoundError


def delete_named(request: Request, name: str, delete: Callable[[], object]) -> Answer:
    """Delete with ``delete``, and answer with the name.

    A second run of one request (its first answer was lost) finds nothing left. Raises NotFoundError for any other request.
    """
    try:
        delete()
    except NotFoundError:
        if not request.again:
            raise
    return Answer(200, DeletedAnswer(name))
