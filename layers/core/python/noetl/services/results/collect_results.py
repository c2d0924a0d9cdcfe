"""The collector of large results whose time is over before their execution's.

It marks results first, then deletes their objects, then the rows that name them: a process that dies in between leaves work that the
next round finds again. What was marked counts as gone, so that an execution that is redriven at that moment sees the same as one that
is redriven later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.ports.executions.retention import Listed, Retention
from noetl.ports.results import ResultStore

OWNERS = 200
"""Executions that are looked at in one statement."""
BATCH = 500
"""Permanent results in one round."""


def collect(
    retention: Retention, results: ResultStore, now: float, more_time: Callable[[], bool]
) -> tuple[int, bool]:
    """Remove results whose retention is over.

    The second value is false when there may be more. Raises InfrastructureError (retry later).
    """
    removed, after = 0, 0
    while more_time():
        found = retention.claim_expired(now, after, OWNERS)
        removed += _remove(retention, results, found.results)
        if found.after is None:
            return removed, True
        after = found.after
    return removed, False


def remove_permanent(
    retention: Retention, results: ResultStore, before: float, more_time: Callable[[], bool]
) -> tuple[int, bool]:
    """Remove results of scope ``permanent`` that were made before then, as ``collect``."""
    removed = 0
    while more_time():
        found = retention.permanent(before, BATCH)
        gone = _remove(retention, results, found)
        removed += gone
        if len(found) < BATCH or not gone:  # what is left cannot be reached from here
            return removed, True
    return removed, False


def _remove(retention: Retention, results: ResultStore, found: Sequence[Listed]) -> int:
    """Remove marked results from the tiers of this process.

    What a tier that is not set up here holds stays noted: a process that has the tier removes it.
    """
    gone: list[Listed] = []
    for store in sorted({store for _, _, store in found}):
        own = [one for one in found if one[2] == store]
        try:
            _delete(results.at(store), [ref for _, ref, _ in own])
        except InfrastructureError as error:
            if error.retryable:
                raise
            continue
        gone += own
    return retention.forget_results(gone) if gone else 0


def _delete(results: ResultStore, refs: Sequence[str]) -> None:
    """Delete objects.

    A reference that names none is passed over, so that its row does not keep all others. Raises InfrastructureError.
    """
    try:
        results.delete(refs)
    except InvalidInputError:
        for ref in refs:
            with suppress(InvalidInputError):
                results.delete([ref])
