"""The spelling of a scalar: unchanged, in quotes, or as a block."""

from __future__ import annotations

import re
from typing import Any

from noetl.dsl.expressions import has_template
from noetl.formatting.nodes import Text

_PLAIN = re.compile(r"[A-Za-z_/$][A-Za-z0-9_./@+*()=~$-]*(?: [A-Za-z0-9_./@+*()=~$-]+)*\Z")
_WORDS = frozenset({"null", "true", "false", "~"})
_FLOW = re.compile(r"[,\[\]{}]")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


def inline(text: Text, *, flow: bool) -> str | None:
    """Write the value on one line; None when it has to be a block."""
    if is_block(text):
        return None
    if text.style == "" and text.raw is not None and not isinstance(text.value, str):
        return text.raw
    if isinstance(text.value, str):
        return _string(text, flow)
    return spelled(text.value)


def _string(text: Text, flow: bool) -> str:
    value, raw = text.value, text.raw
    if raw is None:
        return spelled(value)
    if text.style == "" and (has_template(value) or (flow and _FLOW.search(raw))):
        return quoted(value)
    if text.style == "'" and has_template(value) and '"' not in value and "\\" not in value:
        return quoted(value)
    return raw


def spelled(value: Any) -> str:
    """Write a new value: plain where that is safe, else in double quotes."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if _PLAIN.match(value) and value.lower() not in _WORDS:
        return str(value)
    return quoted(value)


def quoted(value: str) -> str:
    """Write a text in double quotes, or in single ones.

    Single quotes are for a text that has double quotes and nothing that needs an escape.
    """
    if '"' in value and not _UNPRINTABLE.search(value):
        return "'" + value.replace("'", "''") + "'"
    escaped = "".join(_ESCAPES.get(letter, letter) for letter in value)
    return '"' + _UNPRINTABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", escaped) + '"'


def is_block(text: Text) -> bool:
    """Report whether the value is written as a literal or folded block.

    It is when it was one, or when it has several lines (code, queries).
    """
    value = text.value
    if not isinstance(value, str):
        return False
    if text.style in ("|", ">"):
        return _holds(value) or text.raw is not None
    return "\n" in value.rstrip("\n") and _holds(value)


def _holds(value: str) -> bool:
    """Report whether a literal block can hold the text.

    It has something visible, and no character that needs an escape.
    """
    return bool(value.strip()) and not _UNPRINTABLE.search(value.replace("\n", "").replace("\t", ""))


def block(text: Text, indent: int) -> tuple[str, list[str]]:
    """(header, lines) of a literal block, or of a folded one as it was folded."""
    if text.style == ">" and text.raw is not None:
        return _folded(text.raw, indent)
    value = text.value
    body = value.rstrip("\n")
    ends = len(value) - len(body)
    chomp = "-" if ends == 0 else "" if ends == 1 else "+"
    first = next((line for line in body.split("\n") if line.strip()), "")
    lines = body.split("\n") + [""] * (ends - 1 if ends > 1 else 0)
    ahead = body.split("\n")[0]
    hint = "2" if first.startswith(" ") or (not ahead.strip() and ahead) else ""
    return f"|{hint}{chomp}", [" " * indent + line if line else "" for line in lines]


def _folded(raw: str, indent: int) -> tuple[str, list[str]]:
    header, _, rest = raw.partition("\n")
    lines = rest.split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    visible = [len(line) - len(line.lstrip(" ")) for line in lines if line.strip()]
    own = min(visible, default=0)
    shown = [" " * indent + line[own:] if line.strip() else "" for line in lines]
    return re.sub(r"\d", "", header), shown
