"""The end of `noetl run` in a few lines.

What the execution returned, and where to look next.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from noetl.cli.errors import near
from noetl.cli.render.output import one_line, out, pretty
from noetl.domain import codec

SHOWN_LINES = 12
"""A result of so many lines is shown whole."""
_SHOWN_CHARACTERS = 1_200
_WIDTH = 100
_NAMES = 6
_PART = 60


def print_end(ended: str, value: Any, name: str, option: str) -> None:
    """Print how an execution ended, and its result.

    A small result whole, a large one in one line with the commands that show more.

    ``name``: the execution as a command names it. ``option``: where it is (``--remote``), or nothing.
    """
    text = pretty(value)
    whole = text.count("\n") < SHOWN_LINES and len(text) <= _SHOWN_CHARACTERS
    if whole:
        out(f"{ended}  (see it: noetl status {name}{option})")
        out(text)
        return
    out(ended)
    out(f"result: {outline(value)}")
    noetl = command_name()
    commands = (
        (f"{noetl} result {name}{option}", "the whole result"),
        (f"{noetl} status {name}{option}", "its steps; `events` and `logs` show more"),
        (f"{noetl} ui{option}", "the same in a browser"),
    )
    width = max(len(command) for command, _ in commands)
    for place, (command, about) in enumerate(commands):
        out(f"{'next:' if not place else '':<7} {command:<{width}}  {about}")


def outline(value: Any) -> str:
    """Summarize a value in one line.

    ``{days: 1461, report: text of 1,463 characters, years: list of 4}``.
    """
    if isinstance(value, dict):
        shown = [f"{one_line(str(key), 30)}: {_short(item)}" for key, item in list(value.items())[:_NAMES]]
        left = len(value) - len(shown)
        return "{" + ", ".join([*shown, *([f"and {left} more"] if left > 0 else [])]) + "}"
    return _short(value)


def _short(value: Any) -> str:
    if isinstance(value, str) and (len(value) > 40 or "\n" in value):
        return f"text of {len(value):,} characters"
    if isinstance(value, (list, dict)):
        what = "list" if isinstance(value, list) else "mapping"
        text = codec.encode(value).decode("utf-8", "backslashreplace") if len(value) < _WIDTH else ""
        return one_line(text, _PART) if 0 < len(text) <= _PART else f"{what} of {len(value):,}"
    return one_line(codec.encode(value).decode("utf-8", "backslashreplace"), _WIDTH)


def command_name() -> str:
    """Return how to call this command.

    ``noetl`` where the shell finds it, else as this process was called (``.venv/bin/noetl``).
    """
    called = sys.argv[0] if sys.argv else ""
    if shutil.which("noetl") or Path(called).name != "noetl":
        return "noetl"
    return near(str(Path(called).absolute()))
