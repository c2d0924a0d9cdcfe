"""Which tier a large result goes to: a pure function of its size, the wish, and what the place has."""

from __future__ import annotations

from noetl.domain.results.tiers import KV_BYTES, TIERS, route
from tests.parts import over

LOCAL = {"memory", "file", "db"}
CLOUD = {"kv", "disk", "s3"}


@over(
    ("size", "wish", "here", "default", "expected"),
    [
        # auto: kv up to its limit where there is one, else the default
        (40_000, None, CLOUD, "disk", ("kv", "")),
        (40_000, "auto", CLOUD, "disk", ("kv", "")),
        (KV_BYTES, "", CLOUD, "disk", ("kv", "")),
        (KV_BYTES + 1, None, CLOUD, "disk", ("disk", "")),
        (None, None, CLOUD, "disk", ("disk", "")),
        (40_000, None, LOCAL, "file", ("file", "")),
        # what is asked for, where it is and fits
        (40_000, "s3", CLOUD, "disk", ("s3", "")),
        (9_000_000, " DB ", LOCAL, "file", ("db", "")),
        (KV_BYTES, "memory", LOCAL, "file", ("memory", "")),
        # the default, and why
        (40_000, "gcs", CLOUD, "disk", ("disk", "absent")),
        (KV_BYTES + 1, "kv", CLOUD, "disk", ("disk", "too_large")),
        (None, "kv", CLOUD, "disk", ("disk", "too_large")),
        (None, "memory", LOCAL, "file", ("file", "too_large")),
        (40_000, "floppy", CLOUD, "disk", ("disk", "unknown")),
        # disk is a cache in front of the default: without one, that is what was asked for
        (40_000, "disk", CLOUD, "disk", ("disk", "")),
        (40_000, "disk", {"s3"}, "s3", ("s3", "")),
        (40_000, "object", CLOUD, "disk", ("disk", "renamed")),
        (40_000, "Object", {"s3"}, "s3", ("s3", "renamed")),
    ],
)
def test_route(size, wish, here, default, expected):
    assert route(size, wish, here, default) == expected


def test_no_wish_leads_to_a_tier_that_is_not_here():
    for wish in (*TIERS, "object", "auto", "nonsense", None):
        for size in (None, 1, KV_BYTES + 1):
            assert route(size, wish, LOCAL, "file").tier in LOCAL
