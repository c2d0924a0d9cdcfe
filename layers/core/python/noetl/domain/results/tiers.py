"""Tiers of large results by name, and the rule that selects a tier of a deployment."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple

KV_BYTES = 1024 * 1024
"""Largest value of the tier ``kv``."""
MEMORY_BYTES = 1024 * 1024
"""Largest value of the tier ``memory``."""
MOST = {"kv": KV_BYTES, "memory": MEMORY_BYTES}
"""Largest value by tier; the others take any."""
TIERS = ("memory", "kv", "disk", "file", "s3", "minio", "gcs", "pvc", "db")
AUTO = frozenset({"", "auto"})
KNOWN_TIERS = frozenset(TIERS) | AUTO | {"object"}

Remark = Literal["", "renamed", "unknown", "absent", "too_large"]


class Routed(NamedTuple):
    """The tier that was chosen for a value.

    ``remark``: why it is not the tier that was asked for (``renamed``: it is, under its newer name).
    """

    tier: str
    remark: Remark = ""


def route(
    size: int | None, requested: str | None, here: Collection[str], default: str, auto: int = KV_BYTES
) -> Routed:
    """Choose the tier for a value of ``size`` bytes.

    ``size`` None: not known before it is written, and more than ``kv`` takes. ``here``: the tiers that this place has; ``default``: the
    one of them for values without a wish. ``disk`` is a cache in front of the default, so where there is none, the default itself is what
    was asked for. ``auto``: bytes of a value that is put into ``kv`` without a wish.
    """
    wanted = (requested or "").strip().lower()
    if wanted in AUTO:
        small = "kv" in here and size is not None and size <= min(auto, KV_BYTES)
        return Routed("kv" if small else default)
    name: str = "disk" if wanted == "object" else wanted
    if name not in TIERS:
        return Routed(default, "unknown")
    if name not in here:
        found = Routed(default, "" if name == "disk" else "absent")
    elif not _fits(size, name):
        found = Routed(default, "too_large")
    else:
        found = Routed(name)
    return Routed(found.tier, "renamed") if wanted == "object" and not found.remark else found


def _fits(size: int | None, tier: str) -> bool:
    most = MOST.get(tier)
    return most is None or (size is not None and size <= most)
