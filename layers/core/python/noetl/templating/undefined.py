"""The value of a name or key that does not exist: tests and defaults, errors otherwise."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, NoReturn

from noetl.domain.errors import TemplateError

_MAX_CANDIDATES = 500


class Undefined:
    """A missing value. ``near`` is what to look for in the source to find its place."""

    __slots__ = ("_candidates", "name", "near", "reason")

    def __init__(
        self, name: str, reason: str, candidates: Callable[[], Iterable[Any]], near: str | None = None
    ) -> None:
        self.name = name
        self.reason = reason
        self.near = near or name
        self._candidates = candidates

    def error(self) -> TemplateError:
        """Make the error of its use."""
        nearest = closest(self.name, self._candidates())
        details: dict[str, Any] = {"name": self.name, "near": self.near}
        if nearest:
            details["nearest"] = nearest
        hint = f"did you mean {nearest!r}?" if nearest else "give it a value first, or use | default(…)"
        return TemplateError(
            f"{self.name!r} is not defined: {self.reason}", code="undefined", hint=hint, details=details
        )

    def fail(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Raise the error."""
        raise self.error()

    __str__ = __repr__ = __bool__ = __iter__ = __len__ = __eq__ = __ne__ = __hash__ = fail
    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __getitem__ = __call__ = fail
    __add__ = __radd__ = __int__ = __float__ = __index__ = __neg__ = __pos__ = __format__ = fail


def closest(name: str, candidates: Iterable[Any]) -> str | None:
    """Return the candidate most like ``name``, if any is close.

    It is never ``name`` itself (a step that has no result yet).
    """
    among = islice(candidates, _MAX_CANDIDATES)
    known = [candidate for candidate in among if isinstance(candidate, str) and candidate != name]
    lowered = name.lower()
    for candidate in known:
        if candidate.lower() == lowered:
            return candidate
    found = difflib.get_close_matches(name, known, 1, 0.6)
    return found[0] if found else None
