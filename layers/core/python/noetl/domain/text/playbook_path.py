"""Paths of playbooks in the catalog."""

from __future__ import annotations

import re

_SEGMENT = re.compile(r"(?![.\-\s])[^/\\@]*(?<!\s)")


def plain_path(path: str) -> str | None:
    """Return the path without a slash in front; None for a text that cannot be one.

    A path may become a file's name, a word of a command line, or a part of a URL. So no segment is empty or begins with a dot or a
    dash, and nothing in it is invisible. ``@`` is left out because ``path@version`` names a version.
    """
    found = path.removeprefix("/")
    fits = found.isprintable() and all(part and _SEGMENT.fullmatch(part) for part in found.split("/"))
    return found if fits else None
