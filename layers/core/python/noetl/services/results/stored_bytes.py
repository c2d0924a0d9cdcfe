"""Verified bytes of references, and the errors of an unreachable result store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from noetl.domain.errors import InfrastructureError, NotFoundError, TaskError
from noetl.domain.results.references import unavailable
from noetl.domain.results.result_bytes import opened
from noetl.ports.results import ResultStore

MOST = 64 * 1024 * 1024
"""Bytes of an artifact that a template may load."""


class ResultsUnreachable(BaseException):
    """The result store cannot be reached now; no author or task caused it.

    A BaseException, because it has to pass through template evaluation, which turns every Exception into an author's error. The
    shells (``handle_events``, ``run_command``) turn it into the InfrastructureError it came from (its ``__cause__``).
    """


@contextmanager
def store_calls() -> Iterator[None]:
    """Turn a temporary failure of the result store into ResultsUnreachable.

    Raises ResultsUnreachable; an error that will not pass by itself is raised as it is.
    """
    try:
        yield
    except InfrastructureError as error:
        if error.retryable:
            raise ResultsUnreachable(str(error)) from error
        raise


@contextmanager
def outages() -> Iterator[None]:
    """Raise InfrastructureError where a result store was unavailable during hydration."""
    try:
        yield
    except ResultsUnreachable as outage:
        assert isinstance(outage.__cause__, InfrastructureError)
        raise outage.__cause__ from None


def fetch(results: ResultStore, ref: Mapping[str, Any], most: int = MOST) -> bytes:
    """Read the bytes behind a reference, or of a part of a manifest, as they were stored.

    They are verified, and decompressed to at most ``most`` bytes.

    Raises TaskError (codes ``REFERENCE_NOT_AVAILABLE``, ``result_too_large_to_load``), InfrastructureError.
    """
    tier, uri = results.at(ref.get("store")), str(ref["ref"])
    try:
        try:
            return opened(tier.get(uri), ref, most)
        except TaskError as damaged:
            if damaged.code != "REFERENCE_NOT_AVAILABLE" or not tier.doubt(uri):
                raise
        return opened(tier.get(uri), ref, most)
    except NotFoundError as error:
        why = error.message.replace(uri, "it")
        raise unavailable(ref, f"is not available: {why}") from error
