"""What a failed call was made with, small enough for history: ``error.details.input``.

Texts, lists and mappings are cut, most generously first, until the whole fits ``LIMIT`` bytes. Secrets are the caller's to take out
before (a cut may go through one); here only what is secret by its name is masked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from itertools import islice
from typing import Any

from noetl.domain import codec
from noetl.domain.text.masking import MASK
from noetl.templating.contract import RenderedSql

LIMIT = 1024
"""Bytes of JSON."""
_SECRET_NAME = re.compile(
    r"passw|secret|token|authori[sz]ation|cookie|credential|api[-_]?key|private[-_]?key|signature",
    re.IGNORECASE,
)
_USERINFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_CUTS = ((300, 12, 5), (100, 6, 4), (40, 4, 3), (16, 2, 2))
"""(characters of a text, entries of a list or mapping, levels), tried in this order."""
_MOST_CHARACTERS = 65_536
_MOST_ENTRIES = 64


def call_input(
    params: Any,
    given: Mapping[str, Any],
    redact: Callable[[Any], Any] = lambda value: value,
    *,
    leave_out: Collection[str] = (),
) -> dict[str, Any]:
    """Return the rendered parameters, with the task's own input under ``args``.

    ``redact`` takes secrets out by their origin; ``leave_out`` names parameters that stand in the playbook as they are (code).
    """
    shown = (
        {name: value for name, value in params.items() if name not in leave_out}
        if isinstance(params, dict)
        else {}
    )
    if given:
        shown["args"] = dict(given)
    whole = redact(_plain(shown))
    for characters, entries, levels in _CUTS:
        cut: dict[str, Any] = _cut(whole, characters, entries, levels)
        if len(codec.encode(cut)) <= LIMIT:
            return cut
    return {name: "…" for name in list(whole)[:20] if len(name) <= 40}


def _plain(value: Any) -> Any:
    """Return rendered SQL as its text and parameters.

    Values that are longer than a preview, and than any secret, are shortened.
    """
    if isinstance(value, RenderedSql):
        found = [{"sql": one.text, "params": dict(one.params)} for one in value.statements[:_MOST_ENTRIES]]
        return _plain(found[0] if len(found) == 1 else found)
    if isinstance(value, dict):
        kept = islice(value.items(), _MOST_ENTRIES)
        return {str(name): MASK if _hidden(name, entry) else _plain(entry) for name, entry in kept}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value[:_MOST_ENTRIES]]
    if not isinstance(value, str):
        return value
    text = value[:_MOST_CHARACTERS]
    return _USERINFO.sub(MASK, text) if "://" in text else text


def _hidden(name: Any, value: Any) -> bool:
    return isinstance(value, (str, bytes)) and _SECRET_NAME.search(str(name)) is not None


def _cut(value: Any, characters: int, entries: int, levels: int) -> Any:
    if isinstance(value, str):
        return (
            value
            if len(value) <= characters
            else f"{value[:characters]}… ({_count(len(value), _MOST_CHARACTERS)} characters)"
        )
    if isinstance(value, dict):
        if levels == 0:
            return f"a mapping of {_count(len(value), _MOST_ENTRIES)}"
        kept = list(value.items())[:entries]
        found = {
            _cut(name, characters, 0, 0): _cut(entry, characters, entries, levels - 1) for name, entry in kept
        }
        if len(value) > entries:
            found["…"] = "more"
        return found
    if isinstance(value, list):
        if levels == 0:
            return f"a list of {_count(len(value), _MOST_ENTRIES)}"
        kept_items = [_cut(entry, characters, entries, levels - 1) for entry in value[:entries]]
        return [*kept_items, "… more"] if len(value) > entries else kept_items
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    return value


def _count(number: int, most: int) -> str:
    return str(number) if number < most else f"at least {most}"
