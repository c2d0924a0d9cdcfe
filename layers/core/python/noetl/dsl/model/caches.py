"""``cache`` of a step or a task."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Tag

from noetl.dsl.model.types import Lifetime, Strict


class CacheBlock(Strict):
    ttl: Lifetime
    key: Any = None


def _cache(value: Any) -> str:
    if value is None or value is False:
        return "<none>"
    return "<block>" if isinstance(value, dict) else "<ttl>"


Cache = Annotated[
    Annotated[CacheBlock, Tag("<block>")]
    | Annotated[bool | None, Tag("<none>")]
    | Annotated[Lifetime, Tag("<ttl>")],
    Discriminator(_cache),
]
