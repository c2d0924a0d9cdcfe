"""Figures about many executions: endings over time, and failures by code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

import msgspec

from noetl.domain.errors import InvalidInputError
from noetl.domain.text.timestamps import Timestamp, maybe_timestamp
from noetl.ports.executions.figures import Bucket, EndedWindow, Figures, Looked, PathBucket

MOST = 20_000
"""Executions that one request looks at, the latest endings first."""
MOST_BUCKETS = 1_000
DAY = 86_400.0


class StatsBucket(msgspec.Struct, frozen=True):
    """Endings from ``at`` on, for one length of a bucket.

    Durations (milliseconds) are null where no execution ended.
    """

    at: Timestamp
    completed: int
    failed: int
    cancelled: int
    p50_ms: int | None
    p95_ms: int | None


class Stats(msgspec.Struct, frozen=True):
    """Endings over time, in buckets without gaps.

    ``complete_from``: too many ended to look at all, so figures before this moment are too low; null: they are exact.
    """

    since: Timestamp
    until: Timestamp
    bucket_seconds: int
    buckets: list[StatsBucket]
    complete_from: Timestamp | None


class ActivityBucket(msgspec.Struct, frozen=True):
    """Endings of a playbook from ``at`` on, for one length of a bucket.

    ``failed`` is a part of ``ended``.
    """

    at: Timestamp
    ended: int
    failed: int


class PlaybookActivity(msgspec.Struct, frozen=True):
    """Endings of one playbook over time; buckets without an ending are left out."""

    path: str
    ended: int
    failed: int
    buckets: list[ActivityBucket]


class Activity(msgspec.Struct, frozen=True):
    """Endings of several playbooks over time; a playbook without an ending is left out.

    ``complete_from``: as of the figures over time.
    """

    since: Timestamp
    until: Timestamp
    bucket_seconds: int
    playbooks: list[PlaybookActivity]
    complete_from: Timestamp | None


class FailureView(msgspec.Struct, frozen=True):
    """Failures of one playbook with one code.

    ``latest``: the id of the execution that failed last.
    """

    path: str
    code: str
    count: int
    first_at: Timestamp
    last_at: Timestamp
    latest: str


class FailuresAnswer(msgspec.Struct, frozen=True):
    """Failures by playbook and code, the most frequent first.

    ``complete_from``: as of the figures over time. ``more``: there are more groups than the limit.
    """

    since: Timestamp
    until: Timestamp
    failures: list[FailureView]
    more: bool
    complete_from: Timestamp | None


def window(since: float | None, until: float | None, path: str | None, now: float) -> EndedWindow:
    """Return the window that is asked for: by default the last 24 hours.

    Raises InvalidInputError(code="invalid_window").
    """
    last = now + 1 if until is None else until
    first = last - DAY if since is None else since
    if first >= last:
        raise InvalidInputError(
            f"the window from {first:.0f} to {last:.0f} is empty",
            code="invalid_window",
            hint="ended_after comes before ended_before",
        )
    return EndedWindow(first, last, MOST, path)


def read_stats(store: Figures, wanted: EndedWindow, seconds: int) -> Stats:
    """Count endings by time. Raises InvalidInputError for a window of too many buckets."""
    first, past = _buckets(wanted, seconds)
    looked, found = store.ended_buckets(wanted, seconds)
    by_time = {round(one.at / seconds): one for one in found}
    shown = [_bucket(number * seconds, by_time.get(number)) for number in range(first, past)]
    return Stats(
        Timestamp(wanted.since),
        Timestamp(wanted.until),
        seconds,
        shown,
        maybe_timestamp(_complete_from(looked)),
    )


def read_activity(store: Figures, wanted: EndedWindow, paths: Sequence[str], seconds: int) -> Activity:
    """Count endings of playbooks by time.

    Raises InvalidInputError for a window of too many buckets.
    """
    _buckets(wanted, seconds)
    looked, found = store.ended_by_path(wanted, paths, seconds)
    return Activity(
        Timestamp(wanted.since),
        Timestamp(wanted.until),
        seconds,
        [_activity(path, list(buckets)) for path, buckets in groupby(found, lambda one: one.path)],
        maybe_timestamp(_complete_from(looked)),
    )


def read_failures(store: Figures, wanted: EndedWindow, limit: int) -> FailuresAnswer:
    """Group failures by playbook and code."""
    looked, found = store.failure_groups(wanted, limit + 1)
    shown = [
        FailureView(
            one.path, one.code, one.count, Timestamp(one.first_at), Timestamp(one.last_at), str(one.latest)
        )
        for one in found[:limit]
    ]
    return FailuresAnswer(
        Timestamp(wanted.since),
        Timestamp(wanted.until),
        shown,
        len(found) > limit,
        maybe_timestamp(_complete_from(looked)),
    )


def _buckets(wanted: EndedWindow, seconds: int) -> tuple[int, int]:
    """Return the number of the first bucket of a window, and the one past its last."""
    first, past = math.floor(wanted.since / seconds), math.ceil(wanted.until / seconds)
    if past - first > MOST_BUCKETS:
        raise InvalidInputError(
            f"the window has {past - first} buckets of {seconds} s; {MOST_BUCKETS} is the most",
            code="invalid_window",
            hint="ask for a shorter window, or for longer buckets",
        )
    return first, past


def _activity(path: str, found: Sequence[PathBucket]) -> PlaybookActivity:
    buckets = [ActivityBucket(Timestamp(one.at), one.ended, one.failed) for one in found]
    ended, failed = sum(one.ended for one in found), sum(one.failed for one in found)
    return PlaybookActivity(path, ended, failed, buckets)


def _bucket(at: float, found: Bucket | None) -> StatsBucket:
    if found is None:
        return StatsBucket(Timestamp(at), 0, 0, 0, None, None)
    p50, p95 = round(found.p50 * 1000), round(found.p95 * 1000)
    return StatsBucket(Timestamp(at), found.completed, found.failed, found.cancelled, p50, p95)


def _complete_from(looked: Looked) -> float | None:
    return looked.earliest if looked.count >= MOST else None
