"""What rendering against an execution tells. Apart from the rendering itself, so that a function which only routes loads no templates."""

from __future__ import annotations

from typing import Any

import msgspec


class RenderError(msgspec.Struct, frozen=True):
    """A text that could not be rendered. ``path``: where it stands in the template (``args.items[0]``; empty: it is all of it)."""

    path: str
    code: str
    message: str
    hint: str | None


class Rendered(msgspec.Struct, frozen=True):
    """``rendered``: null where a text could not be rendered (``errors`` tells why). ``context_keys``: names there are."""

    rendered: Any
    errors: list[RenderError]
    context_keys: list[str]
