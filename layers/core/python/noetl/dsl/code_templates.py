"""Templates in the text of a parameter that is no template: the code of a ``python`` task."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

SCOPES = frozenset({"workload", "ctx", "iter", "vars", "args", "input", "keychain", "steps"})
"""Names that templates read, and that no code has."""
_TEMPLATE = re.compile(r"\{\{-?[ \t]*([A-Za-z_]\w*)(?:([.\[|][^{}\n]*)|[ \t]*-?)\}\}")
"""No two of its parts that follow each other match the same characters: it takes a time that grows with the code."""


class CodeTemplate(NamedTuple):
    """A template in code, and where it starts."""

    text: str
    start: int


def templates_in_code(code: str, names: Collection[str]) -> Iterator[CodeTemplate]:
    """Yield each template that reads a scope or one of ``names``, in order.

    Other double braces may be what the code wants: of an f-string, or of templates that it fills in itself. A line that is a comment reads
    nothing.
    """
    for found in _TEMPLATE.finditer(code):
        line = code[code.rfind("\n", 0, found.start()) + 1 : found.start()]
        if line.lstrip().startswith("#"):
            continue
        if (found[1] in SCOPES and found[2]) or found[1] in names:
            yield CodeTemplate(found[0], found.start())
