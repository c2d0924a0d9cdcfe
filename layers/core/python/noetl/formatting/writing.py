"""``Document`` → text: two spaces, blocks as they were, brackets where they fit on a line."""

from __future__ import annotations

from noetl.formatting.nodes import Alias, Document, Entry, List, Map, Text, Value, comments, has_comments
from noetl.formatting.scalars import block, inline

WIDTH = 110
"""A flow collection that would not fit on a line of this many characters becomes a block."""


def write(document: Document) -> str:
    """Write the text of a document, with one line end at its end."""
    lines: list[str] = ["---"] if document.start else []
    _block(lines, document.root, 0)
    if document.tail:
        if lines:
            lines.append("")
        lines += document.tail
    return "\n".join(lines) + "\n"


def one_line(value: Value, *, flow: bool = False) -> str | None:
    """Write the value on one line, if one line can hold it."""
    if isinstance(value, Alias):
        return f"*{value.name}"
    if isinstance(value, Text):
        text = inline(value, flow=flow)
        return None if text is None else _anchored(value.anchor, text)
    if not value.entries:
        return _anchored(value.anchor, "{}" if isinstance(value, Map) else "[]")
    if not (value.flow or flow) or any(any(comments(entry)) for entry in value.entries):
        return None
    parts = [one_line(entry.value, flow=True) for entry in value.entries]
    if any(part is None for part in parts):
        return None
    if isinstance(value, List):
        return _anchored(value.anchor, f"[{', '.join(str(part) for part in parts)}]")
    pairs = [f"{entry.raw_key}: {part}".rstrip() for entry, part in zip(value.entries, parts, strict=True)]
    return _anchored(value.anchor, f"{{ {', '.join(pairs)} }}")


def _anchored(anchor: str | None, text: str) -> str:
    return f"&{anchor} {text}".rstrip() if anchor else text


def _fits(value: Value, column: int) -> str | None:
    """Write ``value`` on the line it begins on, when that is allowed and not too long."""
    text = one_line(value)
    if text is None:
        return None
    if isinstance(value, (Map, List)) and value.entries:
        if has_comments(value):
            return None
        if column + len(text) > WIDTH:
            return None
    return text


def _block(lines: list[str], value: Map | List, indent: int) -> None:
    for place, entry in enumerate(value.entries):
        if place and (entry.gap and lines and lines[-1]):
            lines.append("")
        _entry(lines, entry, indent)


def _entry(lines: list[str], entry: Entry, indent: int) -> None:
    pad = " " * indent
    _lead(lines, entry, pad)
    head = f"{pad}{entry.raw_key}:" if entry.key is not None else f"{pad}-"
    trail = f"  {entry.trail}" if entry.trail else ""
    value = entry.value
    text = _fits(value, len(head) + 1)
    if text is not None:
        lines.append(f"{head} {text}".rstrip() + trail)
    elif isinstance(value, Text):
        header, body = block(value, indent + 2)
        lines.append(f"{head} {_anchored(value.anchor, header)}{trail}")
        lines += body
    elif isinstance(value, (Map, List)):
        if entry.key is None and not trail and not value.anchor and not value.entries[0].lead:
            start = len(lines)
            _block(lines, value, indent + 2)
            lines[start] = f"{pad}- {lines[start][indent + 2 :]}"
        else:
            lines.append(_anchored_head(head, value.anchor) + trail)
            _block(lines, value, indent + 2)
    for comment in entry.after:
        lines.append(f"{pad}{comment}" if comment else "")


def _anchored_head(head: str, anchor: str | None) -> str:
    return f"{head} &{anchor}" if anchor else head


def _lead(lines: list[str], entry: Entry, pad: str) -> None:
    for comment in entry.lead:
        lines.append(f"{pad}{comment}" if comment else "")
