"""Retention of large results: scope, ttl, and which other executions can reach them.

Also what a worker reports to the engine about results with a lifetime other than the default.

A result lives as long as its execution unless its playbook says otherwise. The clock of a ``ttl`` begins when the tree of its execution is
over, so nothing expires under something that runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from noetl.domain.durations import HINT, parse_duration
from noetl.domain.errors import InvalidInputError
from noetl.domain.ids import LARGEST_ID
from noetl.domain.sizes.table import IDENTIFIER, REFERENCE

Scope = Literal["step", "execution", "workflow", "permanent"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
PERMANENT = 0
"""The execution that owns permanent results: they are named below it, so that no execution takes them along."""
LONGEST = 100 * 366 * 86_400.0
_MENTION = re.compile(rb"noetl://execution/([1-9][0-9]{0,18})/")
_PREFIX = b"noetl://execution/"


class KeptResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """A large result that lives differently from its execution.

    ``ttl``: seconds after the tree of its execution is over; None: for ever.
    """

    ref: str
    store: str
    step: str
    size: int
    scope: Scope
    ttl: float | None = None


def ttl_seconds(text: str) -> float:
    """Return the seconds of a duration. Raises InvalidInputError(code="invalid_ttl")."""
    seconds = parse_duration(text)
    if seconds is None or not 0 <= seconds <= LONGEST:
        raise InvalidInputError(
            f"{text[:60]!r} is not a time to live",
            code="invalid_ttl",
            hint=HINT,
        )
    return seconds


def lifetime(scope: str | None, ttl: str | None) -> tuple[Scope, float | None] | None:
    """Return (scope, seconds after the end of the tree) of a listed result, or None.

    None: it lives as long as its execution.

    Raises InvalidInputError(code="invalid_ttl").
    """
    seconds = None if ttl is None else ttl_seconds(ttl)
    if scope == "permanent":
        return "permanent", None
    if scope == "step":
        return "step", seconds or 0.0
    if seconds is None:
        return None
    return ("workflow" if scope == "workflow" else "execution"), seconds


def mentioned(text: bytes, own: int) -> set[int]:
    """Executions other than ``own`` whose results are mentioned in encoded JSON."""
    if _PREFIX not in text:
        return set()
    return {number for found in _MENTION.findall(text) if (number := int(found)) <= LARGEST_ID} - {own}


def own_results(execution_id: int, kept: Iterable[KeptResult]) -> list[KeptResult]:
    """Return the reported results that belong to the execution and can be kept.

    A worker reports results of its own execution, or permanent ones.
    """
    own, shared = f"noetl://execution/{execution_id}/", f"noetl://execution/{PERMANENT}/"
    return [
        one
        for one in kept
        if one.ref.startswith(whole := shared if one.scope == "permanent" else own)
        and one.ref != whole
        and (one.ttl is None) == (one.scope == "permanent")
        and _can_be_kept(one)
    ]


def _can_be_kept(one: KeptResult) -> bool:
    """Return whether the row of a result can be written.

    An index counts the bytes of the reference, and a worker may say any numbers.
    """
    if (
        not one.ref.isprintable()
        or len(one.ref.encode()) > REFERENCE.value
        or len(one.step) > IDENTIFIER.value
    ):
        return False
    return 0 <= one.size <= LARGEST_ID and (one.ttl is None or 0 <= one.ttl <= LONGEST)
