"""Places of templates in a text, found in a time that grows with the text."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ENDS = {"{{": "}}", "{%": "%}"}

_GO = re.compile(
    r"\{\{-?\s*(?:\.|(?:range|with|if|json|printf|index|println|len)\s+[.$\"(]|(?:end|else)\s*-?\}\})"
)


def templates_in(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each ``{{ … }}`` and ``{% … %}`` begins and ends.

    A regular expression would look for the end of each brace that has none.
    """
    begins = {begin: text.find(begin) for begin in _ENDS}
    while found := [(place, begin) for begin, place in begins.items() if place >= 0]:
        place, begin = min(found)
        end = text.find(_ENDS[begin], place + 2)
        if end < 0:
            begins[begin] = -1  # no later one ends either
            continue
        yield place, end + 2
        begins |= {one: text.find(one, end + 2) for one, at in begins.items() if 0 <= at < end + 2}


def is_of_another_tool(template: str) -> bool:
    """Return whether ``{{ … }}`` is one of Go, which is none of this language.

    An example is ``docker ps --format '{{.ID}}'``.
    """
    return _GO.match(template) is not None
