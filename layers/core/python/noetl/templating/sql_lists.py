"""Lists that a SQL text joins to one text, although its values are bound.

``WHERE name IN ('{{ names | join("','") }}')`` would look for one name that has commas in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from noetl.domain.errors import TemplateError
from noetl.domain.kinds import JoinedList

_BEFORE = re.compile(r"\b(?:(NOT)\s{1,9})?IN\s{0,9}\(\s{0,99}('?)\Z", re.IGNORECASE)
_AFTER = re.compile(r"('?)\s{0,99}\)")
_REACH = 130
"""Characters before an expression in which ``NOT IN (`` has to begin."""


def joined_lists(source: str) -> tuple[JoinedList, ...]:
    """Return each place where ``IN ( … )`` holds just a list that commas join, in order."""
    from noetl.templating.parser import expression_words

    if "join" not in source:
        return ()
    try:
        return tuple(_joined(source, expression_words(source)))
    except TemplateError:
        return ()


def _joined(source: str, expressions: Iterable[list[tuple[str, str, int]]]) -> Iterator[JoinedList]:
    for begin, *words, end in expressions:
        before = _BEFORE.search(source[max(0, begin[2] - _REACH) : begin[2]])
        after = _AFTER.match(source, end[2] + len(end[1]))
        if before is None or after is None or before[2] != after[1] or not _is_join(words):
            continue
        yield JoinedList(
            begin[2] - len(before[0]),
            after.end(),
            source[words[0][2] : words[-5][2]].strip(),
            negated=before[1] is not None,
            quoted=bool(after[1]),
        )


def _is_join(words: list[tuple[str, str, int]]) -> bool:
    """Report whether an expression ends in ``| join(", ")``, and applies it to something."""
    last = words[-5:]
    return (
        len(words) > 5
        and [value for _, value, _ in last[:3]] == ["|", "join", "("]
        and last[3][0] == "string"
        and "," in last[3][1]
        and last[4][1] == ")"
    )
