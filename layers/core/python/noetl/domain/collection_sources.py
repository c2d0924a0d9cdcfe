"""Sources of a loop's collection in place of a list: an object, a prefix, a file.

As a text, ``s3://bucket/key.csv``, ``s3://bucket/prefix/``, ``file:orders.csv``; as a mapping with more to say, ``{s3: …, format: csv}``.
"""

from __future__ import annotations

from typing import Any

SCHEMES = ("s3", "file")
SOURCE_KEYS = frozenset((*SCHEMES, "format", "delimiter", "member", "auth", "region"))
"""What the mapping may say."""


def is_source(value: Any) -> bool:
    """Return whether ``value`` names a collection instead of being one.

    The reader of the collection reports what is wrong with it.
    """
    if isinstance(value, str):
        return value.partition(":")[0] in SCHEMES and ":" in value
    return isinstance(value, dict) and any(isinstance(value.get(scheme), str) for scheme in SCHEMES)
