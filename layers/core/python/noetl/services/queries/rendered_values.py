"""The answer of a rendering against an execution.

It is apart from the rendering itself so that a function which only routes requests does not load the template engine.
"""

from __future__ import annotations

from typing import Any

import msgspec


class RenderError(msgspec.Struct, frozen=True):
    """A text that could not be rendered.

    ``path``: its place in the template (``args.items[0]``; empty: it is the whole template).
    """

    path: str
    code: str
    message: str
    hint: str | None


class Rendered(msgspec.Struct, frozen=True):
    """Templates rendered against an execution.

    ``rendered``: null where a text could not be rendered; ``errors`` states why. ``context_keys``: the names available to templates.
    """

    rendered: Any
    errors: list[RenderError]
    context_keys: list[str]
