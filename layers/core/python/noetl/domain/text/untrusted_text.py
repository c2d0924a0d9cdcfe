"""Safe display of untrusted text.

What a task printed or a remote server answered cannot imitate other lines or control a terminal.

Readers of JSON get such text exact; these functions are for terminals and plain logs.
"""

from __future__ import annotations

import re

_CONTROL = "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f"
_INVISIBLE = (
    "\\u061c\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ufeff\\ufff9-\\ufffb\\U000e0000-\\U000e007f"
)
"""What changes the order of letters, ends lines or hides."""
_SURROGATE = "\\ud800-\\udfff"
_IN_BLOCK = re.compile(f"[{_CONTROL}{_INVISIBLE}{_SURROGATE}]")
_IN_LINE = re.compile(f"[\\n{_CONTROL}{_INVISIBLE}{_SURROGATE}]")
_IN_JSON = re.compile(f"[\\x7f-\\x9f{_INVISIBLE}]")
_NAMES = {"\n": "\\n", "\r": "\\r"}
_STEP = 60
CONTINUED = "    | "
"""Begins the second and later lines of a log entry."""


def escape_line(text: str) -> str:
    """Escape line ends, control characters, escapes and bidirectional controls; tabs stay."""
    return _IN_LINE.sub(_shown, text)


def escape_block(text: str) -> str:
    """Do the same for a text of several lines, which keeps its line ends."""
    return _IN_BLOCK.sub(_shown, text)


def escape_json(encoded: str) -> str:
    """Write what could steer a terminal as ``\\uXXXX``: the same JSON."""
    return _IN_JSON.sub(lambda found: _units(found[0]), encoded)


def log_entry(text: str) -> str:
    """Mark every line of an entry after its first, so that none can pass for another entry."""
    return f"\n{CONTINUED}".join(escape_line(line) for line in text.replace("\r\n", "\n").split("\n"))


def task_line(execution_id: int, step: str, line: str) -> str:
    """One line about a task, with where it comes from: ``[342881230712832 load] connected``."""
    return f"[{execution_id} {escape_line(step)[:_STEP]}] {escape_line(line)}"


def _shown(found: re.Match[str]) -> str:
    char = found[0]
    code = ord(char)
    return _NAMES.get(char) or (f"\\x{code:02x}" if code < 0x100 else _units(char))


def _units(char: str) -> str:
    data = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))
