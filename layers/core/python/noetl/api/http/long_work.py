"""Limit requests that compute for long: refuse further ones at once, with a Retry-After."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from noetl.domain.errors import OverloadedError
from noetl.domain.long_work import asking

AGAIN_SECONDS = 2


class LongWork:
    """``places``: how many requests may compute for long at the same moment; None: any number.

    A place is taken when a request turns out to take long, and is given back when it is answered. Nothing ever waits for one.
    """

    def __init__(self, places: int | None = None, refused: Callable[[str], None] = lambda what: None) -> None:
        self._places = None if places is None else threading.BoundedSemaphore(places)
        self._most, self._refused = places, refused

    @contextmanager
    def request(self) -> Iterator[None]:
        """Bound the long work of one request.

        What is done inside raises OverloadedError(code="too_much_computing") when it takes long and no place is left.
        """
        places = self._places
        if places is None:
            yield
            return
        taken = False

        def begin() -> None:
            nonlocal taken
            if taken:
                return
            if not places.acquire(blocking=False):
                self._refused("too_much_computing")
                raise OverloadedError(
                    f"{self._most} requests compute for long already",
                    code="too_much_computing",
                    hint="ask again later",
                    details={"retry_after": AGAIN_SECONDS},
                )
            taken = True

        try:
            with asking(begin):
                yield
        finally:
            if taken:
                places.release()
